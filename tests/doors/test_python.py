"""The handles and the commands give the same answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import ckpt_cli
from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli import Answer, AnswerList, CheckpointHandle, StoreHandle, ThreadHandle
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store

TRIP, REFUND, RESEARCH = "trip-to-kyoto", "refund-4711", "research-agent"
Ask: TypeAlias = Callable[[StoreHandle], Any]


def trip(ask: Callable[[ThreadHandle], Any]) -> Ask:
    return lambda store: ask(store[TRIP])


def third(ask: Callable[[CheckpointHandle], Any]) -> Ask:
    return lambda store: ask(store.at(f"{TRIP}@step:3"))


ANSWERS: list[tuple[str, Ask]] = [
    (f"show {TRIP}", trip(lambda one: one.head.to_dict())),
    (f"show {TRIP}@step:3 --channel messages", third(lambda one: one.show(["messages"]))),
    (
        f"show {TRIP} --path messages[-1].content",
        trip(lambda one: ckpt_cli.to_json(one.head.get("messages[-1].content"))),
    ),
    (f"show {TRIP} --tree --all-ns", trip(lambda one: map(listed, one.history(all_ns=True)))),
    (f"history {TRIP} -n 3", trip(lambda one: map(listed, one.history(limit=3)))),
    (
        f"history {RESEARCH} --all-ns",
        lambda store: map(listed, store[RESEARCH].history(all_ns=True)),
    ),
    (f"diff {TRIP}", trip(lambda one: one.head.diff())),
    (f"diff {TRIP} step:3 step:7", trip(lambda one: one["step:7"].diff(one["step:3"]))),
    (f"diff --writes {TRIP}@step:3", third(lambda one: one.diff_writes())),
    (
        f"diff --writes {TRIP}@step:3 --reducer messages=append",
        third(lambda one: one.diff_writes({"messages": "append"})),
    ),
    (f"blame {TRIP} hotel", trip(lambda one: one.head.blame("hotel"))),
    (f"blame {TRIP}@step:3 messages[-1]", third(lambda one: one.blame("messages[-1]"))),
    (f"messages {TRIP}", trip(lambda one: one.head.messages)),
    (f"messages {TRIP} --stat", trip(lambda one: one.head.message_stats())),
    (
        f"show {TRIP} --long",
        trip(lambda one: one.head.show(operations=True, size=True, namespaces=True)),
    ),
    ("interrupts", lambda store: store.interrupts()),
    (f"interrupts {REFUND} {TRIP}", lambda store: store.interrupts([REFUND, TRIP])),
    (f"interrupts {REFUND}", lambda store: store[REFUND].interrupts()),
    ("interrupts --older-than 3000d", lambda store: store.interrupts(older_than="3000d")),
    ("grep -i refund", lambda store: store.grep("refund", ignore_case=True)),
    (
        "grep -F Kyoto --match t* --channel messages --channel hotel",
        lambda store: store.grep("Kyoto", fixed=True, match="t*", channels=["messages", "hotel"]),
    ),
    (f"grep Kyoto {TRIP} --head-only", trip(lambda one: one.grep("Kyoto", head_only=True))),
    (
        "grep . --where metadata.source=update",
        lambda store: store.grep(".", where="metadata.source=update"),
    ),
    ("stats", lambda store: store.stats()),
    (
        "stats --match r* --since 2020-01-01",
        lambda store: store.stats(match="r*", since="2020-01-01"),
    ),
    ("stats --since 2100-01-01", lambda store: store.stats(since="2100-01-01")),
    (f"stats {TRIP} --ns planner", trip(lambda one: one.stats(ns="planner"))),
    ("stats --by user,day --jobs 2", lambda store: store.stats(by=["user", "day"])),
    (f"stats {TRIP} --by node --ns planner", trip(lambda one: one.stats(by="node", ns="planner"))),
    ("stats --by model", lambda store: store.stats(by="model")),
    ("stats --by thread,node --jobs 2", lambda store: store.stats(by=["thread", "node"])),
    (f"stats {TRIP} --by channel", trip(lambda one: one.stats(by="channel"))),
    (f"timeline {TRIP} --last 3", trip(lambda one: one.timeline(last=3))),
    (f"timeline {TRIP}@step:3", trip(lambda one: one.at("step:3").timeline())),
    ("du", lambda store: store.du()),
    (f"du {TRIP} --top 2", trip(lambda one: one.du(top=2))),
    ("du --by channel", lambda store: store.du_by("channel")),
    ("du --by thread --top 3", lambda store: store.du_by("thread", top=3)),
    (f"du {TRIP} --by ns", trip(lambda one: one.du_by("ns"))),
    (f"replay {TRIP} --all-steps", trip(lambda one: one.transitions())),
    (f"replay {TRIP} --verify", trip(lambda one: one.replay())),
    (f"replay {TRIP} --verify --ns planner", trip(lambda one: one.replay(ns="planner"))),
    (f"replay {TRIP} --verify --ns=", trip(lambda one: one.replay(ns=""))),
    (f"replay {TRIP}@step:3 --all-steps", third(lambda one: one.transitions())),
    (f"replay {TRIP}@step:3 --verify", third(lambda one: one.replay())),
    (
        f"replay {TRIP} --verify --reducer messages=append",
        trip(lambda one: one.replay({"messages": "append"})),
    ),
    ("replay --all", lambda store: store.replay_all()),
    ("replay --match r*", lambda store: store.replay_all(match="r*")),
    (f"export {TRIP} --format jsonl", trip(lambda one: one.export())),
]


EMPTY = {"interrupts --older-than 3000d"}
"""Answers without a record; two empty answers would be equal without any reason."""


def listed(one: CheckpointHandle) -> Answer[Any]:
    return one.listed()


def as_json(answer: Any) -> Any:
    """Return an answer of a handle as `json.loads` returns what a command prints."""
    if isinstance(answer, Answer):
        answer = answer.to_dict()
    elif isinstance(answer, AnswerList):
        answer = answer.to_list()
    elif isinstance(answer, Iterator):
        answer = [as_json(one) for one in answer]
    return json.loads(json.dumps(answer))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the sample for all tests, which only read it."""
    return copy_store(SAMPLE, tmp_path_factory.mktemp("answers"))


@pytest.fixture
def store(path: Path) -> Iterator[StoreHandle]:
    with ckpt_cli.open(path) as opened:
        yield opened


@pytest.mark.parametrize("redact", [False, True], ids=["plain", "redacted"])
@pytest.mark.parametrize(("words", "ask"), ANSWERS, ids=[words for words, _ in ANSWERS])
def test_a_handle_answers_as_the_command_does(
    path: Path, words: str, ask: Ask, redact: bool
) -> None:
    options = ["--redact"] if redact else []
    printed = ckpt("-s", path, *options, "-o", "json", *words.split())
    with ckpt_cli.open(path, redact=redact) as opened:
        answered = as_json(ask(opened))
    if words.startswith("export"):
        assert answered == [json.loads(one) for one in printed.out.splitlines()]
    else:
        assert answered == printed.json
    assert answered or words in EMPTY or redact


ERRORS: list[tuple[str, Ask]] = [
    ("show nobody", lambda store: store["nobody"]),
    (f"show {TRIP} --as-of 2020-01-01", trip(lambda one: one.at(as_of="2020-01-01"))),
    (f"show {TRIP} --channel nothing", trip(lambda one: one.head.show(["nothing"]))),
    (f"blame {TRIP} nothing", trip(lambda one: one.head.blame("nothing"))),
    ("interrupts nobody", lambda store: store.interrupts(["nobody"])),
    ("interrupts --older-than soon", lambda store: store.interrupts(older_than="soon")),
    ("grep (a", lambda store: store.grep("(a")),
    ("grep a --where b", lambda store: store.grep("a", where="b")),
    (f"grep a {TRIP} --match b", lambda store: store.grep("a", [TRIP], match="b")),
    ("stats --until soon", lambda store: store.stats(until="soon")),
    (f"stats {TRIP} --ns nothing", trip(lambda one: one.stats(ns="nothing"))),
    ("stats --by colour", lambda store: store.stats(by="colour")),
    (f"replay {TRIP} --ns nothing", trip(lambda one: one.replay(ns="nothing"))),
    (f"replay {TRIP} --reducer hotel=no", trip(lambda one: one.replay({"hotel": "no"}))),
    (f"replay {TRIP} --reducer no=sum", trip(lambda one: one.replay({"no": "sum"}))),
    ("replay --all --reducer no=sum", lambda store: store.replay_all(reducers={"no": "sum"})),
    (
        f"diff --writes {TRIP} --reducer hotel=no",
        trip(lambda one: one.head.diff_writes({"hotel": "no"})),
    ),
    (
        f"diff --writes {TRIP} --reducer no=sum",
        trip(lambda one: one.head.diff_writes({"no": "sum"})),
    ),
    (
        f"diff --writes {TRIP} --channel nothing",
        trip(lambda one: one.head.diff_writes(channels=["nothing"])),
    ),
]


@pytest.mark.parametrize(("words", "ask"), ERRORS, ids=[words for words, _ in ERRORS])
def test_a_handle_raises_at_once_what_the_command_reports(
    path: Path, store: StoreHandle, words: str, ask: Ask
) -> None:
    printed = ckpt("-s", path, "-o", "json", *words.split())
    with pytest.raises(ckpt_cli.CkptError) as raised:
        ask(store)
    error = raised.value
    said = {"error": error.code, "message": error.message, "exit_code": error.exit_code}
    if error.hint is not None:
        # A command names the store of its run in the commands to paste.
        said["hint"] = error.hint.replace("`ckpt ", f"`ckpt -s {path} ")
    if isinstance(error, ParseError):
        said["position"] = error.position
    assert json.loads(printed.err) == said


def test_disk_usage_by_something_else_is_refused(store: StoreHandle) -> None:
    with pytest.raises(UsageError, match="cannot group by 'colour'"):
        store.du_by("colour")  # type: ignore[arg-type]


def test_the_tree_is_drawn_as_the_command_draws_it(
    path: Path, store: StoreHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command knows no width in a pipe.
    monkeypatch.setattr("ckpt_cli.output.UNLIMITED", 100)
    printed = ckpt("-s", path, "show", TRIP, "--tree", "--all-ns")
    assert store[TRIP].tree(all_ns=True).splitlines() == printed.out.splitlines()


def test_no_threads_are_not_all_threads(store: StoreHandle) -> None:
    assert list(store.interrupts([])) == []
    assert list(store.replay_all([])) == []
    assert store.stats(iter(()))["threads"] == 0


def test_progress_can_be_watched(store: StoreHandle) -> None:
    seen = []

    def watch(items: Iterable[Any], /) -> Iterator[Any]:
        for one in items:
            seen.append(one)
            yield one

    assert len(list(store.replay_all(watch=watch))) == len(seen) == 8


def test_a_search_counts_what_it_cannot_read(tmp_path: Path) -> None:
    path = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    with ckpt_cli.open(path) as encrypted:
        thread = encrypted["aes-chat"]
        assert "LANGGRAPH_AES_KEY" in repr(thread.head.to_dict()["problem"])
        found = thread.grep("Deutsch")
        assert found.missed == ""
        assert list(found) == []
        assert found.unread > 0
    printed = ckpt("-s", path, "grep", "Deutsch", "aes-chat")
    assert printed.code == ckpt_cli.PartlyDone.exit_code
    assert found.missed in printed.err


def test_a_tail_goes_on_with_what_is_saved_meanwhile(tmp_path: Path) -> None:
    path = copy_store(SAMPLE, tmp_path)
    waited = []

    def save(seconds: float) -> None:
        waited.append(seconds)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO checkpoints SELECT * FROM kept")

    with closing(sqlite3.connect(path)) as connection, connection:
        newest = f"thread_id = '{REFUND}' ORDER BY checkpoint_id DESC LIMIT 1"
        connection.execute(f"CREATE TABLE kept AS SELECT * FROM checkpoints WHERE {newest}")
        connection.execute(
            "DELETE FROM checkpoints WHERE checkpoint_id IN (SELECT checkpoint_id FROM kept)"
        )
    with ckpt_cli.open(path) as opened:
        thread = opened[REFUND]
        steps = [one["step"] for one in islice(thread.tail(2, interval=0.5, wait=save), 3)]
        assert steps == [1, 2, 3]
        assert waited == [0.5]
        assert opened[REFUND].head.step == 3


def test_a_summary_is_what_show_says_without_the_state(path: Path, store: StoreHandle) -> None:
    shown = ckpt("-s", path, "show", TRIP, "--long", "-o", "json").json
    summary = as_json(store[TRIP].summary())
    title = summary.pop("title")
    assert title in shown["values"]["messages"][1]["content"]
    assert (summary.pop("writes"), summary.pop("joins")) == (shown["all_writes"], [])
    assert summary == {name: shown[name] for name in summary}
