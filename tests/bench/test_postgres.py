"""The budgets on PostgreSQL with a million checkpoints. Prints; asserts only right answers."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import psycopg
import pytest

from ckpt_backends.postgres import sql
from tests.bench import raw_postgres as raw
from tests.bench.make_postgres import DEEP, STEPS, build, fill
from tests.bench.measure import Figure, Run, Runs, bounded, compared, interleaved, memory, run
from tests.servers import Server, postgres_database

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
ROUNDS = 7
TABLES = {
    "checkpoints": "checkpoints",
    "writes": "checkpoint_writes",
    "blobs": "checkpoint_blobs",
}


@pytest.fixture(scope="session")
def pg_threads() -> int:
    """How many threads of 200 checkpoints are made."""
    return int(os.environ.get("CKPT_BENCH_PG_THREADS", "5000"))


@pytest.fixture(scope="module")
def store(postgres_server: Server, pg_threads: int, figures: list[Figure]) -> Iterator[str]:
    """The URL of a database that is made anew, in two minutes for a million checkpoints."""
    with postgres_database(postgres_server) as url:
        fill(url, pg_threads)
        rows = [query(url, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES.values()]
        assert rows[0] == pg_threads * STEPS + DEEP
        ((size,),) = query(url, "SELECT pg_database_size(current_database())")
        what = f"PostgreSQL, {pg_threads + 1} threads, {rows[0]} checkpoints, {rows[1]} writes"
        figures.append(Figure(what, f"{size / 2**20:.0f} MiB"))
        yield url


@pytest.fixture(scope="module")
def waiting(store: str) -> str:
    """A thread with a question, in the middle of the store."""
    sql = "SELECT thread_id FROM checkpoint_writes WHERE channel = '__interrupt__' ORDER BY 1"
    found = query(store, sql)
    return str(found[len(found) // 2][0])


def query(url: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(text.encode()).fetchall()


def python(program: str, *arguments: str) -> list[str | Path]:
    return [sys.executable, "-c", program, *arguments]


def ckpt(url: str, *words: str) -> list[str | Path]:
    return [CKPT, "-s", url, *words]


def answer(url: str, folder: Path, *words: str) -> Any:
    """What a command says with `-o json`."""
    out = folder / "answer.json"
    run([*ckpt(url, *words), "-o", "json"], out=out)
    return json.loads(out.read_bytes())


def test_first_threads(store: str, figures: list[Figure], tmp_path: Path) -> None:
    rows = answer(store, tmp_path, "threads", "list")
    expected = [row[:2] for row in query(store, raw.GROUP_BY)]
    assert [(row["thread_id"], row["head"]) for row in rows] == expected
    for text in (raw.LOOSE_SCAN, raw.DISTINCT_ON):
        assert query(store, text) == expected
    others = {
        "start-up + loose index scan": python(raw.newest(raw.LOOSE_SCAN), store),
        "start-up + keyset page": python(raw.newest(raw.KEYSET_PAGE), store),
        "start-up + GROUP BY thread_id": python(raw.newest(raw.GROUP_BY), store),
        "start-up + GROUP BY, max of ts": python(raw.newest(raw.GROUP_BY_TS), store),
        "start-up + DISTINCT ON": python(raw.newest(raw.DISTINCT_ON), store),
        "official list(None, limit=50)": python(raw.OFFICIAL_LIST, store),
    }
    found = interleaved({"ckpt": ckpt(store, "threads", "list"), **others}, ROUNDS)
    for name in others:
        budget = 2 if "loose" in name else None
        figures.append(compared("threads list", found["ckpt"], name, found[name], budget))
    figures.append(memory("threads list", found["ckpt"].mib, MEMORY))


def test_first_threads_without_heads(store: str, figures: list[Figure], tmp_path: Path) -> None:
    """The query that finds them and counts what is shown, beside others in one connection."""
    table = {name: f"public.{table}" for name, table in TABLES.items()}
    ours = sql.NEWEST.format(**table, threads=sql.WALKED.format(**table))
    queries = {
        "our query, with counts": ours.replace("%(limit)s", "50"),
        "loose index scan": raw.LOOSE_SCAN,
        "keyset page": raw.KEYSET_PAGE,
        "GROUP BY thread_id": raw.GROUP_BY,
        "GROUP BY, max of ts": raw.GROUP_BY_TS,
        "DISTINCT ON": raw.DISTINCT_ON,
    }
    found = alone(store, queries)
    first = next(iter(queries))
    for name in queries:
        other = f"{name}, alone"
        figures.append(compared("the first 50, query alone", found[first], other, found[name]))
    assert scans(store, queries[first]) == {"Index Only Scan"}


def test_all_threads(store: str, pg_threads: int, figures: list[Figure], tmp_path: Path) -> None:
    rows = answer(store, tmp_path, "threads", "list", "--all")
    assert len(rows) == pg_threads + 1
    told = [(row["thread_id"], row["head"], row["checkpoints"]) for row in rows]
    assert told == [(thread, head, n) for thread, _, head, n in query(store, raw.ALL)]
    found = interleaved(
        {
            "raw": python(raw.ALL_THREADS, store),
            "ckpt": ckpt(store, "threads", "list", "--all", "-o", "json"),
        },
        ROUNDS,
    )
    what = "threads list --all -o json"
    figures.append(compared(what, found["ckpt"], "raw query, streamed", found["raw"], 3))
    figures.append(memory(what, found["ckpt"].mib, MEMORY))


def test_head(store: str, waiting: str, figures: list[Figure], tmp_path: Path) -> None:
    shown = answer(store, tmp_path, "show", waiting)
    assert shown["waiting"] == ["work"]
    for thread_id in (waiting, "deep"):
        found = interleaved(
            {
                "raw": python(raw.HEAD, store, thread_id),
                "ckpt": ckpt(store, "show", thread_id, "-o", "json"),
            },
            ROUNDS * 2,
        )
        count = DEEP if thread_id == "deep" else STEPS
        what, other = f"show, {count} checkpoints", "start-up + row + decode"
        figures.append(compared(what, found["ckpt"], other, found["raw"], 1.3))
        figures.append(memory(what, found["ckpt"].mib, MEMORY))


def test_tree(store: str, figures: list[Figure], tmp_path: Path) -> None:
    out = tmp_path / "tree"
    run(ckpt(store, "show", "deep", "--tree"), out=out)
    assert f"{DEEP} checkpoints" in out.read_text(encoding="utf-8").replace(",", "")
    found = interleaved({"ckpt": ckpt(store, "show", "deep", "--tree")}, ROUNDS)
    what = f"show --tree, {DEEP} checkpoints"
    figures.append(bounded(what, found["ckpt"], 1))
    figures.append(memory(what, found["ckpt"].mib, MEMORY))


def test_history(store: str, figures: list[Figure], tmp_path: Path) -> None:
    out = tmp_path / "answer"
    ours = run(ckpt(store, "history", "deep", "-o", "ndjson"), out=out)
    ids = [json.loads(line)["checkpoint_id"] for line in out.read_text().splitlines()]
    theirs = run(python(raw.OFFICIAL_HISTORY, store, "deep"), out=out)
    assert out.read_text().split() == ids
    what = f"history, {DEEP} checkpoints"
    other = "official list, one run each"
    figures.append(compared(what, Runs([ours]), other, Runs([theirs])))
    figures.append(memory(what, ours.mib, MEMORY))


def test_copies_are_real(store: str, waiting: str, tmp_path: Path) -> None:
    """The official library reads a copied thread, and `ckpt` says the same of it."""
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(store) as saver:
        config = {"configurable": {"thread_id": waiting}}
        history = list(build(saver, STEPS - 2, True).get_state_history(config))
    head, *earlier = history
    assert head.next == ("work",)
    assert head.interrupts
    assert all(task.result is not None for one in earlier for task in one.tasks)
    shown = answer(store, tmp_path, "show", waiting)["values"]
    assert {"messages": [], **shown} == head.values  # An empty default is stored nowhere.
    told = [
        (row["checkpoint_id"], row["ts"][:19], row["next"])
        for row in answer(store, tmp_path, "history", waiting)
    ]
    assert told == [
        (one.config["configurable"]["checkpoint_id"], one.created_at[:19], list(one.next))
        for one in history
    ]


def alone(url: str, queries: Mapping[str, str]) -> dict[str, Runs]:
    """What the queries take in one connection, in turn; one round before warms."""
    runs: dict[str, list[Run]] = {name: [] for name in queries}
    with psycopg.connect(url) as connection:
        for n in range(ROUNDS + 1):
            for name, text in queries.items():
                started, cpu = perf_counter(), process_time()
                connection.execute(text.encode()).fetchall()
                one = Run(perf_counter() - started, process_time() - cpu, 0, 0)
                if n:
                    runs[name].append(one)
    return {name: Runs(found) for name, found in runs.items()}


def scans(url: str, text: str) -> set[str]:
    """The ways in which a query reads tables."""
    ((plans,),) = query(url, f"EXPLAIN (FORMAT JSON) {text}")

    def nodes(plan: dict[str, Any]) -> Iterator[str]:
        if "Relation Name" in plan:
            yield plan["Node Type"]
        for inner in plan.get("Plans", ()):
            yield from nodes(inner)

    return set(nodes(plans[0]["Plan"]))
