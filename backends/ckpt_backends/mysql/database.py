"""Implements `WritableDatabase` for MySQL and MariaDB."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pymysql

from ckpt_backends.base import OnConnection
from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.model import Fault, HiddenRows, Progress, Space, in_batches, in_chunks
from ckpt_backends.mysql import queries as sql
from ckpt_backends.mysql.connect import (
    DEADLOCK,
    DENIED,
    DUPLICATE,
    LOCKED,
    READ_ONLY_CODES,
    UNFIT,
    UNSUPPORTED,
    MySQLConnection,
    code_of,
    explained,
    server_words,
    unavailable,
)
from ckpt_backends.mysql.layout import (
    HASH,
    CatalogColumn,
    MySQLLayout,
    MySQLTable,
    bound,
    collated,
    detect,
    engine_of,
    is_lookalike,
    literal,
    quoted_name,
    storable,
)
from ckpt_backends.mysql.queries import SHALLOW_ID, exact
from ckpt_backends.sql.database import (
    Loaded,
    QueryRow,
    RowRefused,
    Values,
    WritableDatabase,
    hidden_by_views,
    text,
)
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress


# Finds the tables of a database and their layout.


def find_tables(connection: MySQLConnection) -> dict[str, MySQLTable]:
    """The tables of the database, by their names."""
    columns: dict[str, dict[str, CatalogColumn]] = {}
    for table, column, kind, extra, charset, collation, must in connection.rows(sql.COLUMNS):
        generated = "GENERATED" in extra.upper() and "DEFAULT_GENERATED" not in extra.upper()
        columns.setdefault(table, {})[column] = CatalogColumn(
            kind.lower(),
            generated,
            charset or "",
            collation or "",
            required=bool(must) and not generated and "AUTO_INCREMENT" not in extra.upper(),
        )
    return {name: MySQLTable(name, found) for name, found in columns.items()}


def find_layout(
    connection: MySQLConnection, tables: Mapping[str, MySQLTable], url: StoreUrl
) -> MySQLLayout:
    """The layout of LangGraph's saver that the tables have. Raises `UnknownLayout`."""
    migration = None
    migrations = tables.get("checkpoint_migrations")
    if CHECKPOINTS in tables and migrations is not None and "v" in migrations.columns:
        ((migration,),) = connection.rows(sql.MIGRATION)
    return detect(tables, migration, url.params.get("layout"), str(url))


# Runs the transaction of a change, locks threads, and converts the driver's errors.


_LOCK_SECONDS = 5
_LOCK = "SELECT GET_LOCK(%(name)s, %(seconds)s)"
_HOLDS = "SELECT IS_USED_LOCK(%(name)s) = CONNECTION_ID()"
_UNLOCK = "SELECT RELEASE_LOCK(%(name)s)"


@contextmanager
def lock(connection: MySQLConnection, url: StoreUrl, thread_id: str) -> Iterator[None]:
    """Hold the named lock of a thread. The server also releases it if the connection ends.

    Raises `StoreUnavailable` if it cannot be acquired in `_LOCK_SECONDS`, and `Unsupported` if the
    server has no such locks. Some accept these statements and do nothing.
    """
    name = lock_name(thread_id)
    asked = connection.attempt(_LOCK, {"name": name, "seconds": _LOCK_SECONDS})
    got = None if asked is None else asked[0][0]
    if asked is None or (got == 1 and connection.attempt(_HOLDS, {"name": name}) != [(1,)]):
        raise unsupported(url, "the server has no named locks that work as MySQL's do")
    # Start a new snapshot, to see what was committed while waiting for the lock.
    connection.restart()
    if got != 1:
        raise _locked(url)
    try:
        yield
    finally:
        with suppress(StoreUnavailable):
            connection.rows(_UNLOCK, {"name": name})
            connection.restart()


@contextmanager
def transaction(connection: MySQLConnection, url: StoreUrl) -> Iterator[MySQLConnection]:
    try:
        yield connection
        connection.commit()
    except BaseException as error:
        connection.restart_quietly()
        if isinstance(error, pymysql.Error | OSError):
            raise _explained(url, error) from None
        raise


def unsupported(url: StoreUrl, reason: str) -> Unsupported:
    """The error for a server that lacks what a change needs."""
    return Unsupported(
        f"cannot write to '{url}': {reason}",
        hint='ckpt reads this store; see "Servers that speak these protocols" in docs/stores.md',
    )


def _locked(url: StoreUrl) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot write to '{url}': another session holds a lock",
        hint="another command may be changing this thread; run the command again",
    )


def _explained(url: StoreUrl, error: Exception) -> StoreChanged | StoreUnavailable:
    code = code_of(error)
    if code in {DUPLICATE, DEADLOCK}:
        return StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written", hint="run the command again"
        )
    if code == LOCKED:
        return _locked(url)
    if code in DENIED:
        return StoreUnavailable(
            f"cannot write to '{url}': permission denied",
            hint="a change needs SELECT, INSERT and, for undo, DELETE on the three"
            " checkpoint tables",
        )
    if code in READ_ONLY_CODES:
        return StoreUnavailable(
            f"cannot write to '{url}': the server is read-only",
            hint="name the primary server in the URL",
        )
    found = unavailable(url, error)
    found.message = f"{found.message}; nothing was written"
    return found


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
    connection: MySQLConnection,
    url: StoreUrl,
    tables: Sequence[str],
    *,
    rewrite: bool,
    progress: Progress,
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
            why, is_denied = server_words(error, url), code_of(error) in DENIED
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
    start = size = 0
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


class MySQLDatabase(OnConnection[MySQLConnection], WritableDatabase):
    """A database, opened for reading or for changing."""

    insert_missing = (
        "INSERT INTO {table} ({columns}) VALUES ({values})"
        " ON DUPLICATE KEY UPDATE thread_id = thread_id"
    )
    lock_rows = "FOR UPDATE"
    """In REPEATABLE READ it locks rows and the gaps between them."""

    def __init__(
        self, connection: MySQLConnection, url: StoreUrl, tables: Mapping[str, MySQLTable]
    ) -> None:
        super().__init__(connection, url)
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
            found = self.attempt(_VIEWS, {}) or ()
            self._views = {text(name): text(definition) for name, definition in found}
        return self._views

    def hidden_rows(self) -> Sequence[HiddenRows]:
        names = [one.name for one in self._tables.values()]
        return list(hidden_by_views(names, self.views))

    def rows(self, query: str, values: Values) -> list[QueryRow]:
        return self._connection.rows(query, values)

    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:  # noqa: ARG002
        return self._connection.stream(query, values)

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
        known = self._columns.get(column.removeprefix("c."))
        return self.mark(name) if known is None else bound(self.mark(name), known)

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

    @property
    def enforces_read_only(self) -> bool:
        return self._connection.is_read_only

    def space(self, tables: Sequence[str]) -> Space:
        ((size,),) = self.rows(_SIZE, {"names": tuple(tables)})
        # OceanBase answers 0 until it has written the table to disk.
        return Space(int(size or 0) or None)

    def attempt(
        self, query: str, values: Values, *, expected: Collection[int] = UNSUPPORTED
    ) -> list[QueryRow] | None:
        """All rows of a short result; None if the server does not support the query.

        `expected` are the error codes that say so.
        """
        return self._connection.attempt(query, values, expected=expected)

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:
        """The tables with much unused space."""
        from ckpt_backends.sql.health import unused_space

        if is_lookalike(self.engine()):
            return
        for table, free, size in self.attempt(_UNUSED, {"names": tuple(tables)}) or ():
            fix = f"OPTIMIZE TABLE {table};"
            yield from unused_space(f"table '{table}'", int(free or 0), int(size or 0), fix)

    def restart(self) -> None:
        self._connection.restart()

    @contextmanager
    def transaction(
        self, thread_id: str | None = None, *, exclusive: bool = False
    ) -> Iterator[None]:
        connection = self._connection
        with ExitStack() as stack:
            if thread_id is not None:
                stack.enter_context(lock(connection, self._url, thread_id))
            if exclusive and is_lookalike(self.engine()):
                # TiDB and OceanBase lock rows, but not the gaps in which savers add others.
                reason = f"removing rows needs locks that {self.engine()} may not have"
                raise unsupported(self._url, reason)
            with transaction(connection, self._url):
                if exclusive:
                    connection.alone(_REPEATABLE)
                yield

    def change(self, query: str, values: Values) -> int:
        return self._connection.change(query, values)

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
                self._connection.load(statement)
            except pymysql.Error as error:
                if code_of(error) not in UNFIT:
                    raise
                # The server says which column, but not always which row.
                for row in of_rows:
                    self._load_one(head, are_bytes, row)

    def _load_one(self, head: bytes, are_bytes: Sequence[bool], row: Loaded) -> None:
        ((statement, _),) = statements(head, are_bytes, [row], self._longest)
        try:
            self._connection.load(statement)
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
        with explained(self._url):
            for table in tables:
                for _, _, kind, text in self._connection.optimize(table):
                    if str(kind).lower() == "error":
                        raise StoreUnavailable(f"cannot vacuum '{self._url}': {text}")

    def tables_with_thread_ids(self) -> list[str]:
        return [str(name) for (name,) in self._connection.attempt(_WITH_THREAD_IDS) or ()]

    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:

        with explained(self._url):
            return erase_remains(
                self._connection, self._url, tables, rewrite=rewrite, progress=progress
            )


# Reads rows by their keys: up to `AT_ONCE` rows with one query, and fewer if they are large.


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
        for some in in_batches(places, itemgetter(0), _BYTES_AT_ONCE, AT_ONCE):
            chunk = [place for _, place in some]
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


# Faults of a server's settings and collations with which the official saver cannot load.
#
# The saver lets the server put the values, and the writes, of a checkpoint into one JSON text
# (`SELECT_SQL` in `langgraph/checkpoint/mysql/base.py`).
#
# - It compares the names of channels that JSON_TABLE gives, in the default collation of utf8mb4,
#   with
#   columns. The server refuses to compare two columns of different collations.
# - MariaDB cuts the text at `group_concat_max_len` and at `max_allowed_packet`, without an error.
#   The
#   saver cannot parse the rest.
# - MariaDB puts NULL in the place of a value whose base64 form is longer than `max_allowed_packet`.
#   The saver takes this for a channel without a value.
#
# Whether MySQL has such limits is not known, so there only collations are compared.


_MIXED = frozenset({1267, 1270, 1271})
"""What servers answer if columns of different collations are compared."""
_TABLE = "JSON_TABLE({keys}, '$[*]' COLUMNS (channel VARCHAR(150) CHARACTER SET utf8mb4 PATH '$'))"
_CHANNELS = _TABLE.format(keys="JSON_KEYS(c.checkpoint, '$.channel_versions')")
_VERSION = """
    JSON_UNQUOTE(JSON_EXTRACT(c.checkpoint,
                              CONCAT('$.channel_versions.', '"', channels.channel, '"')))
"""
_WANTED = f"""SELECT COLLATION(channel) FROM {_TABLE.format(keys="'[1]'")} named"""
_PROBE = f"""
    WITH named AS (
        SELECT c.thread_id, {{own_id}} AS checkpoint_id, channels.channel, {_VERSION} AS version
        FROM {{checkpoints}} c, {_CHANNELS} AS channels
    )
    SELECT 1 FROM {{checkpoints}} c WHERE c.thread_id = '' AND (
        EXISTS (SELECT 1 FROM named JOIN {{blobs}} b ON b.channel = named.channel {{same_version}}
                WHERE b.thread_id = c.thread_id AND named.thread_id = c.thread_id)
        OR EXISTS (SELECT 1 FROM {{writes}} w
                   WHERE w.thread_id = c.thread_id AND w.checkpoint_id = {{own_id}}))
"""
"""The comparisons of the saver's query. It reads nothing."""
_HEADS = f"""
    (SELECT thread_id, {HASH}, MAX(checkpoint_id) AS newest FROM {{checkpoints}}
     GROUP BY thread_id, {HASH}) h
    JOIN {{checkpoints}} c
    ON c.thread_id = h.thread_id AND c.{HASH} = h.{HASH} AND c.checkpoint_id = h.newest
"""
_ENCODED = "4 * CEIL(OCTET_LENGTH(o.`blob`) / 3)"
_BREAKS = f"GREATEST(0, FLOOR(({_ENCODED} - 1) / 76))"
"""TO_BASE64 breaks lines after 76 characters. In JSON, a break has two."""
_LONG = f"""
    SELECT {exact("c.thread_id")}, SUM({_ENCODED} + 2 * {_BREAKS} + {{names}}) - 1 AS whole,
           MAX({_ENCODED} + {_BREAKS} + 1) AS longest
    FROM {{heads}} {{joined}}
    GROUP BY c.thread_id, c.{HASH} HAVING whole > %(most)s OR longest > %(packet)s
"""
_VALUES = f"""
    JOIN {_CHANNELS} AS channels
    JOIN {{blobs}} o ON o.thread_id = c.thread_id AND o.{HASH} = c.{HASH}
         AND o.channel = channels.channel {{same_version}}
"""
_NAMES_OF_VALUES = "OCTET_LENGTH(o.channel) + OCTET_LENGTH(o.type) + 13"
_WRITES = f"""
    JOIN {{writes}} o ON o.thread_id = c.thread_id AND o.{HASH} = c.{HASH}
         AND o.checkpoint_id = {{own_id}}
"""
_NAMES_OF_WRITES = (
    "OCTET_LENGTH(o.task_id) + OCTET_LENGTH(o.channel) + COALESCE(OCTET_LENGTH(o.type), 0) + 20"
)
"""With the punctuation of MariaDB's JSON functions."""
_MOST_PACKET = 1 << 30


class _Long(NamedTuple):
    """What the head of a thread needs of the server, in bytes."""

    thread_id: str
    whole: int
    longest: int


def limit_faults(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[Fault]:
    """`saver-limit`, if the server cannot answer the query with which the saver loads.

    Looks at the values and writes of the newest checkpoint of each namespace, by their lengths.
    """
    if not layout.hashed or layout.unknown or database.views:
        return
    probe = _PROBE.format(**_terms(layout, "AND b.version = named.version"))
    try:
        is_mixed = database.attempt(probe, {}, expected=_MIXED) is None
    except StoreUnavailable:  # A server without JSON_TABLE, for which there are older savers.
        return
    if is_mixed:
        yield _mixed_collations(database, layout)
    elif database.engine().startswith("MariaDB "):
        yield from _setting_faults(database, layout)


def _terms(layout: MySQLLayout, version: str) -> dict[str, str]:
    return {
        "checkpoints": layout.checkpoints.sql,
        "blobs": layout.blobs.sql,
        "writes": layout.writes.sql,
        "own_id": SHALLOW_ID if layout.shallow else "c.checkpoint_id",
        "same_version": "" if layout.shallow else version,
    }


def _mixed_collations(database: MySQLDatabase, layout: MySQLLayout) -> Fault:
    wanted = text(database.rows(_WANTED, {})[0][0])
    others = {
        table.name: other
        for table in layout.tables
        if (other := next((one for one in _compared(table) if one != wanted), ""))
    }
    found = " and ".join(f"{collation} in '{name}'" for name, collation in others.items())
    detail = f"the server refuses the saver's query: it compares {wanted} with {found}"
    fix = " ".join(
        f"ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE {wanted};" for name in others
    )
    return Fault("saver-limit", detail, fix=fix)


def _compared(table: MySQLTable) -> Iterator[str]:
    """The collations of the columns that the saver compares."""
    for name in ("thread_id", "checkpoint_id", "channel", "version"):
        if name in table.columns:
            yield table.columns[name].collation


def _setting_faults(database: MySQLDatabase, layout: MySQLLayout) -> Iterator[Fault]:
    ((concat, packet),) = database.rows(
        "SELECT @@GLOBAL.group_concat_max_len, @@GLOBAL.max_allowed_packet", {}
    )
    concat, packet = int(concat), int(packet)
    found = list(_long(database, layout, min(concat, packet), packet))
    cut = {one.thread_id for one in found if one.whole > concat}
    needed = max((one.whole for one in found), default=0)
    if cut:
        yield Fault(
            "saver-limit",
            f"group_concat_max_len is {concat}, and the saver needs {needed} bytes to load"
            f" {_named(cut)}",
            fix=f"SET GLOBAL group_concat_max_len = {_room(needed)};",
        )
    cut = {one.thread_id for one in found if max(one.whole, one.longest) > packet}
    if cut:
        needed = max(max(one.whole, one.longest) for one in found)
        yield Fault(
            "saver-limit",
            f"max_allowed_packet is {packet}, and the saver needs {needed} bytes to load"
            f" {_named(cut)}; a longer value is left out, without an error",
            fix=f"SET GLOBAL max_allowed_packet = {min(_MOST_PACKET, _room(needed))};",
        )


def _long(database: MySQLDatabase, layout: MySQLLayout, most: int, packet: int) -> Iterator[_Long]:
    terms = _terms(layout, f"AND o.version = {_VERSION}")
    heads = f"{layout.checkpoints.sql} c" if layout.shallow else _HEADS.format(**terms)
    for joined, names in ((_VALUES, _NAMES_OF_VALUES), (_WRITES, _NAMES_OF_WRITES)):
        query = _LONG.format(heads=heads, joined=joined.format(**terms), names=names)
        rows = database.rows(query, {"most": most, "packet": packet})
        for thread_id, whole, longest in rows:
            yield _Long(text(thread_id), int(whole), int(longest))


def _named(threads: Collection[str]) -> str:
    first = f"thread '{min(threads)}'"
    return first if len(threads) == 1 else f"{first} and {len(threads) - 1} more"


def _room(needed: int) -> int:
    """Twice as much, as a power of two of at least 16 MiB."""
    return 1 << max(24, (2 * needed - 1).bit_length())
