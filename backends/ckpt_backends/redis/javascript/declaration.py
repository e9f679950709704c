"""Declares the JSON documents of LangGraph.js' savers for Redis."""

from ckpt_backends.declaration import CLEARS, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language, Serializer

_ANY = Capability.WRITES | Capability.SESSIONS
_FULL = Form(
    language=Language.JAVASCRIPT,
    serializer=Serializer.JAVASCRIPT,
    body_types=("json",),
    encrypts_body=False,
    has_task_paths=False,
    expires=True,
)

BACKEND = Backend(
    title="Redis",
    layouts={
        "redis-js": Capability.HISTORY | Capability.ADDING | _ANY,
        "redis-js-shallow": Capability.INLINE_VALUES | _ANY,
    },
    engine="redis",
    engine_faults=("keys-evicted", "index-stale", "ttl-partial"),
    mended_faults=("ttl-partial",),
    unmended_faults=("redis-js:value-missing",),  # messages of LangGraph.js are not written
    impossible_faults={
        "value-unreadable": "the engine parses all values",
        "type-blocked": "values are stored as JSON",
        "plaintext-among-encrypted": "LangGraph.js does not encrypt",
        "branches-share-value": "checkpoints also store the values that they changed",
        "state-by-library": CLEARS,
    },
    forms={"redis-js": (_FULL,), "redis-js-shallow": (_FULL._replace(receives=False),)},
    records="ckpt_backends.redis.javascript.records:records_of",
    edits="ckpt_backends.redis.javascript.records:edited_row",
    recognise="ckpt_backends.redis.javascript.documents:JavaScriptRecogniser",
)
