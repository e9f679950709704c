"""A value that is too long to be shown is read whole by what searches it."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from ckpt_backends.codec.values import DEFAULT_LIMITS
from tests.kit.command import ckpt

SECRET = "ghp_" + "aB3" * 12


class State(TypedDict, total=False):
    """Two values that are cut where they are shown: one is long, one has many parts."""

    long: list[Any]
    many: list[Any]


def grow(_state: State) -> State:
    text = "x " * (DEFAULT_LIMITS.value_bytes // 2 + 1)
    return {
        "long": [text, SECRET, AIMessage("", id="a")],
        "many": [*([None] * (DEFAULT_LIMITS.nodes + 1)), AIMessage("", id="b")],
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("long") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder: Any = StateGraph(State)
        graph = builder.add_node("grow", grow).add_edge(START, "grow").compile(saver)
        graph.invoke({}, {"configurable": {"thread_id": "t"}}, durability="exit")
    return path


def test_the_classes_of_a_long_value_are_listed(store: Path) -> None:
    answer = ckpt("-s", str(store), "doctor", "--types", "-o", "json")
    assert (answer.code, answer.json["unchecked"]) == (0, [])
    assert [(one["name"], one["count"]) for one in answer.json["types"]] == [("AIMessage", 2)]


@pytest.mark.nightly
def test_a_long_value_is_searched_for_secrets(store: Path) -> None:
    answer = ckpt("-s", str(store), "secrets", "-o", "json")
    assert answer.code == 1, answer.err
    assert {one["channel"] for one in answer.json} == {"long"}
    assert "cannot be decoded" not in answer.err
