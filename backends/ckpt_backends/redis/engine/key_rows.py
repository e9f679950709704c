"""Converts the contents of keys to rows of an archive, and rows to commands that create keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.changes.rows import Cell, Row, elements
from ckpt_backends.redis.engine.connection import Command, RedisConnection, in_chunks
from ckpt_backends.redis.engine.keyspace import DOCUMENT, HASH, LIST, STRING, ZSET, raw, text
from ckpt_backends.redis.engine.row_cells import MEMBER

_READ: Mapping[str, tuple[tuple[str, ...], tuple[str | int, ...]]] = {
    DOCUMENT: (("JSON.GET",), ()),
    HASH: (("HGETALL",), ()),
    ZSET: (("ZRANGE",), (0, -1, "WITHSCORES")),
    STRING: (("GET",), ()),
    LIST: (("LRANGE",), (0, -1)),
}
"""By type, the parts before and after the key of the command that reads the whole key."""


def rows_of(
    connection: RedisConnection, types: Mapping[str, str], names: Sequence[tuple[str, bytes]]
) -> Iterator[Row]:
    """One row for each key, given as (kind, key). The kind is the table of the row. Its cells:

        key         the name of the key
        type        the result of TYPE: `string`, `hash`, `zset`, `list` or `ReJSON-RL`
        expires_at  milliseconds since 1970, or None
        value       the JSON text of a document, or the bytes of a string
        .NAME       the bytes of a hash's field, or the score of a sorted set's member, as text
        .NUMBER     the bytes of a list's element, counted from 0

    Keys that were removed meanwhile are left out.
    """

    def sizes(some: Sequence[tuple[str, bytes]]) -> Iterator[Any]:
        return connection.ask_all(("MEMORY USAGE", name) for _, name in some)

    for some in in_chunks(names, sizes):
        kinds = [kind for (kind, _), _ in some]
        keys = [name for (_, name), _ in some]
        contents = contents_of(connection, [(types[kind], name) for (kind, name), _ in some])
        for kind, name, cells, expiry in zip(
            kinds, keys, contents, expiries_of(connection, keys), strict=True
        ):
            if cells is not None:
                about = {"key": text(name), "type": types[kind], "expires_at": expiry}
                yield Row(kind, {**about, **cells})


def contents_of(
    connection: RedisConnection, names: Sequence[tuple[str, bytes]]
) -> Iterator[dict[str, Cell] | None]:
    """The contents of keys, given as (type, key); None if a key is missing or of another type."""
    answers = connection.ask_all((*_READ[kind][0], name, *_READ[kind][1]) for kind, name in names)
    for (kind, _), answer in zip(names, answers, strict=True):
        yield cells_of(kind, answer)


def stored_of(connection: RedisConnection, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
    """The stored contents of these rows; None if a row does not exist."""
    names = [(str(row.cells["type"]), raw(str(row.cells["key"]))) for row in rows]
    for (_, name), cells in zip(names, contents_of(connection, names), strict=True):
        # A key of another type exists: return contents that differ from the row.
        yield {} if cells is None and connection.ask("EXISTS", name) else cells


def expiries_of(connection: RedisConnection, names: Sequence[bytes]) -> Iterator[int | None]:
    """When keys expire, in milliseconds since 1970; None if they do not expire."""
    moments = list(connection.ask_all(("PEXPIRETIME", name) for name in names))
    if None in moments:  # before Redis 7
        now = int(connection.ask("INFO", "server")["server_time_usec"]) // 1000
        left = connection.ask_all(("PTTL", name) for name in names)
        moments = [-1 if one is None or one < 0 else now + int(one) for one in left]
    for one in moments:
        yield int(one) if int(one) >= 0 else None


def cells_of(kind: str, answer: Any) -> dict[str, Cell] | None:
    """The contents of a key of this type from the answer of its command; None if it is missing."""
    if not answer:
        # The key does not exist. (No saver stores an empty string.)
        return None
    if kind == DOCUMENT:
        return {"value": text(answer)}
    if kind == STRING:
        return {"value": bytes(answer)}
    if kind == HASH:
        return {MEMBER + text(name): bytes(value) for name, value in sorted(answer.items())}
    if kind == LIST:
        return {f"{MEMBER}{place}": bytes(value) for place, value in enumerate(answer)}
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return {MEMBER + text(name): text(score) for name, score in pairs}


def commands_of(
    kind: str, name: bytes, cells: Mapping[str, Cell], stored: Mapping[str, Cell] | None = None
) -> Iterator[Command]:
    """Commands that create a key with these contents, or add what a stored one lacks."""
    if kind == DOCUMENT:
        yield ("JSON.SET", name, "$", _bytes(cells["value"]), "NX")
        return
    if kind == STRING:
        yield ("SET", name, _bytes(cells["value"]), "NX")
        return
    if kind == LIST:
        yield from _list_commands(name, elements(cells), elements(stored or {}))
        return
    for field_name, value in cells.items():
        if field_name.startswith(MEMBER):
            own = raw(field_name.removeprefix(MEMBER))
            if kind == HASH:
                yield ("HSETNX", name, own, _bytes(value))
            else:
                yield ("ZADD", name, "NX", _bytes(value), own)


def _list_commands(
    name: bytes, wanted: Sequence[Cell], stored: Sequence[Cell]
) -> Iterator[Command]:
    """Commands that add the missing elements, in places that a saver's LPUSH does not move."""
    if not stored:
        # Behind what a saver may have added to a new list meanwhile.
        yield ("RPUSH", name, *map(_bytes, wanted))
        return
    kept = 0
    for place, element in enumerate(wanted):
        if kept < len(stored) and element == stored[kept]:
            kept += 1
        elif place:
            yield ("LINSERT", name, "AFTER", _bytes(wanted[place - 1]), _bytes(element))
        else:
            yield ("LINSERT", name, "BEFORE", _bytes(stored[0]), _bytes(element))


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else raw(str(cell))
