"""Read chat messages: LangChain objects of any version, and plain dicts."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.values.unwrap import fields_of

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
