"""Declares Redis servers. Their layouts are declared by the packages that recognise them."""

from ckpt_backends.declaration import Backend
from ckpt_backends.redis.engine import PARAMS
from ckpt_backends.transfer.form import Language

BACKEND = Backend(
    title="Redis",
    schemes=("redis", "rediss"),
    driver="redis",
    extra="redis",
    params=PARAMS,
    checkpoints="ckpt_backends.redis.engine.store:open_store",
    changes="ckpt_backends.redis.engine.write:open_writable",
    creates={Language.PYTHON: "redis", Language.JAVASCRIPT: "redis-js"},
    create="ckpt_backends.redis.engine.write:create_store",
    memory="ckpt_backends.redis.official.memory:open_memory",
    memory_changes="ckpt_backends.redis.official.memory:open_writable_memory",
    memory_create="ckpt_backends.redis.official.memory:create_memory",
    sessions="ckpt_backends.redis.engine.sessions:open_sessions",
    session_changes="ckpt_backends.redis.engine.sessions:open_writable_sessions",
)
