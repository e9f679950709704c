"""Declares the JSON documents of LangGraph.js' savers for Redis."""

from ckpt_backends.declaration import Backend
from ckpt_backends.model import Capability

_ANY = Capability.WRITES | Capability.SESSIONS

BACKEND = Backend(
    title="Redis",
    layouts={
        "redis-js": Capability.HISTORY | Capability.ADDING | _ANY,
        "redis-js-shallow": Capability.INLINE_VALUES | _ANY,
    },
    engine="redis",
    engine_faults=("ttl-partial",),
    impossible_faults={
        "value-unreadable": "the engine parses all values",
        "type-blocked": "values are stored as JSON",
        "plaintext-among-encrypted": "LangGraph.js does not encrypt",
        "branches-share-value": "checkpoints also store the values that they changed",
    },
    recognise="ckpt_backends.redis.javascript.documents:JavaScriptRecogniser",
)
