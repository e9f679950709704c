"""Declares the keys of langgraph-checkpoint-plainredis."""

from ckpt_backends.declaration import LAST_STORED, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Place

BACKEND = Backend(
    title="langgraph-checkpoint-plainredis",
    layouts={
        "redis-plain": Capability.HISTORY
        | Capability.WRITES
        | Capability.ADDING
        | Capability.SESSIONS
    },
    engine="redis",
    impossible_faults={"id-not-increasing": LAST_STORED},
    engine_faults=("keys-evicted", "index-stale", "ttl-partial"),
    mended_faults=("index-stale", "ttl-partial"),
    forms={
        "redis-plain": (
            Form(
                values=Place.APART,
                body_types=("msgpack",),
                metadata_type="msgpack",
                marks_absent=True,
                has_task_paths=False,
                counts_with_integers=True,
                receives=False,
            ),
        )
    },
    records="ckpt_backends.apps.plainredis.records:records_of",
    edits="ckpt_backends.apps.plainredis.records:edited_row",
    recognise="ckpt_backends.apps.plainredis.layout:PlainRecogniser",
)
