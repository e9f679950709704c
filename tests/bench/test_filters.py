"""Filters on 10,000 threads, of which 24 failed and 40 wait, beside a raw query for the same.

Prints the ratios; asserts only that the answers are right.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import ormsgpack
import psycopg
import pytest

import ckpt_cli
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.store import StoreHandle
from tests.bench import make_postgres, make_store
from tests.bench.measure import Command, Figure, compared, interleaved, memory, run
from tests.servers import Server, postgres_database

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
FAILED, WAITING = 24, 40
STEPS = 12
MEMORY, MOST, ROUNDS = 150, 2, 5

NEWEST = "SELECT thread_id, max(checkpoint_id) AS newest FROM checkpoints GROUP BY thread_id"
HEADS = (
    "SELECT thread_id, max(checkpoint_id) AS head FROM checkpoints WHERE checkpoint_ns = ''"
    " GROUP BY thread_id"
)
AT_HEADS = (
    f"SELECT w.thread_id, w.channel, w.{{value}} FROM ({HEADS}) h JOIN {{writes}} w"
    " ON w.thread_id = h.thread_id AND w.checkpoint_ns = '' AND w.checkpoint_id = h.head"
    " WHERE w.channel = '{channel}'"
)
SQLITE = """
import click, json, sqlite3, sys
store = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for row in store.execute(sys.argv[2]):
    pass
"""
POSTGRES = """
import click, json, psycopg, sys
with psycopg.connect(sys.argv[1]) as store:
    for row in store.execute(sys.argv[2]):
        pass
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """A store, and how it is asked without `ckpt`."""

    name: str
    url: str
    program: str
    writes: Mapping[str, str]
    """Names to format into `AT_HEADS`."""

    def raw(self, sql: str) -> Command:
        return [sys.executable, "-c", self.program, self.url, sql]

    @contextmanager
    def connected(self) -> Iterator[Callable[[str], object]]:
        """Yield a function that runs a query and reads its rows."""
        if self.name == "SQLite":
            with closing(sqlite3.connect(f"file:{self.url}?mode=ro", uri=True)) as connection:
                yield lambda sql: connection.execute(sql).fetchall()
        else:
            with psycopg.connect(self.url) as server:
                yield lambda sql: server.execute(sql.encode()).fetchall()

    def at_heads(self, channel: str) -> str:
        return AT_HEADS.format(channel=channel, **self.writes)


def apart(asking: list[str]) -> tuple[list[str], list[str]]:
    """Return the threads that are to fail, and those that are to ask no more; both all over."""
    chosen = asking[:: len(asking) // (FAILED + WAITING)][: FAILED + WAITING]
    return chosen[:: len(chosen) // FAILED][:FAILED], sorted({*asking}.difference(chosen))


@pytest.fixture(scope="module")
def number() -> int:
    """How many threads are made."""
    return int(os.environ.get("CKPT_BENCH_FILTERED", "10000"))


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory: pytest.TempPathFactory, number: int) -> Measured:
    path = tmp_path_factory.mktemp("filtered") / "filtered.db"
    make_store.make_large(path, number)
    with closing(sqlite3.connect(path)) as connection, connection:
        asking = "SELECT DISTINCT thread_id FROM writes WHERE channel = '__interrupt__' ORDER BY 1"
        found = [thread_id for (thread_id,) in connection.execute(asking)]
        failed, others = apart(found)
        for thread_id in failed:
            connection.execute(
                "UPDATE writes SET channel = '__error__', idx = -1, value = ?"
                " WHERE channel = '__interrupt__' AND thread_id = ?",
                [ormsgpack.packb("TimeoutError('no answer')"), thread_id],
            )
        for thread_id in others:
            connection.execute(
                "DELETE FROM writes WHERE channel = '__interrupt__' AND thread_id = ?", [thread_id]
            )
    return Measured("SQLite", str(path), SQLITE, {"writes": "writes", "value": "value"})


@pytest.fixture(scope="module")
def postgres_store(postgres_server: Server, number: int) -> Iterator[Measured]:
    with postgres_database(postgres_server) as url:
        make_postgres.fill(url, number, STEPS)
        asking = (
            "SELECT DISTINCT thread_id FROM checkpoint_writes WHERE channel = '__interrupt__'"
            " ORDER BY 1"
        )
        with psycopg.connect(url) as connection:
            found = [thread_id for (thread_id,) in connection.execute(asking.encode())]
            failed, others = apart(found)
            connection.execute(
                "UPDATE checkpoint_writes SET channel = '__error__', idx = -1, blob = %s"
                " WHERE channel = '__interrupt__' AND thread_id = ANY(%s)",
                [ormsgpack.packb("TimeoutError('no answer')"), failed],
            )
            connection.execute(
                "DELETE FROM checkpoint_writes WHERE channel = '__interrupt__'"
                " AND thread_id = ANY(%s)",
                [others],
            )
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) checkpoint_writes")
        yield Measured(
            "PostgreSQL", url, POSTGRES, {"writes": "checkpoint_writes", "value": "blob"}
        )


@pytest.fixture(scope="module", params=["sqlite_store", "postgres_store"])
def store(request: pytest.FixtureRequest) -> Measured:
    found: Measured = request.getfixturevalue(request.param)
    return found


def answer(store: Measured, folder: Path, *words: str) -> Any:
    """What a command says with `-o json`."""
    out = folder / "answer.json"
    run([CKPT, "-s", store.url, *words, "-o", "json"], out=out)
    return json.loads(out.read_bytes())


def beside(
    store: Measured,
    figures: list[Figure],
    sql: str,
    words: Sequence[str],
    ask: Callable[[StoreHandle], Iterable[Answer[Any]]],
) -> None:
    """Measure a command beside a query for the same threads, also without the start-up of both.

    For the latter, `ask` gives the same answer in this process.
    """
    ckpt: Command = [CKPT, "-s", store.url, *words, "-o", "json"]
    found = interleaved({"raw": store.raw(sql), "ckpt": ckpt}, ROUNDS)
    what = f"{store.name}: {' '.join(words)}"
    figures.append(compared(what, found["ckpt"], "start-up + raw query", found["raw"]))
    figures.append(memory(what, found["ckpt"].mib, MEMORY))
    ours, theirs = [], []
    with store.connected() as query, ckpt_cli.open(store.url) as handle:
        for _ in range(ROUNDS * 3):
            theirs.append(seconds(lambda: query(sql)))
            ours.append(seconds(lambda: [one.to_dict() for one in ask(handle)]))
    least, other = min(ours), min(theirs)
    figures.append(
        Figure(
            "  without start-up",
            f"{least * 1000:.1f} ms",
            f"{other * 1000:.1f} ms raw query",
            f"{least / other:.2f}",
            f"{MOST} x",
            least <= MOST * other,
        )
    )


def seconds(run_once: Callable[[], object]) -> float:
    begin = perf_counter()
    run_once()
    return perf_counter() - begin


def test_what_writes_of_heads_answer(
    store: Measured, figures: list[Figure], tmp_path: Path
) -> None:
    failing = ["threads", "list", "--all", "--status", "error"]
    assert len(answer(store, tmp_path, *failing)) == FAILED
    assert len(answer(store, tmp_path, "errors")) == FAILED
    assert len(answer(store, tmp_path, "interrupts")) == WAITING
    errors, questions = (store.at_heads(one) for one in ("__error__", "__interrupt__"))
    beside(store, figures, errors, failing, lambda one: one.listed(status="error"))
    beside(store, figures, errors, ["errors"], StoreHandle.errors)
    beside(store, figures, questions, ["interrupts"], StoreHandle.interrupts)


def test_what_keys_answer(
    store: Measured, figures: list[Figure], tmp_path: Path, number: int
) -> None:
    every = ["threads", "list", "--all"]
    listed = answer(store, tmp_path, *every)
    first = listed[-(number // 100)]["last_at"]
    old = f"last_at < {first[:19]}Z"
    assert 0 < len(answer(store, tmp_path, *every, "--where", old)) < number / 100
    sql = f"SELECT * FROM ({NEWEST}) t WHERE newest < '{listed[-(number // 100)]['head']}'"
    beside(
        store, figures, sql, [*every, "--where", old], lambda one: one.listed(old, details=False)
    )
    begin = listed[7]["thread_id"][:2]
    named = f"thread like '{begin}%'"
    found = answer(store, tmp_path, *every, "--where", named)
    assert found == [row for row in listed if row["thread_id"].startswith(begin)]
    sql = NEWEST.replace("GROUP", f"WHERE thread_id >= '{begin}' AND thread_id < '{begin}~' GROUP")
    beside(
        store,
        figures,
        sql,
        [*every, "--where", named],
        lambda one: one.listed(named, details=False),
    )
