"""Declares the JSON documents of langgraph-checkpoint-redis."""

from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.model import Capability

_ANY = Capability.INLINE_VALUES | Capability.SESSIONS

BACKEND = Backend(
    title="Redis",
    layouts={
        "redis": SAVER | _ANY,
        "redis-shallow": Capability.WRITES | Capability.TASK_PATH | _ANY,
    },
    engine="redis",
    engine_faults=("index-missing", "index-stale", "ttl-partial"),
    impossible_faults={
        "type-blocked": "values are stored as JSON",
        "plaintext-among-encrypted": "its saver does not encrypt",
    },
    recognise="ckpt_backends.redis.official.recognise:DocumentRecogniser",
)
