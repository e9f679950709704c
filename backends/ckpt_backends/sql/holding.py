"""Asks the engine which threads may contain a text, without reading their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ckpt_backends.codec.stored import (
    ARRAY,
    EMPTY_TYPES,
    KNOWN_TYPES,
    TEXT_ARRAY,
    StoredTexts,
    escape_in_json,
    may_be_derived,
)
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.model import in_chunks
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import BODIES_AT_ONCE, SqlTable, SqlTables

_THREADS_PER_QUERY = 300
_MOST_MARKS = 20
"""With more, the engine's search for them takes longer than what it spares."""


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """The columns of all tables in which values are stored, and how their cells are read."""

    database: Database
    tables: SqlTables
    body_type: str
    """The expression for the type of a body."""
    body: str
    """The expression for the bytes of a body, with `{}` for its column."""
    length: str
    """The expression for the bytes of a value, with `{}` for it."""
    text_of: Callable[[Any], str]
    data_of: Callable[[Any], bytes | None]

    def threads(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool
    ) -> Iterator[str]:
        """Those of some threads with a value that may contain one of the texts, maybe twice."""
        asked = [one for one in thread_ids if self.database.storable(one)]
        search = self._search_of(texts, ignore_case=ignore_case)
        for some in in_chunks(asked, _THREADS_PER_QUERY):
            yield from map(self.text_of, search(some, texts, ignore_case=ignore_case))

    def _search_of(
        self, texts: Collection[str], *, ignore_case: bool
    ) -> Callable[..., Iterator[Any]]:
        if self.database.calls_back:
            return self._called_back
        # No engine reads the numbers inside of values, or folds the letters of ASCII only.
        is_asked = not ignore_case and not any(map(may_be_derived, texts))
        return self._asked if is_asked else self._read

    def _called_back(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool
    ) -> Iterator[Any]:
        """The cells of these threads; the engine calls `StoredTexts` with their values."""
        database, wanted = self.database, StoredTexts(texts, ignore_case=ignore_case)

        @cache
        def finder(tag: bytes) -> Callable[[bytes], bool]:
            return wanted.finder(self.text_of(tag))

        def may_hold(tag: bytes, data: bytes) -> bool:
            return finder(tag)(data)

        for table in self.tables.all:
            value, tag = self._columns(table)
            only, values = self._maybe_held(table, thread_ids, wanted)
            holds = database.called_back(may_hold, tag, value)
            query = f"SELECT DISTINCT c.thread_id FROM {table.source} c WHERE {only} AND {holds}"
            for (found,) in database.rows(query, values):
                yield found

    def _asked(
        self,
        thread_ids: Sequence[str],
        texts: Collection[str],
        *,
        ignore_case: bool,  # noqa: ARG002
    ) -> Iterator[Any]:
        """The cells of these threads; the engine searches their values."""
        database = self.database
        parts = {f"part{n}": one.encode() for n, one in enumerate(texts)}
        escapes = {
            f"escape{n}": one for n, one in enumerate(sorted({escape_in_json(t) for t in texts}))
        }
        items = {f"items{n}": one for n, one in enumerate(TEXT_ARRAY)}
        among, ids = database.among("c.thread_id", "t", thread_ids)
        values = {**ids, **parts, **escapes, **items, "array": ARRAY}
        thread = database.exact("c.thread_id")
        known = self._literals(KNOWN_TYPES)
        for table in self.tables.all:
            value, tag = self._columns(table)
            may_hold = (
                f"COALESCE({tag}, '') NOT IN ({known}) OR {database.holds(value, [*parts])}"
                f" OR ({database.holds(value, ['array'])} AND {database.holds(value, [*items])})"
                f" OR ({tag} = 'json' AND {database.holds(value, [*escapes])})"
            )
            query = f"SELECT DISTINCT {thread} FROM {table.source} c WHERE {among} AND ({may_hold})"
            for (found,) in database.rows(query, values):
                yield found

    def _read(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool
    ) -> Iterator[Any]:
        """The same; the values are read and searched here. Values that are too long are not."""
        database, found = self.database, set[Any]()
        wanted = StoredTexts(texts, ignore_case=ignore_case)
        for table in self.tables.all:
            value, tag = self._columns(table)
            only, values = self._maybe_held(table, thread_ids, wanted)
            is_read = f"COALESCE({self.length.format(value)}, 0) <= {MOST_BYTES}"
            query = (
                f"SELECT {database.exact('c.thread_id')}, COALESCE({tag}, ''), {is_read},"
                f" CASE WHEN {is_read} THEN {value} END FROM {table.source} c WHERE {only}"
            )
            for thread, kind, has_data, cell in database.stream(query, values, BODIES_AT_ONCE):
                if thread in found:
                    continue
                data = self.data_of(cell) or b""
                if not has_data or wanted.may_be_in(self.text_of(kind), data):
                    found.add(thread)
                    yield thread

    def _maybe_held(
        self, table: SqlTable, thread_ids: Sequence[str], wanted: StoredTexts
    ) -> tuple[str, dict[str, object]]:
        """The condition for the rows of these threads, without those that the engine rules out by
        a few bytes of their values; and its parameters.
        """
        database = self.database
        value, tag = self._columns(table)
        among, values = database.among("c.thread_id", "t", thread_ids)
        only = f"{among} AND COALESCE({tag}, '') NOT IN ({self._literals(EMPTY_TYPES)})"
        named: dict[str, object] = {f"mark{n}": one for n, one in enumerate(wanted.marks)}
        # Bodies are longer, and an engine searches bytes more slowly than Python does.
        if table is not self.tables.checkpoints and 0 < len(named) <= _MOST_MARKS:
            holds = database.holds(value, [*named])
            only += f" AND (COALESCE({tag}, '') <> 'msgpack' OR {holds})"
            values |= named
        return only, values

    def _literals(self, names: Collection[str]) -> str:
        return ", ".join(map(self.database.literal, names))

    def _columns(self, table: SqlTable) -> tuple[str, str]:
        """The expressions for the bytes of a table's values, and for their type."""
        column = f"c.{self.database.quoted(next(iter(table.sizes)))}"
        if table is self.tables.checkpoints:
            return self.body.format(column), self.body_type
        return column, "c.type"
