"""`response_schema` of a question is told wherever the question is, as `get_state` tells it."""

from pathlib import Path
from typing import Any

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


def told(path: Path) -> Any:
    """Assert that all outputs give the same schema of the question, and return it."""
    (asked,) = ckpt("-s", path, "interrupts", "t", "-o", "json").json
    schema = asked.get("response_schema")
    shown = ckpt("-s", path, "show", "t", "-o", "json").json
    (question,) = shown["interrupts"]
    assert question.get("response_schema") == schema
    assert shown["tasks"][0]["interrupts"] == [question]
    assert ("must fit" in ckpt("-s", path, "show", "t", "-o", "table").out) == (schema is not None)
    with ckpt_cli.open(str(path)) as opened:
        (one,) = opened.thread("t").head.show().to_dict()["interrupts"]
    assert one.get("response_schema") == schema
    return schema


def test_it_equals_what_get_state_returns(path: Path) -> None:
    with running(path, chain(Log, {"ask": ask})) as graph:
        graph.invoke({"log": []}, CONFIG)
        assert "maxLength" not in ckpt("-s", path, "--redact", "show", "t", "-o", "json").out
        for answer in ("yes", {"ok": True}, None):
            (expected,) = graph.get_state(CONFIG).interrupts
            assert told(path) == expected.response_schema
            if answer is not None:
                graph.invoke(Command(resume=answer), CONFIG)
    assert expected.response_schema is None  # It was asked without one.


def test_a_question_of_a_subgraph_has_it_too(path: Path) -> None:
    run(path, nested(Log, chain(Log, {"ask": ask}), "call"), {"log": []})
    (asked,) = ckpt("-s", path, "interrupts", "-o", "json").json
    assert asked["response_schema"] == {"type": "string", "maxLength": 9}
    assert asked["path"] == ["call", "ask"]
    rows = ckpt("-s", path, "sql", "select response_schema from interrupts", "-o", "json").json
    assert [one["response_schema"] for one in rows] == [asked["response_schema"]]
