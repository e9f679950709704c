"""MySQL and MariaDB: the layouts that the catalog shows, and `WritableDatabase`.

The layouts are those of langgraph-checkpoint-mysql.

| layout | savers | migrations | differences |
|---|---|---|---|
| `mysql` | 1.0 to 2.0.8 | 4 to 8 | keyed by `checkpoint_ns` |
| `mysql` | 2.0.9 | 14 | the namespace is in no key |
| `mysql` | 2.0.10, 2.0.11 | 17 | keyed by `checkpoint_ns_hash`, computed by the server |
| `mysql` | 2.0.12 to 3.0 | 21 | `checkpoint_ns_hash` computed by the saver; `task_path` |
| `mysql-shallow` | shallow savers | 10 | no checkpoint ids, no versions: newest state only |

The hash is the MD5 of the namespace, as 16 bytes. Source: `MIGRATIONS` of the savers.

In queries, the names of tables and columns are formatted in; everything else is a parameter. In
most collations `Abc` equals `abc`. So rows of a thread are found with the index and then compared
again by their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import md5, sha256
from typing import TYPE_CHECKING

import pymysql

from ckpt_backends import shell
from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.errors import CkptError, StoreUnavailable, UnknownLayout
from ckpt_backends.model import Fault, HiddenRows, Progress, Space
from ckpt_backends.mysql.connect import (
    DENIED,
    DUPLICATE,
    READ_ONLY_CODES,
    UNFIT,
    UNSUPPORTED,
    MySQLConnection,
    code_of,
    explained,
    server_words,
    unavailable,
)
from ckpt_backends.sql.database import (
    HELD,
    Loaded,
    QueryRow,
    RowRefused,
    WritableDatabase,
    changed_meanwhile,
    committed,
    hidden_by_views,
    text,
    unsupported,
    unwritten,
)
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
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress


COLUMNS = """
    SELECT table_name, column_name, data_type, extra, character_set_name, collation_name,
           is_nullable = 'NO' AND column_default IS NULL
    FROM information_schema.columns WHERE table_schema = DATABASE()
    ORDER BY table_name, ordinal_position
"""
MIGRATION = "SELECT MAX(v) FROM checkpoint_migrations"


def exact(column: str) -> str:
    """The UTF-8 bytes of a text, for exact comparison and for sorting by code points."""
    return f"CAST(CONVERT({column} USING utf8mb4) AS BINARY)"


SHALLOW_ID = "JSON_UNQUOTE(JSON_EXTRACT(c.checkpoint, '$.id'))"


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
    def required(self) -> list[str]:
        return [name for name, column in self.columns.items() if column.required]

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
    unknown = [f"column {name}" for name in unknown_columns(columns, _ALSO)]
    if migration is not None and migration > _NEWEST[SHALLOW if shallow else FULL]:
        unknown.append(f"unknown migration {migration}")
    layout = MySQLLayout(
        tables[CHECKPOINTS],
        tables[BLOBS],
        tables[WRITES],
        shallow=shallow,
        migration=migration,
        unknown=tuple(unknown),
    )
    check_wanted(wanted, layout.name, where)
    return layout


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


def collated(mark: str, column: CatalogColumn) -> str:
    """The placeholder `mark` with the character set and the collation of a column."""
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


# Finds the tables of a database and their layout.


def find_tables(connection: MySQLConnection) -> dict[str, MySQLTable]:
    """The tables of the database, by their names."""
    columns: dict[str, dict[str, CatalogColumn]] = {}
    for table, column, kind, extra, charset, collation, must in connection.rows(COLUMNS):
        generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
        columns.setdefault(table, {})[column] = CatalogColumn(
            kind.lower(),
            generated,
            charset or "",
            collation or "",
            required=bool(must) and not generated and "AUTO_INCREMENT" not in extra.upper(),
        )
    return {name: MySQLTable(name, found) for name, found in columns.items()}


def find_layout(connection: MySQLConnection, tables: Mapping[str, MySQLTable]) -> MySQLLayout:
    """The layout of LangGraph's saver that the tables have. Raises `UnknownLayout`."""
    migration = None
    migrations = tables.get("checkpoint_migrations")
    if CHECKPOINTS in tables and migrations is not None and "v" in migrations.columns:
        ((migration,),) = connection.rows(MIGRATION)
    url = connection.url
    return detect(tables, migration, url.params.get("layout"), str(url))


# Runs the transaction of a change, locks threads, and converts the driver's errors.


_LOCK_SECONDS = 5
_LOCK = f"GET_LOCK({{}}, {_LOCK_SECONDS})"
_HOLDS = "IS_USED_LOCK({}) = CONNECTION_ID()"
_UNLOCK = "RELEASE_LOCK({})"


@contextmanager
def lock(connection: MySQLConnection, thread_ids: Collection[str]) -> Iterator[None]:
    """Hold the named locks of threads. The server also releases them if the connection ends.

    Raises `StoreUnavailable` if one cannot be acquired in `_LOCK_SECONDS`, and `Unsupported` if the
    server has no such locks. Some accept these statements and do nothing.
    """
    # In one order, so that two runs do not wait for each other.
    names = {f"n{n}": name for n, name in enumerate(sorted({*map(lock_name, thread_ids)}))}

    def query(function: str) -> str:
        return f"SELECT {', '.join(function.format(f'%({one})s') for one in names)}"

    if not names:
        yield
        return
    asked = connection.attempt(query(_LOCK), names)
    all_of_them = [(1,) * len(names)]
    is_held = asked == all_of_them
    if asked is None or (is_held and connection.attempt(query(_HOLDS), names) != all_of_them):
        raise unsupported(connection.url, "the server has no named locks that work as MySQL's do")
    try:
        # Start a new snapshot, to see what was committed while waiting for the locks.
        connection.restart()
        if not is_held:
            raise unwritten(connection.url, *HELD)
        yield
    finally:
        with suppress(StoreUnavailable):
            connection.rows(query(_UNLOCK), names)
            connection.restart()


def transaction(connection: MySQLConnection) -> AbstractContextManager[None]:
    """One transaction. Raises `StoreChanged` or `StoreUnavailable`; nothing is written then."""
    return committed(connection, (pymysql.Error, OSError), _refused, unavailable)


def _refused(url: StoreUrl, error: Exception) -> CkptError | None:
    match code_of(error):
        case 1062 | 1213:
            return changed_meanwhile(url)
        case 1205:
            return unwritten(url, *HELD)
        case code if code in DENIED:
            needed = "SELECT, INSERT and, for undo, DELETE on the three checkpoint tables"
            return unwritten(url, "permission denied", f"a change needs {needed}")
        case code if code in READ_ONLY_CODES:
            hint = "name the primary server in the URL"
            return unwritten(url, "the server is read-only", hint)
    return None


def lock_name(thread_id: str) -> str:
    """The name of a thread's lock.

    Named locks are shared by all databases of the server, so equal thread ids in two databases
    share a lock. That is harmless: one waits for the other.
    """
    return f"ckpt:{sha256(thread_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


# Erases removed rows from tables of MySQL and MariaDB, and names where they may still be.
#
# InnoDB marks a removed row, and frees its space later without overwriting it. OPTIMIZE TABLE
# writes the table to a new file.


_UNKNOWN = UNSUPPORTED | DENIED | {1109, 1146}
"""What servers answer that do not support or permit a query, or lack its table."""
_QUOTED = re.compile("'[^']*'")
_FREE_SPACE = Remaining(
    "free space in tables and indexes",
    "InnoDB frees the space of removed rows later, and overwrites it when it reuses it;"
    " OPTIMIZE TABLE, or --rewrite, erases it",
    needs_rewrite=True,
)
_INNODB_LOGS = Remaining(
    "undo, redo and doublewrite files", "they hold removed rows until the server reuses their space"
)
_REPLICAS = ("SHOW REPLICAS", "SHOW SLAVE HOSTS")
_HISTOGRAMS = (
    "SELECT 1 FROM information_schema.column_statistics WHERE schema_name = DATABASE() LIMIT 1",
    "SELECT 1 FROM mysql.column_stats WHERE db_name = DATABASE() AND histogram IS NOT NULL LIMIT 1",
)
"""For MySQL, and for MariaDB."""


def erase_remains(
    connection: MySQLConnection, tables: Sequence[str], *, rewrite: bool, progress: Progress
) -> Remains:
    """With `rewrite`, write the tables anew. Raises `pymysql.Error` and `StoreUnavailable`."""
    done: list[str] = []
    places: list[Remaining] = [] if rewrite else [_FREE_SPACE]
    for table in tables if rewrite else ():
        statement = f"OPTIMIZE TABLE {table}"
        progress(statement)
        try:
            answers = connection.optimize(table)
            why = next((text for *_, kind, text in answers if kind.lower() == "error"), "")
            is_denied = False
        except pymysql.Error as error:
            if connection.is_lost:
                raise
            why, is_denied = server_words(error, connection.url), code_of(error) in DENIED
        if why:
            # The server may quote a key.
            why = _QUOTED.sub("'...'", why)
            places.append(Remaining(f"table {table}", why, is_reachable=not is_denied))
        else:
            done.append(statement)
    return Remains(tuple(done), (*places, *_elsewhere(connection), FREED_BLOCKS, BACKUPS))


def _elsewhere(connection: MySQLConnection) -> Iterator[Remaining]:
    """The logs of the server, and what is made from them."""
    yield _INNODB_LOGS
    if _first(connection, ["SELECT @@innodb_file_per_table"]) == [(0,)]:
        yield Remaining(
            "shared tablespace (ibdata1)", "pages of tables in it are not overwritten when freed"
        )
    logs = _first(connection, ["SELECT @@log_bin"])
    if logs != [(0,)]:
        reason = "it holds what was stored until the server purges it"
        untold = "the server does not say whether it writes one; "
        yield Remaining("binary log", reason if logs else untold + reason)
    replicas = _first(connection, _REPLICAS)
    if replicas:
        reason = "each has logs and backups of its own"
        yield Remaining("replicas", f"it has {len(replicas)}; {reason}")
    elif replicas is None and logs != [(0,)]:
        yield Remaining("replicas", "the server does not say whether it has some")
    if _first(connection, _HISTOGRAMS):
        yield Remaining(
            "histograms of columns",
            "they hold samples; ANALYZE TABLE ... DROP HISTOGRAM removes them",
        )


def _first(connection: MySQLConnection, queries: Sequence[str]) -> list[QueryRow] | None:
    """The rows of the first query that the server supports and permits; None if there is none."""
    for query in queries:
        found = connection.attempt(query, expected=_UNKNOWN)
        if found is not None:
            return found
    return None


# Writes statements that add many rows at once.


_STATEMENT = 1 << 20
"""Approximate length of a statement in bytes. A longer row has a statement of its own."""


def statements(
    head: bytes, are_bytes: Sequence[bool], rows: Sequence[Loaded], longest: int
) -> Iterator[tuple[bytes, Sequence[Loaded]]]:
    """Statements that add the rows, each with its rows.

    `head` is the statement up to `VALUES`, `are_bytes` says for each column whether it stores bytes
    and not text, and `longest` is the length that the server allows. Raises `RowRefused`.
    """
    texts: list[bytes] = []
    start, size = 0, len(head)
    for n, row in enumerate(rows):
        try:
            text = b"(" + b", ".join(map(_literal, row, are_bytes)) + b")"
        except UnicodeEncodeError as error:
            raise RowRefused(
                row, f"the server stores no lone surrogates ({error.reason})"
            ) from None
        if len(head) + len(text) + 1 > longest:
            limit = f"max_allowed_packet of {longest} bytes"
            raise RowRefused(row, f"its row is longer than the server's {limit}")
        if texts and size + len(text) > min(_STATEMENT, longest):
            yield head + b", ".join(texts), rows[start:n]
            texts, start, size = [], n, len(head)
        texts.append(text)
        size += len(text) + 2
    if texts:
        yield head + b", ".join(texts), rows[start:]


def _literal(cell: object, is_bytes: bool) -> bytes:
    """A cell as an SQL literal, for sessions in which backslashes escape."""
    if cell is None:
        return b"NULL"
    if isinstance(cell, int):
        return b"%d" % cell
    data = cell if isinstance(cell, bytes) else str(cell).encode()
    quoted = b"'" + data.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"
    return b"_binary" + quoted if is_bytes else quoted


_REPEATABLE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""Isolation of the next transaction."""
_SIZE = """
    SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN %(names)s
"""
_WITH_THREAD_IDS = """
    SELECT DISTINCT table_name FROM information_schema.columns
    WHERE column_name = 'thread_id' AND table_schema = DATABASE()
"""


_VIEWS = """
    SELECT table_name, view_definition FROM information_schema.views
    WHERE table_schema = DATABASE()
"""
"""A definition is empty for a user without the right to see it."""
_UNUSED = """
    SELECT table_name, data_free, data_length + index_length + data_free
    FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name IN %(names)s AND @@innodb_file_per_table
"""
"""If tables share a file, each reports the free space of that file."""


class MySQLDatabase(MySQLConnection, WritableDatabase):
    """A database, opened for reading or for changing."""

    insert_missing = (
        "INSERT INTO {table} ({columns}) VALUES ({values})"
        " ON DUPLICATE KEY UPDATE thread_id = thread_id"
    )
    lock_rows = "FOR UPDATE"
    """In REPEATABLE READ it locks rows and the gaps between them."""

    def __init__(self, connection: MySQLConnection, tables: Mapping[str, MySQLTable]) -> None:
        super().__init__(connection.driver, connection.url, connection.ways)
        self.begun, self.enforces_read_only = connection.begun, connection.enforces_read_only
        self._tables = tables
        self._views: Mapping[str, str] | None = None
        self._longest = 0
        """The longest statement in bytes; 0 if it is not known yet."""
        self._columns = {
            name: column
            for table in (WRITES, BLOBS, CHECKPOINTS)
            for name, column in tables[table].columns.items()
        }

    @property
    def views(self) -> Mapping[str, str]:
        """The definition of each view of the database."""
        if self._views is None:
            found = self.attempt(_VIEWS) or ()
            self._views = {text(name): text(definition) for name, definition in found}
        return self._views

    def hidden_rows(self) -> Sequence[HiddenRows]:
        names = [one.name for one in self._tables.values()]
        return list(hidden_by_views(names, self.views))

    def mark(self, name: str) -> str:
        return f"%({name})s"

    def same(self, column: str, name: str) -> str:
        # The first comparison uses the index; there, `abc` may equal `ABC`.
        mark = self.comparable(column, name)
        return f"({column} = {mark} AND {exact(column)} = {exact(self.mark(name))})"

    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        found = sorted(filter(storable, {*texts}))
        if not found:
            return "FALSE", {}
        values: dict[str, object] = {f"{name}{n}": one for n, one in enumerate(found)}
        marks = ", ".join(self.comparable(column, mark) for mark in values)
        values[name] = tuple(one.encode() for one in found)
        return f"({column} IN ({marks}) AND {exact(column)} IN %({name})s)", values

    def comparable(self, column: str, name: str) -> str:
        """The placeholder for a parameter that is compared with a column."""
        known, mark = self._columns.get(column.removeprefix("c.")), self.mark(name)
        # The server refuses to compare a text with a column whose character set cannot represent
        # it. The conversion may change the text, so what is found is compared again, with `exact`.
        return mark if known is None or known.charset == "utf8mb4" else collated(mark, known)

    def collated(self, column: str, name: str) -> str:
        """A text parameter as a column of a derived table that is joined on this column."""
        known = self._columns.get(column)
        return self.mark(name) if known is None else collated(self.mark(name), known)

    def as_in(self, table: str, column: str, other: str) -> str:
        found = [one.columns[column] for one in self._tables.values() if column in one.columns]
        if len({one.collation for one in found}) < 2:
            return other
        return collated(other, self._tables[table].columns[column])

    def exact(self, column: str) -> str:
        return exact(column)

    def quoted(self, name: str) -> str:
        return quoted_name(name)

    def literal(self, text: str) -> str:
        return literal(text)

    def storable(self, text: str) -> bool:
        return storable(text)

    def engine(self) -> str:
        ((version,),) = self.rows("SELECT VERSION()", {})
        return engine_of(version)

    def holds(self, column: str, names: Sequence[str]) -> str:
        # LOCATE compares bytes if one of the two is binary.
        marks = map(self.mark, names)
        return f"({' OR '.join(f'LOCATE({one}, {column}) > 0' for one in marks)})"

    def space(self, tables: Sequence[str]) -> Space:
        ((size,),) = self.rows(_SIZE, {"names": tuple(tables)})
        # OceanBase answers 0 until it has written the table to disk.
        return Space(int(size or 0) or None)

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        """The tables with much unused space."""
        from ckpt_backends.sql.health import unused_space

        if is_lookalike(self.engine()):
            return
        for table, free, size in self.attempt(_UNUSED, {"names": tuple(tables)}) or ():
            fix = f"OPTIMIZE TABLE {table};"
            yield from unused_space(f"table '{table}'", int(free or 0), int(size or 0), fix)

    @contextmanager
    def transaction(
        self, thread_ids: Sequence[str] = (), *, exclusive: bool = False
    ) -> Iterator[None]:
        with lock(self, thread_ids):
            if exclusive and is_lookalike(self.engine()):
                # TiDB and OceanBase lock rows, but not the gaps in which savers add others.
                reason = f"removing rows needs locks that {self.engine()} may not have"
                raise unsupported(self.url, reason)
            with transaction(self):
                if exclusive:
                    self.alone(_REPEATABLE)
                yield

    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:
        if not self._longest:
            ((longest,),) = self.rows("SELECT @@max_allowed_packet", {})
            self._longest = int(longest)
        listed = ", ".join(map(quoted_name, columns))
        head = f"INSERT INTO {sql} ({listed}) VALUES ".encode()
        own = self._tables[table].columns
        are_bytes = [own[column].kind.endswith(("blob", "binary")) for column in columns]
        for statement, of_rows in statements(head, are_bytes, rows, self._longest):
            try:
                self.send(statement)
            except pymysql.Error as error:
                if code_of(error) not in UNFIT:
                    raise
                # The server says which column, but not always which row.
                for row in of_rows:
                    self._load_one(head, are_bytes, row)

    def _load_one(self, head: bytes, are_bytes: Sequence[bool], row: Loaded) -> None:
        ((statement, _),) = statements(head, are_bytes, [row], self._longest)
        try:
            self.send(statement)
        except pymysql.Error as error:
            if code_of(error) not in UNFIT:
                raise
            reason = str(error.args[-1])
            if code_of(error) == DUPLICATE:
                reason = "its key is equal to another one in the collation of the server"
            raise RowRefused(row, reason) from None

    def given(self, table: str, column: str, name: str, cell: object) -> str:  # noqa: ARG002
        return self.mark(name)

    def is_given(self, table: str, column: str, name: str, cell: object) -> str:  # noqa: ARG002
        if isinstance(cell, str) and not column.startswith("gmt_"):
            return f"{exact(self.quoted(column))} <=> {exact(self.mark(name))}"
        return f"{self.quoted(column)} <=> {self.mark(name)}"

    def json_member(self, column: str, name: str) -> str:
        return f"JSON_EXTRACT({column}, '$.{name}')"

    def vacuum(self, tables: Sequence[str]) -> None:
        with explained(self.url):
            for table in tables:
                for _, _, kind, text in self.optimize(table):
                    if str(kind).lower() == "error":
                        raise StoreUnavailable(f"cannot vacuum '{self.url}': {text}")

    def tables_with_thread_ids(self) -> list[str]:
        return [str(name) for (name,) in self.attempt(_WITH_THREAD_IDS) or ()]

    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:

        with explained(self.url):
            return erase_remains(self, tables, rewrite=rewrite, progress=progress)
