"""What the rows of `show --tree` tell of each step."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from ckpt_backends.testing.official import config_of
from ckpt_backends.url import parse_url
from ckpt_cli.core.tree import Skeleton
from ckpt_cli.queries import tree as tree_changes
from ckpt_cli.queries import tree as trees
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import Tree, TreeReader, TreeShape, forked
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import Moment, ThreadReader
from ckpt_cli.render.values import changes_text, summary
from tests.kit.command import ckpt


class Plain(TypedDict):
    log: Annotated[list[str], add]
    name: str


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    budget: int


def told(path: Path, *, redact: bool = False) -> list[tuple[int | None, str, int]]:
    """Step, summary and tokens of each checkpoint, oldest first."""
    opening = Opening(parse_url(str(path)), redact=redact)
    with opening.open(lambda _: None) as store:
        reader, operations = ThreadReader(store, "chat"), ThreadOperations(opening, "chat")
        whole = TreeReader(reader, operations, lambda value: summary(value, 60))
        tree = whole.read(TreeShape(nest=True, unfold=True))
    found = [tree.details[key] for key in sorted(tree.plan.shown)]
    return [(one.step, changes_text(one.changes), one.tokens) for one in found]


def run(path: Path, node: Callable[[Any], Any], *, again: bool = False) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder: Any = StateGraph(Chat)
        graph = builder.add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
        graph.invoke({"messages": [HumanMessage("Hello")], "budget": 120}, config_of("chat"))
        if again:
            *_, start, _ = graph.get_state_history(config_of("chat"))
            graph.invoke(None, start.config)


def answer(text: str, **fields: Any) -> AIMessage:
    return AIMessage(text, usage_metadata=usage(), **fields)


def usage() -> Any:
    return {"input_tokens": 40, "output_tokens": 2, "total_tokens": 42}


def test_input_messages_values_and_tokens_are_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    run(path, lambda _: {"messages": answer("Hi!"), "budget": 90})
    assert told(path) == [
        (-1, "+1 human: Hello, budget → 120", 0),
        (0, "", 0),
        (1, "+1 ai: Hi!, budget 120 → 90", 42),
    ]


def test_the_parents_of_inputs_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        nodes: Any = [(name, lambda _: {"budget": 90}) for name in "abcdef"]
        builder: Any = StateGraph(Chat).add_sequence(nodes).add_edge(START, "a")
        for number in range(3):
            builder.compile(checkpointer=saver).invoke({"budget": number}, config_of("chat"))
    opening = Opening(parse_url(str(path)))
    operations = ThreadOperations(opening, "chat")
    with opening.open(lambda _: None) as store:

        def read() -> tuple[Tree, set[str]]:
            reader, ids = ThreadReader(store, "chat"), set[str]()
            moments = reader.moments

            def watched(ns: str, some: list[str], **options: Any) -> Iterator[Moment]:
                ids.update(some)
                return moments(ns, some, **options)

            monkeypatch.setattr(reader, "moments", watched)
            return TreeReader(reader, operations, repr).read(TreeShape(nest=True)), ids

        whole, _ = read()
        monkeypatch.setattr(trees, "_LARGE", 0)
        folded, ids = read()
    shown = set(folded.plan.shown)
    assert len(shown) == 4 < len(whole.details)
    # Three inputs, the head, and its parent, which tells the node that ran.
    _, head = max(shown)
    parent = folded.keys.index["", head].parent_checkpoint_id
    assert ids == {parent, *(checkpoint_id for _, checkpoint_id in shown)}
    assert folded.details == {key: whole.details[key] for key in shown}


def test_nothing_is_told_of_values_that_are_redacted(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    run(path, lambda _: {"messages": answer("Hi!"), "budget": 90})
    assert [text for _, text, _ in told(path, redact=True)] == [
        "budget, messages +1",
        "",
        "budget, messages +1",
    ]


def test_a_list_that_is_written_again_is_not_new(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    run(path, lambda state: {"messages": [*state["messages"], answer("Hi!")]})
    assert told(path)[-1] == (1, "+1 ai: Hi!", 42)


def test_large_writes_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "chat.db"
    run(path, lambda _: {"messages": answer("much " * 40), "budget": 90})
    monkeypatch.setattr(tree_changes, "_LARGEST", 150)
    assert told(path)[-1] == (1, "budget 120 → 90, messages +1", 0)


def test_the_messages_of_another_branch_are_not_told(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    texts = iter(["first", "second"])
    run(path, lambda _: {"messages": answer(next(texts))}, again=True)
    found = told(path)[2:]
    # A fork has a checkpoint of its own, with its own writes; earlier releases make none.
    assert [text for *_, text, _ in found] in (
        ["+1 ai: first", "", "+1 ai: second"],
        ["messages +1", "messages +1"],
    )


def test_writes_of_one_of_two_runs_are_told_of_neither() -> None:
    children = [Skeleton("", name, "a", source="loop") for name in "bc"]
    by_hand = Skeleton("", "d", "a", source="fork")
    assert forked(children) == {("", "a")}
    assert forked([children[0], by_hand]) == frozenset()


def test_an_input_tells_what_was_given_also_if_it_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"

    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder: Any = StateGraph(Plain)
        builder.add_sequence([("note", lambda _: {"log": ["noted"]})]).add_edge(START, "note")
        graph = builder.compile(checkpointer=saver)
        for given in ({"log": ["a", "b"], "name": "x"}, {"log": [], "name": "x"}, {"name": "y"}):
            graph.invoke(given, config_of("chat"))
    texts = [text for _, text, _ in told(path)]
    assert texts[::3] == ["log +2, name → x", "log → [], name → x", "name x → y"]
    redacted = [text for _, text, _ in told(path, redact=True)]
    assert redacted[::3] == ["log +2, name", "log, name", "name"]


def test_folded_steps_of_a_long_thread_name_their_nodes(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        nodes = [(name, lambda _: {"budget": 1}) for name in "abcde"]
        builder: Any = StateGraph(Chat).add_sequence(nodes).add_edge(START, "a")
        graph = builder.compile(checkpointer=saver)
        for number in range(50):
            graph.invoke({"budget": number}, config_of("chat"))
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE writes DROP COLUMN task_path")  # as before 3.1.2
    shown = ckpt("-s", path, "show", "chat", "--tree", "-o", "table").out
    assert shown.count("a, b, c, d") == 50
