"""Turn messages into a conversation: roles, tool calls with their results, and tokens."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import Message, ToolCall, as_message, spelled_out
from ckpt_cli.core.values.unwrap import unwrap

_FORMS = (
    ("input_tokens", "output_tokens", "total_tokens"),
    ("prompt_tokens", "completion_tokens", "total_tokens"),
    ("promptTokens", "completionTokens", "totalTokens"),
)
"""Key names in different libraries for the tokens of the prompt, of the answer, and of both."""
_MODELS = ("model_name", "model", "model_id", "modelId")


class TokenUsage(NamedTuple):
    """Tokens used by a message."""

    input: int
    output: int
    total: int


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
    usage: TokenUsage | None
    model: str | None


class ModelTokens(NamedTuple):
    """The messages and tokens of one model."""

    model: str | None
    messages: int
    usage: TokenUsage


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
    messages = [as_message(item) or _foreign(item) for item in items]
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
    spent: dict[str | None, list[TokenUsage]] = {}
    for turn in turns:
        if turn.usage is not None:
            spent.setdefault(turn.model, []).append(turn.usage)
    models = [ModelTokens(model, len(used), _sum(used)) for model, used in spent.items()]
    calls = [call for turn in turns for call in turn.calls]
    by_name = Counter(call.call.name for call in calls)
    failed = Counter(call.call.name for call in calls if _failed(turns, call))
    open_calls = Counter(call.call.name for call in calls if call.result is None)
    tools = [
        ToolCount(name, number, failed[name], open_calls[name])
        for name, number in by_name.most_common()
    ]
    models.sort(key=lambda one: -one.usage.total)
    return Statistics(dict(roles.most_common()), models, tools)


def answered_id(message: Message) -> str | None:
    """Return the id of the tool call that a message answers."""
    found = message.fields.get("tool_call_id")
    return found if isinstance(found, str) else None


def is_error(message: Message) -> bool:
    """Return whether a tool message reports a failure."""
    return message.fields.get("status") == "error"


def usage_of(message: Message) -> TokenUsage | None:
    """Return the tokens of a message, from `usage_metadata` or from its provider's metadata."""
    fields = usage_fields(message)
    for input_key, output_key, total_key in _FORMS:
        if input_key in fields or output_key in fields:
            prompt, answer = _number(fields.get(input_key)), _number(fields.get(output_key))
            return TokenUsage(prompt, answer, _number(fields.get(total_key)) or prompt + answer)
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


def model_of(message: Message) -> str | None:
    """Return the model that produced a message, from `response_metadata`."""
    said = _dict(message.fields.get("response_metadata"))
    for key in _MODELS:
        found = said.get(key)
        if isinstance(found, str) and found:
            return found
    return None


def _foreign(item: Value) -> Message:
    return Message("?", item, None, None, (), {})


def _failed(turns: Sequence[Turn], call: Call) -> bool:
    return call.result is not None and is_error(turns[call.result].message)


def _sum(used: Iterable[TokenUsage]) -> TokenUsage:
    found = list(used)
    return TokenUsage(
        sum(one.input for one in found),
        sum(one.output for one in found),
        sum(one.total for one in found),
    )


def _number(value: Value) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _dict(value: Value) -> Mapping[Value, Value]:
    held = unwrap(value)
    return held if isinstance(held, dict) else {}
