"""Restores keys in one transaction: all of them or none.

The server queues the commands until EXEC. A key is created only if it does not exist, even if
another process creates it meanwhile (NX).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from redis import exceptions

from ckpt_backends.changes.rows import Cell, Restored, Row, conflict, is_part
from ckpt_backends.errors import Unsupported
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.key_rows import commands_of
from ckpt_backends.redis.engine.keyspace import raw
from ckpt_backends.redis.engine.row_cells import ABOUT

_ROWS_AT_ONCE, _BYTES_AT_ONCE = 200, 4 << 20


class RestoredKeys(Protocol):
    """The keys of one layout."""

    types: Mapping[str, str]
    """By kind, the type of its keys."""

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        """The stored contents of these rows; None if a row does not exist."""
        ...

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:
        """Commands for other keys that must change when rows are restored."""
        ...


def restore_rows(connection: RedisConnection, keys: RestoredKeys, rows: Iterable[Row]) -> Restored:
    """Create the keys that do not exist yet.

    Raises `StoreChanged` if a key exists with different contents, and `Unsupported` if the layout
    has no such kind of key.
    """
    now = _now(connection)
    added = there = expired = 0
    with connection.driver.client() as own:
        link: Any = own.connection
        try:
            _send(link, [("MULTI",)])
            for some in _parts(rows):
                for row in some:
                    if keys.types.get(row.table) != row.cells.get("type"):
                        raise Unsupported(
                            f"unknown kind of key '{row.table}' in the archive",
                            hint="the archive comes from a newer ckpt: upgrade ckpt",
                        )
                live = [row for row in some if (at := _expiry(row)) is None or at > now]
                expired += len(some) - len(live)
                new = list(_missing(keys, live))
                there += len(live) - len(new)
                added += len(new)
                _send(link, [one for row, stored in new for one in _commands(row, stored)])
                _send(link, list(keys.also([row for row, _ in new])))
            link.send_command("EXEC")
            for answer in link.read_response():
                if isinstance(answer, exceptions.ResponseError):
                    raise answer
        finally:
            # Disconnecting discards a transaction that was not executed.
            link.disconnect()
    return Restored(added, there, expired)


def _now(connection: RedisConnection) -> int:
    """The server's clock, in milliseconds since 1970."""
    return int(connection.ask("INFO", "server")["server_time_usec"]) // 1000


def _expiry(row: Row) -> int | None:
    at = row.cells.get("expires_at")
    return at if isinstance(at, int) else None


def _missing(
    keys: RestoredKeys, rows: Sequence[Row]
) -> Iterator[tuple[Row, Mapping[str, Cell] | None]]:
    """The rows that do not exist yet, or only in part, with what is stored.

    Raises `StoreChanged` if one has different contents.
    """
    for row, cells in zip(rows, keys.stored(rows), strict=True):
        wanted = {key: cell for key, cell in row.cells.items() if key not in ABOUT}
        if cells is None or is_part(row.cells["type"], cells, wanted):
            yield row, cells
        elif cells != wanted:
            raise conflict(row.table)


def _commands(row: Row, stored: Mapping[str, Cell] | None) -> Iterator[Command]:
    name = raw(str(row.cells["key"]))
    yield from commands_of(str(row.cells["type"]), name, row.cells, stored)
    if stored is None and (expiry := _expiry(row)) is not None:
        yield ("PEXPIREAT", name, expiry)


def _send(link: Any, commands: Sequence[Command]) -> None:
    """Send commands, which the server queues until EXEC. Raises the driver's errors."""
    link.send_packed_command(link.pack_commands(commands))
    for _ in commands:
        link.read_response()


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in batches of a few megabytes. A single row may be larger."""
    some: list[Row] = []
    size = 0
    for row in rows:
        length = sum(len(cell) for cell in row.cells.values() if isinstance(cell, str | bytes))
        if some and (len(some) == _ROWS_AT_ONCE or size + length > _BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(row)
        size += length
    if some:
        yield some
