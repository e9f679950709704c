"""Reads rows by their keys: up to `AT_ONCE` rows with one query, and fewer if they are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ckpt_backends.mysql.connect import MySQLConnection
from ckpt_backends.mysql.layout import CatalogColumn, MySQLLayout, bound

AT_ONCE = 200
"""Keys in one query."""
_BYTES_AT_ONCE = 16 << 20
"""Approximate maximum of bytes per query. At least one row is read."""
_IDX = CatalogColumn("int")
T = TypeVar("T")
Place = tuple[Any, ...]
"""The values of a row's key columns."""


def in_chunks(items: Iterable[T], number: int) -> Iterator[list[T]]:
    """The items in lists of at most `number` items."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == number:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class Fetcher:
    """Reads rows by their keys. A key must be unique in the collation of its columns."""

    def __init__(self, connection: MySQLConnection, layout: MySQLLayout) -> None:
        self._connection = connection
        self._columns = {
            name: column for table in layout.tables for name, column in table.columns.items()
        }

    def rows(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        places: Sequence[Place],
        order: str = "",
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys, sorted by `order` if it is given."""
        marks = [bound("%s", self._columns.get(name, _IDX)) for name in key]
        one = " AND ".join(f"c.{name} = {mark}" for name, mark in zip(key, marks, strict=True))
        select = f"SELECT {', '.join(columns)} FROM {table} c WHERE "
        for chunk in in_chunks(places, AT_ONCE):
            query = select + " OR ".join([f"({one})"] * len(chunk))
            if order:
                query += f" ORDER BY {order}"
            yield from self._connection.rows(query, [part for place in chunk for part in place])

    def each(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        places: Sequence[tuple[int, Place]],
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys, in the order of the keys.

        `places` has for each row its size in bytes and its key.
        """
        named = [*(f"c.{name}" for name in key), *columns]
        for chunk in _small_chunks(places):
            found = {
                row[: len(key)]: row[len(key) :] for row in self.rows(table, key, named, chunk)
            }
            for place in chunk:
                yield found[place]

    def values(
        self, table: str, key: Sequence[str], places: Sequence[tuple[int, Place]]
    ) -> Iterator[bytes]:
        """The column `blob` of the rows with these keys, in the order of the keys."""
        for (blob,) in self.each(table, key, ["c.`blob`"], places):
            yield blob


def _small_chunks(places: Sequence[tuple[int, Place]]) -> Iterator[list[Place]]:
    chunk: list[Place] = []
    total = 0
    for size, place in places:
        if chunk and (total + size > _BYTES_AT_ONCE or len(chunk) == AT_ONCE):
            yield chunk
            chunk, total = [], 0
        chunk.append(place)
        total += size
    if chunk:
        yield chunk
