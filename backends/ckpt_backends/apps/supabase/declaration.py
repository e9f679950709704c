"""Declares the tables of SupabaseSaver."""

from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

BACKEND = Backend(
    title="Supabase",
    layouts={"supabase": SAVER | Capability.INLINE_VALUES | Capability.ENFORCED_READ_ONLY},
    engine="postgresql",
    engine_faults=("rows-hidden", "space-free"),
    mended_faults=("space-free",),
    forms={"supabase": (Form(parses_json=True),)},
    records="ckpt_backends.apps.supabase.layout:records_of",
    edits="ckpt_backends.apps.supabase.layout:edited_row",
    recognise="ckpt_backends.apps.supabase.layout:recognise",
)
