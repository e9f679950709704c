"""Declares the tables of kagent's checkpointer."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

_CAN = Capability.HISTORY | Capability.WRITES | Capability.ADDING

BACKEND = Backend(
    title="kagent",
    layouts={"kagent": _CAN | Capability.INLINE_VALUES | Capability.ENFORCED_READ_ONLY},
    engine="postgresql",
    params={"user_id": r"[\w.,+@-]*"},
    engine_faults=("rows-hidden", "space-free"),
    mended_faults=("space-free",),
    # Writes with a number of their own come from one task, so they need no path to be in order.
    forms={"kagent": (Form(has_task_paths=False, keeps_write_order=True),)},
    records="ckpt_backends.apps.kagent.layout:records_of",
    edits="ckpt_backends.apps.kagent.layout:edited_row",
    recognise="ckpt_backends.apps.kagent.layout:recognise",
)
