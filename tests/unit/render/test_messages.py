"""A conversation as text: each call of a tool once, however a provider stores it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.conversation import transcript
from ckpt_cli.render.messages import message_records, transcript_lines

CALL = {"name": "lookup", "args": {"q": "tea"}, "id": "call_1"}
RAW = {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": "{bad"}}
TEXT = {"type": "text", "text": "let me look"}


def shown(message: AIMessage, *more: Any) -> tuple[list[str], list[Any]]:
    """The lines of a stored conversation, and the calls of its first message as JSON."""
    items = decode(TypedBytes(*JsonPlusSerializer().dumps_typed([message, *more])))
    assert isinstance(items, list)
    turns = transcript(items)
    lines = [one.text for one in transcript_lines(turns, 0, 80, full=False, cut=True)]
    return lines[1:], next(message_records(turns, 0))["tool_calls"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("let me look", ["  let me look"]),
        ([TEXT, {"type": "tool_use", "id": "call_1", "name": "lookup"}], ["  let me look"]),
        ([{"type": "tool_use", "id": "call_1", "name": "lookup", "input": {"q": "tea"}}], []),
        ([{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup"}], []),
        ([{"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1"}], []),
        ([{"type": "tool_call", "id": "call_1", "name": "lookup", "args": {}}], []),
        (
            [{"type": "reasoning", "id": "rs_1"}, {"type": "tool_use", "id": "call_1"}],
            ["  [reasoning]"],
        ),
        ([{"type": "tool_use", "id": "other", "name": "lookup"}], ["  [tool_use]"]),
        ([{"type": "text", "text": "as said", "id": "call_1"}], ["  as said"]),
    ],
)
def test_a_call_that_is_a_block_of_the_content_too_is_shown_once(
    content: Any, text: list[str]
) -> None:
    message = AIMessage(content, tool_calls=[CALL])
    lines, calls = shown(message, ToolMessage("found", tool_call_id="call_1"))
    assert lines == [*text, '  > lookup(q="tea")', "    found"]
    assert [one["id"] for one in calls] == ["call_1"]


def test_a_call_that_could_not_be_parsed_is_shown_once() -> None:
    lines, calls = shown(AIMessage("", additional_kwargs={"tool_calls": [RAW]}))
    assert lines == ['  > invalid lookup("{bad")', "    no result"]
    assert [one.get("invalid") for one in calls] == [True]


def test_a_block_without_a_call_is_named() -> None:
    lines, calls = shown(AIMessage([TEXT, {"type": "tool_use", "id": "call_1", "name": "lookup"}]))
    assert lines == ["  let me look[tool_use]"]
    assert calls == []
