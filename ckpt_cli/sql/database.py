"""A DuckDB in a private folder that can reach nothing outside of it.

It is locked before the first value is loaded: no file, no network, no extension, no setting can be
reached by SQL. Its memory is bounded, what does not fit goes to the private folder, and that is
bounded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import tzinfo
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt_backends.closing import Closing
from ckpt_backends.errors import MissingDependency, Refused, StoreUnavailable
from ckpt_backends.files.temporary_folder import TemporaryFolder
from ckpt_backends.installing import install_command
from ckpt_cli.config.time_zone import zone_name
from ckpt_cli.sql.address_space import bounded_allocation
from ckpt_cli.sql.loading import RowBatch
from ckpt_cli.sql.mistakes import reported
from ckpt_cli.sql.tables import TABLES
from ckpt_cli.sql.tables.table import QueryTable, SqlColumn

if TYPE_CHECKING:
    import duckdb

_Result = TypeVar("_Result")
MEMORY = "512MB"
"""Memory of DuckDB, besides that of this process."""
SPILL = "20GB"
"""Room for what a query cannot hold in memory."""
THREADS = 2
_MOMENT = 0.1
"""Seconds after which a query is told again to stop."""
_PATIENCE = 20
"""So often; then it is left alone. Some functions of DuckDB do not hear it within one value."""
UNSTOPPED = Event()
"""Set when a query could not be stopped: its thread goes on until the process ends."""
MAIN = "main"
"""The schema of the store of the run."""

_TIMES = "TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%S.%fZ'"
FORMATS = {
    "parquet": "FORMAT parquet, COMPRESSION zstd",
    "csv": f"FORMAT csv, HEADER true, {_TIMES}",
    "ndjson": f"FORMAT json, {_TIMES}",
}
"""How DuckDB writes each kind of file; times are in UTC."""

_LOCKED = (
    "SET allow_community_extensions = false",
    "SET autoload_known_extensions = false",
    "SET autoinstall_known_extensions = false",
    "SET lock_configuration = true",
)


def connect(
    path: str, zone: tzinfo, *, unoptimised: str = "", writes_files: bool = False
) -> duckdb.DuckDBPyConnection:
    """Return a locked connection to a new database, without some optimisers.

    With `writes_files` it is locked, too, but statements may read and write files: never run one
    of a user there. Raises `MissingDependency` without DuckDB.
    """
    try:
        import duckdb
    except ImportError:
        needed = "langgraph-ckpt[sql]"
        raise MissingDependency(
            "SQL needs the package duckdb, which is not installed", hint=install_command(needed)
        ) from None
    # Else a table of a query could be a variable of this program.
    con = duckdb.connect(path, config={"python_enable_replacements": False})
    settings = [f"SET memory_limit = '{MEMORY}'", f"SET threads = {THREADS}"]
    if path == ":memory:":
        # Else it is a folder in the working directory.
        settings.append("SET temp_directory = ''")
    else:
        settings += [
            f"SET temp_directory = {_literal(path + '.spill')}",
            f"SET max_temp_directory_size = '{SPILL}'",
        ]
    settings.append(f"SET TimeZone = {_literal(zone_name(zone))}")
    if unoptimised:
        settings.append(f"SET disabled_optimizers = {_literal(unoptimised)}")
    if not writes_files:
        settings.append("SET enable_external_access = false")
    for statement in (*settings, *_LOCKED):
        con.execute(statement)
    return con


class SqlDatabase(Closing):
    """Tables that are loaded, and queries over them."""

    def __init__(self, zone: tzinfo, *, writes_files: bool = False) -> None:
        """Make an empty database, for queries or to write files.

        Raises `MissingDependency` or `StoreUnavailable`.
        """
        self._folder = TemporaryFolder()
        path = str(self._folder.path / "tables.duckdb")
        self._con = connect(path, zone, writes_files=writes_files)

    def close(self) -> None:
        """Remove all that was loaded."""
        with left_if_busy():
            self._con.close()
        self._folder.remove()

    def create(self, schemas: Iterable[str], aliases: Iterable[str] = ()) -> None:
        """Make all tables, empty; aliases are further names of the main schema."""
        create_all(self._con, schemas, aliases)

    def load(
        self, schema: str, table: QueryTable, columns: Sequence[str], batches: Iterator[RowBatch]
    ) -> None:
        """Add rows, of which each batch has these columns. Raises `StoreUnavailable`."""
        import duckdb

        types = ",".join(f'"{one}":{_json_type(table.by_column[one].type)}' for one in columns)
        cells = ", ".join(f"unnest(b.{quoted(one)})" for one in columns)
        names = ", ".join(map(quoted, columns))
        statement = (
            f"INSERT INTO {quoted(schema)}.{quoted(table.name)} ({names})"
            f" SELECT {cells} FROM (SELECT from_json(?, {_literal('{' + types + '}')}) AS b)"
        )
        self._con.begin()
        for batch in batches:
            try:
                self._con.execute(statement, [batch if batch.isascii() else _unicode(batch)])
            except duckdb.Error as error:
                raise StoreUnavailable(
                    f"cannot hold the rows of {table.name}: {str(error).splitlines()[0]}",
                    hint="choose fewer threads or columns",
                ) from error
        self._con.commit()

    def take(self, table: QueryTable, path: str, form: str) -> int:
        """Write the rows of a table of the main schema to a file, empty the table, count the rows.

        `form` is one of `FORMATS`. Raises `OSError`.
        """
        import duckdb

        name = f"{MAIN}.{quoted(table.name)}"
        listed = ", ".join(_written(one, form) for one in table.columns)
        try:
            self._con.execute(
                f"COPY (SELECT {listed} FROM {name}) TO {_literal(path)}"
                f" ({FORMATS[form]}, USE_TMP_FILE false)"
            )
        except duckdb.IOException as error:
            raise OSError(str(error).splitlines()[0]) from error
        (rows,) = self._con.execute(f"SELECT count(*) FROM {name}").fetchone() or (0,)
        self._con.execute(f"TRUNCATE {name}")
        return int(rows)

    @contextmanager
    def running(self, query: str, seconds: float | None) -> Iterator[BoundedAnswer]:
        """Run a query that cannot change what is loaded, and yield its result.

        Raises `ParseError`, or `Refused` if it takes longer than `seconds` or too much room.
        """
        with reported(query):
            self._con.execute("BEGIN TRANSACTION READ ONLY")
            try:
                yield BoundedAnswer(self._con, query, seconds)
            finally:
                with left_if_busy():
                    self._con.rollback()


class BoundedAnswer:
    """The answer to a query; DuckDB calculates its rows as they are fetched.

    DuckDB works in another thread: this one must hear signals, and watch the time and the memory.
    Each method raises `Refused` if all that DuckDB did takes longer than `seconds` or too much
    room, or what DuckDB raises. If the query cannot be stopped, the connection stays busy until
    the process ends.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, query: str, seconds: float | None) -> None:
        self._con = con
        self._seconds = self._left = seconds
        self.description = self._bounded(lambda: con.execute(query)).description

    def fetchmany(self, size: int) -> list[Any]:
        """Return the next rows, as the cursors of Python do."""
        return self._bounded(lambda: self._con.fetchmany(size))

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return self._bounded(self._con.fetchall)

    def _bounded(self, act: Callable[[], _Result]) -> _Result:
        found: list[_Result] = []
        failed: list[BaseException] = []
        is_done = Event()

        def work() -> None:
            try:
                found.append(act())
            except BaseException as error:
                failed.append(error)
            finally:
                is_done.set()

        began = monotonic()
        with bounded_allocation():
            Thread(target=work, name="sql", daemon=True).start()
            try:
                # Not `join`: a signal makes Python 3.11 believe that the thread has ended.
                if not is_done.wait(self._left):
                    raise Refused(
                        f"the query was stopped after {self._seconds:g} s",
                        hint="--timeout allows more time",
                    )
            finally:
                for _ in range(_PATIENCE):
                    if is_done.is_set():
                        break
                    self._con.interrupt()
                    is_done.wait(_MOMENT)
                else:
                    UNSTOPPED.set()
        if self._left is not None:
            self._left = max(self._left - (monotonic() - began), 0)
        if failed:
            raise failed[0]
        return found[0]


@contextmanager
def left_if_busy() -> Iterator[None]:
    """Ignore that a connection refuses because a query in it could not be stopped."""
    import duckdb

    with suppress(duckdb.Error):
        yield


def create_all(
    con: duckdb.DuckDBPyConnection, schemas: Iterable[str], aliases: Iterable[str]
) -> None:
    """Make all tables in each schema, and views of those of the main one under its aliases."""
    con.begin()
    for schema in (*schemas, *aliases):
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for schema in schemas:
        for table in TABLES.values():
            columns = ", ".join(f"{quoted(one.name)} {one.type}" for one in table.columns)
            con.execute(f"CREATE TABLE {quoted(schema)}.{quoted(table.name)} ({columns})")
    for alias in aliases:
        for name in TABLES:
            view = f"{quoted(alias)}.{quoted(name)}"
            con.execute(f"CREATE VIEW {view} AS SELECT * FROM {MAIN}.{quoted(name)}")
    con.commit()


def _written(column: SqlColumn, form: str) -> str:
    """Return the expression of a column in a file; lists in CSV are JSON."""
    name = quoted(column.name)
    if form == "csv" and column.type.endswith("[]"):
        return f"to_json({name}) AS {name}"
    return name


def quoted(name: str) -> str:
    """Return a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _json_type(name: str) -> str:
    return f'[["{name[:-2]}"]]' if name.endswith("[]") else f'["{name}"]'


def _unicode(batch: str) -> str:
    return batch.encode("utf-8", "replace").decode()


RESERVED = frozenset(
    {MAIN, "temp", "system", "memory", "tables", "pg_catalog", "information_schema"}
)
"""Names in small letters that DuckDB, or this module, gives to schemas and databases."""
