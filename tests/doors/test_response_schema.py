"""`response_schema` of a question is told wherever the question is, as `get_state` tells it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import ckpt_cli
from tests.kit.agents.small import Log, chain, nested, run, running
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Approval(BaseModel):
    """An answer."""

    ok: bool
    note: str = ""


def ask(_: Log) -> Any:
    first = interrupt({"q": "one?"}, response_schema={"type": "string", "maxLength": 9})
    second = interrupt({"q": "two?"}, response_schema=Approval)
    third = interrupt({"q": "three?"})
    return {"log": [first, str(second), third]}


@pytest.fixture
def store(path: Path) -> Iterator[tuple[Path, Any]]:
    """Return a store and its graph; a thread asks itself, another in a subgraph."""
    asking = chain(Log, {"ask": ask})
    run(path, nested(Log, asking, "call"), {"log": []}, thread="inner")
    with running(path, asking) as graph:
        graph.invoke({"log": []}, CONFIG)
        yield path, graph


def told(path: Path) -> Any:
    """Assert that all outputs give the same schema of the question, and return it."""
    (asked,) = ckpt("-s", path, "interrupts", "t", "-o", "json").json
    schema = asked.get("response_schema")
    shown = ckpt("-s", path, "show", "t", "-o", "json").json
    (question,) = shown["interrupts"]
    (task,) = shown["tasks"]
    assert question.get("response_schema") == schema
    assert task["interrupts"] == [question]
    assert ("must fit" in ckpt("-s", path, "show", "t", "-o", "table").out) == (schema is not None)
    with ckpt_cli.open(str(path)) as opened:
        (one,) = opened.thread("t").head.show().to_dict()["interrupts"]
    assert one.get("response_schema") == schema
    return schema


def test_it_equals_what_get_state_returns(store: tuple[Path, Any]) -> None:
    path, graph = store
    for answer in ("yes", {"ok": True}, None):
        (expected,) = graph.get_state(CONFIG).interrupts
        assert told(path) == expected.response_schema
        if answer is not None:
            graph.invoke(Command(resume=answer), CONFIG)
    assert expected.response_schema is None  # It was asked without one.


def test_a_question_of_a_subgraph_has_it_too(store: tuple[Path, Any]) -> None:
    path, _ = store
    (asked,) = ckpt("-s", path, "interrupts", "inner", "-o", "json").json
    assert asked["response_schema"] == {"type": "string", "maxLength": 9}
    assert asked["path"] == ["call", "ask"]
    rows = ckpt("-s", path, "sql", "select response_schema from interrupts", "-o", "json").json
    assert [one["response_schema"] for one in rows] == [asked["response_schema"]] * 2


def test_its_texts_are_redacted(store: tuple[Path, Any]) -> None:
    path, _ = store
    shown = ckpt("-s", path, "--redact", "show", "t", "-o", "json")
    assert "response_schema" in shown.json["interrupts"][0]
    assert "maxLength" not in shown.out
