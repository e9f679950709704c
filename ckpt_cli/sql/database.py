"""Runs SQL in DuckDB, locked and bounded."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import partial
from itertools import chain, islice
from math import isfinite
from threading import Event
from threading import Thread as ThreadingThread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ckpt_backends import errors, platform
from ckpt_backends.files import TemporaryFolder
from ckpt_backends.installing import install_command
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.config.machine import zone_name
from ckpt_cli.core.usage import PriceList
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import TriggerInference
from ckpt_cli.render.table import iso
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds
from ckpt_cli.sql.tables import TABLES, QueryTable, SqlColumn, SqlRow, TableReading

if TYPE_CHECKING:
    import duckdb

    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.workers import LostThread


# Bounds what this process may allocate: DuckDB counts no single huge value.
#
# `memory_limit` of DuckDB is for its buffers. A value that a function makes, such as that of
# `repeat('x', 4000000000)`, is allocated beside them.


_ROOM = 3 * 2**29
"""Bytes that a query may allocate: what DuckDB may hold, and a value with its copy."""


_KIND = re.compile(r"^[A-Za-z ]+ Error: ")
_PLACE = re.compile(r"^LINE (?P<number>\d+): (?P<text>.*)\n(?P<caret> *\^)", re.MULTILINE)
_NEAR = re.compile(r"^(?:Did you mean|Candidate bindings:|Candidate tables:|Candidate functions:)")
_LONGEST = 200
_WAY_OUT = "--tables lists the tables, --schema TABLE its columns"


@contextmanager
def reported(query: str, *, lines_before: int = 0) -> Iterator[None]:
    """Raise errors of DuckDB about a query as `ParseError`, `UsageError` or `Refused`.

    `lines_before` counts lines that were put before it.
    """
    import duckdb

    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise errors.Refused(
            "the query needs more room than it may have",
            hint="choose fewer threads or columns, or aggregate earlier",
        ) from error
    except duckdb.Error as error:
        raise _mistake(str(error), query, lines_before) from error


def _mistake(text: str, query: str, lines_before: int) -> errors.CkptError:
    found = _PLACE.search(text)
    lines = [one.strip() for one in text[: found.start() if found else None].splitlines()]
    lines = [one for one in lines if one]
    message = _KIND.sub("", lines[0] if lines else text)[:_LONGEST].rstrip(" !")
    if message.startswith("Max expression depth"):
        # DuckDB advises to change a setting, which no query here can.
        return errors.UsageError("the query is nested too deeply", hint="use fewer brackets")
    message = message[:1].lower() + message[1:]
    hints = [one for one in lines[1:] if _NEAR.match(one) and "pg_" not in one]
    hint = hints[0][:_LONGEST] if hints else _WAY_OUT
    if found is None:
        return errors.UsageError(message, hint=hint)
    line = query.splitlines()[int(found["number"]) - 1 - lines_before]
    shown = found["text"].removeprefix("...").removesuffix("...")
    start = line.find(shown)
    # The caret stands below the text after `LINE n: `, of which a long one is a part.
    cut = len("...") if found["text"].startswith("...") else 0
    indent = len(f"LINE {found['number']}: ")
    place = max(start, 0) + len(found["caret"]) - 1 - indent - cut
    return errors.ParseError(message, text=line, position=max(0, min(place, len(line))), hint=hint)


RowBatch: TypeAlias = str
"""Rows as JSON: for each column asked for, in order, an array with the value of each row."""

RowChunk: TypeAlias = list[str]
"""The same without the brackets: for each column, the values joined by commas."""

_ROWS = 5_000
_CHARACTERS = 2_000_000
"""A batch ends after so many rows, or when its JSON is so long."""
_CHUNKS_AT_ONCE = 4
_THREADS_AT_ONCE = 200
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Which rows and columns of a table are read. Sent to other processes."""

    table: str
    columns: tuple[str, ...]
    opening: Opening
    prices: PriceList
    now: datetime
    bounds: RowBounds = ALL_ROWS

    def reading(self, store: Store, inference: TriggerInference) -> TableReading:
        """Return what the table is read with."""
        columns = frozenset(self.columns)
        needs = TABLES[self.table].needs_of(columns)
        return TableReading(
            store, self.opening, columns, needs, self.bounds, self.prices, self.now, inference
        )


def table_batches(
    store: Store, executor: Executor, request: TableRequest, threads: Iterable[Thread]
) -> Iterator[RowBatch]:
    """Yield the rows of a table, in the order of the threads, in batches of about equal size."""
    wanted = filter(request.bounds.admits, threads)
    found = thread_rows(store, executor, request, wanted)
    return batched((chunk for one in found for chunk in one.chunks), request.columns)


@dataclass(frozen=True, slots=True)
class ReadThread:
    """The rows of one thread; the chunks can be read once."""

    thread_id: str
    chunks: Iterable[RowChunk]


def thread_rows(
    store: Store,
    executor: Executor,
    request: TableRequest,
    threads: Iterable[Thread],
    lost: Callable[[Sequence[LostThread]], None] | None = None,
) -> Iterator[ReadThread]:
    """Yield the rows of each thread, in the order of the threads.

    `lost` is told at the end which threads were left out, in place of the one of the executor.
    """
    work = partial(_reading_threads, request, executor.is_here)
    return executor.run(store, threads, work, at_once=_THREADS_AT_ONCE, lost=lost)


def _reading_threads(
    request: TableRequest, here: bool, store: Store
) -> Callable[[Sequence[Thread]], Iterator[ReadThread]]:
    """Return what reads the rows of some threads; of each, all its chunks.

    In this process, only the first chunks are read at once: a thread may be larger than memory.
    """
    table = TABLES[request.table]
    reading = request.reading(store, TriggerInference(store))

    def read(threads: Sequence[Thread]) -> Iterator[ReadThread]:
        if table.by_group:
            rows = deque(table.rows(reading, threads))
            for one in threads:
                own = []
                while rows and rows[0]["thread_id"] == one.thread_id:
                    own.append(rows.popleft())
                yield ReadThread(one.thread_id, list(chunks(own, request.columns)))
            return
        for one in threads:
            found = chunks(table.rows(reading, [one]), request.columns)
            first = list(islice(found, _CHUNKS_AT_ONCE))
            yield ReadThread(one.thread_id, chain(first, found) if here else [*first, *found])

    return read


def chunks(rows: Iterable[SqlRow], columns: Sequence[str]) -> Iterator[RowChunk]:
    """Yield rows as JSON, some at a time."""
    remaining = iter(rows)
    while True:
        cells: list[list[str]] = [[] for _ in columns]
        length = 0
        for row in islice(remaining, _ROWS):
            for name, held in zip(columns, cells, strict=True):
                text = _cell(row.get(name))
                held.append(text)
                length += len(text)
            if length >= _CHARACTERS:
                break
        if not cells[0]:
            return
        yield [",".join(held) for held in cells]


def batched(found: Iterable[RowChunk], columns: Sequence[str]) -> Iterator[RowBatch]:
    """Yield chunks together, in batches that are worth a statement."""
    some: list[RowChunk] = []
    length = 0
    for chunk in found:
        some.append(chunk)
        length += sum(map(len, chunk))
        if length >= _CHARACTERS or len(some) >= _ROWS:
            yield _batch(some, columns)
            some, length = [], 0
    if some:
        yield _batch(some, columns)


def _batch(some: Sequence[RowChunk], columns: Sequence[str]) -> RowBatch:
    cells = zip(columns, zip(*some, strict=True), strict=True)
    return "{" + ",".join(f'"{name}":[{",".join(held)}]' for name, held in cells) + "}"


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return _ENCODE(value)


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
        raise errors.MissingDependency(
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


class SqlDatabase(errors.Closing):
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
                raise errors.StoreUnavailable(
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
        with platform.limited_allocation(_ROOM):
            ThreadingThread(target=work, name="sql", daemon=True).start()
            try:
                # Not `join`: a signal makes Python 3.11 believe that the thread has ended.
                if not is_done.wait(self._left):
                    raise errors.Refused(
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


_AT_ONCE = 1_000


_EXACT = 2**53


_DIGITS = 15
"""Digits that a JSON number keeps."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result."""

    key: str
    """Unique: of columns with one name, the second is `NAME_2`."""
    type: str


class QueryResult:
    """The rows of a query, read once."""

    def __init__(self, result: BoundedAnswer) -> None:
        described = result.description or []
        self.columns = tuple(_columns([(one[0], str(one[1])) for one in described]))
        self._converts = [_converter(one[1]) for one in described]
        self._result = result

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows. Raises `UsageError` for a value that is too large to be shown."""
        keys = [one.key for one in self.columns]
        try:
            while rows := self._result.fetchmany(_AT_ONCE):
                for row in rows:
                    found = {
                        key: None if value is None else convert(value)
                        for key, convert, value in zip(keys, self._converts, row, strict=True)
                    }
                    yield found
        except OverflowError as error:
            # Times and intervals of DuckDB reach further than those of Python.
            raise errors.UsageError(
                "the answer has a time or an interval that is too large to be shown",
                hint="cast it: CAST(... AS VARCHAR)",
            ) from error


def _columns(described: Sequence[tuple[str, str]]) -> Iterator[ResultColumn]:
    taken: set[str] = set()
    for name, type_name in described:
        key, number = name, 2
        while key in taken:
            key, number = f"{name}_{number}", number + 1
        taken.add(key)
        yield ResultColumn(key, type_name)


def _converter(kind: Any) -> Callable[[Any], Any]:
    """Return what turns a value of a DuckDB type into JSON."""
    if str(kind) == "JSON":
        return _parsed
    children = dict(kind.children) if kind.id in {"list", "array", "struct", "map"} else {}
    if kind.id in {"list", "array"}:
        inner = _converter(next(iter(children.values())))
        return lambda found: [None if one is None else inner(one) for one in found]
    if kind.id == "struct":
        fields = {name: _converter(one) for name, one in children.items()}
        return lambda found: {
            name: None if found[name] is None else convert(found[name])
            for name, convert in fields.items()
        }
    return plain_value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def plain_value(value: Any) -> Any:
    """Return a value of DuckDB as JSON; what JSON cannot hold as in `docs/json.md`."""
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) < _EXACT else {"$int": str(value)}
        case float():
            return value if isfinite(value) else {"$float": _special(value)}
        case Decimal():
            exact = len(value.as_tuple().digits) <= _DIGITS
            return float(value) if exact else str(value)
        case datetime():
            return iso(value.astimezone(UTC)) if value.tzinfo else value.isoformat()
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case dict():
            return {str(key): plain_value(one) for key, one in value.items()}
        case list() | tuple():
            return [plain_value(one) for one in value]
    return str(value)


def _special(value: float) -> str:
    if value != value:  # noqa: PLR0124
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
