"""Conversations: calls and results, what is broken, what mends it, and how they are shown."""

import json
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import list_of, stored_items
from ckpt_backends.codec.lossless import Ext, decode_lossless
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.registry import open_store
from ckpt_cli.core.conversation import (
    Counterparts,
    TokenCounts,
    as_message,
    is_conversation,
    last_calling,
    last_turn,
    mended,
    message_list,
    pair,
    result_like,
    says_nothing,
    statistics,
    title_of,
    transcript,
)
from ckpt_cli.core.doctor.checks import message_findings
from ckpt_cli.core.edit_state import stored_value
from ckpt_cli.core.state import read_body
from ckpt_cli.render.messages import message_records, transcript_lines
from tests.kit.cases import cases
from tests.kit.command import copy_store, eras

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


FUNCTION_CALL: Any = {"type": "function_call", "id": "fc_1", "call_id": "f-1", "name": "look_up"}
TOOL_USE: Any = {"type": "tool_use", "id": "t-1", "name": "look_up", "input": {}}
OF_A, OF_T = ({"type": "tool_result", "tool_use_id": one} for one in ("a", "t-1"))
COMPUTER = {"type": "computer_call", "call_id": "a"}
PATCH: Any = {"type": "apply_patch_call", "id": "ap", "call_id": "p-1"}
INVALID: Any = {"name": "look_up", "args": "{", "id": "i-1", "error": None}
RAW_INVALID: Any = {"id": "i-1", "function": {"name": "look_up"}}
SERVED: Any = [
    {"type": "server_tool_use", "id": "s-1", "name": "web_search", "input": {}},
    {"type": "web_search_tool_result", "tool_use_id": "s-1", "content": []},
    {"type": "code_interpreter_call", "id": "ci-1", "code": "1"},
    {"type": "mcp_tool_use", "id": "m-2", "name": "find", "input": {}},
    {"type": "server_tool_call", "id": "s-2", "name": "find", "args": {}},
]
"""What a provider carries out: no result follows."""
USER: Any = {"role": "user", "content": "?"}
OPENAI: Any = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}],
}
BY_NAME = ai(additional_kwargs={"function_call": {"name": "look_up", "arguments": "{}"}})
SAID_SO = Tagged(
    "langchain_core.messages.function.FunctionMessage", {"content": "", "name": "look_up"}
)
UNANSWERED = "tool-call-unanswered: message {} calls '{}' ({}), and no message after it has the"
ORPHANED = "tool-result-orphaned: message {} is a result"


@cases(
    "items says",
    ([human(), ai("a", "b"), tool("b"), human()], [UNANSWERED.format(1, "look_up", "a")]),
    ([tool("a"), human()], [ORPHANED.format(0)]),
    # Ids may repeat: the result is that of the nearest call.
    ([human(), ai("a"), human(), ai("a"), tool("a")], [UNANSWERED.format(1, "look_up", "a")]),
    ([USER, OPENAI, USER], [UNANSWERED.format(1, "f", "a")]),
    ([human(id="1"), human(), human(id="1")], ["message-id-duplicate: messages 0 and 2"]),
    ([human(), BY_NAME, human()], ["tool-call-unanswered: message 1 calls 'look_up', and no"]),
)
def test_a_broken_conversation_is_found(items: list[Value], says: list[str]) -> None:
    found = codes(items)
    assert [one[: len(text)] for one, text in zip(found, says, strict=True)] == says


@cases(
    "caller call_id",
    (ai(content=[{"type": "reasoning", "id": "rs"}, FUNCTION_CALL]), "f-1"),
    (ai(content=[{"type": "text", "text": "Well"}, TOOL_USE]), "t-1"),
    (ai(content=[{"type": "non_standard", "value": FUNCTION_CALL}]), "f-1"),
    (ai(content=[{**FUNCTION_CALL, "type": "custom_tool_call", "input": ""}]), "f-1"),
    (ai("i-1", invalid_tool_calls=[INVALID]), "i-1"),
    (ai(invalid_tool_calls=[INVALID], additional_kwargs={"tool_calls": [RAW_INVALID]}), "i-1"),
    (ai(content=[*SERVED, TOOL_USE]), "t-1"),
)
def test_a_call_of_any_form_is_found_once(caller: Value, call_id: str) -> None:
    (found,) = codes([human(), caller, human()])
    assert found.startswith(UNANSWERED.format(1, "look_up", call_id))
    items = [human(), caller, human(), ai()]
    assert last_calling(items) == 1
    order = mended(items, pair(items, Counterparts(len(items))))
    assert [getattr(one, "id", one) for one in order] == [0, 1, call_id, 2, 3]


@cases(
    "items",
    [human(id=None), human(id=None), ai("a", "b"), tool("a")],  # may still be answered
    [human(), ai("a", "b"), tool("a"), human(), tool("b"), ai()],
    [human(), ai(content=[FUNCTION_CALL, *SERVED]), tool("f-1"), ai()],
    [human(), ai(content=[{"type": "non_standard", "value": FUNCTION_CALL}]), tool("f-1")],
    [human(), ai(content=[PATCH]), human(content=[{**PATCH, "type": "apply_patch_call_output"}])],
    [human(), BY_NAME, SAID_SO, human()],
    # Google's package repeats the call of `tool_calls`.
    [human(), ai("a", additional_kwargs={"function_call": {"name": "f"}}), tool("a"), human()],
    [human(), ai("a", content=[{**OF_A, "type": "web_search_tool_result"}]), human()],
    [human(), ai(additional_kwargs={"tool_outputs": [COMPUTER]}), tool("a"), ai()],
    [USER, {"role": "assistant", "content": [TOOL_USE]}, {"role": "user", "content": [OF_T]}],
    # What a person said in it would be lost with the result.
    [human(), human(content=[OF_A, {"type": "text"}]), ai()],
    [human(), ai(tool_calls=[{"name": "f", "args": {}, "id": None}]), human(), tool("")],
)
def test_a_sound_conversation_has_no_finding(items: list[Value]) -> None:
    assert codes(items) == []


def test_results_come_behind_their_calls() -> None:
    blocks = [{"type": "tool_result", "tool_use_id": one} for one in ("a", "b")]
    items = [human(), human(content=blocks), ai("a", "b"), human()]
    assert mended(items, pair(items, Counterparts(len(items)))) == [0, 2, 1, 3]
    items = [human(), ai("a", "b"), tool("b"), human(), tool("c"), ai("c"), human()]
    order = mended(items, pair(items, Counterparts(len(items))))
    assert [one if isinstance(one, int) else one.id for one in order] == [0, 1, 2, "a", 3, 5, 4, 6]


def test_what_may_be_answered_elsewhere_is_left_alone_and_a_last_call_is_an_info() -> None:
    items = [human(), ai("a"), human(), ai("b"), human(), tool("c")]
    assert codes(items, Counterparts(3, answered={"a"}, called={"c"})) == []
    assert [one.id for one in pair(items, Counterparts(3)).awaited] == ["b"]
    assert [one.id for one in pair(items, Counterparts(3, {"a"})).awaited] == ["a", "b"]
    items = [human(), ai("a"), human(), ai("b", "c"), tool("c")]
    found = pair(items, Counterparts(len(items), is_final=True))
    assert [one.id for one in found.unanswered] == ["a"]
    assert [one.id for one in found.final] == ["b"]
    assert pair(items, Counterparts(len(items), {"b"}, is_final=True)).final == ()
    said = message_findings(KEY, "messages", items, Counterparts(len(items), is_final=True))
    assert [one.severity for one in said] == ["error", "info"]


def test_a_message_that_a_transcript_holds_twice_is_no_finding_and_some_have_no_fix() -> None:
    items = [human(id="h"), ai(id="a"), human(id="h")]
    assert list(message_findings(KEY, "transcript", items, Counterparts(3))) == []
    others = [*items[:2], human(content="other", id="h")]
    assert len(list(message_findings(KEY, "transcript", others, Counterparts(3)))) == 1
    # No text answers this call.
    items = [human(), ai(content=[PATCH]), human()]
    (found,) = message_findings(KEY, "messages", items, Counterparts(3))
    assert not found.has_fix


def test_a_result_belongs_to_the_next_call_with_its_id() -> None:
    turns = transcript([ai("a", "b"), tool("b"), tool("a"), tool("c")])
    assert [call.result for call in turns[0].calls] == [2, 1]
    assert [turn.answers for turn in turns] == [None, 0, 0, None]
    turns = transcript([ai("a"), tool("a"), ai("a"), tool("a"), tool("a"), 7])
    assert [turns[0].calls[0].result, turns[2].calls[0].result] == [1, 3]
    assert turns[4].answers is None
    nearest = transcript([ai("a"), ai("a"), tool("a")])
    assert [turn.calls[0].result for turn in nearest[:2]] == [None, 2]
    assert (turns[5].message.role, turns[5].message.content) == ("?", 7)


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


def test_what_is_a_conversation() -> None:
    """One message and a cut list too, but only with a person among them."""
    assert message_list(ai()) == message_list(Cut([ai()], 99, "long")) == [ai()]
    others: list[Value] = [[], ["text"], {"content": "no role"}]
    assert [message_list(one) for one in others] == [None] * 3
    assert not any(map(is_conversation, ([ai("a"), ai("b")], [tool("a")], human())))
    assert is_conversation([human(), "?"])
    assert (last_turn([human(), ai(), human()]), last_turn([ai()])) == (3, 0)
    assert (last_calling([ai("a"), ai("b"), ai()]), last_calling([human()])) == (1, 1)


SAID: Any = {"call_id": "c", "tool": "look_up", "content": "stopped", "message_id": "m"}


def stored_messages(path: Path) -> list[TypedBytes]:
    with open_store(str(path)) as store:
        for head in store.checkpoints("chat", body=True, values=True):
            found = stored_value(head, read_body(head), "messages")
            assert found is not None
            return stored_items(found)
    return []


def parts(stored: TypedBytes) -> Any:
    """What identifies the form of a message: the class, and the names of its fields."""
    found = decode_lossless(stored)
    if isinstance(found, Ext):
        module, name, fields, *rest = decode_lossless(TypedBytes("msgpack", found.data))
        return found.code, module, name, set(fields), rest
    return found["lc"], found["type"], found["id"], {*found["kwargs"], "status"}


@pytest.mark.parametrize("era", sorted(era.name for era in eras() if "serde" not in era.name))
def test_a_result_has_the_form_of_a_stored_result(era: str, tmp_path: Path) -> None:
    (folder,) = (one for one in eras() if one.name == era)
    items = stored_messages(copy_store(folder / "store.db", tmp_path))
    (caller, *_) = (one for one in items if getattr(as_message(decode(one)), "tool_calls", None))
    (result, *_) = (one for one in items if getattr(as_message(decode(one)), "role", "") == "tool")
    made = result_like(caller, **SAID)
    assert parts(made) == parts(result)
    message = as_message(decode(made))
    assert message is not None
    assert (message.content, message.id, message.name) == ("stopped", "m", "look_up")
    assert message.fields["tool_call_id"] == "c"
    if era.startswith("lg"):
        assert JsonPlusSerializer().loads_typed((made.type, made.data)) == ToolMessage(
            "stopped", id="m", name="look_up", tool_call_id="c", status="error"
        )


PLAIN = {"content": "stopped", "tool_call_id": "c"}
ANSWER: Any = {"tool_use_id": "c", "content": "stopped", "is_error": True}
USE: Any = {"type": "tool_use", "id": "c", "name": "look_up", "input": {}}


@cases(
    "caller result",
    ({"role": "assistant", "content": None}, {**PLAIN, "role": "tool"}),
    ({"role": "assistant", "content": None, "id": "1"}, {**PLAIN, "role": "tool", "id": "m"}),
    (
        {"type": "ai", "content": ""},
        {**PLAIN, "type": "tool", "id": "m", "name": "look_up", "status": "error"},
    ),
    (
        {"role": "assistant", "content": [USE]},
        {"role": "user", "content": [{"type": "tool_result", **ANSWER}]},
    ),
)
def test_a_plain_dict_gets_a_plain_dict(caller: dict[str, Any], result: dict[str, Any]) -> None:
    text = json.dumps(caller, separators=(",", ":")).encode()
    for tag, data in (("msgpack", ormsgpack.packb(caller)), ("json", text)):
        made = result_like(TypedBytes(tag, data), **SAID)
        assert decode(made) == result
        assert b": " not in made.data


def test_a_subclass_of_a_message_gets_a_plain_result_and_an_unknown_form_is_refused() -> None:
    path = ["my", "messages", "AIMessage"]
    for lc, kwargs, name in (
        (1, {"type": "ai"}, ["langchain", "schema", "messages", "ToolMessage"]),
        (2, {}, ["langchain_core", "messages", "tool", "ToolMessage"]),
    ):
        caller = {"lc": lc, "type": "constructor", "id": path, "kwargs": kwargs}
        made = result_like(TypedBytes("json", json.dumps(caller).encode()), **SAID)
        assert decode_lossless(made)["id"] == name
    for typed in (TypedBytes("json", b'{"content": ""}'), TypedBytes("pickle", b"N.")):
        with pytest.raises(Unsupported):
            result_like(typed, **SAID)


ITEMS = [b'{"a": [1, "]"]}', b"1.50", b'"\\u00e9,"', b"[]"]


@pytest.mark.parametrize("comma", [b", ", b",", b",\n "])
def test_a_list_is_taken_apart_and_put_together(comma: bytes) -> None:
    stored = TypedBytes("json", b"[" + comma.join(ITEMS) + b"]")
    items = stored_items(stored)
    assert [one.data for one in items] == ITEMS
    assert list_of(items, stored) == stored
    packed = TypedBytes("msgpack", ormsgpack.packb([AIMessage("x").content, 1.5, [2], {}]))
    assert list_of(stored_items(packed), packed) == packed
    assert stored_items(TypedBytes("json", b" [ ] ")) == []
    for bad in (TypedBytes("json", b"{}"), TypedBytes("json", b"[1 2]"), TypedBytes("x", b"")):
        with pytest.raises(Unsupported):
            stored_items(bad)
    with pytest.raises(Unsupported):
        list_of(items, packed)


SILENT = """0c5ee4a1-6f5f-4b45-9d2c-3b3b8f8d6d11 thread_0c5ee4a16f5f4b459d2c3b3b8f8d6d11 9f86d081 17
    9f86d081884c7d659a2feaa0c55ad015 01ARZ3NDEKTSV4RRFFQ69G5FAV 2026-11-23_10:04 1763890000.1234"""
TALKING = ["user-42", "anna@example.com", "to-kyoto", "facade", "deadbeef", "", "a" * 9999 + "!"]


def test_some_ids_say_nothing() -> None:
    assert [one for one in SILENT.split() if not says_nothing(one)] == []
    assert [one for one in TALKING if says_nothing(one)] == []


def _said(role: str, content: Value) -> Value:
    return {"role": role, "content": content}


@cases(
    "values title",
    ({"messages": [_said("system", "Be kind."), _said("user", " Hi  there\nall")]}, "Hi there"),
    ({"messages": [_said("user", "  "), _said("user", "Hi")]}, "Hi"),
    ({"messages": [_said("ai", "Hello")], "log": [_said("user", "Hi")]}, None),
    ({"messages": [_said("ai", "a")] * 20 + [_said("user", "late")]}, None),
    ({"messages": [_said("user", "word " * 1000)]}, f"{('word ' * 40)[:199]}…"),
    ({"messages": Cut([_said("user", "Hi")], 9_000_000, "too large")}, "Hi"),
    ({"messages": Cut(None, 5, "not read")}, Cut(None, 5, "not read")),
)
def test_a_title_is_what_a_person_said(values: dict[str, Value], title: str | Cut | None) -> None:
    assert title_of(values) == title


LOOKUP = {"name": "lookup", "args": {"q": "tea"}, "id": "call_1"}
TEXT = {"type": "text", "text": "let me look"}


def shown(message: AIMessage, *more: Any) -> tuple[list[str], list[Any]]:
    """The lines of a stored conversation, and the calls of its first message as JSON."""
    items = decode(TypedBytes(*JsonPlusSerializer().dumps_typed([message, *more])))
    assert isinstance(items, list)
    turns = transcript(items)
    lines = [one.text for one in transcript_lines(turns, 0, 80, full=False, cut=True)]
    return lines[1:], next(message_records(turns, 0))["tool_calls"]


@cases(
    "content text",
    ([TEXT, {"type": "tool_use", "id": "call_1", "name": "lookup"}], ["  let me look"]),
    ([{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "lookup"}], []),
    (
        [{"type": "reasoning", "id": "rs_1"}, {"type": "tool_use", "id": "call_1"}],
        ["  [reasoning]"],
    ),
    ([{"type": "tool_use", "id": "other", "name": "lookup"}], ["  [tool_use]"]),
)
def test_a_call_that_is_a_block_too_is_shown_once(content: Any, text: list[str]) -> None:
    message = AIMessage(content, tool_calls=[LOOKUP])
    lines, calls = shown(message, ToolMessage("found", tool_call_id="call_1"))
    assert lines == [*text, '  > lookup(q="tea")', "    found"]
    assert [one["id"] for one in calls] == ["call_1"]
