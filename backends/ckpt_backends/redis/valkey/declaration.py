"""Declares Valkey servers, and the keys of the savers of langgraph-checkpoint-aws."""

from ckpt_backends.declaration import LAST_STORED, Backend
from ckpt_backends.model import Capability
from ckpt_backends.redis.engine import PARAMS
from ckpt_backends.transfer.form import Form, Language

_CAN = (
    Capability.HISTORY
    | Capability.WRITES
    | Capability.ADDING
    | Capability.INLINE_VALUES
    | Capability.SESSIONS
)

BACKEND = Backend(
    title="Valkey",
    layouts={"valkey": _CAN, "valkey-agentcore": _CAN | Capability.TASK_PATH},
    schemes=("valkey", "valkeys"),
    engine="redis",
    impossible_faults={"id-not-increasing": LAST_STORED},
    recognise="ckpt_backends.redis.valkey.layout:ValkeyRecogniser",
    driver="redis",
    extra="valkey",
    # Savers for Redis run on Valkey too, so its URLs open their layouts, with their parameters.
    params=PARAMS,
    engine_faults=("keys-evicted", "index-stale", "ttl-partial"),
    mended_faults=("index-stale", "ttl-partial"),
    forms={
        "valkey": (Form(has_task_paths=False, keeps_write_order=True, expires=True),),
        "valkey-agentcore": (
            Form(
                body_types=("msgpack",),
                metadata_type="msgpack",
                encrypts_metadata=True,
                keeps_write_order=True,
                expires=True,
                receives=False,
            ),
        ),
    },
    records="ckpt_backends.redis.valkey.records:records_of",
    edits="ckpt_backends.redis.valkey.records:edited_row",
    creates={Language.PYTHON: "valkey"},
    create="ckpt_backends.redis.valkey.layout:create_store",
    checkpoints="ckpt_backends.redis.engine.store:open_store",
    changes="ckpt_backends.redis.engine.write:open_writable",
    memory="ckpt_backends.redis.official.memory:open_memory",
    memory_changes="ckpt_backends.redis.official.memory:open_writable_memory",
    memory_create="ckpt_backends.redis.official.memory:create_memory",
    sessions="ckpt_backends.redis.engine.sessions:open_sessions",
)
