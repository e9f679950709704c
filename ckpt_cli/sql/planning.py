"""Finds which tables, columns and threads a query needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, tzinfo
from difflib import get_close_matches
from functools import reduce
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import Closing, NotFound, Refused, UsageError
from ckpt_cli.render.fields import Field, Shape
from ckpt_cli.render.types import TEXT
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds, bounds_in, columns_in
from ckpt_cli.sql.database import MAIN, BoundedAnswer, connect, create_all, left_if_busy, reported
from ckpt_cli.sql.tables import TABLES

if TYPE_CHECKING:
    import duckdb


TABLE = Shape(
    "A table that can be queried.",
    Field("table", TEXT, "Its name.", "name"),
    Field("text", TEXT, "What it has a row for."),
    Field("columns", TEXT.list, "Names of its columns.", "names"),
)
COLUMN = Shape(
    "A column of a table.",
    Field("column", TEXT, "Its name.", "name"),
    Field("type", TEXT, "Type in DuckDB."),
    Field("unit", TEXT.or_null, "Unit of a number.", lambda one: one.unit or None),
    Field("reads", TEXT, "What is read from the store for it.", "needs.value"),
    Field("text", TEXT, "What it tells."),
)


def table_records() -> Iterator[dict[str, Any]]:
    """Return the tables."""
    return map(TABLE.record, TABLES.values())


def column_records(name: str) -> Iterator[dict[str, Any]]:
    """Return the columns of a table. Raises `NotFound`."""
    check_tables([name])
    return map(COLUMN.record, TABLES[name].columns)


def check_tables(names: Sequence[str] | None) -> Sequence[str]:
    """Return these tables, by default all. Raises `NotFound` for one that there is not."""
    for name in names or ():
        if name not in TABLES:
            near = get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the tables: {', '.join(TABLES)}"
            raise NotFound(f"no table '{name}'", hint=hint)
    return names or tuple(TABLES)


_UNCERTAIN = "statistics_propagation,empty_result_pullup,late_materialization,row_group_pruner"
"""Optimisers that look at rows, of which there are none."""
_PART = re.compile(r'"(?:[^"]|"")*"|[^.]+')
_OPTIONAL = re.compile(r"('(?:[^']|'')*')|optional: ")
"""The mark of a condition that a scan need not check, as others imply it; and texts."""
_RUNS = ("SELECT", "EXPLAIN")


@dataclass(frozen=True, slots=True)
class TableNeed:
    """The columns and rows of a table that a query reads."""

    schema: str
    table: str
    columns: tuple[str, ...]
    bounds: RowBounds


class QueryPlanner(Closing):
    """Plans queries over empty tables in these schemas; the first is that of the store itself."""

    def __init__(
        self, schemas: Sequence[str] = (MAIN,), aliases: Sequence[str] = (), zone: tzinfo = UTC
    ) -> None:
        """Make the empty tables. Raises `MissingDependency` without DuckDB.

        `zone` must be that of the run: a plan has the times that dates without a zone mean there.
        """
        self._schemas = schemas
        self._aliases = aliases
        self._zone = zone
        self._con = self._connected()

    def _connected(self) -> duckdb.DuckDBPyConnection:
        con = connect(":memory:", self._zone, unoptimised=_UNCERTAIN)
        create_all(con, self._schemas, self._aliases)
        return con

    def close(self) -> None:
        """Forget the tables."""
        with left_if_busy():
            self._con.close()

    def _answer(self, query: str, seconds: float | None) -> BoundedAnswer:
        try:
            return BoundedAnswer(self._con, query, seconds)
        except (Refused, KeyboardInterrupt):
            # This one may be busy for long, and the next query needs one.
            self._con = self._connected()
            raise

    def statement(self, text: str) -> str:
        """Return the only statement of a text. Raises `UsageError` if it may do more than read."""
        with reported(text):
            found = self._con.extract_statements(text)
        if not found:
            raise UsageError("no query", hint="ckpt sql 'SELECT count(*) FROM threads'")
        if len(found) > 1:
            raise UsageError(f"{len(found)} statements", hint="ask one query at a time")
        kind = found[0].type.name
        if kind not in _RUNS:
            raise UsageError(
                f"cannot run {kind} here: the tables are only read",
                hint="use SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN",
            )
        query: str = found[0].query
        return query.strip().rstrip(";")

    def explains(self, query: str) -> bool:
        """Return whether a statement asks for a plan and not for rows."""
        return bool(self._con.extract_statements(query)[0].type.name == "EXPLAIN")

    @contextmanager
    def explained(self, query: str, seconds: float | None = None) -> Iterator[BoundedAnswer]:
        """Yield the answer to an EXPLAIN. Raises `ParseError`, `UsageError` or `Refused`."""
        with reported(query):
            try:
                self._con.execute("BEGIN TRANSACTION READ ONLY")
                # EXPLAIN ANALYZE runs the query.
                yield self._answer(query, seconds)
            finally:
                with left_if_busy():
                    self._con.rollback()

    def needs(self, query: str, seconds: float | None = None) -> list[TableNeed]:
        """Return what a query reads, each table once.

        Raises `ParseError` or `UsageError`, or `Refused` if planning takes longer than `seconds`:
        DuckDB calculates what is constant in it.
        """
        with reported(query, lines_before=1):
            plan = self._answer(f"EXPLAIN (FORMAT JSON)\n{query}", seconds)
            ((_, text),) = plan.fetchall()
        found: dict[tuple[str, str], TableNeed] = {}
        for node in _nodes(json.loads(text)):
            one = self._need(node.get("extra_info", {}))
            if one is None:
                continue
            known = found.get((one.schema, one.table))
            found[one.schema, one.table] = one if known is None else _either(known, one)
        return list(found.values())

    def _need(self, facts: dict[str, Any]) -> TableNeed | None:
        name = facts.get("Table")
        if name is None:
            return None
        *_, schema, table = (_unquoted(one) for one in _PART.findall(name))
        if schema not in self._schemas or table not in TABLES:
            return None
        filters = [self._condition(one) for one in _listed(facts.get("Filters"))]
        declared = TABLES[table]
        named = set(map(_unquoted, _listed(facts.get("Projections"))))
        if None in filters or not named <= set(declared.names):
            named = set(declared.names)
        named |= columns_in(filters)
        columns = tuple(one for one in declared.names if one in named) or declared.names[:1]
        bounds = reduce(RowBounds.both, map(bounds_in, filters), ALL_ROWS)
        return TableNeed(schema, table, columns, bounds)

    def _condition(self, text: str) -> Any:
        """Return a condition of a plan in parts; None if it is not as a query has it."""
        query = "SELECT 1 WHERE " + _OPTIONAL.sub(r"\1", text)
        ((found,),) = self._con.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
        parsed = json.loads(found)
        return None if parsed["error"] else parsed["statements"][0]["node"].get("where_clause")


def _either(one: TableNeed, two: TableNeed) -> TableNeed:
    names = {*one.columns, *two.columns}
    columns = tuple(name for name in TABLES[one.table].names if name in names)
    bounds = reduce(RowBounds.either, (one.bounds, two.bounds))
    return TableNeed(one.schema, one.table, columns, bounds)


def _nodes(nodes: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _nodes(node.get("children", ()))


def _listed(found: str | list[str] | None) -> list[str]:
    if found is None or found == "":
        return []
    return [found] if isinstance(found, str) else found


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
