"""Declares the keys of langgraph-checkpoint-plainredis."""

from ckpt_backends.declaration import LAST_STORED, Backend
from ckpt_backends.model import Capability

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
    engine_faults=("index-stale", "ttl-partial"),
    recognise="ckpt_backends.apps.plainredis.layout:PlainRecogniser",
)
