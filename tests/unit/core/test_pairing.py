"""Calls and results of a conversation: what is broken, and what is left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.conversation import (
    Counterparts,
    is_conversation,
    last_calling,
    last_turn,
    mended,
    pair,
)
from ckpt_cli.core.doctor.checks import message_findings
from ckpt_cli.core.values import fields_of

KEY = CheckpointKey("t", "", "1")


def ai(*calls: str, **fields: Any) -> Value:
    asked: Any = [{"name": "look_up", "args": {}, "id": call} for call in calls]
    said: Any = {"content": "", "tool_calls": asked, **fields}
    return Tagged("langchain_core.messages.ai.AIMessage", said)


def tool(call: str, **fields: Any) -> Value:
    said: Any = {"content": "result", "tool_call_id": call, "name": "look_up", **fields}
    return Tagged("langchain_core.messages.tool.ToolMessage", said)


def human(**fields: Any) -> Value:
    said: Any = {"content": "?", **fields}
    return Tagged("langchain_core.messages.human.HumanMessage", said)


def codes(items: list[Value], others: Counterparts | None = None) -> list[str]:
    found = message_findings(KEY, "messages", items, others or Counterparts(len(items)))
    return [f"{one.code}: {one.detail}" for one in found]


FUNCTION_CALL: Any = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "f-1",
    "name": "look_up",
    "arguments": "{}",
}
TOOL_USE: Any = {"type": "tool_use", "id": "t-1", "name": "look_up", "input": {}}
RESULT: Any = {"type": "tool_result"}
PATCH: Any = {"type": "apply_patch_call", "id": "ap", "call_id": "p-1"}
INVALID: Any = {"name": "look_up", "args": "{", "id": "i-1", "error": None}
SERVED: Any = [
    {"type": "server_tool_use", "id": "s-1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s-1", "content": []},
    {"type": "web_search_call", "id": "ws-1", "status": "completed"},
    {"type": "code_interpreter_call", "id": "ci-1", "code": "1"},
    {"type": "mcp_call", "id": "m-1", "name": "find", "arguments": "{}"},
    {"type": "mcp_tool_use", "id": "m-2", "name": "find", "input": {}},
    {"type": "server_tool_call", "id": "s-2", "name": "find", "args": {}},
    {"type": "server_tool_result", "tool_call_id": "s-2", "status": "success"},
    {"type": "image_generation_call", "id": "ig-1"},
]
"""What a provider carries out: no result follows."""
UNANSWERED = "tool-call-unanswered: message {} calls '{}' ({}), and no message after it has the"
ORPHANED = "tool-result-orphaned: message {} is a result"


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([human(), ai("a", "b"), tool("b"), human()], [UNANSWERED.format(1, "look_up", "a")]),
        ([human(), ai("a"), ai("b"), tool("b")], [UNANSWERED.format(1, "look_up", "a")]),
        ([tool("a"), human()], [ORPHANED.format(0)]),
        ([human(), tool("a"), ai("a")], [ORPHANED.format(1)]),
        # Ids may repeat: the result is that of the nearest call.
        ([human(), ai("a"), human(), ai("a"), tool("a")], [UNANSWERED.format(1, "look_up", "a")]),
        (
            [
                {"role": "user", "content": "?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
                    ],
                },
                {"role": "user", "content": "?"},
            ],
            [UNANSWERED.format(1, "f", "a")],
        ),
        (
            [human(id="1"), human(id="2"), human(id="1")],
            ["message-id-duplicate: messages 0 and 2 have the same id (1)"],
        ),
    ],
)
def test_a_broken_conversation_is_found(items: list[Value], says: list[str]) -> None:
    found = codes(items)
    assert len(found) == len(says)
    assert all(one.startswith(text) for one, text in zip(found, says, strict=True))


@pytest.mark.parametrize(
    ("caller", "call_id"),
    [
        (ai(content=[{"type": "reasoning", "id": "rs"}, FUNCTION_CALL]), "f-1"),
        (ai("f-1", content=[FUNCTION_CALL]), "f-1"),
        (ai(content=[{"type": "text", "text": "Well"}, TOOL_USE]), "t-1"),
        (ai(content=[{**TOOL_USE, "type": "tool_call", "args": {}}]), "t-1"),
        (ai(content=[{"type": "non_standard", "value": FUNCTION_CALL}]), "f-1"),
        (ai(content=[{**FUNCTION_CALL, "type": "custom_tool_call", "input": ""}]), "f-1"),
        (ai(invalid_tool_calls=[INVALID]), "i-1"),
        (ai("i-1", invalid_tool_calls=[INVALID]), "i-1"),
        (
            ai(
                invalid_tool_calls=[INVALID],
                additional_kwargs={"tool_calls": [{"id": "i-1", "function": {"name": "look_up"}}]},
            ),
            "i-1",
        ),
        ({"role": "assistant", "content": [TOOL_USE]}, "t-1"),
        (ai(content=[*SERVED, TOOL_USE]), "t-1"),
    ],
)
def test_a_call_of_any_form_is_found_once(caller: Value, call_id: str) -> None:
    (found,) = codes([human(), caller, human()])
    assert found.startswith(UNANSWERED.format(1, "look_up", call_id))
    items = [human(), caller, human(), ai()]
    assert last_calling(items) == 1
    order = mended(items, pair(items, Counterparts(len(items))))
    assert [getattr(one, "id", one) for one in order] == [0, 1, call_id, 2, 3]


def test_a_call_by_name_only_is_found() -> None:
    caller = ai(additional_kwargs={"function_call": {"name": "look_up", "arguments": "{}"}})
    (found,) = codes([human(), caller, human()])
    assert found.startswith("tool-call-unanswered: message 1 calls 'look_up', and no message after")


def test_what_no_text_answers_is_not_mended() -> None:
    items = [human(), ai(content=[PATCH]), human()]
    (found,) = message_findings(KEY, "messages", items, Counterparts(len(items)))
    assert not found.has_fix
    assert found.look(["-s", "x.db"]) == "ckpt -s x.db messages t"


@pytest.mark.parametrize(
    "items",
    [
        [human(), ai("a", "b"), tool("b"), tool("a"), ai()],
        [human(id=None), human(id=None), ai("a", "b"), tool("a")],  # may still be answered
        [human(), ai("a", "b"), tool("a"), human(), tool("b"), ai()],
        [human(), ai("a"), tool("a"), tool("a"), ai()],
        [human(), ai(content=[FUNCTION_CALL, *SERVED]), tool("f-1"), ai()],
        [human(), ai("f-1", content=[FUNCTION_CALL]), tool("f-1"), human()],
        [human(), ai(content=[TOOL_USE]), human(content=[{**RESULT, "tool_use_id": "t-1"}])],
        [human(), ai(content=[{"type": "non_standard", "value": FUNCTION_CALL}]), tool("f-1")],
        [human(), ai(content=SERVED), human()],
        [
            human(),
            ai(content=[PATCH]),
            human(content=[{"type": "apply_patch_call_output", "call_id": "p-1"}]),
        ],
        [human(), ai(invalid_tool_calls=[INVALID]), tool("i-1"), ai()],
        [
            human(),
            ai(additional_kwargs={"function_call": {"name": "f", "arguments": "{}"}}),
            Tagged(
                "langchain_core.messages.function.FunctionMessage", {"content": "", "name": "f"}
            ),
            human(),
        ],
        # Google's package repeats the call of `tool_calls`.
        [human(), ai("a", additional_kwargs={"function_call": {"name": "f"}}), tool("a"), human()],
        [human(), ai("a", content=[{"type": "server_tool_use", "id": "a"}]), human()],
        [
            human(),
            ai("a", content=[{"type": "web_search_tool_result", "tool_use_id": "a"}]),
            human(),
        ],
        [
            human(),
            ai(additional_kwargs={"tool_outputs": [{"type": "computer_call", "call_id": "a"}]}),
            tool("a"),
            ai(),
        ],
        [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ],
        [human(), ai("a"), human(content=[{"type": "tool_result", "tool_use_id": "a"}]), ai()],
        # What a person said in it would be lost with the result.
        [
            human(),
            human(content=[{"type": "tool_result", "tool_use_id": "a"}, {"type": "text"}]),
            ai(),
        ],
        [human(), ai(tool_calls=[{"name": "f", "args": {}, "id": None}]), human(), tool("")],
    ],
)
def test_a_sound_conversation_has_no_finding(items: list[Value]) -> None:
    assert codes(items) == []


def test_a_message_with_two_results_is_moved_once() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": one} for one in ("a", "b")]
    items = [human(), human(content=blocks), ai("a", "b"), human()]
    assert mended(items, pair(items, Counterparts(len(items)))) == [0, 2, 1, 3]


def test_what_may_be_answered_elsewhere_is_left_alone() -> None:
    items = [human(), ai("a"), human(), ai("b"), human(), tool("c")]
    assert len(codes(items)) == 3
    found = codes(items, Counterparts(3, answered={"a"}, called={"c"}))
    assert found == []
    assert [one.id for one in pair(items, Counterparts(3)).awaited] == ["b"]
    assert [one.id for one in pair(items, Counterparts(3, {"a"})).awaited] == ["a", "b"]


def test_a_call_in_the_last_messages_of_an_ended_conversation_is_an_info() -> None:
    items = [human(), ai("a"), human(), ai("b", "c"), tool("c")]
    found = pair(items, Counterparts(len(items), is_final=True))
    assert [one.id for one in found.unanswered] == ["a"]
    assert [one.id for one in found.final] == ["b"]
    assert pair(items, Counterparts(len(items), {"b"}, is_final=True)).final == ()
    said = message_findings(KEY, "messages", items, Counterparts(len(items), is_final=True))
    assert [one.severity for one in said] == ["error", "info"]


def test_a_message_that_a_transcript_holds_twice_is_no_finding() -> None:
    items = [human(id="h"), ai(id="a"), human(id="h")]
    ended = Counterparts(len(items))
    assert list(message_findings(KEY, "transcript", items, ended)) == []
    assert [one.code for one in message_findings(KEY, "messages", items, ended)] == [
        "message-id-duplicate"
    ]
    others = [*items[:2], human(content="other", id="h")]
    assert len(list(message_findings(KEY, "transcript", others, ended))) == 1


def test_lists_without_a_person_are_no_conversation() -> None:
    assert not is_conversation([ai("a"), ai("b")])
    assert not is_conversation([tool("a")])
    assert not is_conversation(human())
    assert is_conversation([human(), "?"])
    assert (last_turn([human(), ai(), human()]), last_turn([ai()])) == (3, 0)
    assert (last_calling([ai("a"), ai("b"), ai()]), last_calling([human()])) == (1, 1)


@st.composite
def turns(draw: st.DrawFn) -> tuple[list[Value], list[int]]:
    """A sound conversation, and the indexes of its results."""
    items: list[Value] = []
    results: list[int] = []
    for number in range(draw(st.integers(1, 5))):
        items.append(human(id=f"human-{number}"))
        calls = [f"{number}-{one}" for one in range(draw(st.integers(0, 3)))]
        items.append(ai(*calls, id=f"ai-{number}"))
        for call in draw(st.permutations(calls)):
            results.append(len(items))
            items.append(tool(call, id=f"tool-{call}"))
        items.append(ai(id=f"last-{number}"))
    return items, results


@given(turns(), st.data())
def test_a_lost_message_is_the_only_finding(
    found: tuple[list[Value], list[int]], data: st.DataObject
) -> None:
    items, results = found
    assert codes(items) == []
    if not results:
        return
    lost = data.draw(st.sampled_from(results))
    message: Any = items[lost]
    call_id = message.payload["tool_call_id"]
    (unanswered,) = pair(items[:lost] + items[lost + 1 :], Counterparts(len(items))).unanswered
    assert unanswered.id == call_id
    without = [one for number, one in enumerate(items) if number != unanswered.index]
    orphans = pair(without, Counterparts(len(without))).orphaned
    ids = {fields_of(without[one])["tool_call_id"] for one in orphans}
    assert call_id in ids
    assert all(str(one).partition("-")[0] == call_id.partition("-")[0] for one in ids)
