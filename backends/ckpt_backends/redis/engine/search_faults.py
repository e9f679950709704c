"""Faults of the search indexes by which RedisSaver lists checkpoints, and finds keys to delete."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import Prefixes
from ckpt_backends.redis.engine.keyspace import quoted, raw, text
from ckpt_backends.redis.engine.search_index import IndexFacts, indexes

_FIELDS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})


def search_faults(connection: RedisConnection, prefixes: Prefixes) -> Iterator[Fault]:
    """`index-missing` and `index-stale`. Nothing if the server has no search module."""
    known = indexes(connection)
    if known is None:
        return
    for prefix in (prefixes.checkpoint, prefixes.write):
        fitting = [one for one in known if one.covers(raw(f"{prefix}:")) and one.tags >= _FIELDS]
        if not fitting:
            detail = f"no search index covers the keys {quoted(raw(prefix + ':*'))}, so the saver"
            detail += " can neither list nor delete them; its setup() creates one"
            yield Fault("index-missing", detail, is_error=True)
        elif all(one.failures for one in fitting):
            yield _failures(fitting[0])


def _failures(index: IndexFacts) -> Fault:
    detail = f"{index.failures} documents could not be added to the search index"
    return Fault("index-stale", f"{detail} '{text(index.name)}', so the saver does not list them")
