"""Faults of a server as a whole: missing search indexes, and keys that it removed.

RedisSaver lists checkpoints by search indexes, and finds keys to delete by them.

A server with `maxmemory` and another policy than `noeviction` removes keys one by one. A saver
stores a checkpoint in several keys, so threads are left with parts of themselves. INFO counts these
keys since the server was started, over all databases, so they may be those of another application.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import Prefixes
from ckpt_backends.redis.engine.keyspace import quoted, raw, text
from ckpt_backends.redis.engine.search_index import IndexFacts, indexes

_KEEPS_ALL, _ONLY_EXPIRING = "noeviction", "volatile-"
_SAMPLE = 100
"""Number of keys that are asked whether they expire."""
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


def evicted(connection: RedisConnection, names: Iterable[bytes]) -> str:
    """Why keys of checkpoints may be gone, in words; `''` if the server removed none.

    `names` are keys of checkpoints. Some policies only remove keys that expire.
    """
    stats = connection.find("INFO", "stats") or {}
    number = int(stats.get("evicted_keys") or 0)
    if not number:
        return ""
    policy = _policy_of(connection)
    if policy.startswith(_ONLY_EXPIRING):
        asked = (("PTTL", one) for one in islice(names, _SAMPLE))
        if not any(ms >= 0 for ms in connection.ask_all(asked)):
            return ""
    keys = "1 key" if number == 1 else f"{number} keys"
    return f"the server removed {keys} because its memory was full (maxmemory-policy {policy})"


def _policy_of(connection: RedisConnection) -> str:
    """The setting `maxmemory-policy`; `unknown` if the server does not tell."""
    memory = connection.find("INFO", "memory") or {}
    return str(memory.get("maxmemory_policy") or "unknown")


def eviction_fault(connection: RedisConnection, reason: str) -> Fault:
    """`keys-evicted` for a store of which `evicted` gives a reason.

    What would stop it is no fix: the keys stay gone.
    """
    detail = f"{reason}, so parts of threads may be gone"
    if _policy_of(connection) != _KEEPS_ALL:
        detail += f"; CONFIG SET maxmemory-policy {_KEEPS_ALL} keeps the others"
    return Fault("keys-evicted", detail)
