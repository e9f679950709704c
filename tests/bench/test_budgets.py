"""The budgets of time and memory, on a large store. Prints; asserts only that answers are right."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench import raw
from tests.bench.make_store import DEEP
from tests.bench.measure import Figure, Runs, bounded, compared, interleaved, memory, run

pytestmark = pytest.mark.bench

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
MEMORY = 150
ROUNDS = 9
PEER_SECONDS = 600


def python(program: str, *arguments: str | Path) -> list[str | Path]:
    return [sys.executable, "-c", program, *arguments]


def ckpt(store: Path, *words: str) -> list[str | Path]:
    return [CKPT, "-s", store, *words]


def query(store: Path, sql: str, *bound: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return connection.execute(sql, bound).fetchall()


def answer(store: Path, folder: Path, *words: str) -> Any:
    """What a command says with `-o json`."""
    out = folder / "answer.json"
    run([*ckpt(store, *words), "-o", "json"], out=out)
    return json.loads(out.read_bytes())


@pytest.fixture(scope="module", autouse=True)
def unchanged(large: Path, deep: Path, figures: list[Figure]) -> Iterator[None]:
    """Nothing here may change a byte of a store, not even the peer."""
    for path in (large, deep):
        figures.append(Figure(path.name, f"{path.stat().st_size / 2**20:.0f} MiB"))
    before = [_hash(path) for path in (large, deep)]
    yield
    assert [_hash(path) for path in (large, deep)] == before


@pytest.fixture(scope="module")
def waiting(large: Path) -> str:
    """A thread with a question, in the middle of the store."""
    sql = "SELECT thread_id FROM writes WHERE channel = '__interrupt__' AND thread_id > '8' LIMIT 1"
    ((thread_id,),) = query(large, sql)
    return str(thread_id)


def test_start_up(figures: list[Figure]) -> None:
    found = interleaved(
        {
            "click": python(raw.START_UP),
            "--version": [CKPT, "--version"],
            "--help": [CKPT, "--help"],
        },
        ROUNDS * 2,
    )
    for name in ("--version", "--help"):
        figures.append(compared(f"ckpt {name}", found[name], "import click", found["click"], 1.5))
        figures.append(memory(f"ckpt {name}", found[name].mib, MEMORY))


def test_first_threads(large: Path, figures: list[Figure], tmp_path: Path) -> None:
    rows = answer(large, tmp_path, "threads", "list")
    by_thread = "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY 1 ORDER BY 2 DESC"
    expected = query(large, f"{by_thread} LIMIT 50")
    assert [(row["thread_id"], row["head"]) for row in rows] == expected
    found = interleaved(
        {
            "raw": python(raw.NEWEST_THREADS, large),
            "ckpt": ckpt(large, "threads", "list"),
        },
        ROUNDS,
    )
    other = "start-up + raw query"
    figures.append(compared("threads list", found["ckpt"], other, found["raw"], 2))
    figures.append(memory("threads list", found["ckpt"].mib, MEMORY))


def test_all_threads(large: Path, threads: int, figures: list[Figure], tmp_path: Path) -> None:
    rows = answer(large, tmp_path, "threads", "list", "--all")
    counted = "SELECT thread_id, max(checkpoint_id), count(*) FROM checkpoints GROUP BY 1"
    expected = sorted(query(large, counted), key=lambda row: row[1], reverse=True)
    assert len(rows) == threads
    assert [(row["thread_id"], row["head"], row["checkpoints"]) for row in rows] == expected
    found = interleaved(
        {
            "nothing": python(raw.NOTHING),
            "raw": python(raw.ALL_THREADS, large),
            "ckpt": ckpt(large, "threads", "list", "--all", "-o", "json"),
        },
        ROUNDS,
    )
    what = "threads list --all -o json"
    figures.append(compared(what, found["ckpt"], "raw query, streamed", found["raw"], 3))
    figures.append(compared(what, found["ckpt"], "python -c pass", found["nothing"]))
    figures.append(memory(what, found["ckpt"].mib, MEMORY))


def test_head(large: Path, waiting: str, figures: list[Figure], tmp_path: Path) -> None:
    shown = answer(large, tmp_path, "show", waiting)
    assert shown["waiting"] == ["tools"]
    found = interleaved(
        {
            "raw": python(raw.HEAD, large, waiting),
            "ckpt": ckpt(large, "show", waiting, "-o", "json"),
        },
        ROUNDS * 2,
    )
    other = "start-up + row + decode"
    figures.append(compared("show THREAD -o json", found["ckpt"], other, found["raw"], 1.3))
    figures.append(memory("show THREAD -o json", found["ckpt"].mib, MEMORY))


@pytest.mark.parametrize("thread_id", ["loop", "straight", "forked"])
def test_tree(deep: Path, thread_id: str, figures: list[Figure], tmp_path: Path) -> None:
    sql = "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1 DESC"
    ids = [row[0] for row in query(deep, sql, thread_id)]
    assert len(ids) >= DEEP
    out = tmp_path / "tree"
    run(ckpt(deep, "show", thread_id, "--tree"), out=out)
    first = out.read_text(encoding="utf-8").splitlines()[0]
    assert f"{len(ids)} checkpoints" in first.replace(",", "")
    found = interleaved({"ckpt": ckpt(deep, "show", thread_id, "--tree")}, ROUNDS)
    what = f"show --tree, {DEEP} checkpoints, {thread_id}"
    figures.append(bounded(what, found["ckpt"], 1))
    figures.append(memory(what, found["ckpt"].mib, MEMORY))
    rows = answer(deep, tmp_path, "show", thread_id, "--tree")
    assert [row["checkpoint_id"] for row in rows] == ids


@pytest.mark.parametrize("thread_id", ["loop", "straight", "forked"])
def test_timeline(deep: Path, thread_id: str, figures: list[Figure], tmp_path: Path) -> None:
    found = answer(deep, tmp_path, "timeline", thread_id)
    ids = [one["checkpoint_id"] for one in found["steps"]]
    assert ids == sorted(set(ids))
    assert all(one["nodes"] is not None for one in found["steps"])
    timed = interleaved({"ckpt": ckpt(deep, "timeline", thread_id)}, ROUNDS)
    what = f"timeline, {len(ids)} steps, {thread_id}"
    figures.append(bounded(what, timed["ckpt"], 1.5))
    figures.append(memory(what, timed["ckpt"].mib, MEMORY))


def test_reading_all_heads(large: Path, figures: list[Figure], tmp_path: Path) -> None:
    """Two commands that must decode every head."""
    sql = "SELECT DISTINCT thread_id FROM writes WHERE channel = '__interrupt__'"
    expected = {row[0] for row in query(large, sql)}
    for words in (["interrupts"], ["threads", "list", "--all", "--status", "interrupted"]):
        out = tmp_path / "answer"
        once = run([*ckpt(large, *words), "-o", "json"], out=out)
        assert {row["thread_id"] for row in json.loads(out.read_bytes())} == expected
        what = " ".join(words)
        figures.append(Figure(what, f"{once.seconds:.1f} s, one run"))
        figures.append(memory(what, once.mib, MEMORY))


def test_whole_histories(deep: Path, figures: list[Figure], tmp_path: Path) -> None:
    """Commands that must decode every checkpoint of a deep thread."""
    for words in (
        ["history", "straight", "-o", "ndjson"],
        ["show", "straight", "--tree", "-o", "json"],
        ["show", "straight@~5000", "-o", "json"],
    ):
        once = run(ckpt(deep, *words), out=tmp_path / "answer")
        assert (tmp_path / "answer").stat().st_size
        what = f"{' '.join(words)}, {DEEP} checkpoints"
        figures.append(Figure(what, f"{once.seconds:.1f} s, one run"))
        figures.append(memory(what, once.mib, MEMORY))


def test_copies_are_real(large: Path, waiting: str, tmp_path: Path) -> None:
    """The official library reads a copied thread, and `ckpt` says the same of it."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    from tests.bench.agent import build

    uri = f"file:{large}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
        config = {"configurable": {"thread_id": waiting}}
        history = list(build(SqliteSaver(connection)).get_state_history(config))
    head, *earlier = history
    assert head.next == ("tools",)
    assert all(task.result is not None for one in earlier for task in one.tasks)
    shown = answer(large, tmp_path, "show", waiting)
    assert shown["interrupts"][0]["interrupt_id"] == head.interrupts[0].id
    ids = [message.id for message in head.values["messages"]]
    assert [message["id"] for message in shown["values"]["messages"]] == ids
    told = [
        (row["checkpoint_id"], row["ts"][:19], sorted(row["next"]))
        for row in answer(large, tmp_path, "history", waiting)
    ]
    assert told == [
        (one.config["configurable"]["checkpoint_id"], one.created_at[:19], sorted(one.next))
        for one in history
    ]


def test_peer(
    large: Path,
    threads: int,
    peer: Path,
    figures: list[Figure],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Last, since it takes minutes and opens the store for writing."""
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "answer"
    theirs = run([peer, "threads", "--db", large], limit=PEER_SECONDS, out=out)
    ours = interleaved({"ckpt": ckpt(large, "threads", "list", "--all", "-o", "json")}, 3)["ckpt"]
    what, memory_of = "threads list --all -o json", "memory: the peer's `threads`"
    figures.append(Figure(memory_of, f"{theirs.mib:.0f} MiB"))
    if theirs.stopped:
        figures.append(Figure(what, "", f"peer: > {PEER_SECONDS} s, stopped"))
        return
    assert f"threads ({threads})" in out.read_text(encoding="utf-8")
    figures.append(compared(what, ours, "peer, one run", Runs([theirs])))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
