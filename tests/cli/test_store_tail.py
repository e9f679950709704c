"""`tail` without a thread sees what happens in the whole store."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_cli.api.opening import open as open_handle
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries import tail as followed
from ckpt_cli.queries.tail import Movement, StoreTail
from ckpt_cli.reading.store import RedactedStore
from ckpt_cli.render.history import movement_line, movement_record
from tests.kit.command import ckpt
from tests.kit.harness import HARNESSES
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.tiers import FAST
from tests.kit.opening import empty_store

HELLO: Any = {"messages": [("user", "hello")]}
HOSTILE = "evil\x1b[31m\n'; DROP TABLE [bold]\u202e"
# A shell that runs tests in the background lets them ignore Ctrl-C, and what they start too.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from ckpt_cli.__main__ import main
main()
"""
WRITER = """
import sys
sys.path.insert(0, {root!r})
from tests.cli.test_store_tail import answer, ask, fail, run_sqlite
for number in range({threads}):
    run_sqlite({path!r}, f"agent-{{number}}", [answer, ask, fail][number % 3])
"""


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", f"answer {len(state['messages'])}")]}


def ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", interrupt("go on?"))]}


def fail(state: MessagesState) -> dict[str, Any]:
    raise ValueError("no connection to the printer")


def run(saver: Any, thread: str, node: Any, value: Any = HELLO, **options: Any) -> None:
    graph = StateGraph(MessagesState).add_node("answer", node).add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": thread}}
    with suppress(ValueError):
        graph.compile(checkpointer=saver, **options).invoke(value, config)


def run_sqlite(
    path: Path | str, thread: str, node: Any, value: Any = HELLO, **options: Any
) -> None:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        run(SqliteSaver(connection), thread, node, value, **options)


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "live.db"
    run_sqlite(path, "first", answer)
    return path


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of threads that are remembered; fewer than usual."""
    monkeypatch.setattr(followed, "WATCHED", 8)
    return 8


def told(found: list[Movement]) -> list[tuple[str, str, int | None]]:
    return [(one.event, one.thread_id, step(one)) for one in found]


def step(one: Movement) -> int | None:
    return None if one.moment is None else one.moment.number


def records(found: list[Movement]) -> list[dict[str, Any]]:
    return json.loads(json.dumps(list(map(movement_record, found))))  # type: ignore[no-any-return]


def text(found: Movement) -> str:
    return movement_line(movement_record(found), UTC).text


def new_tail(match: str | None = None, *, all_ns: bool = False) -> StoreTail:
    return StoreTail(match, None, all_ns=all_ns)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(one, id=one.name, marks=() if one.name == "sqlite" else pytest.mark.engines)
        for one in HARNESSES
        if one.name in FAST and not one.read_only
    ],
)
def test_each_new_checkpoint_of_any_thread_is_told_once(
    kind: type[Harness], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with empty_store(kind, request, tmp_path) as harness:
        with harness.saver() as saver:
            run(saver, "first", answer)
        with open_store(harness.url) as store:
            tail = new_tail()
            steps = [step(one) for one in tail.last(store, 2)]
            assert steps == [0, 1]
            store.refresh()
            assert list(tail.new(store)) == []
            store.refresh()
            with harness.saver() as saver:
                run(saver, "second", answer)
                run(saver, "first", answer)
            found = list(tail.new(store))
            assert [one.thread_id for one in found] == ["second"] * 3 + ["first"] * 3
            assert [one.children != () for one in found] == [True, True, False] * 2
            if not harness.values_only:
                assert [step(one) for one in found] == [-1, 0, 1, 2, 3, 4]
                assert [one.nodes for one in found[1:3]] == [("__start__",), ("answer",)]
                assert [one["changed"] for one in records(found[1:3])] == [["messages"]] * 2
            store.refresh()
            assert list(tail.new(store)) == []
            if harness.has_writes and not harness.values_only:
                _check_questions_and_errors(harness, store, tail)


def _check_questions_and_errors(harness: Harness, store: Store, tail: StoreTail) -> None:
    store.refresh()
    with harness.saver() as saver:
        run(saver, "stops", answer, interrupt_before=["answer"])
    assert told(list(tail.new(store))) == [("checkpoint", "stops", -1), ("checkpoint", "stops", 0)]
    store.refresh()
    with harness.saver() as saver:
        run(saver, "stops", ask, None)
    (asked,) = tail.new(store)
    assert told([asked]) == [("step", "stops", 0)]
    assert "interrupted  answer: go on?" in text(asked)
    store.refresh()
    with harness.saver() as saver:
        run(saver, "stops", fail, Command(resume="yes"))
    (failed,) = tail.new(store)
    assert "error" in text(failed)
    assert "ValueError" in text(failed)
    store.refresh()
    assert list(tail.new(store)) == []


def test_a_failure_that_is_retried_between_two_looks_is_told(live: Path) -> None:
    run_sqlite(live, "stops", answer, interrupt_before=["answer"])
    with open_store(str(live)) as store:
        tail = new_tail()
        list(tail.last(store, 0))
        run_sqlite(live, "stops", fail, None)
        run_sqlite(live, "stops", answer, None)
        failed, done = tail.new(store)
        assert told([failed, done]) == [("step", "stops", 0), ("checkpoint", "stops", 1)]
        assert "  retried  answer: ValueError" in text(failed)
        assert list(tail.new(store)) == []


def test_checkpoints_of_subgraphs_are_told_if_they_are_wanted(live: Path) -> None:
    inner = StateGraph(MessagesState).add_node("think", answer).add_edge(START, "think").compile()
    graph = StateGraph(MessagesState).add_edge(START, "left").add_edge(START, "right")
    graph.add_node("left", inner).add_node("right", inner)
    with open_store(str(live)) as store:
        tails = {all_ns: new_tail(all_ns=all_ns) for all_ns in (False, True)}
        for tail in tails.values():
            list(tail.last(store, 0))
        store.refresh()
        with closing(sqlite3.connect(live, check_same_thread=False)) as connection:
            compiled = graph.compile(checkpointer=SqliteSaver(connection))
            for thread in ("nested", "first"):
                config: Any = {"configurable": {"thread_id": thread}}
                compiled.invoke(HELLO, config)
            (stored,) = connection.execute("SELECT count(*) FROM checkpoints").fetchone()
        root, everything = ([*tails[all_ns].new(store)] for all_ns in (False, True))
        assert all(one.moment and one.moment.key.checkpoint_ns == "" for one in root)
        keys = [one.moment.key for one in everything if one.moment]
        assert len(keys) == len(set(keys)) == stored - 3
        times = [str(one.at) for one in everything if one.thread_id == "nested"]
        assert times == sorted(times)
        nested = next(one for one in everything if one.moment and one.moment.key.checkpoint_ns)
        assert re.search(r"  in (left|right):[0-9a-f]{8}…$", text(nested))
        assert [list(tail.new(store)) for tail in tails.values()] == [[], []]


def test_a_line_tells_what_a_step_changed(live: Path) -> None:
    with open_store(str(live)) as store:
        said, answered = new_tail().last(store, 2)
    assert text(said).endswith("  first    0  __start__  +1 human: hello  next: answer")
    assert text(answered).endswith("  first    1  answer  +1 ai: answer 1  next: nothing  done")
    with RedactedStore(open_store(str(live))) as redacted:
        shown = json.dumps(records(list(new_tail().last(redacted, 5))))
    assert "first" in shown
    assert "hello" not in shown
    assert "answer 1" not in shown


def test_values_that_are_no_messages_are_named_by_their_channels(tmp_path: Path) -> None:
    path = tmp_path / "plan.db"
    graph = StateGraph(Plan).add_node("grow", lambda _: {"notes": ["a", "b", "c"], "count": 2})
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        config: Any = {"configurable": {"thread_id": "plan"}}
        compiled = graph.add_edge(START, "grow").compile(checkpointer=SqliteSaver(connection))
        compiled.invoke({"notes": ["a"], "count": 1}, config)
    with open_store(str(path)) as store:
        (grown,) = new_tail().last(store, 1)
    assert "  grow  count 1 → 2, notes +2  " in text(grown)
    assert records([grown])[0]["added"] == {"notes": ["b", "c"]}
    assert records([grown])[0]["turned"] == {"count": [1, 2]}


def test_a_hostile_id_is_escaped(live: Path) -> None:
    with open_store(str(live)) as store:
        tail = new_tail()
        list(tail.last(store, 0))
        store.refresh()
        run_sqlite(live, HOSTILE, answer)
        found = list(tail.new(store))
    assert {one.thread_id for one in found} == {HOSTILE}
    assert all(one.isprintable() for one in map(text, found))


def test_a_deleted_thread_is_named(live: Path) -> None:
    run_sqlite(live, "second", answer)
    with open_store(str(live)) as store:
        tail = new_tail()
        list(tail.last(store, 0))
        store.refresh()
        with closing(sqlite3.connect(live)) as connection:
            SqliteSaver(connection).delete_thread("first")
        (gone,) = tail.new(store)
        assert told([gone]) == [("deleted", "first", None)]
        assert text(gone).endswith("  first  deleted")
        assert list(tail.new(store)) == []
        store.refresh()
        run_sqlite(live, "first", answer)
        assert len(list(tail.new(store))) == 3


def test_an_old_thread_that_moves_is_told_without_its_history(live: Path, watched: int) -> None:
    for number in range(watched):
        run_sqlite(live, f"filler-{number}", answer)
    with open_store(str(live)) as store:
        tail = new_tail()
        list(tail.last(store, 0))
        assert "first" not in tail._threads._seen
        store.refresh()
        run_sqlite(live, "first", answer)
        assert told(list(tail.new(store))) == [("checkpoint", "first", n) for n in (2, 3, 4)]
        store.refresh()
        with closing(sqlite3.connect(live)) as connection:
            saver = SqliteSaver(connection)
            for number in range(0, watched, 2):
                saver.delete_thread(f"filler-{number}")
        assert {one.event for one in tail.new(store)} == {"deleted"}
        assert len(tail._threads._seen) <= watched


def test_more_threads_than_are_remembered_may_move_at_once(live: Path, watched: int) -> None:
    with open_store(str(live)) as store:
        tail = new_tail()
        list(tail.last(store, 0))
        store.refresh()
        for number in range(watched + 5):
            run_sqlite(live, f"burst-{number}", answer)
        assert len(list(tail.new(store))) == 3 * (watched + 5)
        assert list(tail.new(store)) == []


def test_a_checkpoint_that_is_stored_late_is_told(live: Path) -> None:
    """A parallel subgraph may store a checkpoint after a newer one of its thread."""
    run_sqlite(live, "other", answer)
    run_sqlite(live, "first", answer)
    with closing(sqlite3.connect(live)) as connection:
        rows = connection.execute(
            "SELECT * FROM checkpoints WHERE thread_id = 'first' ORDER BY checkpoint_id"
        ).fetchall()
        late, places = rows[4], ", ".join("?" * len(rows[0]))
        insert = f"INSERT INTO checkpoints VALUES ({places})"
        with connection:
            connection.execute("DELETE FROM checkpoints WHERE checkpoint_id >= ?", [rows[3][2]])
        with open_store(str(live)) as store:
            tail = new_tail()
            list(tail.last(store, 0))
            store.refresh()
            with connection:
                connection.executemany(insert, [rows[3], rows[5]])
            assert told(list(tail.new(store))) == [("checkpoint", "first", n) for n in (2, 4)]
            store.refresh()
            with connection:
                connection.execute(insert, late)
            assert told(list(tail.new(store))) == [("checkpoint", "first", 3)]
            assert list(tail.new(store)) == []


def test_only_threads_that_match_are_told(live: Path) -> None:
    with open_store(str(live)) as store:
        tail = new_tail("agent-*")
        assert list(tail.last(store, 9)) == []
        store.refresh()
        run_sqlite(live, "first", answer)
        run_sqlite(live, "agent-1", answer)
        assert {one.thread_id for one in tail.new(store)} == {"agent-1"}
    with open_handle(live) as handle:
        found = handle.tail(9, where="metadata.step > 2", wait=_stop)
        assert [one["thread_id"] for one in _until_stopped(found)] == ["first"] * 6


class Plan(TypedDict):
    notes: list[str]
    count: int


class Stopped(Exception):
    pass


def _stop(seconds: float) -> None:
    raise Stopped


def _until_stopped(found: Iterator[Any]) -> Iterator[Any]:
    with suppress(Stopped):
        yield from found


def test_a_deleted_thread_is_named_if_it_matched(live: Path) -> None:
    for thread in ("agent-1", "agent-2"):
        run_sqlite(live, thread, answer)
    run_sqlite(live, "agent-2", answer)
    tails = [new_tail("agent-*"), StoreTail(None, parse_filter("step > 2"), all_ns=False)]
    with open_store(str(live)) as store:
        for tail in tails:
            list(tail.last(store, 9))
        store.refresh()
        with closing(sqlite3.connect(live)) as connection:
            for thread in ("first", "agent-1", "agent-2"):
                SqliteSaver(connection).delete_thread(thread)
        gone = [[one.thread_id for one in tail.new(store)] for tail in tails]
        assert list(map(sorted, gone)) == [["agent-1", "agent-2"], ["agent-2"]]


def test_a_lost_connection_is_opened_again(
    live: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0
    pauses = []

    def look(self: StoreTail, store: Store) -> Iterator[Movement]:
        nonlocal looks
        looks += 1
        if looks in {2, 3}:
            raise StoreUnavailable("cannot read: the server is gone")
        yield from new(self, store)

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            raise Stopped
        run_sqlite(live, f"pause-{len(pauses)}", answer)

    new = StoreTail.new
    monkeypatch.setattr(StoreTail, "new", look)
    with open_handle(live) as handle:
        found = list(_until_stopped(handle.tail(0, interval=2.0, wait=wait)))
    names = [one["thread_id"] for one in found]
    assert names == [f"pause-{number}" for number in (1, 2, 3, 4) for _ in range(3)]
    assert pauses == [2, 2, 4, 8, 2]
    lost, again = caplog.messages
    assert lost == "the connection is lost; trying again: cannot read: the server is gone"
    assert again == "connected again"


@contextmanager
def tailing(store: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, "-s", str(store), "tail", "--interval", "0.1"]
    process = subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_it_follows_another_process_until_ctrl_c(live: Path) -> None:
    root = str(Path(__file__).parents[2])
    with tailing(live, "-n", "1", "-o", "ndjson") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["thread_id"] == "first"
        writer = WRITER.format(root=root, path=str(live), threads=6)
        subprocess.run([sys.executable, "-c", writer], check=True)
        told: dict[str, list[dict[str, Any]]] = {}
        while not _is_complete(told):
            one = json.loads(process.stdout.readline())
            told.setdefault(one["thread_id"], []).append(one)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=30)
        assert (rest, err, process.returncode) == ("", "", 130)
    for name, found in told.items():
        ids = [one["checkpoint_id"] for one in found if one["event"] == "checkpoint"]
        assert len(ids) == len(set(ids)) == (3 if name in {"agent-0", "agent-3"} else 2)


def _is_complete(told: dict[str, list[dict[str, Any]]]) -> bool:
    states = ["done", "interrupted", "error"] * 2
    return all(told.get(f"agent-{n}", [{}])[-1].get("status") == s for n, s in enumerate(states))


def test_it_ends_as_soon_as_nobody_reads_on(live: Path) -> None:
    with tailing(live, "-n", "2", "-o", "tsv", "--interval", "30") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ts\tevent\t")
        process.stdout.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ns", "x"], "--ns requires THREAD"),
        (["first", "--match", "f*"], "cannot be combined"),
        (["first", "--where", "step > 1"], "cannot be combined"),
        (["--interval", "nan"], "greater than or equal to 0.05"),
        (["-o", "json"], "use -o ndjson"),
        (["--where", "step >"], "cannot read the filter"),
    ],
)
def test_what_makes_no_sense_is_refused(live: Path, words: list[str], said: str) -> None:
    found = ckpt("-s", live, "tail", *words)
    assert found.code == 2
    assert said in found.err


def test_a_store_without_threads_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with closing(sqlite3.connect(path)) as connection:
        SqliteSaver(connection).setup()
    with open_store(str(path)) as store:
        tail = new_tail()
        assert list(tail.last(store, 5)) == []
        store.refresh()
        run_sqlite(path, "new", answer)
        found = list(tail.new(store))
        assert told(found) == [("checkpoint", "new", n) for n in (-1, 0, 1)]
        assert found[0].at is not None
        assert found[0].at < datetime.now(UTC)


@pytest.mark.engines
def test_a_connection_that_the_server_ends_is_opened_again(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waits = 0

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 4:
            raise Stopped
        with harness.saver() as saver:
            run(saver, f"pause-{waits}", answer)
            if waits == 2:
                saver.conn.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )

    with empty_store(PostgresHarness, request, tmp_path) as harness:
        with harness.saver() as saver:
            run(saver, "first", answer)
        with open_handle(harness.url) as handle:
            found = list(_until_stopped(handle.tail(0, interval=0.1, wait=wait)))
    names = [one["thread_id"] for one in found]
    assert names == [f"pause-{number}" for number in (1, 2, 3) for _ in range(3)]
    assert caplog.messages[-1] == "connected again"
