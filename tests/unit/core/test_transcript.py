"""Conversations: results under their calls, tokens by model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_cli.core.conversation import (
    TokenCounts,
    as_message,
    message_list,
    model_of,
    statistics,
    transcript,
    usage_of,
)
from tests.kit.strategies import values


def ai(*calls: str, **fields: Any) -> Value:
    asked: Any = [{"name": "look_up", "args": {}, "id": call} for call in calls]
    said: Any = {"content": "", "tool_calls": asked, **fields}
    return Tagged("langchain_core.messages.ai.AIMessage", said)


def tool(call: str, **fields: Any) -> Value:
    said: Any = {"role": "tool", "content": f"result of {call}", "tool_call_id": call, **fields}
    return Tagged("langchain_core.messages.tool.ToolMessage", said)


def test_a_result_belongs_to_the_call_with_its_id() -> None:
    turns = transcript([ai("a", "b"), tool("b"), tool("a"), tool("c")])
    assert [call.result for call in turns[0].calls] == [2, 1]
    assert [turn.answers for turn in turns] == [None, 0, 0, None]


def test_an_id_that_comes_again_is_answered_by_what_follows_it() -> None:
    turns = transcript([ai("a"), tool("a"), ai("a"), tool("a"), tool("a")])
    assert [turns[0].calls[0].result, turns[2].calls[0].result] == [1, 3]
    assert turns[4].answers is None


def test_a_call_may_stay_without_an_answer() -> None:
    (turn,) = transcript([ai("a")])
    assert turn.calls[0].result is None
    assert statistics([turn]).tools[0].unanswered == 1


def test_what_is_no_message_is_kept() -> None:
    turns = transcript(["hello", 7, ai()])
    assert [(turn.message.role, turn.message.content) for turn in turns[:2]] == [
        ("?", "hello"),
        ("?", 7),
    ]


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        (
            {"usage_metadata": {"input_tokens": 3, "output_tokens": 2}},
            TokenCounts(1, 3, 2, total=5),
        ),
        (
            {"usage_metadata": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 9}},
            TokenCounts(1, 3, 2, total=9),
        ),
        (
            {"response_metadata": {"token_usage": {"prompt_tokens": 4, "completion_tokens": 1}}},
            TokenCounts(1, 4, 1, total=5),
        ),
        (
            {"response_metadata": {"tokenUsage": {"promptTokens": 4, "completionTokens": 1}}},
            TokenCounts(1, 4, 1, total=5),
        ),
        ({"response_metadata": {"usage": {"input_tokens": 4}}}, TokenCounts(1, 4, 0, total=4)),
        ({"usage": {"prompt_tokens": 1, "completion_tokens": True}}, TokenCounts(1, 1, 0, total=1)),
        ({"usage_metadata": None}, None),
        ({"usage_metadata": "many"}, None),
        ({}, None),
    ],
)
def test_tokens_are_read_as_libraries_write_them(fields: Any, usage: TokenCounts | None) -> None:
    message = as_message(ai(**fields))
    assert message is not None
    assert usage_of(message) == usage


def test_the_model_is_named() -> None:
    for key in ("model_name", "model", "model_id"):
        message = as_message(ai(response_metadata={key: "large-2"}))
        assert message is not None
        assert model_of(message) == "large-2"


def test_statistics_put_the_most_expensive_first() -> None:
    def said(model: str, tokens: int) -> Value:
        used = {"input_tokens": tokens, "output_tokens": 1}
        return ai("a", usage_metadata=used, response_metadata={"model": model})

    failed = tool("a", status="error")
    found = statistics(transcript([said("small", 1), said("large", 10), said("small", 2), failed]))
    assert [(one.model, one.usage) for one in found.models] == [
        ("large", TokenCounts(1, 10, 1, total=11)),
        ("small", TokenCounts(2, 3, 2, total=5)),
    ]
    assert found.roles == {"ai": 3, "tool": 1}
    (calls,) = found.tools
    assert (calls.name, calls.calls, calls.errors, calls.unanswered) == ("look_up", 3, 1, 2)


def test_one_message_and_a_cut_list_are_conversations_too() -> None:
    assert message_list(ai()) == [ai()]
    assert message_list(Cut([ai()], 99, "long")) == [ai()]
    assert message_list([]) is None
    assert message_list(["text"]) is None
    assert message_list({"content": "no role"}) is None


ids = st.sampled_from("ab")


@given(st.lists(values | st.builds(tool, ids) | st.builds(ai, ids, ids), max_size=12))
def test_every_item_is_a_turn_and_calls_and_answers_agree(items: list[Any]) -> None:
    turns = transcript(items)
    assert [turn.value for turn in turns] == items
    results = [call.result for turn in turns for call in turn.calls if call.result is not None]
    answering = [turn.index for turn in turns if turn.answers is not None]
    assert sorted(results) == answering
    for turn in turns:
        assert turn.answers is None or turn.answers < turn.index
    statistics(turns)
