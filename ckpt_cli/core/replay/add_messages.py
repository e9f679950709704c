"""LangGraph's two reducers of messages on decoded values; what they generate stays open.

Sources: `add_messages` in `langgraph/graph/message.py`, `_messages_delta_reducer` in
`langgraph/pregel/_messages.py` (1.2.24; before 1.2.15 in `graph/message.py`), and
`convert_to_messages` in `langchain_core/messages/utils.py`. `messagesStateReducer` of LangGraph.js
does what `add_messages` does; Deep Agents has a copy of the other. Both convert texts, pairs and
dicts to messages. `add_messages` also makes whole messages of chunks, and gives an id to messages
that have none. Neither the result nor the id is stored with the write, so such a message is
`Pending` here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter, methodcaller
from typing import Any

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.conversation.messages import Message, as_message
from ckpt_cli.core.values.equality import same
from ckpt_cli.core.values.unwrap import fields_of

REMOVE_ALL = "__remove_all__"
"""Id of the `RemoveMessage` that empties the list."""
_ROLES = {"user": "human", "assistant": "ai", "developer": "system"}
"""Roles that are stored under another name."""
_KNOWN = {*_ROLES, "human", "ai", "system", "tool", "function", "remove"}
"""Roles that are converted; any other one raises."""
_CHUNK_ONLY = ("tool_call_chunks", "chunk_position")
"""Fields of a streamed message that the whole one does not have."""
_CLASSES = {
    "human": "langchain_core.messages.human.HumanMessage",
    "ai": "langchain_core.messages.ai.AIMessage",
    "system": "langchain_core.messages.system.SystemMessage",
    "function": "langchain_core.messages.function.FunctionMessage",
    "tool": "langchain_core.messages.tool.ToolMessage",
    "remove": "langchain_core.messages.modifier.RemoveMessage",
}
_ENVELOPES = {
    f"{path.rpartition('.')[2]}{end}": kind
    for kind, path in _CLASSES.items()
    for end in ("", "Chunk")
}
_WHOLE = {
    "AIMessageChunk": "ai",
    "HumanMessageChunk": "human",
    "SystemMessageChunk": "system",
    "FunctionMessageChunk": "function",
    "ToolMessageChunk": "tool",
}
"""The `type` of a chunk, and that of the whole message."""
_OWN = {"content", "name", "tool_call_id", "tool_calls", "id", "response_metadata"}
"""Fields of a dict that have a field of their own in the message; others go to
`additional_kwargs`."""
_PENDING = "ckpt.pending"
_TYPE, _PAYLOAD = attrgetter("type"), attrgetter("payload")
_HAS_CONTENT, _GET_ID = methodcaller("__contains__", "content"), methodcaller("get", "id")


class Pending(Tagged):
    """A message that gets its id or its class when it is merged.

    The payload is the value as written: a message, a dict with a role, a `[role, content]` pair, or
    a text.
    """

    __slots__ = ()


def merge(left: Value, right: Value) -> list[Value] | None:
    """Merge one write with `add_messages`; None if some values are not messages.

    A `RemoveMessage` with an unknown id changes nothing; `add_messages` itself raises.
    """
    new = _entries(right if isinstance(right, list) and not _is_pair(right) else [right])
    if new is None:
        return None
    base: list[Value] | None = left if isinstance(left, list) else None
    ids = None if base is None else _all_ids(base)
    if base is None or ids is None:
        base = _messages(left)
        if base is None:
            return None
        ids = [_id(entry) for entry in base]
    if cleared := _cleared_at(new):
        return new[cleared:]
    merged = list(base)
    places = {one: place for place, one in enumerate(ids) if one is not None}
    removed: set[str] = set()
    for entry in new:
        identity = _id(entry)
        place = None if identity is None else places.get(identity)
        if _is_remove(entry):
            if place is not None and identity is not None:
                removed.add(identity)
        elif place is None:
            if identity is not None:
                places[identity] = len(merged)
            merged.append(entry)
        else:
            removed.discard(identity or "")
            merged[place] = entry
    if removed:
        merged = [entry for entry in merged if _id(entry) not in removed]
    return merged


def merge_delta(left: Value, writes: Sequence[Value], *, clears: bool) -> list[Value] | None:
    """Merge the writes of a DeltaChannel at once; None if some values are not messages.

    A message that is removed and written again goes to the end, and one without an id never
    replaces another. `clears` is whether a `RemoveMessage` with the id `REMOVE_ALL` empties the
    list: it has an unknown id in LangGraph before 1.2.24. A pair is stored as a list, which is read
    as two texts.
    """
    flat = [item for one in writes for item in (one if isinstance(one, list) else [one])]
    new = _entries(flat, as_chunks=True)
    held: list[Value] = left if isinstance(left, list) else [left]
    ids = _LAST_IDS.of(held)
    base = held if ids is not None else _entries(held, as_chunks=True)
    if new is None or base is None:
        return None
    ids = [*map(_id, base)] if ids is None else ids
    if clears and (cleared := _cleared_at(new)):
        base, ids, new = [], [], new[cleared:]
    given = [one for one in map(_id, new) if one is not None]
    if len({*given}) == len(given) and {*ids}.isdisjoint(given) and not any(map(_is_remove, new)):
        return [*base, *new]  # at the speed of C, as in most steps
    merged: list[Value | None] = [*base]
    places = {one: place for place, one in enumerate(ids) if one is not None}
    for entry in new:
        identity = _id(entry)
        if identity is None:
            merged.append(entry)
        elif _is_remove(entry):
            if identity in places:
                merged[places.pop(identity)] = None
        elif identity in places:
            merged[places[identity]] = entry
        else:
            places[identity] = len(merged)
            merged.append(entry)
    return [entry for entry in merged if entry is not None]


def are_message_likes(items: Sequence[Value]) -> bool:
    """Return whether all items can be merged as messages, and at least one is no plain text."""
    return _entries(items) is not None and any(not isinstance(item, str) for item in items)


def clears_all(writes: Sequence[Value]) -> bool:
    """Return whether one of these writes has a `RemoveMessage` with the id `REMOVE_ALL`."""
    items = (item for one in writes for item in (one if isinstance(one, list) else [one]))
    return any(_id(item) == REMOVE_ALL and _is_remove(item) for item in items)


def unknown_removals(left: Value, right: Value) -> list[str]:
    """Return the ids of messages that a write removes although the list does not have them."""
    known = {_id(one) for one in (left if isinstance(left, list) else [left])}
    found: list[str] = []
    for entry in right if isinstance(right, list) else [right]:
        identity = _id(entry)
        if _is_remove(entry):
            found += [identity] if identity and identity not in {*known, REMOVE_ALL} else []
        else:
            known.add(identity)
    return found


def converted(value: Value) -> Value:
    """Return a list of message-likes, as it was read from a store, as messages; any other value
    unchanged.

    A pair that was written alone is stored as a list, which is read as two texts.
    """
    items = _entries(value) if isinstance(value, list) else None
    return value if items is None else settled(items)


def settled(value: Value) -> Value:
    """Return the value with each `Pending` as the message that it becomes.

    Its id stays None if it is only generated.
    """
    if not isinstance(value, list) or Pending not in map(type, value):
        return value
    return [_settled(item) if isinstance(item, Pending) else item for item in value]


def fits(entry: Pending, stored: Value) -> bool:
    """Return whether a stored message can be the result of a pending one."""
    written, found = entry.payload, as_message(stored)
    if found is None:
        return False
    if isinstance(written, Tagged) and isinstance(stored, Tagged):
        return _class(written) == _class(stored) and same(
            _stable_fields(written), _stable_fields(stored)
        )
    if isinstance(written, str):
        return found.role == "human" and found.content == written
    if isinstance(written, list):
        return _role(str(written[0])) == found.role and same(written[1], found.content)
    said = _dict_message(written)
    return (
        said is not None
        and _role(said.role) == _role(found.role)
        and same(said.content, found.content)
        and said.id in (None, found.id)
        and said.name in (None, found.name)
        and [(call.name, call.id) for call in said.tool_calls]
        in ([], [(call.name, call.id) for call in found.tool_calls])
    )


def replaced_by(replacement: Value) -> Value:
    """Return what a channel holds after an `Overwrite`.

    The next merge gives ids to the messages of the list itself, perhaps before it is stored.
    """
    return _without_ids(replacement) if isinstance(replacement, list) else replacement


def _without_ids(items: list[Value]) -> list[Value]:
    """Return messages of which those without an id are pending."""
    return [
        Pending(_PENDING, item)
        if isinstance(item, Tagged) and not isinstance(item, Pending) and _is_unnamed(item)
        else item
        for item in items
    ]


def _is_unnamed(value: Tagged) -> bool:
    return _id(value) is None and _is_message(value)


class _LastIds:
    """The result of `_all_ids` for the last list: replay asks twice in a row, for two reducers."""

    def __init__(self) -> None:
        self._kept: tuple[list[Value], Sequence[str | None] | None] = ([], None)

    def of(self, items: list[Value]) -> Sequence[str | None] | None:
        """Return the ids of plain messages with ids; None if the list holds anything else."""
        kept = self._kept
        if kept[0] is not items:
            self._kept = kept = (items, _all_ids(items))
        return kept[1]


_LAST_IDS = _LastIds()


def _all_ids(items: list[Value]) -> Sequence[str | None] | None:
    """Return the ids of plain messages with ids; None if the list holds anything else.

    Runs at the speed of C, because the messages of long threads are merged at each step.
    """
    if items and type(items[0]) is not Tagged:  # as in most lists that are no messages
        return None
    if {*map(type, items)} != {Tagged}:
        return None
    if not all("Message" in one for one in {*map(_TYPE, items)}):
        return None
    fields: list[Any] = [*map(_PAYLOAD, items)]
    if {*map(type, fields)} != {dict} or not all(map(_HAS_CONTENT, fields)):
        return None
    ids: list[Any] = [*map(_GET_ID, fields)]
    return ids if {*map(type, ids)} == {str} and all(ids) else None


def _messages(left: Value) -> list[Value] | None:
    """Return the messages of a stored list; None if it contains anything else."""
    items: list[Value] = left if isinstance(left, list) else [left]
    for item in items:
        if not _is_message(item):
            return None
    return _without_ids(items)


def _cleared_at(new: Sequence[Value]) -> int:
    """Return the index after the last message that empties the list; 0 if there is none."""
    for n in range(len(new), 0, -1):
        if _id(new[n - 1]) == REMOVE_ALL and _is_remove(new[n - 1]):
            return n
    return 0


def _entries(items: Sequence[Value], *, as_chunks: bool = False) -> list[Value] | None:
    """Return messages as they are merged; None if an item is none.

    Those that are changed are pending. With `as_chunks`, message objects stay as they are.
    """
    found: list[Value] = []
    for item in items:
        if isinstance(item, Tagged):
            if not _is_message(item):
                return None
            is_whole = _id(item) is not None and not item.type.endswith("Chunk")
            found.append(item if is_whole or as_chunks else Pending(_PENDING, item))
        elif isinstance(item, str) or _is_pair(item):
            found.append(Pending(_PENDING, item))
        elif isinstance(item, dict) and _dict_message(plain := _unpacked(item)) is not None:
            found.append(Pending(_PENDING, plain))
        else:
            return None
    return found


def _unpacked(item: dict[Value, Value]) -> dict[Value, Value]:
    """Return the fields of a message in the envelope of `langchain_core.load`, with their role."""
    if item.get("lc") == 1 and item.get("type") == "constructor":
        match item:
            case {"id": [*_, str(name)], "kwargs": dict(fields)} if name in _ENVELOPES:
                return {"type": _ENVELOPES[name], **fields}
    return item


def _is_message(value: Value) -> bool:
    if isinstance(value, Pending):
        return True
    fields = value.payload if isinstance(value, Tagged) else value
    if not isinstance(fields, dict) or "content" not in fields:
        return False
    return (isinstance(value, Tagged) and "Message" in value.type) or as_message(value) is not None


def _is_pair(value: Value) -> bool:
    """Return whether it is a `(role, content)` tuple, which is stored as a list."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and value[0] in _KNOWN
    )


def _dict_message(value: Value) -> Message | None:
    found = as_message(value) if isinstance(value, dict) else None
    return found if found is not None and found.role in _KNOWN else None


def _id(entry: Value) -> str | None:
    value = entry.payload if isinstance(entry, Pending) else entry
    fields = value.payload if isinstance(value, Tagged) else value
    found = fields.get("id") if isinstance(fields, dict) else None
    return found if isinstance(found, str) else None


def _is_remove(entry: Value) -> bool:
    value = entry.payload if isinstance(entry, Pending) else entry
    if isinstance(value, Tagged):
        return value.type.endswith("RemoveMessage")
    return isinstance(value, dict) and "remove" in (value.get("role"), value.get("type"))


def _role(name: str) -> str:
    return _ROLES.get(name, name)


def _settled(entry: Pending) -> Value:
    """Return the message that a pending one becomes."""
    written = entry.payload
    if isinstance(written, Tagged):
        if not written.type.endswith("Chunk"):
            return written
        fields = {k: one for k, one in fields_of(written).items() if k not in _CHUNK_ONLY}
        if isinstance(kind := fields.get("type"), str):
            fields["type"] = _WHOLE.get(kind, kind)
        return Tagged(written.type.removesuffix("Chunk"), fields)
    if isinstance(written, dict):
        # A type beside a role is one more field.
        named = "role" if "role" in written else "type"
        fields = {k: one for k, one in written.items() if k != named}
        return _made(str(written[named]), fields)
    if isinstance(written, list):
        return _made(str(written[0]), {"content": written[1]})
    return _made("human", {"content": written})


def _made(role: str, given: Mapping[Value, Value]) -> Tagged:
    """Return a message as it is stored after `_create_message_from_message_type` made it."""
    extra = {k: one for k, one in given.items() if k not in _OWN}
    nested = extra.pop("additional_kwargs", None)
    if isinstance(nested, dict):
        extra |= nested
    if role == "developer":
        extra["__openai_role__"] = "developer"
    kind = _role(role)
    own: dict[Value, Value] = {}
    if kind == "ai":
        calls = given.get("tool_calls")
        made = [_call(one) for one in calls] if isinstance(calls, list) else []
        own = {"tool_calls": made, "invalid_tool_calls": [], "usage_metadata": None}
    elif kind == "tool":
        own = {
            "tool_call_id": given.get("tool_call_id"),
            "artifact": extra.pop("artifact", None),
            "status": extra.pop("status", None) or "success",
        }
    fields: dict[Value, Value] = {
        "content": given.get("content") or "",
        "additional_kwargs": extra,
        "response_metadata": given.get("response_metadata") or {},
        "type": kind,
        "name": given.get("name"),
        "id": given.get("id"),
        **own,
    }
    return Tagged(_CLASSES[kind], fields)


def _call(call: Value) -> Value:
    """Return a tool call as a message keeps it; OpenAI nests name and arguments."""
    if not isinstance(call, dict):
        return call
    inner = call.get("function")
    if isinstance(inner, dict):
        name, args = inner.get("name"), inner.get("arguments")
        if isinstance(args, str):
            with suppress(ValueError, RecursionError):
                args = _parsed(args)
    else:
        name, args = call.get("name"), call.get("args")
    return {"name": name, "args": args, "id": call.get("id"), "type": "tool_call"}


def _parsed(arguments: str) -> Value:
    found: Value = json.loads(arguments, strict=False)
    return found


def _class(value: Tagged) -> str:
    return value.type.rpartition(".")[2].removesuffix("Chunk")


def _stable_fields(value: Tagged) -> dict[Value, Value]:
    """Return the fields of a message without its id and without fields that mark a chunk."""
    left_out: Sequence[str] = ("id", "type", *_CHUNK_ONLY)
    return {name: field for name, field in fields_of(value).items() if name not in left_out}
