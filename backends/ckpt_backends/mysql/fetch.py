"""Reads rows by their keys: up to `AT_ONCE` rows with one query, and fewer if they are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ckpt_backends.mysql.database import MySQLDatabase
from ckpt_backends.sql.chunks import in_chunks

AT_ONCE = 200
"""Keys in one query."""
_BYTES_AT_ONCE = 16 << 20
"""Approximate maximum of bytes per query. At least one row is read."""
Place = tuple[Any, ...]
"""The values of a row's key columns."""


class Fetcher:
    """Reads rows by their keys. A key must be unique in the collation of its columns."""

    def __init__(self, database: MySQLDatabase) -> None:
        self._database = database

    def rows(
        self,
        table: str,
        key: Sequence[str],
        columns: Sequence[str],
        places: Iterable[Place],
        rest: str = "",
        values: Mapping[str, object] = MappingProxyType({}),
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys.

        `rest` is the end of the query: further conditions and the order. `values` are the
        parameters of `columns` and `rest`.
        """
        comparable = self._database.comparable
        for some in in_chunks(places, AT_ONCE):
            asked: list[str] = []
            bound = dict(values)
            for n, place in enumerate(some):
                names = [f"k{n}_{column}" for column in key]
                bound |= zip(names, place, strict=True)
                same = [
                    f"c.{column} = {comparable(column, name)}"
                    for column, name in zip(key, names, strict=True)
                ]
                asked.append(f"({' AND '.join(same)})")
            yield from self._database.rows(
                f"SELECT {', '.join(columns)} FROM {table} c WHERE ({' OR '.join(asked)}) {rest}",
                bound,
            )

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
