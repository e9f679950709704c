"""Makes the search index of RedisStore (langgraph-checkpoint-redis 0.5), without vectors.

Source: `store_schema` in `langgraph/store/redis/base.py`, and `FieldFactory` of redisvl 0.28.
"""

from __future__ import annotations

from redis import exceptions

from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.memory.dotted_namespaces import STORE
from ckpt_backends.redis.engine.connect import connect
from ckpt_backends.redis.engine.driver_errors import explained_change
from ckpt_backends.redis.engine.keyspace import literally
from ckpt_backends.redis.official.memory_store import open_documents
from ckpt_backends.servers.answer_errors import understood
from ckpt_backends.url import StoreUrl

_FIELDS = {
    "prefix": ("TEXT", "WEIGHT", "1"),
    "key": ("TAG", "SEPARATOR", ","),
    **dict.fromkeys(("created_at", "updated_at", "ttl_minutes", "expires_at"), ("NUMERIC",)),
}


def create_memory(url: StoreUrl) -> None:
    """Make the index, unless a store is there.

    Raises `Refused` if other keys have its prefix, `Unsupported` if the server has no search, and
    `StoreUnavailable`.
    """
    with understood(url):
        try:
            connection = connect(url)
            open_documents(connection, url)
            connection.close()
        except UnknownLayout:
            _make(url)


def _make(url: StoreUrl) -> None:
    prefix = url.params.get("store_prefix", STORE)
    connection = connect(url)
    try:
        for names in connection.scan(literally(prefix) + b":*"):
            raise Refused(
                f"cannot make a store in '{url}': {len(names)} other keys begin with '{prefix}:'",
                hint="name another prefix: ?store_prefix=NAME&vector_prefix=NAME",
            )
        if connection.find("FT._LIST") is None:
            raise Unsupported(
                f"cannot make a store in '{url}': the server has no search",
                hint="RedisStore needs Redis 8, or Redis Stack",
            )
        fields = [
            word for name, kind in _FIELDS.items() for word in (f"$.{name}", "AS", name, *kind)
        ]
        command = ("FT.CREATE", prefix, "ON", "JSON", "PREFIX", "1", f"{prefix}:")
        with explained_change(url, "nothing was made"):
            try:
                connection.driver.execute_command(*command, "SCORE", "1.0", "SCHEMA", *fields)
            except exceptions.ResponseError as error:
                if "already exists" not in str(error):
                    raise
    finally:
        connection.close()
