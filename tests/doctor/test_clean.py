"""Nothing is found in stores that official savers and `ckpt` wrote, and that no one damaged."""

import gzip
import json
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.redis import RedisSaver

from ckpt_backends.testing.conformance.test_doctor import HALF
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import graph_of
from ckpt_backends.testing.scenarios.graphs import chat
from ckpt_cli.core.doctor.findings import Severity
from tests.doctor.asking import left_in
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, agents, ckpt, copy_store, eras, later
from tests.kit.eras import with_engines
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store
from tests.kit.planting.planters import fill
from tests.kit.stores import restore, restore_keys, restore_rows

KEY = "0123456789abcdef"
"""The key of the fixture with encrypted values."""
WITHOUT_KEY_AT_FIRST = {("plaintext-among-encrypted", "aes-after-plain")}
"""An agent that got its key later: what it had stored before lies there plainly."""
CUT_OFF = ("tool-call-unanswered", "fork-chat")
"""The messages at the end of this thread are those of another branch, which end with a call."""


FIRST = {"lg-0.2.14-json", "lg-1.2.22-serde", "deepagents-0.7"}
"""The other eras are checked with `-m engines`."""


@pytest.mark.in_ci("lg-0.2.14-json", "js-1.7.3")
@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(path, id=path.name, marks=() if path.name in FIRST else pytest.mark.engines)
        for path in (*eras(), *agents())
    ],
)
def test_sqlite_of_an_era(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    assert left_in(copy_store(folder / "store.db", tmp_path), ignored=WITHOUT_KEY_AT_FIRST) == []


def half_stored(folder: Path) -> set[tuple[str, str]]:
    """Return what may be found in threads of which the saver could not store a checkpoint."""
    truth = json.loads(gzip.decompress((folder / "truth.json.gz").read_bytes()))
    codes = {*HALF, "parent-missing", "index-stale"}
    return {(code, thread_id) for code in codes for thread_id in truth["refused"]}


@pytest.mark.parametrize("folder", with_engines("postgres", "lg-0.2.70"))
def test_a_postgres_database_of_an_era(folder: Path, postgres_url: str) -> None:
    restore(folder / "store.sql.gz", postgres_url)
    assert left_in(postgres_url, ignored=half_stored(folder)) == []


FORKS = ("invoke", "update", "update-open", "copy", "chat", "subgraph")
OVERWRITTEN = {("parent-missing", f"fork-{one}") for one in FORKS}
"""The saver of 0.4.10 stored a checkpoint under the id of the one before it, so that the second
child of a checkpoint replaced the first, on which others were built."""
OF_ERA = {"lg-0.4.10": {*OVERWRITTEN, ("resume-stale", "interrupt-twice-answered")}}


@pytest.mark.parametrize("folder", with_engines("redis", "lg-1.0.10"))
def test_a_redis_server_of_an_era(folder: Path, redis_stack_url: str) -> None:
    restore_keys(folder / "store.jsonl.gz", redis_stack_url)
    known = half_stored(folder) | OF_ERA.get(folder.name, set())
    assert left_in(redis_stack_url, ignored=known) == []


@pytest.mark.engines
@pytest.mark.in_ci("js-1")
@cases(
    "era shared",
    ("js-0.2.74", {("fork-update", "items"), ("fork-chat", "messages")}),
    ("js-1.7.3", {("fork-asking", "items")}),
)
def test_postgres_of_javascript(era: str, shared: set[tuple[str, str]], postgres_url: str) -> None:
    """Where one branch overwrote another's values, LangGraph.js lost them itself."""
    restore_rows(FIXTURES / era / "postgres.jsonl.gz", postgres_url)
    # JSONB holds no text with a NUL.
    refused = {(code, "zoo-text") for code in HALF}
    found = left_in(postgres_url, ignored={*refused, CUT_OFF})
    assert {(one["code"], one["thread_id"], one["channel"]) for one in found} == {
        ("branches-share-value", *where) for where in shared
    }


# Stores that ckpt changed

TRAVELLED = ("chat", "delta-often", "subgraph-stateful", "interrupt-alone")


@cases("kind", SqliteHarness, *later(PostgresHarness))
def test_a_store_that_ckpt_changed(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Rolled back, forked, undone, copied, pruned, purged, archived, restored and cleaned up."""
    folder = tmp_path / "store"
    folder.mkdir()
    with empty_store(kind, request, folder) as harness:
        fill(harness, frozenset(TRAVELLED))
        url = harness.url

        def run(*words: str | Path) -> None:
            ckpt("-s", url, *words, "--yes", code=0)

        for name in TRAVELLED:
            for copy in ("forked", "rolled", "undone", "pruned", "gone"):
                run("copy", name, "--as", f"{name} {copy}")
            run("fork", f"{name} forked", "~1")
            run("copy", name, "--at", "~1", "--as", f"{name} apart")
            run("rollback", f"{name} rolled", "~2")
            run("rollback", f"{name} undone", "~2")
            run("undo", f"{name} undone")
            resume(harness, name, f"{name} rolled")
        bundles = tmp_path / "bundles"
        run("purge", "--keep-last", "2", "--match", "* pruned", "--archive", bundles / "pruned")
        run("threads", "delete", *(f"{name} gone" for name in TRAVELLED), "--archive", bundles)
        run("import", *bundles.glob("*.gz"))
        run("gc", "--scope", "all", "--grace", "0s")
        left = left_in(url)
        assert {(one["code"], one["severity"]) for one in left} <= {
            ("parent-missing", Severity.INFO.value)
        }, left
        assert all(one["thread_id"].endswith(" pruned") for one in left), left


def resume(harness: Harness, scenario: str, thread_id: str) -> None:
    """Continue a thread by the official library."""
    from ckpt_backends.testing.scenarios.catalog import SCENARIOS

    with quiet(), harness.saver() as saver:
        graph = SCENARIOS[scenario].build(saver)
        graph.invoke(None, {"configurable": {"thread_id": thread_id}}, durability="sync")


PRUNING: dict[type[Harness], Any] = {PostgresHarness: PostgresSaver, RedisHarness: RedisSaver}


@pytest.mark.engines
@pytest.mark.parametrize("kind", PRUNING, ids=lambda kind: kind.name)
def test_a_store_that_its_saver_pruned(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    names = frozenset({"chat", "linear", "subgraph", "subgraph-stateful", "interrupt-alone"})
    with empty_store(kind, request, tmp_path) as harness:
        fill(harness, names)
        with harness.saver() as saver:
            PRUNING[kind].prune(saver, sorted(names))
        left = left_in(harness.url)
        assert {(one["code"], one["severity"]) for one in left} <= {
            ("parent-missing", Severity.INFO.value)
        }, left


# While an agent writes


@pytest.mark.in_ci("Sqlite")
@cases("kind", SqliteHarness, *later(PostgresHarness, RedisHarness))
def test_a_store_while_an_agent_writes(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Steps that are not complete yet wait for the grace period."""
    seconds = 1.5 if kind is SqliteHarness else 3
    with empty_store(kind, request, tmp_path) as harness:
        fill(harness, frozenset({"chat"}))
        is_over = Event()
        agent = Thread(target=work, args=(harness, is_over))
        agent.start()
        stop = time.monotonic() + seconds
        try:
            while time.monotonic() < stop:
                for depth in ([], ["--deep"]):
                    answer = ckpt("-s", harness.url, "doctor", *depth, "-o", "json")
                    assert answer.json["findings"] == []
                    assert answer.json["complete"], answer.json["unchecked"]
        finally:
            is_over.set()
            agent.join()
        assert left_in(harness.url) == []


def work(harness: Harness, is_over: Event) -> None:
    """Run graphs until it is over: conversations, and threads with questions and answers."""
    from langgraph.types import Command

    with quiet(), harness.saver() as saver:
        turn = 0
        while not is_over.is_set():
            config: Any = {"configurable": {"thread_id": f"live {turn % 3}"}}
            text = HumanMessage(f"Question {turn}?")
            chat(saver).invoke({"messages": [text]}, config)
            asked: Any = {"configurable": {"thread_id": f"asked {turn}"}}
            graph = graph_of(saver, asks=True)
            graph.invoke({"items": ["in"]}, asked)
            graph.invoke(Command(resume="yes"), asked)
            turn += 1
