"""Declares Redis servers. Their layouts are declared by the packages that recognise them."""

from ckpt_backends.declaration import NAME, NUMBER, Backend

_PREFIX = r"[\w.,+:{}-]*"

BACKEND = Backend(
    title="Redis",
    schemes=("redis", "rediss"),
    driver="redis",
    extra="redis",
    params={
        **dict.fromkeys(("prefix", "write_prefix"), _PREFIX),
        **dict.fromkeys(("store_prefix", "vector_prefix"), NAME),
        "connect_timeout": NUMBER,
    },
    checkpoints="ckpt_backends.redis.opening:open_store",
    changes="ckpt_backends.redis.opening:open_writable",
    memory="ckpt_backends.redis.opening:open_memory",
    memory_changes="ckpt_backends.redis.opening:open_writable_memory",
    sessions="ckpt_backends.redis.opening:open_sessions",
)
