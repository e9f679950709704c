"""A tool call that is repeated is counted in the form of any provider."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ckpt_backends.codec.values import Tagged
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.checks import repeated_calls

ARGS = {"city": "Kyoto", "days": 2}
TEXT = json.dumps({"days": 2, "city": "Kyoto"})


def ai(content: Any = "", **fields: Any) -> Tagged:
    payload: Any = {"type": "ai", "content": content, **fields}
    return Tagged("langchain_core.messages.ai.AIMessage", payload)


def in_kwargs(**extra: Any) -> Any:
    return ai(additional_kwargs=extra)


def block(**fields: Any) -> Any:
    return ai([{"type": "text", "text": "Let me see."}, fields])


FORMS: dict[str, Callable[[Any], Any]] = {
    "langchain": lambda n: ai(tool_calls=[{"name": "look", "args": ARGS, "id": f"c{n}"}]),
    "not parsed": lambda n: ai(invalid_tool_calls=[{"name": "look", "args": TEXT, "id": f"c{n}"}]),
    "openai": lambda n: {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{n}", "function": {"name": "look", "arguments": TEXT}}],
    },
    "openai in kwargs": lambda n: in_kwargs(
        tool_calls=[{"id": f"c{n}", "function": {"name": "look", "arguments": TEXT}}]
    ),
    "openai before tools": lambda _: in_kwargs(function_call={"name": "look", "arguments": TEXT}),
    "responses": lambda n: block(
        type="function_call", name="look", arguments=TEXT, call_id=f"c{n}", id=f"fc{n}"
    ),
    "anthropic": lambda n: block(type="tool_use", name="look", input=ARGS, id=f"c{n}"),
    "of the provider": lambda n: block(type="server_tool_use", name="look", input=ARGS, id=f"c{n}"),
    "standard": lambda n: block(type="tool_call", name="look", args=ARGS, id=f"c{n}"),
    "not standard": lambda n: block(
        type="non_standard", value={"type": "mcp_call", "name": "look", "arguments": TEXT}
    ),
    "bedrock": lambda n: block(toolUse={"name": "look", "input": ARGS, "toolUseId": f"c{n}"}),
    "google": lambda _: block(functionCall={"name": "look", "args": ARGS}),
    "twice in one message": lambda n: ai(
        [{"type": "tool_use", "name": "look", "input": ARGS, "id": f"c{n}"}],
        tool_calls=[{"name": "look", "args": ARGS, "id": f"c{n}"}],
        additional_kwargs={"function_call": {"name": "look", "arguments": TEXT}},
    ),
    "by two ids": lambda n: ai(
        [{"type": "function_call", "name": "look", "arguments": "", "call_id": f"c{n}", "id": "f"}],
        tool_calls=[{"name": "look", "args": ARGS, "id": f"c{n}"}],
    ),
}


def details(items: list[Any], *, names: bool = True) -> list[str]:
    found = list(repeated_calls(CheckpointKey("t", "", "c"), "messages", items, names=names))
    assert {(one.code, one.checkpoint_id, one.channel) for one in found} <= {
        ("tool-call-repeated", "c", "messages")
    }
    return [one.detail for one in found]


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_counted_in_each_form(form: str) -> None:
    made = [FORMS[form](n) for n in range(6)]
    assert details(made[:4]) == []
    assert details(made[:5]) == ["'look' was called 5 times with the same arguments"]
    assert details(made) == ["'look' was called 6 times with the same arguments"]
    assert details(made, names=False) == [
        "a tool (number 1) was called 6 times with the same arguments"
    ]


def test_calls_in_several_forms_are_the_same() -> None:
    made = [
        FORMS[form](form) for form in ("langchain", "openai", "responses", "anthropic", "google")
    ]
    assert details(made) == ["'look' was called 5 times with the same arguments"]


def test_other_arguments_are_another_call() -> None:
    def call(n: int, name: str = "look") -> Tagged:
        return ai(tool_calls=[{"name": name, "args": {"page": n}, "id": f"{name} {n}"}])

    assert details([call(n) for n in range(20)]) == []
    assert details([call(1, f"tool{n}") for n in range(20)]) == []
    assert details([call(n % 2) for n in range(12)]) == [
        "'look' was called 6 times with the same arguments"
    ]


def test_results_and_texts_of_people_are_no_calls() -> None:
    result = {"type": "tool_result", "name": "look", "tool_use_id": "c", "content": ""}
    output = {"type": "function_call_output", "name": "look", "call_id": "c", "output": ""}
    said = [{"type": "tool_use", "name": "look", "input": ARGS, "id": "c"}]
    person: Any = {"type": "human", "content": said}
    made = [
        ai([result, output]),
        Tagged("langchain_core.messages.human.HumanMessage", person),
        "look",
    ]
    assert details(made * 6) == []


def test_arguments_of_any_form_are_compared() -> None:
    def call(args: Any) -> Tagged:
        return ai(tool_calls=[{"name": "look", "args": args, "id": None}])

    order = {1: 2, "a": Tagged("app.Order", {"n": 1})}
    forms: list[Any] = [{}, "[" * 50_000, "not json", order, [1, 2]]
    for args in forms:
        assert len(details([call(args)] * 5)) == 1
    empty: list[Any] = [{}, None, "", "{}", " {} "]
    assert len(details([call(one) for one in empty])) == 1
