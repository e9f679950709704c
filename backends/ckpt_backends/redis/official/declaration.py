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
    recognise="ckpt_backends.redis.official.recognise:DocumentRecogniser",
)
