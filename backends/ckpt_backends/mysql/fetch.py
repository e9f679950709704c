"""Reads rows by their keys: up to `AT_ONCE` rows with one query, and fewer if they are large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ckpt_backends.chunks import in_chunks
from ckpt_backends.mysql.database import MySQLDatabase
from ckpt_backends.mysql.sql import exact

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
        *,
        by_bytes: bool = False,
    ) -> Iterator[tuple[Any, ...]]:
        """The rows with these keys.

        `rest` is the end of the query: further conditions and the order. `values` are the
        parameters of `columns` and `rest`. Keys are equal as the collation of their columns says,
        and a row comes once for each key that it is equal to; with `by_bytes`, which takes twice
        as long, only for its own.
        """
        for some in in_chunks(dict.fromkeys(places), AT_ONCE):
            asked, same, bound = self._asked(key, some, by_bytes=by_bytes)
            yield from self._database.rows(
                f"SELECT STRAIGHT_JOIN {', '.join(columns)}"
                f" FROM ({asked}) k JOIN {table} c ON {same} WHERE TRUE {rest}",
                {**bound, **values},
            )

    def _asked(
        self, key: Sequence[str], places: Sequence[Place], *, by_bytes: bool
    ) -> tuple[str, str, dict[str, object]]:
        """A query for keys, the condition for their rows in a join, and the parameters of both.

        With OR between the keys, MariaDB needs up to ten times as long to find the rows.
        """
        named: list[str] = []
        listed: list[str] = []
        same: list[str] = []
        for n, (column, cell) in enumerate(zip(key, places[0], strict=True)):
            name, is_text = f"k{{row}}_{n}", isinstance(cell, str)
            mark = self._database.mark(name)
            # The first row gives a column its collation; a conversion of each cell is slow.
            given = self._database.collated(column, name) if is_text else mark
            named.append(f"{given} AS k{n}")
            listed.append(self._database.comparable(column, name) if is_text else mark)
            same.append(f"c.{column} = k.k{n}")
            if is_text and by_bytes:
                # The comparison by the index takes `abc` for `ABC`.
                named.append(f"{exact(mark)} AS x{n}")
                listed.append(exact(mark))
                same.append(f"{exact(f'c.{column}')} = k.x{n}")
        first, others = (f"SELECT {', '.join(cells)}" for cells in (named, listed))
        bound = {
            f"k{row}_{n}": cell for row, place in enumerate(places) for n, cell in enumerate(place)
        }
        rows = [first.format(row=0), *(others.format(row=n) for n in range(1, len(places)))]
        return " UNION ALL ".join(rows), " AND ".join(same), bound

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
