"""Keys that the server removed because its memory was full.

A server with `maxmemory` and another policy than `noeviction` removes keys one by one. A saver
stores a checkpoint in several keys, so threads are left with parts of themselves. INFO counts these
keys since the server was started, over all databases, so they may be those of another application.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection

_KEEPS_ALL, _ONLY_EXPIRING = "noeviction", "volatile-"
_SAMPLE = 100
"""Number of keys that are asked whether they expire."""


def evicted(connection: RedisConnection, names: Iterable[bytes]) -> str:
    """Why keys of checkpoints may be gone, in words; `''` if the server removed none.

    `names` are keys of checkpoints. Some policies only remove keys that expire.
    """
    stats = connection.find("INFO", "stats") or {}
    number = int(stats.get("evicted_keys") or 0)
    if not number:
        return ""
    policy = policy_of(connection)
    if policy.startswith(_ONLY_EXPIRING):
        asked = (("PTTL", one) for one in islice(names, _SAMPLE))
        if not any(ms >= 0 for ms in connection.ask_all(asked)):
            return ""
    keys = "1 key" if number == 1 else f"{number} keys"
    return f"the server removed {keys} because its memory was full (maxmemory-policy {policy})"


def policy_of(connection: RedisConnection) -> str:
    """The setting `maxmemory-policy`; `unknown` if the server does not tell."""
    memory = connection.find("INFO", "memory") or {}
    return str(memory.get("maxmemory_policy") or "unknown")


def eviction_fault(connection: RedisConnection, reason: str) -> Fault:
    """`keys-evicted` for a store of which `evicted` gives a reason."""
    fix = "" if policy_of(connection) == _KEEPS_ALL else f"CONFIG SET maxmemory-policy {_KEEPS_ALL}"
    return Fault("keys-evicted", f"{reason}, so parts of threads may be gone", fix=fix)
