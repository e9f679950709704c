"""Match tool calls with their results, as the APIs of models demand it.

`_validate_chat_history` in `langgraph/prebuilt/chat_agent_executor.py` wants a result for each id,
anywhere in the list. OpenAI and Anthropic want it before the next other message. Some agents store
a person's message between the results of parallel calls, and reorder the list for the model. So a
result counts wherever it stands behind its call.

A call of the last messages may still be answered by a task. Where no task is next, only the
application can answer it, with its next input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import Message, ToolCall, as_message

_PEOPLE = {"human", "user"}
_MODELS = {"ai", "assistant"}
_IDS = ("id", "call_id", "tool_call_id", "tool_use_id")
_RESULT_OF = ("tool_call_id", "tool_use_id")
"""Keys in the blocks of a message, for the call that a block answers."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """A tool call and the index of its message."""

    index: int
    call: ToolCall
    id: str


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
    found = (n for n, one in enumerate(messages) if one is not None and _own_calls(one))
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
        if message is not None and message.role in _MODELS:
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

    Anthropic's form has the results as blocks in a message of the user.
    """
    if message.role in _MODELS:
        return set()
    found = {message.fields.get("tool_call_id")}
    found |= {
        one.get("tool_use_id") for one in _blocks(message) if one.get("type") == "tool_result"
    }
    return {one for one in found if isinstance(one, str) and one}


def call_ids(items: Sequence[Value]) -> set[str]:
    """Return the ids of all calls in a list of messages."""
    found: set[str] = set()
    for message in map(as_message, items):
        if message is not None and message.role in _MODELS:
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
    return bool(answered_ids(message)) and (is_of_tool or only_results)


def _own_calls(message: Message) -> list[ToolCall]:
    return list(message.tool_calls) if message.role in _MODELS else []


def _calls_to_answer(index: int, message: Message) -> Iterator[CallPlace]:
    """Yield the calls that the application has to answer.

    Left out are calls with arguments that could not be parsed, which no tool gets, and calls that
    the model's provider carries out: their results are in the same message.
    """
    calls = _own_calls(message)
    invalid = {one.id for one in calls if one.invalid}
    provided = {
        one.get(key)
        for one in _blocks(message)
        for key in (_IDS if _is_of_provider(one) else _RESULT_OF)
    }
    for call in calls:
        if call.id is not None and call.id not in invalid and call.id not in provided:
            yield CallPlace(index, call, call.id)


def _is_of_provider(block: dict[Value, Value]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and ("server_tool" in kind or "mcp_tool" in kind)


def _ids_in(message: Message) -> Iterator[str]:
    """Yield all ids that may be those of tool calls, in any provider's form."""
    yield from (one.id for one in message.tool_calls if one.id is not None)
    extra = message.fields.get("additional_kwargs")
    lists = extra.values() if isinstance(extra, dict) else ()
    more = [one for some in lists if isinstance(some, list) for one in some]
    for block in (*_blocks(message), *(one for one in more if isinstance(one, dict))):
        yield from (found for key in _IDS if isinstance(found := block.get(key), str))


def _blocks(message: Message) -> list[dict[Value, Value]]:
    content = message.content
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
