"""Threads as tests: `ckpt_cli.testing`, what is left of a thread, and the written files."""

import ast
import json
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

from ckpt_cli.core.thread_tests import LeftOut, TaskRecord, ThreadRecord
from ckpt_cli.render.thread_tests import literal, pasted, source, spelled_json, spelled_python
from ckpt_cli.testing import NotRecorded, ThreadRecording, like
from tests.kit.cases import cases
from tests.thread_tests.applications.chat import Scripted


class Color(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Box:
    point: Point


class Model(BaseModel):
    number: int


class Holder(TypedDict, total=False):
    value: Any
    told: str


HERE = __name__
POINT = {"$type": f"{HERE}.Point", "x": 1, "y": 2}
VALUES = [
    ({"$bytes": "AAE="}, b"\x00\x01"),
    ({"$set": [1, 2]}, {1, 2}),
    ({"$datetime": "2026-05-04T10:00:00+00:00"}, datetime(2026, 5, 4, 10, tzinfo=UTC)),
    ({"$float": "-Infinity"}, -math.inf),
    ({"$int": "9007199254740993"}, 2**53 + 1),
    ({"$map": [[1, "a"]]}, {1: "a"}),
    ({"$$key": {"$$bytes": "x"}}, {"$key": {"$bytes": "x"}}),
    ({"$type": "datetime.date", "$args": [2026, 5, 4]}, date(2026, 5, 4)),
    ({"$type": "decimal.Decimal", "$value": "1.50"}, Decimal("1.50")),
    ({"$type": "pathlib.PosixPath", "$args": ["/", "a"]}, Path("/a")),
    ({"$type": "collections.deque", "$args": [1, 2]}, deque([1, 2])),
    ({"$type": f"{HERE}.Color", "$value": "red"}, Color.RED),
    (POINT, Point(1, 2)),
    ({"$type": f"{HERE}.Box", "point": POINT}, Box(Point(1, 2))),
    ({"$type": f"{HERE}.Model", "number": 3}, Model(number=3)),
    ({"$message": "m1"}, HumanMessage("hi", id="1")),
    ({"$messages": "m1 m1"}, [HumanMessage("hi", id="1")] * 2),
]


def recording(graph: Any, task: dict[str, Any], **more: Any) -> ThreadRecording:
    messages = {"m1": {"type": "human", "content": "hi", "id": "1"}, **more.pop("messages", {})}
    tasks = [{"name": "it", "node": "it", "step": 1, **task}]
    return ThreadRecording(
        {"ckpt_test": 1, "thread": "t", "messages": messages, "tasks": tasks, **more}, graph
    )


def one_node(node: Any, schema: Any = Holder) -> Any:
    return StateGraph(schema).add_node("it", node).add_edge(START, "it")


@pytest.mark.parametrize(("form", "value"), VALUES, ids=str)
def test_a_node_is_given_what_the_file_tells(form: Any, value: Any) -> None:
    seen = []
    graph = one_node(lambda state: seen.append(state["value"]))
    recording(graph, {"state": {"value": form}, "writes": {}, "next": []}).node("it")
    assert seen == [value]
    assert type(seen[0]) is type(value)


def test_an_array_is_made_by_numpy() -> None:
    form = {"dtype": "<i8", "shape": [2, 1], "order": "C", "data": [[1], [2]]}
    seen: list[Any] = []
    graph = one_node(lambda state: seen.append(state["value"]))
    recording(graph, {"state": {"value": {"$type": "numpy.ndarray", **form}}}).node("it")
    assert seen[0].tolist() == [[1], [2]]


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "builtins.eval", "zoo.Order"])
def test_a_file_names_no_code(name: str) -> None:
    """Only classes of data are made, of modules that are imported."""
    graph = one_node(lambda state: None)
    found = recording(graph, {"state": {"value": {"$type": name, "$args": ["true"]}}})
    with pytest.raises(AssertionError, match="neither the schemas nor the modules"):
        found.node("it")


@cases(
    "value recorded same",
    ({"id": "call_8fJ2kLm4"}, {"id": "call_9aB3cDe5"}, True),
    ("0f3c9a52-1111-4222-8333-444455556666", "1f3c9a52-1111-4222-8333-444455556666", True),
    ("2026-05-04T10:00:00Z", "2026-05-05T11:00:00Z", True),
    ("2026-05-04", "2026-05-05", False),
    ({"updated_at": 1780000000.5}, {"updated_at": 1790000000.5}, True),
    ({"price": 1780000000.5}, {"price": 1790000000.5}, False),
    ({"a": 1}, {"a": 1, "b": 2}, False),
    (1, True, False),
)
def test_only_ids_and_times_may_differ(value: Any, recorded: Any, same: bool) -> None:
    assert (like(value, recorded) == recorded and type(value) is type(recorded)) is same


ASKED = {
    "m2": {"type": "ai", "content": "one", "id": "2"},
    "m3": {"type": "ai", "content": "answer", "id": "3"},
}
PROMPTED = {**ASKED, "p1": {"type": "system", "content": "Be kind."}}
CALLED = {
    "m2": {"type": "ai", "content": "", "tool_calls": [{"name": "find", "args": {"query": "x"}}]},
    "m3": {"type": "tool", "content": "found x", "tool_call_id": "c1", "name": "find"},
}
CALLED["m2"]["tool_calls"][0] |= {"id": "c1", "type": "tool_call"}  # type: ignore[index]
TOLD = {"state": {"messages": {"$messages": "m1 m2"}}, "writes": {"messages": {"$messages": "m3"}}}
NOTED = {"it": [{"$messages": "p1 m1 m2"}]}


@tool
def find(query: str) -> str:
    """Find something."""
    raise RuntimeError("a tool must not be called")


def asking(change: Callable[[list[Any]], list[Any]], times: int = 1) -> Any:
    """Return a node that asks a model, with a prompt that is made of the messages."""

    def it(state: Any) -> Any:
        for _ in range(times):
            answer = Scripted().invoke(change(state["messages"]))
        return {"messages": [answer]}

    return it


def misspelling(state: Any) -> Any:
    call = state["messages"][-1].tool_calls[0]
    return {"messages": [find.invoke({**call, "args": {"query": "y"}})]}


def by_itself(state: Any) -> Any:
    """Call a tool without the id of the call."""
    call = state["messages"][-1].tool_calls[0]
    answer = find.invoke(call["args"])
    return {"messages": [ToolMessage(answer, tool_call_id=call["id"], name="find")]}


KIND = asking(lambda messages: [SystemMessage("Be kind."), *messages])
RUDE = asking(lambda messages: [SystemMessage("Be rude."), *messages])


@cases(
    "node messages asked",
    (KIND, ASKED, {}),
    (KIND, PROMPTED, NOTED),
    (ToolNode([find]), CALLED, {}),
    (by_itself, CALLED, {}),
)
def test_models_and_tools_answer_what_is_recorded(node: Any, messages: Any, asked: Any) -> None:
    ran = recording(one_node(node, MessagesState), TOLD, messages=messages, asked=asked).node("it")
    assert ran.writes == ran.recorded.writes
    (message,) = ran.writes["messages"]
    assert message["content"] in {"answer", "found x"}


@cases(
    "node messages asked why",
    (asking(lambda messages: messages[::-1]), ASKED, {}, "in another order"),
    (asking(lambda messages: messages, times=2), ASKED, {}, "once more than recorded"),
    (RUDE, PROMPTED, NOTED, "asked something else"),
    (misspelling, CALLED, {}, "is called with"),
)
def test_what_is_not_recorded_fails(node: Any, messages: Any, asked: Any, why: str) -> None:
    graph = one_node(node, MessagesState)
    with pytest.raises(NotRecorded, match=why):
        recording(graph, TOLD, messages=messages, asked=asked).node("it")


def test_what_the_graph_catches_fails_all_the_same() -> None:
    """An application that goes on after any error does not hide that nothing was recorded."""

    def careless(state: Any) -> None:
        with suppress(Exception):
            Scripted().invoke("anything")

    graph = one_node(careless, MessagesState)
    with pytest.raises(NotRecorded, match="once more than recorded"):
        recording(graph, {**TOLD, "writes": {}}, messages=ASKED).node("it")


def test_a_graph_without_the_node_or_a_channel_fails() -> None:
    graph = one_node(lambda state: None)
    with pytest.raises(AssertionError, match="no node 'gone'; it has 'it'"):
        recording(graph, {"node": "gone"}).node("it")
    with pytest.raises(AssertionError, match="no channel 'old'"):
        recording(graph, {"state": {"old": 1}}).node("it")


def test_a_file_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="update ckpt"):
        ThreadRecording({"ckpt_test": 2}, one_node(lambda state: None)).node("it")


def test_a_person_can_add_what_a_model_answered() -> None:
    """An answer that the state does not keep, such as one in a form of its own."""

    def it(state: Any) -> Any:
        return {"messages": [AIMessage(f"chosen: {Scripted().invoke(state['messages']).content}")]}

    known = {**ASKED, "m3": {"type": "human", "content": "x"}, "s1": {"type": "ai", "content": "a"}}
    task = {"state": TOLD["state"], "answers": {"$messages": "s1"}}
    ran = recording(one_node(it, MessagesState), {**task, "writes": {}}, messages=known).node("it")
    assert ran.writes == {"messages": [{"type": "ai", "content": "chosen: a"}]}


def test_behind_a_checkpoint_only_its_own_tasks_are_tested() -> None:
    def task(name: str, checkpoint_id: str, **more: Any) -> TaskRecord:
        return TaskRecord(name, name, "", 1, checkpoint_id=checkpoint_id, **more)

    tasks = [
        task("calls", "1", is_tested=True, inside=["called"]),
        task("called", "in the subgraph", is_tested=True),
        task("failed", "1"),
        task("after", "2", is_tested=True),
    ]
    left_out = [LeftOut("failed", "why"), LeftOut("after", "why")]
    found = ThreadRecord("t", "2", None, "", {}, tasks, None, left_out).behind("1")
    assert [one.name for one in found.tasks] == ["calls", "called", "failed"]
    assert [one.name for one in found.tested] == ["calls"]
    assert found.left_out == left_out[:1]


TEXTS = st.text(st.characters(exclude_categories=[]))
ANY_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(TEXTS)
def test_a_literal_is_the_text_on_one_printable_line(text: str) -> None:
    shown = literal(text)
    assert ast.literal_eval(shown) == text
    assert shown.isprintable()


@given(ANY_VALUES)
def test_values_are_the_same_as_json_and_as_python(value: Any) -> None:
    assert json.loads(spelled_json(value)) == value
    assert ast.literal_eval(spelled_python(value)) == value


@given(TEXTS, TEXTS, TEXTS)
def test_a_file_is_python_that_only_records(thread: str, node: str, said: str) -> None:
    task = {"name": node, "node": node, "asks": [{"question": said}], "error": said, "next": [node]}
    form = {
        "ckpt_test": 1,
        "thread": thread,
        "title": said,
        "messages": {"m1": {"type": "ai", "content": said}},
        "tasks": [task, {**task, "name": "b", "writes": {node: {"$message": "m1"}}}],
    }
    for text in (source(form, [node, "b"], "a:b", "c.json", {}), pasted(form, [node, "b"], "a:b")):
        tree = ast.parse(text)
        calls = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
        assert calls == {"ThreadRecording", "RECORDING.node"}
        assert {type(one) for one in tree.body} <= {
            *(ast.Expr, ast.ImportFrom, ast.Assign, ast.FunctionDef)
        }
