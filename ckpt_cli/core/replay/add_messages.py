"""LangGraph's `add_messages` on decoded values; ids and classes that it generates stay open.

Source: `add_messages` in `langgraph/graph/message.py` and `convert_to_messages` in
`langchain_core/messages/utils.py`; `messagesStateReducer` of LangGraph.js does the same. It
converts texts, pairs and dicts to messages, and gives an id to messages that have none. Neither the
result nor the id is stored with the write, so such a message is `Pending` here.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_PAIRS = {*_ROLES, "human", "ai", "system", "tool", "function", "remove", "placeholder"}
_CHUNK_ONLY = ("tool_call_chunks", "chunk_position")
"""Fields of a streamed message that the whole one does not have."""
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
    """Merge the messages on the right into those on the left; None if some are not messages.

    A `RemoveMessage` with an unknown id changes nothing, as in a DeltaChannel; `add_messages`
    itself raises.
    """
    new = _entries(right)
    if new is None:
        return None
    base: list[Value] | None = left if isinstance(left, list) else None
    ids = None if base is None else _all_ids(base)
    if base is None or ids is None:
        base = _messages(left)
        if base is None:
            return None
        ids = [_id(entry) for entry in base]
    for n in range(len(new) - 1, -1, -1):
        if _is_remove(new[n]) and _id(new[n]) == REMOVE_ALL:
            return new[n + 1 :]
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


def _entries(right: Value) -> list[Value] | None:
    found: list[Value] = []
    items = right if isinstance(right, list) and not _is_pair(right) else [right]
    for item in items:
        if isinstance(item, Tagged):
            if not _is_message(item):
                return None
            is_whole = _id(item) is not None and not item.type.endswith("Chunk")
            found.append(item if is_whole else Pending(_PENDING, item))
        elif isinstance(item, str) or _is_pair(item) or _dict_message(item) is not None:
            found.append(Pending(_PENDING, item))
        else:
            return None
    return found


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
        and value[0] in _PAIRS
    )


def _dict_message(value: Value) -> Message | None:
    return as_message(value) if isinstance(value, dict) else None


def _id(entry: Value) -> str | None:
    value = entry.payload if isinstance(entry, Pending) else entry
    fields = value.payload if isinstance(value, Tagged) else value
    found = fields.get("id") if isinstance(fields, dict) else None
    return found if isinstance(found, str) and found else None


def _is_remove(entry: Value) -> bool:
    value = entry.payload if isinstance(entry, Pending) else entry
    if isinstance(value, Tagged):
        return value.type.endswith("RemoveMessage")
    return isinstance(value, dict) and "remove" in (value.get("role"), value.get("type"))


def _role(name: str) -> str:
    return _ROLES.get(name, name)


def _class(value: Tagged) -> str:
    return value.type.rpartition(".")[2].removesuffix("Chunk")


def _stable_fields(value: Tagged) -> dict[Value, Value]:
    """Return the fields of a message without its id and without fields that mark a chunk."""
    left_out: Sequence[str] = ("id", "type", *_CHUNK_ONLY)
    return {name: field for name, field in fields_of(value).items() if name not in left_out}
