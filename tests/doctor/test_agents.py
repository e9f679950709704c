"""What agents store by the official library, whatever their nodes do, and what it cannot use or
save: its own graphs say so."""

import operator
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command, interrupt

from tests.doctor.asking import codes, findings, left_in
from tests.kit.command import ckpt
from tests.kit.harness.mongodb import Place
from tests.kit.servers import Server, mongodb_database, postgres_database

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def test_an_update_that_removed_all_messages_is_no_fault(tmp_path: Path) -> None:
    """Nor beside another: the saver keeps the writes of one update only."""
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = (
            StateGraph(MessagesState)
            .add_node("bot", lambda _: {"messages": [AIMessage("Yes.")]})
            .add_edge(START, "bot")
            .compile(checkpointer=saver)
        )
        graph.invoke({"messages": [HumanMessage("One?")]}, CONFIG, durability="sync")
        head = graph.get_state(CONFIG).config
        graph.update_state(head, {"messages": [HumanMessage("Two?")]})
        graph.update_state(head, {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
        graph.invoke({"messages": [HumanMessage("One?")]}, of("alone"), durability="sync")
        graph.update_state(of("alone"), {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    assert left_in(path) == []


# What is no fault of the store, and harms the agent


def found_quickly(path: Path, *words: str) -> list[tuple[str, str, str]]:
    found = findings(path, "--grace", "0s", *words)
    return sorted((one["code"], one["thread_id"], one["detail"]) for one in found)


class Form(TypedDict, total=False):
    age: int


def asking(saver: SqliteSaver) -> Any:
    def ask(_: Form) -> dict[str, int]:
        return {"age": int(interrupt("age?"))}

    builder: Any = StateGraph(Form)
    return builder.add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


def of(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


def test_an_answer_that_no_task_will_use(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = asking(saver)
        for name in ("bad once", "bad twice", "answered", "twice", "new turn"):
            graph.invoke({}, of(name))
        graph.invoke({}, of("waits"))
        for name, *answers in (("bad once", "x"), ("bad twice", "x", "40")):
            for answer in answers:
                with pytest.raises(ValueError, match="'x'"):
                    graph.invoke(Command(resume=answer), of(name))
        for name, number in (("answered", 1), ("twice", 2), ("new turn", 2)):
            for _ in range(number):
                graph.invoke(Command(resume="40"), of(name))
        graph.invoke({}, of("new turn"))
    assert found_quickly(path) == [
        ("answer-unused", "bad twice", "'ask' has an earlier answer, which is used first"),
        ("answer-unused", "twice", "nothing is next, so no task asks for it"),
    ]
    assert found_quickly(path, "--deep") == found_quickly(path)
    # A young one may still be used.
    assert findings(path) == []


class Talk(TypedDict, total=False):
    word: str
    said: Annotated[list[str], operator.add]


def remembering(saver: SqliteSaver) -> Any:
    """Return a graph whose subgraph keeps what it was told; it is not called for a `-`."""
    inner: Any = StateGraph(Talk)
    inner.add_node("note", lambda state: {"said": [state["word"]]}).add_edge(START, "note")
    outer: Any = StateGraph(Talk)
    outer.add_node("plan", lambda _: {}).add_node("child", inner.compile(checkpointer=True))
    outer.add_node("end", lambda _: {"word": ""}).add_edge(START, "plan").add_edge("child", "end")
    outer.add_conditional_edges(
        "plan", lambda state: "end" if state["word"] == "-" else "child", ["end", "child"]
    )
    return outer.compile(checkpointer=saver)


def test_a_subgraph_that_remembers_another_branch(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = remembering(saver)

        def say(thread_id: str, *words: str, at: Any = None) -> None:
            for word in words:
                graph.invoke({"word": word}, at or of(thread_id), durability="sync")

        def first_turn(thread_id: str) -> Any:
            past = [one for one in graph.get_state_history(of(thread_id)) if not one.next]
            return past[-1].config

        for name in ("goes on", "skips", "calls", "updated", "rolled", "undone", "apart"):
            say(name, "a", "b")
        say("goes on", "c", "-")
        say("skips", "-", at=first_turn("skips"))
        say("calls", "c", at=first_turn("calls"))
        graph.update_state(first_turn("updated"), {"word": "x"}, as_node="end")
    for words in (
        ("rollback", "rolled", "~5"),
        ("rollback", "undone", "~5"),
        ("undo", "undone"),
        ("copy", "apart@~5", "--as", "new"),
    ):
        ckpt("-s", path, *words, "--yes", code=0)
    # `ckpt` takes the memory of the subgraph back, too.
    assert {(code, thread) for code, thread, _ in found_quickly(path, "--deep")} == {
        ("memory-of-abandoned-branch", "skips"),
        ("memory-of-abandoned-branch", "updated"),
    }
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = remembering(saver)
        assert "b" not in graph.get_state(of("skips")).values["said"]
        assert "b" in graph.invoke({"word": "next"}, of("skips"))["said"]


class SeparateResults(MessagesState):
    results: Annotated[list[AnyMessage], operator.add]


def test_results_may_be_in_a_channel_of_their_own(path: Path) -> None:
    call: Any = {"name": "look_up", "args": {}, "id": "call-1", "type": "tool_call"}
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call]), HumanMessage("and now?")]
    builder: Any = StateGraph(SeparateResults).add_node("agent", lambda _: {})
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = builder.add_edge(START, "agent").compile(checkpointer=saver)
        for thread_id, answered in (("apart", "call-1"), ("lost", "call-2")):
            state = {"messages": messages, "results": [ToolMessage("x", tool_call_id=answered)]}
            graph.update_state(of(thread_id), state, as_node="agent")
    assert [(code, thread) for code, thread, _ in found_quickly(path)] == [
        ("tool-call-unanswered", "lost")
    ]


KEYS = ("v", "ts", "id", "channel_values", "channel_versions", "versions_seen")
GONE = "left out"
CHANGES: list[tuple[str, Any]] = [
    *((key, GONE) for key in (*KEYS, "updated_channels")),
    *((key, None) for key in KEYS),
    *((key, []) for key in ("channel_values", "channel_versions", "versions_seen")),
    ("v", "4"),
    ("v", 99),
    ("channel_versions", {"messages": None}),
    ("versions_seen", {"ask": None}),
]


def ask(_state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage(interrupt("?"))]}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store with one thread that waits for an answer."""
    path = tmp_path_factory.mktemp("filled") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph(saver).invoke({"messages": [HumanMessage("h")]}, CONFIG)
    return path.read_bytes()


def graph(saver: SqliteSaver) -> Any:
    builder: Any = StateGraph(MessagesState)
    return builder.add_node("ask", ask).add_edge(START, "ask").compile(saver)


@pytest.mark.parametrize(("key", "value"), CHANGES, ids=lambda one: repr(one)[:24])
def test_an_unusable_body_is_found(key: str, value: Any, filled: bytes, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(filled)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        body: dict[str, Any] = dict(saver.get_tuple(CONFIG).checkpoint)  # type: ignore[union-attr]
        body[key] = value
        given = {name: one for name, one in body.items() if one is not GONE}
        kind, data = saver.serde.dumps_typed(given)
        saver.conn.execute(
            "UPDATE checkpoints SET type = ?, checkpoint = ?"
            " WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
            (kind, data),
        )
        saver.conn.commit()
    found = findings(path)
    copied = ckpt("-s", str(path), "rollback", "t", "head", "--dry-run")
    expected = ["body-unreadable"] if is_refused(path) else []
    assert [one["code"] for one in found] == expected
    assert [one for one in codes(path, "--deep") if one != "state-mismatch"] == expected
    assert all(f"'{key}'" in one["detail"] for one in found)
    if expected:
        assert f"it has no valid '{key}'" in copied.err


def is_refused(path: Path) -> bool:
    """Return whether LangGraph fails to load the thread, to resume it, or to go on with it."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        try:
            graph(saver).get_state(CONFIG)
            graph(saver).invoke(Command(resume="yes"), CONFIG)
            graph(saver).invoke({"messages": [HumanMessage("again")]}, CONFIG)
        except (KeyError, TypeError, AttributeError):
            return True
    return False


ATTEMPTS = 3


class State(TypedDict, total=False):
    log: Annotated[list[str], list.__add__]
    text: str


def attempts(saver: Any, last: Callable[[], State], durability: str = "async") -> None:
    """Run a graph whose second step cannot be saved, and resume it again and again."""
    builder: Any = StateGraph(State)
    builder.add_node("first", lambda _: {"log": ["x" * (5 << 20)], "text": "sound"})
    builder.add_node("second", lambda _: last()).add_node("third", lambda _: {"log": ["end"]})
    builder.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third")
    graph = builder.compile(checkpointer=saver)
    for attempt in range(ATTEMPTS):
        given: Any = None if attempt else {"log": []}
        with pytest.raises(Exception, match=r"full|NUL|u0000|0x00|too large"):
            graph.invoke(given, CONFIG, durability=durability)


def told(store: Path | str) -> tuple[str, str]:
    """What doctor says of the step, and why the thread waits."""
    found = ckpt("-s", store, "doctor", "--grace", "0s", "-o", "json").json["findings"]
    (detail,) = (one["detail"] for one in found if one["code"] == "step-uncommitted")
    later = ("--as-of", "2999-01-01")
    (thread,) = ckpt("-s", store, "threads", "list", *later, "--long", "-o", "json").json
    assert thread["why"]["code"] == "cannot-save"
    return detail, thread["why"]["text"]


class Full(SqliteSaver):
    """A saver that has no room for the checkpoint of the second step."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if metadata["step"] > 1:
            raise OSError("the disk is full")
        return super().put(config, checkpoint, metadata, new_versions)


def test_each_attempt_leaves_writes_without_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "full.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        attempts(Full(connection), lambda: {"log": ["end"]})
    assert told(path) == (
        "'second' finished, and no checkpoint followed; it could not be saved 3 times",
        "step 2 could not be saved 3 times",
    )


@pytest.mark.engines
def test_postgresql_refuses_a_nul_character(postgres_server: Server) -> None:
    with postgres_database(postgres_server) as url:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            attempts(saver, lambda: {"text": "a\0b"}, "sync")
        detail, why = told(url)
    assert detail.endswith("; it could not be saved: a NUL character in 'text'")
    assert why == "step 2 could not be saved: a NUL character in 'text'?"


@pytest.mark.engines
def test_mongodb_refuses_a_large_document(mongodb_server: Server) -> None:
    with mongodb_database(mongodb_server) as url:
        place = Place(url)
        with closing(place.client):
            attempts(place.saver(), lambda: {"log": ["x" * (12 << 20)]}, "sync")
        detail, why = told(url)
    assert detail.endswith("; it could not be saved: 17.0 MiB, too large for a document")
    assert why == "step 2 could not be saved: 17.0 MiB, too large for a document?"
