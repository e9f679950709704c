"""Replaces the contents of keys that are as they were read.

On one server, as many keys as fit into memory are replaced in one transaction. On a cluster, and in
a larger thread, each key has a transaction of its own. Times to live stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from redis import exceptions

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.key_rows import stored_of
from ckpt_backends.redis.engine.keyspace import DOCUMENT, HASH, STRING, raw
from ckpt_backends.redis.engine.row_cells import ABOUT, MEMBER

_AT_ONCE = 32 << 20
"""Bytes of one transaction, which the driver sends at once."""


def replace_rows(
    connection: RedisConnection, thread_id: str, rewrites: Iterable[RowRewrite]
) -> None:
    """See `WritableStore.replace_rows`. Raises `StoreChanged`, and the driver's errors."""
    left = iter(rewrites)
    first: list[RowRewrite] = []
    size = 0
    for one in left:
        first.append(one)
        size += _size(one.new)
        if size > _AT_ONCE:
            break
    if size <= _AT_ONCE and not connection.is_cluster:
        _replace(connection, thread_id, first)
        return
    for one in chain(first, left):
        _replace(connection, thread_id, [one])


def _size(row: Row) -> int:
    return sum(len(cell) for cell in row.cells.values() if isinstance(cell, str | bytes))


def _replace(connection: RedisConnection, thread_id: str, rewrites: Sequence[RowRewrite]) -> None:
    names = [_name(one.stored) for one in rewrites]
    if not names:
        return
    with connection.transaction(names) as pipe:
        pipe.watch(*names)
        stored = stored_of(connection, [one.stored for one in rewrites])
        for one, found in zip(rewrites, stored, strict=True):
            if not _is_as_read(one.stored, found):
                raise _moved(thread_id)
        pipe.multi()
        for one in rewrites:
            for command in _commands(one):
                pipe.execute_command(*command)
        try:
            answers: list[Any] = pipe.execute(raise_on_error=False)
        except exceptions.WatchError:
            raise _moved(thread_id) from None
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


def _is_as_read(row: Row, found: dict[str, Cell] | None) -> bool:
    """Whether a key still has all that was read of it. A hash may have got other fields."""
    if found is None:
        return False
    return all(found.get(name) == cell for name, cell in row.cells.items() if name not in ABOUT)


def _commands(one: RowRewrite) -> Iterator[Command]:
    """The commands that replace what differs."""
    name, kind = _name(one.stored), one.stored.cells["type"]
    changed = {
        field: cell for field, cell in one.new.cells.items() if cell != one.stored.cells[field]
    }
    if kind == DOCUMENT:
        yield ("JSON.SET", name, "$", _bytes(changed["value"]))
    elif kind == STRING:
        yield ("SET", name, _bytes(changed["value"]), "KEEPTTL")
    elif kind == HASH:
        for field, cell in changed.items():
            yield ("HSET", name, raw(field.removeprefix(MEMBER)), _bytes(cell))
    else:
        raise Unsupported(f"a key of the type '{kind!s}' cannot be replaced")


def _name(row: Row) -> bytes:
    return raw(str(row.cells["key"]))


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else raw(str(cell))


def _moved(thread_id: str) -> StoreChanged:
    return moved(Change(thread_id, {}))
