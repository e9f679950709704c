"""Declares the JSON documents of langgraph-checkpoint-redis."""

from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.declaration import SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Serializer

SHALLOW = "redis-shallow"
"""The layout of ShallowRedisSaver."""
_ANY = Capability.INLINE_VALUES | Capability.SESSIONS
_FULL = Form(
    serializer=Serializer.REDIS_JSON,
    body_types=(REDIS_JSON,),
    metadata_type=REDIS_JSON,
    encrypts_body=False,
    expires=True,
)

BACKEND = Backend(
    title="Redis",
    layouts={"redis": SAVER | _ANY, SHALLOW: Capability.WRITES | Capability.TASK_PATH | _ANY},
    engine="redis",
    engine_faults=("keys-evicted", "index-missing", "index-stale", "ttl-partial"),
    mended_faults=("index-stale", "ttl-partial"),
    unmended_faults=("redis:value-unreadable",),  # only a write can be unreadable alone
    impossible_faults={
        "type-blocked": "values are stored as JSON",
        "plaintext-among-encrypted": "its saver does not encrypt",
    },
    forms={"redis": (_FULL,), SHALLOW: (_FULL._replace(receives=False),)},
    records="ckpt_backends.redis.official.records:records_of",
    edits="ckpt_backends.redis.official.records:edited_row",
    recognise="ckpt_backends.redis.official.documents:DocumentRecogniser",
)
