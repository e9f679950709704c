"""Faults of the lists by which ValkeySaver finds the checkpoints of a namespace."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ckpt_backends.model import CheckpointKey, Fault
from ckpt_backends.redis.engine.id_lists import gone_from_list
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, quoted, raw, text
from ckpt_backends.redis.engine.layout import RedisLayout


def list_faults(
    layout: RedisLayout, name: bytes, here: Collection[CheckpointEntry]
) -> Iterator[Fault]:
    """What is wrong with the list of a namespace in which these checkpoints were found."""
    ids: list[bytes] = layout.connection.ask("LRANGE", name, 0, -1) or []
    place = next(iter(here)).key.thread_id, next(iter(here)).key.checkpoint_ns
    listed = [CheckpointKey(*place, text(own)) for own in dict.fromkeys(ids)]
    if listed:
        yield from gone_from_list(layout, name, listed, "LREM {} 0")
        for one in sorted({one.key for one in here} - set(listed)):
            detail = "not in the list of its namespace, so the saver loads it only by its id"
            yield Fault("index-stale", detail, *place, one.checkpoint_id)
        return
    newest_first = sorted((raw(one.key.checkpoint_id) for one in here), reverse=True)
    detail = "there is no list of checkpoints, so the saver finds none here"
    fix = f"RPUSH {quoted(name)} {' '.join(map(quoted, newest_first))}"
    yield Fault("index-stale", detail, *place, fix=fix)
