"""Conversations: messages, the calls of tools in every provider's form, and their results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum, auto
from itertools import starmap
from typing import Any, NamedTuple

from ckpt_backends.codec.lossless import Ext, decode_lossless, encode_lossless
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.values import fields_of, unwrap

_ROLES = {
    "AIMessage": "ai",
    "FunctionMessage": "function",
    "HumanMessage": "human",
    "RemoveMessage": "remove",
    "SystemMessage": "system",
    "ToolMessage": "tool",
}
ROLES = {*_ROLES.values(), "assistant", "developer", "user"}
"""Roles that plain dicts have in `type`; other dicts have their role in `role`."""
MODEL_ROLES = frozenset({"ai", "assistant"})
"""Roles of what a model said."""
_PAIRED = ROLES - {"remove"}
"""Roles of `(role, content)` tuples."""


class ToolCall(NamedTuple):
    """A tool call in a message."""

    name: str
    args: Value
    """A dict of arguments; text if the model's JSON could not be parsed."""
    id: str | None
    invalid: bool = False
    """The tool does not accept the arguments."""


class Message(NamedTuple):
    """The parts of a message."""

    role: str
    """As stored: human, ai, tool, system, remove, ...; in plain dicts also user and assistant."""
    content: Value
    id: str | None
    name: str | None
    tool_calls: tuple[ToolCall, ...]
    fields: Mapping[Value, Value]
    """All fields as stored."""


def as_message(value: Value) -> Message | None:
    """Return a value as a message; None if it is not one."""
    fields = value.payload if isinstance(value, Tagged) else value
    if not isinstance(fields, dict) or "content" not in fields:
        return None
    role = _class_role(value.type, fields) if isinstance(value, Tagged) else _dict_role(fields)
    if role is None:
        return None
    return Message(
        role=role,
        content=fields["content"],
        id=_text(fields.get("id")),
        name=_text(fields.get("name")),
        tool_calls=tuple(_tool_calls(fields)),
        fields=fields,
    )


def _messages(items: Sequence[Value]) -> Iterator[tuple[int, Message]]:
    """Yield the messages of a list, each with its index."""
    for index, item in enumerate(items):
        if (message := as_message(item)) is not None:
            yield index, message


def spelled_out(items: Sequence[Value]) -> list[Value]:
    """Return the items of a list of messages with `(role, content)` pairs as dicts.

    `convert_to_messages` in `langchain_core/messages/utils.py` takes such tuples, which are stored
    as lists.
    """
    return [
        {"role": one[0], "content": one[1]} if isinstance(one, list) and is_pair(one) else one
        for one in items
    ]


def said(value: Value) -> Value:
    """Return a written value with its pairs as dicts, if it is one or a list of them."""
    if is_pair(value):
        return spelled_out([value])
    is_list = isinstance(value, list) and any(map(is_pair, value))
    return spelled_out(value) if is_list and isinstance(value, list) else value


def is_pair(value: Value) -> bool:
    """Return whether a value is a `(role, content)` tuple."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0] in _PAIRED
        and isinstance(value[1], str | list)
    )


def content_blocks(message: Message) -> list[dict[Value, Value]]:
    """Return the blocks of a message's content; a provider's own without LangChain's wrapper."""
    content = message.content
    blocks = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    inner = ((one, one.get("value")) for one in blocks)
    return [
        held if isinstance(held, dict) and one.get("type") == "non_standard" else one
        for one, held in inner
    ]


def content_text(content: Value) -> str:
    """Return the text of a message's content; other blocks are shown as their type in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_block_text(block) for block in content)
    return ""


def _block_text(block: Value) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return "[?]"
    text = block.get("text")
    return text if isinstance(text, str) else f"[{_text(block.get('type')) or '?'}]"


def _class_role(type_name: str, fields: Mapping[Value, Value]) -> str | None:
    name = type_name.rpartition(".")[2].removesuffix("Chunk")
    if not name.endswith("Message"):
        return None
    return _ROLES.get(name) or _text(fields.get("role")) or _text(fields.get("type")) or name


def _dict_role(fields: Mapping[Value, Value]) -> str | None:
    kind = _text(fields.get("type"))
    return _text(fields.get("role")) or (kind if kind in ROLES else None)


def _tool_calls(fields: Mapping[Value, Value]) -> list[ToolCall]:
    extra = fields.get("additional_kwargs")
    calls = fields.get("tool_calls") or (
        extra.get("tool_calls") if isinstance(extra, dict) else None
    )
    invalid = fields.get("invalid_tool_calls")
    return [
        *(_tool_call(call) for call in (calls if isinstance(calls, list) else [])),
        *(
            _tool_call(call, invalid=True)
            for call in (invalid if isinstance(invalid, list) else [])
        ),
    ]


def _tool_call(call: Value, *, invalid: bool = False) -> ToolCall:
    fields = fields_of(call)
    # In OpenAI's format, name and arguments are one level deeper.
    function = fields.get("function")
    inner = function if isinstance(function, dict) else fields
    return ToolCall(
        name=_text(inner.get("name")) or "?",
        args=inner.get("args", inner.get("arguments")),
        id=_text(fields.get("id")),
        invalid=invalid,
    )


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) and value else None


# Match tool calls with their results, as the APIs of models demand it.
#
# `_validate_chat_history` in `langgraph/prebuilt/chat_agent_executor.py` wants a result for each
# id, anywhere in the list. OpenAI and Anthropic want it before the next other message. Some
# agents store a person's message between the results of parallel calls, and reorder the list for
# the model. So a result counts wherever it stands behind its call.
#
# A call of the last messages may still be answered by a task. Where no task is next, only the
# application can answer it, with its next input.
#
# Besides `tool_calls`, LangChain's packages send these to the API, each of which wants a result:
# `invalid_tool_calls` (`_convert_message_to_dict` in `langchain_openai/chat_models/base.py`,
# `_lc_tool_calls_to_anthropic_tool_use_blocks` in `langchain_anthropic`), the blocks of
# `_CALL_BLOCKS` in the content, whether or not `tool_calls` has them too
# (`_construct_responses_api_input`, `_format_messages`), and the `function_call` of
# `additional_kwargs` if there is no other call (`_parse_chat_history` in
# `langchain_google_genai`).


_PEOPLE = frozenset({"human", "user"})
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
_RESULT_OF = ("tool_call_id", "tool_use_id")
"""Keys in the blocks of a message, for the call that a block answers."""
_FUNCTION = "function_call"
"""A key of `additional_kwargs`: a call without an id, which a `FunctionMessage` answers."""


class CallForm(Enum):
    """How a call is made, which decides about the form of its result."""

    TOOL = auto()
    """With an id, for a `ToolMessage`."""
    CUSTOM = auto()
    """An OpenAI tool that takes text: its result is a block of a `ToolMessage`."""
    FUNCTION = auto()
    """By the name of the function only."""
    DEVICE = auto()
    """The result is a picture of a screen or a patched file, and no text says that it failed."""


_CALL_BLOCKS = {
    "tool_call": ("id", CallForm.TOOL),
    "tool_use": ("id", CallForm.TOOL),
    "function_call": ("call_id", CallForm.TOOL),
    "custom_tool_call": ("call_id", CallForm.CUSTOM),
    "computer_call": ("call_id", CallForm.DEVICE),
    "apply_patch_call": ("call_id", CallForm.DEVICE),
}
"""Blocks of content that call a tool of the application, each with the key of the call's id."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A tool call and the index of its message."""

    index: int
    call: ToolCall
    id: str
    form: CallForm = CallForm.TOOL


@dataclass(frozen=True, slots=True)
class Pairing:
    """What does not match in a conversation."""

    unanswered: tuple[CallPlace, ...]
    """Calls without a result that other messages follow."""
    final: tuple[CallPlace, ...]
    """Calls without a result in the last messages of a conversation that has ended."""
    awaited: tuple[CallPlace, ...]
    """Calls without a result that a task may still answer."""
    orphaned: tuple[int, ...]
    """Indexes of results of calls that no message before them makes."""

    @property
    def is_broken(self) -> bool:
        return bool(self.unanswered or self.orphaned)


@dataclass(frozen=True, slots=True)
class Counterparts:
    """Where calls and results may have their counterparts, besides the list itself."""

    open_from: int
    """A task may still answer calls of the message with this index and of those behind it."""
    awaited: Collection[str] = frozenset()
    """Ids of calls that a task is about to answer, wherever they are."""
    answered: Collection[str] = frozenset()
    """Ids of calls with a result in another place."""
    called: Collection[str] = frozenset()
    """Ids of calls that are made in another place."""
    is_final: bool = False
    """Whether nothing is next, so that no task answers the calls of the last messages."""


def is_conversation(value: Value) -> bool:
    """Return whether a value is a list with messages of which a person wrote one.

    Other lists may hold the calls alone or the results alone.
    """
    return isinstance(value, list) and any(one.role in _PEOPLE for _, one in _messages(value))


def last_turn(items: Sequence[Value]) -> int:
    """Return the index behind the last message of a person; 0 if there is none."""
    return max((n for n, one in _messages(items) if one.role in _PEOPLE), default=-1) + 1


def last_calling(items: Sequence[Value]) -> int:
    """Return the index of the last message with tool calls; the length if there is none."""
    said = ((n, one) for n, one in _messages(items) if one.role in MODEL_ROLES)
    return max((n for n, one in said if any(_calls_to_answer(n, one))), default=len(items))


def pair(items: Sequence[Value], others: Counterparts) -> Pairing:
    """Match the calls and results of a conversation.

    Ids may repeat: a result belongs to the nearest call before it that has none yet.
    """
    waiting: dict[str, list[CallPlace]] = {}
    known = set(others.called)
    orphaned: list[int] = []
    ended = 0
    for index, item in enumerate(items):
        message = as_message(item)
        answered = set() if message is None else answered_ids(message)
        for call_id in answered:
            if waiting.get(call_id):
                waiting[call_id].pop()
        if message is not None and _is_result(message) and answered.isdisjoint(known):
            orphaned.append(index)
        if not answered:
            ended = index
        if message is not None and message.role in MODEL_ROLES:
            known |= set(_ids_in(message))
            for place in _calls_to_answer(index, message):
                waiting.setdefault(place.id, []).append(place)
    left = [one for places in waiting.values() for one in places if one.id not in others.answered]
    left.sort(key=lambda one: one.index)
    first_open = min(others.open_from, ended)
    unanswered, final, awaited = list[CallPlace](), list[CallPlace](), list[CallPlace]()
    for one in left:
        if one.id in others.awaited:
            awaited.append(one)
        elif one.index < first_open:
            unanswered.append(one)
        else:
            (final if others.is_final else awaited).append(one)
    return Pairing(tuple(unanswered), tuple(final), tuple(awaited), tuple(orphaned))


def duplicates(items: Sequence[Value]) -> Iterator[tuple[int, int, str]]:
    """Yield each message that has the id of an earlier one: the indexes of both, and the id."""
    seen: dict[str, int] = {}
    for index, message in _messages(items):
        if message.id and (first := seen.setdefault(message.id, index)) != index:
            yield first, index, message.id


def answered_ids(message: Message) -> set[str]:
    """Return the ids of the tool calls that a message answers.

    Anthropic's form has the results as blocks in a message of the user; so has OpenAI's for some.
    """
    if message.role in MODEL_ROLES:
        return set()
    if message.role == "function":
        return {_function_id(message.name)}
    blocks = content_blocks(message)
    found = {message.fields.get("tool_call_id")}
    found |= {one.get("tool_use_id") for one in blocks if one.get("type") == "tool_result"}
    found |= {one.get("call_id") for one in blocks if _is_output(one)}
    return {one for one in found if isinstance(one, str) and one}


def call_ids(items: Sequence[Value]) -> set[str]:
    """Return the ids of all calls in a list of messages."""
    said = (one for _, one in _messages(items) if one.role in MODEL_ROLES)
    return {call_id for one in said for call_id in _ids_in(one)}


def result_ids(items: Sequence[Value]) -> set[str]:
    """Return the ids of all calls that are answered in a list of messages."""
    return {call_id for _, one in _messages(items) for call_id in answered_ids(one)}


def _is_result(message: Message) -> bool:
    """Return whether a message says nothing but results of calls.

    In Anthropic's form, what a person said may stand behind the results.
    """
    blocks = message.content if isinstance(message.content, list) else []
    only_results = all(isinstance(one, dict) and one.get("type") == "tool_result" for one in blocks)
    is_of_tool = isinstance(message.fields.get("tool_call_id"), str)
    is_of_function = message.role == "function"  # Nothing tells when it is refused.
    return bool(answered_ids(message)) and (is_of_tool or only_results) and not is_of_function


def _calls_to_answer(index: int, message: Message) -> Iterator[CallPlace]:
    """Yield the calls that the application has to answer, each once.

    Left out are calls that the model's provider carries out: their results are in the same message.
    """
    blocks = content_blocks(message)
    provided = {
        one.get(key)
        for one in blocks
        for key in (_IDS if _is_of_provider(one) or _is_output(one) else _RESULT_OF)
    }
    in_content = [place for one in blocks for place in _call_in(index, one)]
    forms = {one.id: one.form for one in in_content}
    told: set[str] = set()
    for call in message.tool_calls:
        if call.id is None or call.id in provided or (call.invalid and call.id in told):
            continue
        told.add(call.id)
        yield CallPlace(index, call, call.id, forms.get(call.id, CallForm.TOOL))
    for place in in_content:
        if place.id not in told and place.id not in provided:
            told.add(place.id)
            yield place
    if not told and (by_name := _function_call(message)) is not None:
        yield CallPlace(index, by_name, _function_id(by_name.name), CallForm.FUNCTION)


def _call_in(index: int, block: dict[Value, Value]) -> Iterator[CallPlace]:
    """Yield the call that a block of content makes, if it makes one."""
    kind = block.get("type")
    key, form = _CALL_BLOCKS.get(kind if isinstance(kind, str) else "", ("", CallForm.TOOL))
    call_id, name = block.get(key), block.get("name")
    if key and isinstance(call_id, str) and call_id:
        args = next((block[one] for one in ("args", "arguments", "input") if one in block), None)
        told = name if isinstance(name, str) and name else str(kind)
        yield CallPlace(index, ToolCall(told, args, call_id), call_id, form)


def _function_call(message: Message) -> ToolCall | None:
    """Return the call without an id; a message with other calls repeats one of them there."""
    extra = message.fields.get("additional_kwargs")
    call = extra.get(_FUNCTION) if isinstance(extra, dict) and not message.tool_calls else None
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(name, str):
        return None
    return ToolCall(name, call.get("arguments"), None)


def _function_id(name: str | None) -> str:
    """Return what stands for the id of a call that has none."""
    return f"{_FUNCTION} {name}"


def _is_of_provider(block: dict[Value, Value]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and ("server_tool" in kind or "mcp_tool" in kind)


def _is_output(block: dict[Value, Value]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("_call_output")


def _ids_in(message: Message) -> Iterator[str]:
    """Yield all ids that may be those of tool calls, in any provider's form."""
    yield from (one.id for one in message.tool_calls if one.id is not None)
    extra = message.fields.get("additional_kwargs")
    lists = extra.values() if isinstance(extra, dict) else ()
    more = [one for some in lists if isinstance(some, list) for one in some]
    for block in (*content_blocks(message), *(one for one in more if isinstance(one, dict))):
        yield from (found for key in _IDS if isinstance(found := block.get(key), str))


# Make the result of a tool call that no tool answered, in the stored form of other messages.
#
# LangGraph stores a message as a msgpack object, as an `lc` envelope in JSON, or as the dict that
# the application made. The result takes the form of the message with the call.


_OBJECTS = {4, 5}
"""Ext codes of Pydantic objects, versions 1 and 2: `[module, class, fields, method]`."""
_CLASSES = {
    "tool": ("langchain_core.messages.tool", "ToolMessage"),
    "function": ("langchain_core.messages.function", "FunctionMessage"),
}
"""Module and class of results, by their type."""
_EMPTY: Mapping[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
_FAILED: Mapping[str, Any] = {"is_error": True}
_PATHS = (["langchain", "schema", "messages"], ["langchain_core", "messages"])
"""Where LangChain's envelopes say that messages are."""


def result_like(
    caller: TypedBytes,
    *,
    call_id: str,
    tool: str,
    content: str,
    message_id: str,
    form: CallForm = CallForm.TOOL,
) -> TypedBytes:
    """Return a stored result that says that a call failed.

    `caller` is the stored message with the call. Raises `Unsupported` if its form is not known.
    """
    said: dict[str, Any] = {"content": content, "type": "tool", "name": tool, "id": message_id}
    if form is CallForm.FUNCTION:
        said["type"] = "function"
    else:
        said |= {"tool_call_id": call_id, "status": "error"}
    if form is CallForm.CUSTOM:
        # `_make_custom_tool_output_from_message` in `langchain_openai/chat_models/base.py`.
        said["content"] = [{"type": "custom_tool_call_output", "output": content}]
    made = _like(decode_lossless(caller), said)
    spelling = b"" if caller.type == "msgpack" else caller.data
    return TypedBytes(caller.type, encode_lossless(caller.type, made, like=spelling))


def _like(caller: Any, said: dict[str, Any]) -> Any:
    module, name = _CLASSES[said["type"]]
    match caller:
        case Ext(code=code, data=data) if code in _OBJECTS:
            # The fourth part is the method of Pydantic that loads the fields.
            method = decode_lossless(TypedBytes("msgpack", data))[3:]
            own = {"artifact": None} if said["type"] == "tool" else {}
            parts = [module, name, {**said, **_EMPTY, **own}, *method]
            return Ext(code, encode_lossless("msgpack", parts))
        case {"lc": 1, "id": [*path, _], "kwargs": dict(fields)}:
            names = [*(path if path in _PATHS else _PATHS[0]), name]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"lc": 2, "id": list(), "kwargs": dict(fields)}:
            names = [*module.split("."), name]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"role": str(), "content": [*blocks]} if _has_call(blocks, said):
            # Anthropic's API has no messages of tools.
            answered = {"tool_use_id": said["tool_call_id"], "content": said["content"]}
            return {"role": "user", "content": [{"type": "tool_result", **answered, **_FAILED}]}
        case {"role": str()}:
            # APIs that take such dicts as they are may refuse other keys.
            called = "name" if said["type"] == "function" else "tool_call_id"
            keys = ["content", called, *(["id"] if "id" in caller else [])]
            return {"role": said["type"], **{key: said[key] for key in keys}}
        case {"type": str()}:
            return said
    raise Unsupported("cannot add a result: the form of the message with the call is not known")


def _has_call(blocks: list[Any], said: Mapping[str, Any]) -> bool:
    """Return whether the call is a block in Anthropic's form."""
    return any(
        isinstance(one, dict)
        and one.get("type") == "tool_use"
        and one.get("id") == said.get("tool_call_id")
        for one in blocks
    )


def _kwargs(said: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an envelope. LangGraph.js stores no type, but fields that are empty."""
    left_out = set() if "type" in fields else {"type"}
    empty = _EMPTY if "additional_kwargs" in fields else {}
    return {**{key: one for key, one in said.items() if key not in left_out}, **empty}


MESSAGES = "messages"
_EARLY = 20
"""Number of messages that are looked at: a person speaks first, or after the system."""
_MOST = 200
"""Maximum length of a title."""
_SAYS_NOTHING = re.compile(
    r"""
    (?:[a-z]{1,16}[-_:])?                                 # thread-, session_
    (?: [0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}     # UUID
      | [0-9a-f]{16,}                                     # hash
      | [0-9a-hjkmnp-tv-z]{26} )                          # ULID
    | (?=[a-f]*\d)[0-9a-f]{8,}                            # hex
    | [\d.:_-]+                                           # number, time
    """,
    re.VERBOSE | re.IGNORECASE,
)


def says_nothing(thread_id: str) -> bool:
    """Return whether an id tells a person nothing: a UUID, a hash, hex digits or a number."""
    return _SAYS_NOTHING.fullmatch(thread_id) is not None


def title_of(values: Mapping[str, Value]) -> str | Cut | None:
    """Return the first line that a person said, from the values of a checkpoint.

    Returns the value of the channel itself if it is stored apart and was not read.
    """
    usual = values.get(MESSAGES)
    if isinstance(usual, Cut) and usual.kept is None:
        return usual
    for value in [usual] if MESSAGES in values else values.values():
        said = _first_said(value.kept if isinstance(value, Cut) else value)
        if said is not None:
            return said
    return None


def _first_said(value: Value) -> str | None:
    if not isinstance(value, list):
        return None
    for _, message in _messages(value[:_EARLY]):
        if message.role in _PEOPLE:
            text = content_text(message.content)[: 2 * _MOST].strip()
            line = " ".join(text.partition("\n")[0].split())
            if line:
                return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
    return None


_FORMS = (
    ("input_tokens", "output_tokens", "total_tokens"),
    ("prompt_tokens", "completion_tokens", "total_tokens"),
    ("promptTokens", "completionTokens", "totalTokens"),
)
"""Key names in different libraries for the tokens of the prompt, of the answer, and of both."""
_MODELS = ("model_name", "model", "model_id", "modelId")


@dataclass(slots=True)
class TokenCounts:
    """The tokens of some messages."""

    messages: int = 0
    input: int = 0
    """All tokens of the prompts, cached ones included."""
    output: int = 0
    """All tokens of the answers, reasoning included."""
    cache_read: int = 0
    cache_creation: int = 0
    reasoning: int = 0
    total: int = 0

    def add(self, other: TokenCounts) -> None:
        """Add the tokens of other messages."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Call(NamedTuple):
    """A tool call, and the index of the message that contains its result."""

    call: ToolCall
    result: int | None
    """Index in the conversation; None if there is no result."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    index: int
    """Index in the channel's list."""
    value: Value
    """The value as stored."""
    message: Message
    calls: tuple[Call, ...]
    answers: int | None
    """Index of the message with the tool call that this message answers."""
    usage: TokenCounts | None
    """As its provider counts them: some leave out what was cached."""
    model: str | None


class ModelTokens(NamedTuple):
    """The tokens of the messages of one model."""

    model: str | None
    usage: TokenCounts


class ToolCount(NamedTuple):
    """The calls of one tool."""

    name: str
    calls: int
    errors: int
    unanswered: int


class Statistics(NamedTuple):
    """Statistics of a conversation, largest numbers first."""

    roles: Mapping[str, int]
    models: Sequence[ModelTokens]
    tools: Sequence[ToolCount]


def message_list(value: Value) -> list[Value] | None:
    """Return the items of a channel with messages, or one message in a list; else None."""
    if as_message(value) is not None:
        return [value]
    held = unwrap(value)
    if not isinstance(held, list) or not held:
        return None
    items = spelled_out(held)
    return items if any(as_message(item) is not None for item in items) else None


def transcript(items: Sequence[Value]) -> list[Turn]:
    """Return the conversation. An item that is not a message gets the role `?`.

    Ids of tool calls may repeat: a result belongs to the nearest call before it that has no result
    yet.
    """
    messages = [as_message(item) or Message("?", item, None, None, (), {}) for item in items]
    open_calls: dict[str, list[tuple[int, int]]] = {}
    results: dict[tuple[int, int], int] = {}
    answers: dict[int, int] = {}
    for index, message in enumerate(messages):
        asked = open_calls.get(answered_id(message) or "")
        if asked:
            place = asked.pop()
            results[place] = index
            answers[index] = place[0]
        for number, call in enumerate(message.tool_calls):
            if call.id is not None:
                open_calls.setdefault(call.id, []).append((index, number))
    return [
        Turn(
            index,
            items[index],
            message,
            tuple(
                Call(call, results.get((index, number)))
                for number, call in enumerate(message.tool_calls)
            ),
            answers.get(index),
            usage_of(message),
            model_of(message),
        )
        for index, message in enumerate(messages)
    ]


def statistics(turns: Sequence[Turn]) -> Statistics:
    """Return messages by role, tokens by model, and calls by tool."""
    roles = Counter(turn.message.role for turn in turns)
    spent: dict[str | None, TokenCounts] = {}
    for turn in turns:
        if turn.usage is not None:
            spent.setdefault(turn.model, TokenCounts()).add(turn.usage)
    models = sorted(starmap(ModelTokens, spent.items()), key=lambda one: -one.usage.total)
    calls = [call for turn in turns for call in turn.calls]
    by_name = Counter(call.call.name for call in calls)
    failed = Counter(
        call.call.name
        for call in calls
        if call.result is not None and is_error(turns[call.result].message)
    )
    open_calls = Counter(call.call.name for call in calls if call.result is None)
    tools = [
        ToolCount(name, number, failed[name], open_calls[name])
        for name, number in by_name.most_common()
    ]
    return Statistics(dict(roles.most_common()), models, tools)


def answered_id(message: Message) -> str | None:
    """Return the id of the tool call that a message answers."""
    found = message.fields.get("tool_call_id")
    return found if isinstance(found, str) else None


def is_error(message: Message) -> bool:
    """Return whether a tool message reports a failure."""
    return message.fields.get("status") == "error"


def usage_of(message: Message) -> TokenCounts | None:
    """Return the tokens of a message, from `usage_metadata` or from its provider's metadata; None
    if it does not say.
    """
    fields = usage_fields(message)
    for input_key, output_key, total_key in _FORMS:
        if input_key in fields or output_key in fields:
            prompt, answer = _number(fields.get(input_key)), _number(fields.get(output_key))
            total = _number(fields.get(total_key)) or prompt + answer
            return TokenCounts(1, prompt, answer, total=total)
    return None


def usage_fields(message: Message) -> Mapping[Value, Value]:
    """Return the dict that tells the tokens of a message, as stored; empty if there is none."""
    said = _dict(message.fields.get("response_metadata"))
    for found in (
        message.fields.get("usage_metadata"),
        *(said.get(key) for key in ("token_usage", "tokenUsage", "usage")),
        message.fields.get("usage"),
    ):
        fields = _dict(found)
        if any(key in fields for form in _FORMS for key in form[:2]):
            return fields
    return {}


_DETAILS = {
    "cache_read": (
        ("input_token_details", "cache_read"),
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
    ),
    "cache_creation": (("input_token_details", "cache_creation"),),
    "reasoning": (
        ("output_token_details", "reasoning"),
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
    ),
}
"""Key names in different libraries, as (dict, key)."""
_APART = {"cache_read": "cache_read_input_tokens", "cache_creation": "cache_creation_input_tokens"}
"""Key names of Anthropic, which does not count these tokens as `input_tokens`."""


def counts_of(message: Message) -> TokenCounts | None:
    """Return the same with what was cached, and with what is known about each part."""
    found = usage_of(message)
    if found is None:
        return None
    stored = usage_fields(message)
    for name, places in _DETAILS.items():
        for outer, key in places:
            details = unwrap(stored.get(outer))
            if isinstance(details, dict) and (number := _number(details.get(key))):
                setattr(found, name, number)
                break
    for name, key in _APART.items():
        number = _number(stored.get(key))
        setattr(found, name, getattr(found, name) or number)
        found.input += number
        found.total += number
    return found


def model_of(message: Message) -> str | None:
    """Return the model that produced a message, from `response_metadata`."""
    said = _dict(message.fields.get("response_metadata"))
    for key in _MODELS:
        found = said.get(key)
        if isinstance(found, str) and found:
            return found
    return None


def _number(value: Value) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _dict(value: Value) -> Mapping[Value, Value]:
    held = unwrap(value)
    return held if isinstance(held, dict) else {}


def mended(items: Sequence[Value], found: Pairing) -> list[int | CallPlace]:
    """Return the new order: indexes of messages, and calls in the place of their new results.

    New results come behind the results that the message with the call already has. A result that
    comes before its call moves there. Other orphaned results are left out.
    """
    orphans = {
        call_id: index
        for index in reversed(found.orphaned)
        if (message := as_message(items[index])) is not None
        for call_id in answered_ids(message)
    }
    moved: set[int] = set()
    behind: dict[int, list[int | CallPlace]] = {}
    for place in found.unanswered:
        result = orphans.pop(place.id, None)
        # A message may have the results of several calls.
        if result is None or result not in moved:
            behind.setdefault(_after_results(items, place.index), []).append(
                place if result is None else result
            )
        if result is not None:
            moved.add(result)
    order: list[int | CallPlace] = []
    for index in range(len(items) + 1):
        order += behind.get(index, [])
        if index < len(items) and index not in found.orphaned:
            order.append(index)
    return order


def _after_results(items: Sequence[Value], index: int) -> int:
    """Return the index behind the results that follow a message."""
    index += 1
    while index < len(items):
        message = as_message(items[index])
        if message is None or not answered_ids(message):
            return index
        index += 1
    return index
