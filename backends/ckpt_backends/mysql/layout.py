"""Recognises the layout of langgraph-checkpoint-mysql by the database's catalog.

| layout | savers | migrations | differences |
|---|---|---|---|
| `mysql` | 1.0 to 2.0.8 | 4 to 8 | keyed by `checkpoint_ns` |
| `mysql` | 2.0.9 | 14 | the namespace is in no key |
| `mysql` | 2.0.10, 2.0.11 | 17 | keyed by `checkpoint_ns_hash`, computed by the server |
| `mysql` | 2.0.12 to 3.0 | 21 | `checkpoint_ns_hash` computed by the saver; `task_path` |
| `mysql-shallow` | shallow savers | 10 | no checkpoint ids, no versions: newest state only |

The hash is the MD5 of the namespace, as 16 bytes. Source: `MIGRATIONS` of the savers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    NAMES,
    NEEDED,
    WRITES,
    BlobLayout,
    check_wanted,
    missing_columns,
    unknown_columns,
    unknown_tables,
)

FULL, SHALLOW = "mysql", "mysql-shallow"
HASH = "checkpoint_ns_hash"

_ALSO: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"type", HASH}),
    BLOBS: frozenset({HASH}),
    WRITES: frozenset({"task_path", HASH}),
}
_NEWEST = {FULL: 21, SHALLOW: 10}
"""By layout, the newest known migration."""
_GENERATIONS = (
    (4, "before 2.0.6"),
    (7, "2.0.6"),
    (8, "2.0.7 or 2.0.8"),
    (14, "2.0.9"),
    (17, "2.0.10 or 2.0.11"),
    (21, "2.0.12 or later"),
)
"""Releases of the saver by their last migration."""
_LOOKALIKE = re.compile(
    r"(?P<number>[\d.]+)-(?:(?P<name>[A-Za-z][\w ]*)-v(?P<own>\d\S*)|(?P<proxy>Vitess|PlanetScale))"
)
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class CatalogColumn:
    """A column, as described by the catalog."""

    kind: str
    """The type, such as `longtext`."""
    generated: bool = False
    """Whether the server computes it."""
    charset: str = ""
    collation: str = ""
    """Empty if the column is not text."""
    required: bool = False
    """Whether it has no default and must have a value."""


@dataclass(frozen=True, slots=True)
class MySQLTable:
    """A table of the database with its columns."""

    name: str
    columns: Mapping[str, CatalogColumn]

    @property
    def sql(self) -> str:
        """The quoted name for a query."""
        return quoted_name(self.name)

    @property
    def stored(self) -> list[str]:
        """The columns that the server does not compute."""
        return [name for name, column in self.columns.items() if not column.generated]


@dataclass(frozen=True, slots=True)
class MySQLLayout(BlobLayout[MySQLTable]):
    """The layout as found in one database. Migrations may be unknown, too."""

    migration: int | None
    """The last migration of the database; None if it cannot be read."""

    @property
    def name(self) -> str:
        return SHALLOW if self.shallow else FULL

    @property
    def hashed(self) -> bool:
        """Whether rows are keyed by the hash of the namespace. Older stores are read-only here."""
        return all(HASH in table.columns for table in self.tables)

    @property
    def ns(self) -> str:
        """The column with which rows of a namespace are found."""
        return HASH if self.hashed else "checkpoint_ns"

    @property
    def merging(self) -> str:
        """The collation of thread ids if different ids may be equal in it; otherwise `''`.

        For example, letter case or spaces at the end may be ignored.
        """
        collation = self.checkpoints.columns["thread_id"].collation
        exact = collation == "binary" or collation.endswith(("_nopad_bin", "_0900_bin"))
        return "" if exact else collation

    @property
    def saver(self) -> str:
        """The saver that probably created the tables, in words."""
        package = "langgraph-checkpoint-mysql"
        if self.shallow:
            return f"{package} 2.0.10 or later, shallow"
        if self.migration is not None:
            for number, release in _GENERATIONS:
                if self.migration <= number:
                    return f"{package} {release}"
        if self.task_path:
            return f"{package} 2.0.12 or later"
        return f"{package} {'2.0.10 or 2.0.11' if self.hashed else 'before 2.0.10'}"

    def ns_key(self, checkpoint_ns: str) -> bytes | str:
        """The value of the column `ns` for a namespace."""
        if not self.hashed:
            return checkpoint_ns
        return md5(checkpoint_ns.encode(), usedforsecurity=False).digest()


def detect(
    tables: Mapping[str, MySQLTable], migration: int | None, wanted: str | None, where: str
) -> MySQLLayout:
    """The layout of a database with these tables.

    Raises `UnknownLayout` if the tables are unknown, or if `wanted` is another layout.
    """
    if CHECKPOINTS not in tables:
        found = ", ".join(map(shell.word, sorted(tables)[:10])) or "no tables at all"
        raise UnknownLayout(f"no checkpoint tables in '{where}'", hint=f"found {found}")
    columns = {name: tables[name].columns.keys() for name in NAMES if name in tables}
    shallow = "checkpoint_id" not in columns[CHECKPOINTS]
    missing = missing_columns(columns, NEEDED[shallow])
    if shallow and not missing and not all(HASH in columns[name] for name in NAMES):
        missing = [HASH]
    if missing:
        raise unknown_tables(where, missing)
    extra = unknown_columns(columns, _ALSO)
    unknown = [f"column {name}" for name in extra]
    if migration is not None and migration > _NEWEST[SHALLOW if shallow else FULL]:
        unknown.append(f"migration {migration}")
    layout = MySQLLayout(
        tables[CHECKPOINTS],
        tables[BLOBS],
        tables[WRITES],
        shallow=shallow,
        migration=migration,
        unknown=tuple(unknown),
        required=tuple(one for one in extra if _is_required(tables, one)),
    )
    check_wanted(wanted, layout.name, where)
    return layout


def _is_required(tables: Mapping[str, MySQLTable], column: str) -> bool:
    table, _, name = column.partition(".")
    return tables[table].columns[name].required


def quoted_name(name: str) -> str:
    """The quoted name of a table or column for a query."""
    return "`" + name.replace("`", "``") + "`"


def storable(text: str) -> bool:
    """Whether the server can store a text. If not, no row can contain it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def bound(mark: str, column: CatalogColumn) -> str:
    """The placeholder `mark` for comparing a text parameter with a column.

    The server refuses to compare a text with a column if the column's character set cannot
    represent the text. So the text is converted to that character set. The conversion may change
    the text, so the caller must compare the rows that are found again, with `sql.exact`.
    """
    return mark if column.charset == "utf8mb4" else collated(mark, column)


def collated(mark: str, column: CatalogColumn) -> str:
    """The placeholder `mark` with the character set and the collation of a column; see `bound`."""
    if not _PLAIN_NAME.fullmatch(column.charset + column.collation):
        return mark
    return f"CONVERT({mark} USING {column.charset}) COLLATE {column.collation}"


def literal(text: str) -> str:
    """An SQL literal that can be pasted: what a terminal may alter is written as hex."""
    if shell.is_shown(text) and "\\" not in text:
        return "'" + text.replace("'", "''") + "'"
    return f"CONVERT(X'{text.encode('utf-8', 'replace').hex()}' USING utf8mb4)"


def engine_of(version: str) -> str:
    """Name and version of the engine, from the result of `VERSION()`.

    TiDB says `8.0.11-TiDB-v7.5.0`, OceanBase `5.7.25-OceanBase-v4.2.1`, Vitess `8.0.30-Vitess`.
    """
    if found := _LOOKALIKE.fullmatch(version):
        name = found["proxy"] or f"{found['name']} {found['own']}"
        return f"{name} (MySQL {found['number']})"
    number, mark, _ = version.partition("-MariaDB")
    return f"MariaDB {number}" if mark else f"MySQL {version}"


def is_lookalike(engine: str) -> bool:
    """Whether an engine, as `engine_of` names it, is neither MySQL nor MariaDB."""
    return not engine.startswith(("MySQL ", "MariaDB "))
