"""Declares the hashes of savers for Redis without modules."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

_ANY = (
    Capability.HISTORY
    | Capability.WRITES
    | Capability.ADDING
    | Capability.INLINE_VALUES
    | Capability.SESSIONS
)
_FORM = Form(has_task_paths=False, counts_with_integers=True, encrypts_body=True, receives=False)

BACKEND = Backend(
    title="Redis",
    layouts={"redis-hash": _ANY, "redis-hash-colon": _ANY},
    engine="redis",
    engine_faults=("keys-evicted", "ttl-partial"),
    mended_faults=("ttl-partial",),
    forms={"redis-hash": (_FORM,), "redis-hash-colon": (_FORM,)},
    records="ckpt_backends.redis.hashes.records:records_of",
    edits="ckpt_backends.redis.hashes.records:edited_row",
    recognise="ckpt_backends.redis.hashes.layout:HashRecogniser",
)
