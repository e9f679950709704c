"""Declares the hashes of savers for Redis without modules."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

_ANY = (
    Capability.HISTORY
    | Capability.WRITES
    | Capability.ADDING
    | Capability.INLINE_VALUES
    | Capability.SESSIONS
)

BACKEND = Backend(
    title="Redis",
    layouts={"redis-hash": _ANY, "redis-hash-colon": _ANY},
    engine="redis",
    engine_faults=("ttl-partial",),
    recognise="ckpt_backends.redis.hashes.layout:HashRecogniser",
)
