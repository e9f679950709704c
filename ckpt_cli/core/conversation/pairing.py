"""Match tool calls with their results, as the APIs of models demand it.

`_validate_chat_history` in `langgraph/prebuilt/chat_agent_executor.py` wants a result for each id,
anywhere in the list. OpenAI and Anthropic want it before the next other message. Some agents store
a person's message between the results of parallel calls, and reorder the list for the model. So a
result counts wherever it stands behind its call.

A call of the last messages may still be answered by a task. Where no task is next, only the
application can answer it, with its next input.

Besides `tool_calls`, LangChain's packages send these to the API, each of which wants a result:
`invalid_tool_calls` (`_convert_message_to_dict` in `langchain_openai/chat_models/base.py`,
`_lc_tool_calls_to_anthropic_tool_use_blocks` in `langchain_anthropic`), the blocks of
`_CALL_BLOCKS` in the content, whether or not `tool_calls` has them too
(`_construct_responses_api_input`, `_format_messages`), and the `function_call` of
`additional_kwargs` if there is no other call (`_parse_chat_history` in `langchain_google_genai`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import (
    MODEL_ROLES,
    Message,
    ToolCall,
    as_message,
    content_blocks,
)

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
    if not isinstance(value, list):
        return False
    return any(one is not None and one.role in _PEOPLE for one in map(as_message, value))


def last_turn(items: Sequence[Value]) -> int:
    """Return the index behind the last message of a person; 0 if there is none."""
    messages = list(map(as_message, items))
    found = (n for n, one in enumerate(messages) if one is not None and one.role in _PEOPLE)
    return max(found, default=-1) + 1


def last_calling(items: Sequence[Value]) -> int:
    """Return the index of the last message with tool calls; the length if there is none."""
    messages = list(map(as_message, items))
    found = (n for n, one in enumerate(messages) if one is not None and _makes_calls(one))
    return max(found, default=len(items))


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
    for index, item in enumerate(items):
        message = as_message(item)
        if message is None or message.id is None:
            continue
        if (first := seen.setdefault(message.id, index)) != index:
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
    found: set[str] = set()
    for message in map(as_message, items):
        if message is not None and message.role in MODEL_ROLES:
            found.update(_ids_in(message))
    return found


def result_ids(items: Sequence[Value]) -> set[str]:
    """Return the ids of all calls that are answered in a list of messages."""
    found: set[str] = set()
    for message in map(as_message, items):
        if message is not None:
            found |= answered_ids(message)
    return found


def _is_result(message: Message) -> bool:
    """Return whether a message says nothing but results of calls.

    In Anthropic's form, what a person said may stand behind the results.
    """
    blocks = message.content if isinstance(message.content, list) else []
    only_results = all(isinstance(one, dict) and one.get("type") == "tool_result" for one in blocks)
    is_of_tool = isinstance(message.fields.get("tool_call_id"), str)
    is_of_function = message.role == "function"  # Nothing tells when it is refused.
    return bool(answered_ids(message)) and (is_of_tool or only_results) and not is_of_function


def _makes_calls(message: Message) -> bool:
    return message.role in MODEL_ROLES and any(_calls_to_answer(0, message))


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
