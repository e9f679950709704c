"""SQLite stores that are measured."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import ormsgpack
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from tests.backends.agent import graph_of
from tests.bench.declared import Made
from tests.bench.make_long import make_long
from tests.bench.make_steps import make_steps
from tests.bench.make_store import make_deep, make_large
from tests.bench.stores import Stores, copied_file
from tests.executor.dask_cluster import cluster

FAILED, WAITING = 24, 40
"""Threads of the store for filters that failed, and that wait for an answer."""


def count(path: Path | str, what: str, *bound: object) -> int:
    """Return a number of rows of a SQLite file."""
    return int(rows(path, f"SELECT count(*) FROM {what}", *bound)[0][0])


def rows(path: Path | str, sql: str, *bound: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, bound).fetchall()


def _described(path: Path, engine: str = "SQLite, {threads} threads", **more: str) -> Made:
    found = {
        "threads": str(count(path, "(SELECT DISTINCT thread_id FROM checkpoints)")),
        "checkpoints": str(count(path, "checkpoints")),
    }
    facts = {**found, **more}
    engine = engine.format(**facts)
    return Made(engine, str(path), facts, partial(_scratch, path, engine, facts))


@contextmanager
def _scratch(path: Path, engine: str, facts: dict[str, str]) -> Iterator[Made]:
    with copied_file(path) as copy:
        yield Made(engine, str(copy), facts)


@contextmanager
def large(stores: Stores) -> Iterator[Made]:
    path = stores.cached("large", stores.size.large, make_large)
    asking = "SELECT thread_id FROM writes WHERE channel = '__interrupt__' AND thread_id > '8'"
    ((waiting,), *_) = rows(path, f"{asking} ORDER BY 1")
    yield _described(path, waiting=waiting, old="[0-5]*")


@contextmanager
def deep(stores: Stores) -> Iterator[Made]:
    path = stores.cached("deep", stores.size.deep, make_deep)
    steps = stores.size.deep
    yield _described(path, deep=str(steps), middle=str(steps // 2), last=str(steps - 10))


@contextmanager
def states(stores: Stores) -> Iterator[Made]:
    """A thread of many steps for each kind of state."""
    path = stores.cached("states", stores.size.steps, lambda at, n: make_steps(str(at), n))
    yield _described(path, steps=str(stores.size.steps))


def grown(place: int) -> Callable[[Stores], AbstractContextManager[Made]]:
    """Return the maker of one of the files that show how cost grows."""

    @contextmanager
    def make(stores: Stores) -> Iterator[Made]:
        threads = stores.size.growth[place]
        path = stores.cached("long", threads, make_long)
        ((thread,),) = rows(path, "SELECT max(thread_id) FROM checkpoints")
        checkpoints = count(path, "checkpoints")
        yield _described(path, f"SQLite, {checkpoints:,} checkpoints", thread=thread)

    return make


@contextmanager
def long(stores: Stores) -> Iterator[Made]:
    """The largest of these files."""
    path = stores.cached("long", stores.size.growth[-1], make_long)
    yield _described(path)


@contextmanager
def long_and_cluster(stores: Stores) -> Iterator[Made]:
    """The same, and a Dask cluster of two workers on this machine."""
    made = stores.get("sqlite long")
    with TemporaryDirectory() as folder, cluster(Path(folder), 2) as (address, _):
        engine = f"SQLite, {int(made.facts['checkpoints']):,} checkpoints"
        yield Made(engine, made.url, {**made.facts, "address": address})


@contextmanager
def one_thread(stores: Stores) -> Iterator[Made]:
    path = stores.cached("deep", stores.size.deep, make_deep)
    yield _described(path, f"SQLite, a thread of {stores.size.deep:,} steps", thread="straight")


class _Large(TypedDict, total=False):
    document: str
    turns: Annotated[int, lambda old, new: old + new]


def _with_value(path: Path, megabytes: int) -> None:
    graph: Any = StateGraph(_Large)
    graph.add_node("load", lambda _: {"document": "0123456789" * (megabytes * 100_000)})
    graph.add_node("read", lambda _: {"turns": 1})
    graph.add_edge(START, "load")
    graph.add_edge("load", "read")
    graph.add_edge("read", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        config = {"configurable": {"thread_id": "large"}}
        graph.compile(checkpointer=saver).invoke({"turns": 0}, config)


@contextmanager
def one_value(stores: Stores) -> Iterator[Made]:
    path = stores.cached("value", stores.size.value, _with_value)
    yield _described(path, f"SQLite, a value of {stores.size.value} MB", thread="large")


def apart(asking: list[str]) -> tuple[list[str], list[str]]:
    """Return the threads that are to fail, and those that are to ask no more; both all over."""
    chosen = asking[:: max(len(asking) // (FAILED + WAITING), 1)][: FAILED + WAITING]
    return chosen[:: len(chosen) // FAILED][:FAILED], sorted({*asking}.difference(chosen))


ERROR = ormsgpack.packb("TimeoutError('no answer')")


def _filtered(path: Path, number: int) -> None:
    make_large(path, number)
    asking = "SELECT DISTINCT thread_id FROM writes WHERE channel = '__interrupt__' ORDER BY 1"
    with closing(sqlite3.connect(path)) as connection, connection:
        failed, others = apart([one for (one,) in connection.execute(asking)])
        at = "WHERE channel = '__interrupt__' AND thread_id = ?"
        change = f"UPDATE writes SET channel = '__error__', idx = -1, value = ? {at}"
        connection.executemany(change, [(ERROR, one) for one in failed])
        connection.executemany(f"DELETE FROM writes {at}", [(one,) for one in others])


@contextmanager
def filtered(stores: Stores) -> Iterator[Made]:
    path = stores.cached("filtered", stores.size.filtered, _filtered)
    yield _described(
        path, "SQLite, few of {threads} fail or wait", failed=str(FAILED), waiting=str(WAITING)
    )


def copies(
    columns: list[str], table: str, before: str, series: str, number: int, *, concat: bool = False
) -> str:
    """Return the statement that copies a saver's thread `t`; the first tenth is called old.

    With `concat`, texts are joined in MySQL's way.
    """
    rest = ", ".join(f"t.{name}" for name in columns if name != "thread_id")
    names = ", ".join(["thread_id", *(name for name in columns if name != "thread_id")])
    kind = f"CASE WHEN n < {number // 10} THEN 'old-' ELSE 'new-' END"
    thread = f"concat({kind}, n)" if concat else f"{kind} || n"
    return (
        f"INSERT INTO {table} ({names}) {before} SELECT {thread}, {rest} FROM {series}, {table} t"
        " WHERE t.thread_id = 't'"
    )


def _small_threads(path: Path, number: int) -> None:
    series = (
        f"WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {number - 1})"
    )
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        graph_of(saver).invoke({"items": ["in"]}, {"configurable": {"thread_id": "t"}})
        connection.execute("PRAGMA synchronous = OFF")
        for table in ("writes", "checkpoints"):
            info = connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
            columns = [name for (name,) in info]
            connection.execute(copies(columns, table, series, "s", number))
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def small_threads(stores: Stores) -> Iterator[Made]:
    path = stores.cached("small", stores.size.purged, _small_threads)
    yield _described(path, old="old-*")


@contextmanager
def source(stores: Stores) -> Iterator[Made]:
    """A file that is copied elsewhere."""
    yield _described(stores.cached("large", stores.size.copied, make_large))
