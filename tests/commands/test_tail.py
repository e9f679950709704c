"""`tail` tells what happens to a thread, or in the whole store."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState
from langgraph.types import Command, interrupt

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_cli.api.opening import open as open_handle
from ckpt_cli.core.filters import parse_filter
from ckpt_cli.queries import tail as followed
from ckpt_cli.queries.tail import Movement, StoreTail, Tail
from ckpt_cli.render.history import movement_line, movement_record
from tests.commands.words import refusals
from tests.kit.agents import small
from tests.kit.agents.small import chain, saver_of
from tests.kit.command import ckpt
from tests.kit.processes import tailing, take

HELLO: Any = {"messages": [("user", "hello")]}


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", f"answer {len(state['messages'])}")]}


def ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", interrupt("go on?"))]}


def fail(state: MessagesState) -> dict[str, Any]:
    raise ValueError("no connection to the printer")


def run(path: Path, thread: str, node: Any, value: Any = HELLO, **options: Any) -> None:
    """Run a thread of a graph whose only node may fail."""
    with saver_of(path) as saver, suppress(ValueError):
        graph = chain(MessagesState, {"answer": node}).compile(checkpointer=saver, **options)
        graph.invoke(value, {"configurable": {"thread_id": thread}})


def delete(path: Path, *threads: str) -> None:
    with saver_of(path) as saver:
        for thread in threads:
            saver.delete_thread(thread)


@pytest.fixture
def live(path: Path) -> Path:
    run(path, "first", answer)
    return path


class Following:
    """A tail of an open store, from what is stored when it starts."""

    def __init__(self, store: Store, match: str | None = None, where: str | None = None) -> None:
        self.store = store
        self.tail = StoreTail(match, parse_filter(where) if where else None, all_ns=False)
        self.last = list(self.tail.last(store, 9))

    def new(self) -> list[Movement]:
        """What is new, and is told only once."""
        self.store.refresh()
        found = list(self.tail.new(self.store))
        self.store.refresh()
        assert list(self.tail.new(self.store)) == []
        return found


@pytest.fixture
def following(live: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Following]:
    """A tail that remembers fewer threads than usual."""
    monkeypatch.setattr(followed, "WATCHED", 8)
    with open_store(str(live)) as store:
        yield Following(store)


def told(found: list[Movement]) -> list[tuple[str, str, int | None]]:
    return [(one.event, one.thread_id, step(one)) for one in found]


def step(one: Movement) -> int | None:
    return None if one.moment is None else one.moment.number


def text(found: Movement) -> str:
    return movement_line(movement_record(found), UTC).text


def test_each_new_checkpoint_of_any_thread_is_told_once(live: Path, following: Following) -> None:
    assert [step(one) for one in following.last] == [-1, 0, 1]
    _, said, answered = following.last
    assert text(said).endswith("  first    0  __start__  +1 human: hello  next: answer")
    assert text(answered).endswith("  first    1  answer  +1 ai: answer 1  next: nothing  done")
    run(live, "second", answer)
    run(live, "first", answer)
    found = following.new()
    assert [one.thread_id for one in found] == ["second"] * 3 + ["first"] * 3
    assert [one.children != () for one in found] == [True, True, False] * 2
    assert [step(one) for one in found] == [-1, 0, 1, 2, 3, 4]
    assert [one.nodes for one in found[1:3]] == [("__start__",), ("answer",)]
    assert [movement_record(one)["changed"] for one in found[1:3]] == [["messages"]] * 2
    run(live, "stops", answer, interrupt_before=["answer"])
    assert told(following.new()) == [("checkpoint", "stops", -1), ("checkpoint", "stops", 0)]
    run(live, "stops", ask, None)
    (asked,) = following.new()
    assert told([asked]) == [("step", "stops", 0)]
    assert "interrupted  answer: go on?" in text(asked)
    run(live, "stops", fail, Command(resume="yes"))
    (failed,) = following.new()
    assert "error" in text(failed)
    assert "ValueError" in text(failed)


def test_a_failure_that_is_retried_between_two_looks_is_told(live: Path) -> None:
    run(live, "stops", answer, interrupt_before=["answer"])
    with open_store(str(live)) as store:
        following, alone = Following(store), Tail(store, "stops", None, all_ns=False)
        (head,) = alone.last(1)
        assert head.moment.status == "pending"
        run(live, "stops", fail, None)
        run(live, "stops", answer, None)
        failed, done = alone.new()
        assert failed.moment.key == head.moment.key
        assert failed.moment.step.tasks[0].error == "ValueError('no connection to the printer')"
        assert (done.moment.status, done.nodes) == ("done", ("answer",))
        first, second = following.new()
        assert told([first, second]) == [("step", "stops", 0), ("checkpoint", "stops", 1)]
        assert "  retried  answer: ValueError" in text(first)
        # A question is not told again with another write.
        run(live, "stops", ask)
        store.refresh()
        assert [one.moment.status for one in alone.new()][-1] == "interrupted"
        with saver_of(live) as saver:
            (newest, *_) = saver.list({"configurable": {"thread_id": "stops"}})
            saver.put_writes(newest.config, [("messages", [])], "another-task")
        store.refresh()
        assert alone.new() == []


def test_checkpoints_of_subgraphs_are_told_if_they_are_wanted(live: Path) -> None:
    graph = small.nested(MessagesState, chain(MessagesState, {"think": answer}), "call")
    with open_store(str(live)) as store:
        tails = [StoreTail(None, None, all_ns=all_ns) for all_ns in (False, True)]
        for tail in tails:
            list(tail.last(store, 0))
        small.run(live, graph, HELLO, thread="nested")
        store.refresh()
        root, everything = ([text(one) for one in tail.new(store)] for tail in tails)
    nested = [one for one in everything if re.search(r"  in call:[0-9a-f]{8}…$", one)]
    assert [one for one in everything if one not in nested] == root
    assert len(nested) == len(root) == 3


def test_more_threads_may_move_than_are_remembered(live: Path, following: Following) -> None:
    names = [f"burst-{number}" for number in range(followed.WATCHED + 5)]
    for name in names:
        run(live, name, answer)
    assert len(following.new()) == 3 * len(names)
    # An old thread is told without its history.
    assert "first" not in following.tail._threads._seen
    run(live, "first", answer)
    assert told(following.new()) == [("checkpoint", "first", n) for n in (2, 3, 4)]
    delete(live, *names[5::2])
    following.store.refresh()
    assert {one.event for one in following.tail.new(following.store)} == {"deleted"}
    assert len(following.tail._threads._seen) <= followed.WATCHED


def test_a_checkpoint_that_is_stored_late_is_told(live: Path) -> None:
    """A parallel subgraph may store a checkpoint after a newer one of its thread."""
    run(live, "other", answer)
    run(live, "first", answer)
    with closing(sqlite3.connect(live, isolation_level=None)) as connection:
        rows = connection.execute(
            "SELECT * FROM checkpoints WHERE thread_id = 'first' ORDER BY checkpoint_id"
        ).fetchall()
        insert = f"INSERT INTO checkpoints VALUES ({', '.join('?' * len(rows[0]))})"
        connection.execute("DELETE FROM checkpoints WHERE checkpoint_id >= ?", [rows[3][2]])
        with open_store(str(live)) as store:
            following = Following(store)
            connection.executemany(insert, [rows[3], rows[5]])
            assert told(following.new()) == [("checkpoint", "first", n) for n in (2, 4)]
            connection.execute(insert, rows[4])
            assert told(following.new()) == [("checkpoint", "first", 3)]


class Stopped(Exception):
    pass


def _threads(found: Iterator[Any]) -> list[str]:
    """The threads that are told until the wait for more is stopped."""
    names = []
    with suppress(Stopped):
        for one in found:
            names.append(one["thread_id"])
    return names


def test_only_threads_that_match_are_told(live: Path) -> None:
    def stop(seconds: float) -> None:
        raise Stopped

    with open_store(str(live)) as store:
        following = Following(store, "agent-*")
        assert following.last == []
        run(live, "first", answer)
        run(live, "agent-1", answer)
        assert {one.thread_id for one in following.new()} == {"agent-1"}
        others = Following(store, where="step > 2")
        delete(live, "first", "agent-1")
        (one,), (other,) = following.new(), others.new()
        assert text(one).endswith("  agent-1  deleted")
        assert text(other).endswith("  first  deleted")
        run(live, "first", answer)
        run(live, "first", answer)
    with open_handle(live) as handle:
        assert _threads(handle.tail(9, where="metadata.step > 2", wait=stop)) == ["first"] * 6


def test_a_lost_connection_is_opened_again(
    live: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[Store] = []
    pauses: list[float] = []

    def look(self: StoreTail, store: Store) -> Iterator[Movement]:
        looks.append(store)
        if len(looks) in {2, 3}:
            raise StoreUnavailable("cannot read: the server is gone")
        yield from new(self, store)

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            raise Stopped
        run(live, f"pause-{len(pauses)}", answer)

    new = StoreTail.new
    monkeypatch.setattr(StoreTail, "new", look)
    with open_handle(live) as handle:
        names = _threads(handle.tail(0, interval=2.0, wait=wait))
    assert names == [f"pause-{number}" for number in (1, 2, 3, 4) for _ in range(3)]
    assert pauses == [2, 2, 4, 8, 2]
    assert caplog.messages == [
        "the connection is lost; trying again: cannot read: the server is gone",
        "connected again",
    ]


def test_it_goes_on_until_the_thread_is_deleted_or_nobody_reads_on(live: Path) -> None:
    with tailing(live, "first", "-n", "2", "-o", "ndjson") as process:
        assert [one["step"] for one in take(process, 2)] == [0, 1]
        run(live, "first", answer)
        assert [one["step"] for one in take(process, 3)] == [2, 3, 4]
        run(live, "first", ask)
        found = take(process, 2)
        assert [one["step"] for one in found] == [5, 6]
        while found[-1]["status"] != "interrupted":
            found += take(process, 1)
        assert found[-1]["interrupts"][0]["value"] == "go on?"
        delete(live, "first")
        _, err = process.communicate(timeout=30)
        assert process.returncode == 6
        assert json.loads(err)["message"] == "thread 'first' was deleted meanwhile"
    run(live, "second", answer)
    with tailing(live, "-n", "2", "-o", "tsv", "--interval", "30") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ts\tevent\t")
        process.stdout.close()
        assert process.wait(10) == 0


test_wrong_words_are_refused = refusals(
    ("tail --ns x", 2, "--ns requires THREAD"),
    ("tail trip-to-kyoto --match f*", 2, "cannot be combined"),
    ("tail trip-to-kyoto --where 'step > 1'", 2, "cannot be combined"),
    ("tail --interval 0", 2, "--interval"),
    *((f"tail --interval {one}", 2, "--interval") for one in ("nan", "inf", "1e18")),
    ("--copy tail trip-to-kyoto --interval 0.05 -o tsv", 4, "--copy"),
    ("tail nobody", 3, "no thread 'nobody'"),
    ("tail trip-to-kyoto --ns gone", 3, "no namespace 'gone'"),
    ("tail trip-to-kyoto@head", 3, " show trip-to-kyoto@head`"),
)


def test_an_answer_without_an_end_is_no_json_document(live: Path) -> None:
    answer = ckpt("-s", live, "tail", "first", "-o", "json", code=2, out="")
    assert "use -o ndjson" in json.loads(answer.err)["hint"]
