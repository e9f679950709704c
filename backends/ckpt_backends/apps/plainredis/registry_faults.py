"""Timelines that are not in the registry, so that their threads are not listed."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ckpt_backends.apps.plainredis.timelines import PlainTimelines
from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.keyspace import ZSET, literally, quoted, raw


def registry_faults(layout: PlainTimelines) -> Iterator[Fault]:
    """`index-stale` for each of them."""
    start = raw(f"{layout.prefix}:idx:")
    for names in layout.connection.scan(literally(f"{layout.prefix}:idx:") + b"*", ZSET):
        told = layout.connection.ask("HMGET", layout.threads, *names)
        for name in [one for one, entry in zip(names, told, strict=True) if entry is None]:
            thread_id, ns = layout.place_of(name.removeprefix(start))
            entry = json.dumps({"thread": thread_id, "ns": ns}, ensure_ascii=False)
            yield Fault(
                "index-stale",
                "the namespace is not in the registry of threads, so the saver does not list it",
                thread_id,
                ns,
                fix=f"HSET {quoted(layout.threads)} {quoted(name)} {quoted(raw(entry))}",
            )
