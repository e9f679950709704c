"""Recognises the PostgreSQL layout of a database by its catalog.

The columns are used, because the number in `checkpoint_migrations` is ambiguous: releases 2.0.8 to
2.0.12 numbered their migrations differently.

| layout | savers | differences |
|---|---|---|
| `postgres` | PostgresSaver 1.0 to 3.2, LangGraph.js | `task_path` only since 2.0.12, not in JS |
| `postgres-shallow` | ShallowPostgresSaver | no checkpoint ids, no versions: newest state only |
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.memory import STORE
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    NAMES,
    NEEDED,
    WRITES,
    BlobLayout,
    check_wanted,
    missing_columns,
    too_old,
    unknown_columns,
    unknown_tables,
    why_only_read,
)

FULL, SHALLOW = "postgres", "postgres-shallow"
_LOOKALIKE = re.compile(r"PostgreSQL (?P<number>[\d.]+)-(?P<name>[A-Za-z]+)-(?P<own>\S+)")
UUID = "uuid"
KEYS = ("thread_id", "checkpoint_id")
"""The ids by which rows are found."""
_IDS = (*KEYS, "parent_checkpoint_id", "task_id")
_OF_SERVER = "these tables are of LangGraph's Agent Server, which keeps others beside them"
UUID_FORM = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_SHORT_NAMES = {"YB": "YugabyteDB"}

_ALSO: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"type"}),
    BLOBS: frozenset(),
    WRITES: frozenset({"task_path"}),
}


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of the database with its columns."""

    schema: str
    name: str
    columns: Mapping[str, str]
    """By column, its type, such as `jsonb` or `public.vector`."""
    required: frozenset[str] = frozenset()
    """The columns without a default that must have a value."""

    @property
    def stored(self) -> Collection[str]:
        return self.columns

    @property
    def sql(self) -> str:
        """The quoted name with schema for a query."""
        return f"{quoted_name(self.schema)}.{quoted_name(self.name)}"


class TableWithUuids(PostgresTable):
    """A table in which ids are of the type `uuid`, such as those of LangGraph's Agent Server."""

    __slots__ = ()

    @property
    def sql(self) -> str:
        """A subquery with these ids as text, and each as it is stored, as `uuid_thread_id`."""
        listed = []
        for column, kind in self.columns.items():
            name = quoted_name(column)
            listed.append(f"{name}::text AS {name}" if kind == UUID else name)
            if kind == UUID and column in KEYS:
                listed.append(f"{name} AS {uuid_of(column)}")
        return f"(SELECT {', '.join(listed)} FROM {super().sql})"


def uuid_of(column: str) -> str:
    """The column of a `TableWithUuids` that has an id as it is stored, which its index has."""
    return f"uuid_{column}"


def uuids_of(tables: Iterable[PostgresTable]) -> frozenset[str]:
    """The columns of `KEYS` that are of the type `uuid` in all of the tables that have them.

    None in the shallow layout, whose checkpoints are read through a subquery without them.
    """
    stored = list(tables)
    if any(one.name == CHECKPOINTS and "checkpoint_id" not in one.columns for one in stored):
        return frozenset()
    return frozenset(
        column
        for column in KEYS
        if {one.columns[column] for one in stored if column in one.columns} == {UUID}
    )


@dataclass(frozen=True, slots=True)
class PostgresLayout(BlobLayout[PostgresTable]):
    """The layout as found in one database."""

    @property
    def name(self) -> str:
        return SHALLOW if self.shallow else FULL

    @property
    def has_uuids(self) -> bool:
        """Whether some ids are not text, as no saver of the library stores them."""
        return any(one.columns.get(name) == UUID for one in self.tables for name in _IDS)

    @property
    def of_server(self) -> bool:
        """Whether LangGraph's Agent Server made the tables: they name the run of a checkpoint."""
        return self.has_uuids and "run_id" in self.checkpoints.columns

    @property
    def only_read(self) -> str:
        return _OF_SERVER if self.of_server else why_only_read(self.unknown, self.required)

    def with_text_ids(self) -> PostgresLayout:
        """The layout as queries see it: its ids are text."""
        if not self.has_uuids:
            return self
        parts = [TableWithUuids(one.schema, one.name, one.columns) for one in self.tables]
        checkpoints, blobs, writes = parts
        return replace(self, checkpoints=checkpoints, blobs=blobs, writes=writes)


def detect(
    tables: Iterable[PostgresTable], schemas: Sequence[str], wanted: str | None, where: str
) -> PostgresLayout:
    """The layout of a database with these tables, each from the first schema that contains it.

    Raises `UnknownLayout` if the tables are unknown, or if `wanted` is another layout.
    """
    every = list(tables)
    found = {
        name: table
        for name in NAMES
        for schema in reversed(schemas)
        for table in every
        if (table.schema, table.name) == (schema, name)
    }
    if CHECKPOINTS not in found:
        raise _no_tables(every, schemas, where)
    columns = {name: table.columns.keys() for name, table in found.items()}
    if "thread_ts" in columns[CHECKPOINTS]:
        raise too_old(where)
    shallow = "checkpoint_id" not in columns[CHECKPOINTS]
    missing = missing_columns(columns, NEEDED[shallow])
    if not missing:
        missing = [
            f"{CHECKPOINTS}.{column} of type jsonb"
            for column in ("checkpoint", "metadata")
            if found[CHECKPOINTS].columns[column] != "jsonb"
        ]
    if missing:
        raise unknown_tables(where, missing)
    unknown = unknown_columns(columns, _ALSO)
    layout = PostgresLayout(
        found[CHECKPOINTS],
        found[BLOBS],
        found[WRITES],
        shallow=shallow,
        unknown=unknown,
        required=tuple(one for one in unknown if _is_required(found, one)),
    )
    if layout.has_uuids:
        layout = replace(layout, unknown=(*unknown, "ids of the type uuid"))
    check_wanted(wanted, layout.name, where)
    return layout


def _is_required(tables: Mapping[str, PostgresTable], column: str) -> bool:
    table, _, name = column.partition(".")
    return name in tables[table].required


def _no_tables(
    tables: Sequence[PostgresTable], schemas: Sequence[str], where: str
) -> UnknownLayout:
    elsewhere = sorted(
        {table.schema for table in tables if table.name == CHECKPOINTS} - set(schemas)
    )
    looked = f"looked in {_list(schemas)}"
    if elsewhere:
        param = quote(elsewhere[0], safe="")
        hint = f"{looked}; found some in {_list(elsewhere)}: add ?schema={param} to the URL"
    else:
        here = sorted({table.name for table in tables if table.schema in schemas})
        hint = f"{looked}, found {', '.join(map(shell.word, here[:10])) or 'no tables at all'}"
        if STORE in here:
            from ckpt_backends.memory import HINT

            hint = f"{hint}; {HINT}"
    return UnknownLayout(f"no checkpoint tables in '{where}'", hint=hint)


def _list(schemas: Sequence[str]) -> str:
    if not schemas:
        return "no schema that exists and is readable"
    return f"schema{'s' if len(schemas) > 1 else ''} " + ", ".join(map(shell.name, schemas))


def quoted_name(name: str) -> str:
    """The quoted name of a table, column or type for a query."""
    return '"' + name.replace('"', '""') + '"'


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID as PostgreSQL prints it; another one is equal to no stored id."""
    return re.fullmatch(UUID_FORM[1:-1], text) is not None


def storable(text: str) -> bool:
    """Whether PostgreSQL can store a text. If not, no row can contain it."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def engine_of(version: str) -> str:
    """Name and version of the engine, from the result of `version()`.

    PostgreSQL says `PostgreSQL 18.0 on x86_64-...`, YugabyteDB `PostgreSQL 15.2-YB-2.25.0.0-b0 on
    ...`, CockroachDB `CockroachDB CCL v25.2.0 (x86_64-..., built ...)`.
    """
    named, mark, _ = version.partition(" on ")
    named = named if mark else version.partition(" (")[0]
    if found := _LOOKALIKE.fullmatch(named):
        name = _SHORT_NAMES.get(found["name"], found["name"])
        return f"{name} {found['own']} (PostgreSQL {found['number']})"
    return named
