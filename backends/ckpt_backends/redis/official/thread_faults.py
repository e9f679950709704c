"""Faults in the keys by which RedisSaver finds the head of a namespace and the writes of a
checkpoint: pointers, lists and the field `has_writes`.

Source: `put`, `put_writes` and `_load_pending_writes_with_registry_check` in
`langgraph/checkpoint/redis/__init__.py`, 0.1.0 to 0.5.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, quoted

_FEW = 3
"""Maximum number of keys that a fix names."""


def pointer_fault(
    connection: RedisConnection, pointer: bytes, here: Mapping[str, CheckpointEntry]
) -> Iterator[Fault]:
    """What is wrong with the pointer to the head of a namespace with these checkpoints, by id."""
    newest = here[max(here)]
    fix = f"SET {quoted(pointer)} {quoted(newest.name)} KEEPTTL"
    thread_id, ns = newest.key.thread_id, newest.key.checkpoint_ns
    name = connection.ask("GET", pointer)
    named = next((one for one in here.values() if one.name == name), None)
    if named == newest:
        return
    if named is None:
        if name is None:
            detail = "there is no pointer to the head, so the saver finds no checkpoint here"
        elif connection.number_of([name]):
            return  # a checkpoint that was stored after the others were listed
        else:
            detail = "the pointer to the head names a checkpoint that is not stored, so the saver"
            detail += " finds no checkpoint here"
        yield Fault("index-stale", detail, thread_id, ns, fix=fix, is_error=True)
        return
    if newest.key.checkpoint_id in _ancestors(named, here):
        return  # the ids are wrong, not the pointer
    own = named.key.checkpoint_id
    detail = f"the pointer to the head names this checkpoint, not {newest.key.checkpoint_id}"
    has_child = any(one.parent == own for one in here.values())
    code = "head-not-newest" if has_child else "index-stale"
    yield Fault(code, detail, thread_id, ns, own, fix=fix)


def other_head(
    connection: RedisConnection, pointer: bytes, here: Mapping[str, CheckpointEntry]
) -> str:
    """What the saver does instead of loading the newest of these checkpoints, in words."""
    name = connection.ask("GET", pointer)
    if name == here[max(here)].name:
        return ""
    if name is None:
        return "the saver finds no checkpoint: there is no pointer to this one"
    own = next((own for own, one in here.items() if one.name == name), None)
    if own is not None:
        return f"the saver loads {own} instead, which the pointer to the head names"
    if connection.number_of([name]):
        return ""  # a checkpoint that was stored after the others were listed
    return "the saver finds no checkpoint: the pointer names one that is not stored"


def _ancestors(one: CheckpointEntry, here: Mapping[str, CheckpointEntry]) -> set[str]:
    found: set[str] = set()
    while one.parent is not None and one.parent in here and one.parent not in found:
        found.add(one.parent)
        one = here[one.parent]
    return found


def list_faults(
    connection: RedisConnection,
    owner: CheckpointEntry,
    lists: Mapping[bytes, Sequence[bytes]],
    writes: Sequence[bytes],
    *,
    is_whole: bool = True,
) -> Iterator[Fault]:
    """What is wrong with the lists of a checkpoint's writes; `writes` are those that are stored.

    Keys that expire do so one by one, so what is missing then is no fault. `is_whole` is False for
    a list that may name writes of other checkpoints.
    """
    listed = {name for names in lists.values() for name in names}
    place = (owner.key.thread_id, owner.key.checkpoint_ns, owner.key.checkpoint_id)
    own = next(iter(lists))
    lost = staying(connection, [one for one in writes if one not in listed])
    if lost:
        members = " ".join(f"0 {quoted(one)}" for one in lost)
        detail = f"{len(lost)} of {len(writes)} writes are not in the list of writes, so the saver"
        detail += " does not find them"
        fix = f"ZADD {quoted(own)} {members}" if len(lost) <= _FEW else ""
        yield Fault("index-stale", detail, *place, fix=fix)
    stored = set(writes)
    for name, members_of in lists.items() if is_whole else ():
        gone = [one for one in members_of if one not in stored]
        if gone and not connection.number_of(gone) and staying(connection, [name]):
            members = " ".join(map(quoted, gone))
            detail = f"the list of writes names {len(gone)} that are not stored"
            fix = f"ZREM {quoted(name)} {members}" if len(gone) <= _FEW else ""
            yield Fault("index-stale", detail, *place, fix=fix)


def staying(connection: RedisConnection, names: Iterable[bytes]) -> list[bytes]:
    """Those of these keys that exist and do not expire."""
    asked = list(names)
    left = connection.ask_all(("PTTL", one) for one in asked)
    return [name for name, ms in zip(asked, left, strict=True) if ms == -1]


def members_of(connection: RedisConnection, lists: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The writes that each of these lists names; empty if there is no such list."""
    return (one or [] for one in connection.ask_all(("ZRANGE", name, 0, -1) for name in lists))
