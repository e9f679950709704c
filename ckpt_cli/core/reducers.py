"""The reducers of LangGraph, one implementation of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache, partial, reduce
from itertools import chain
from operator import add, attrgetter, is_, methodcaller
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from ckpt_backends import shell
from ckpt_backends.codec.values import UNDEFINED, Cut, Tagged, Value
from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.core.conversation import Message, as_message
from ckpt_cli.core.values import Numbers, fields_of, is_set, same

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
        if type(item) is Tagged and _id(item) is None and _is_message(item)
        else item
        for item in items
    ]


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
                args = json.loads(args, strict=False)
    else:
        name, args = call.get("name"), call.get("args")
    return {"name": name, "args": args, "id": call.get("id"), "type": "tool_call"}


def _class(value: Tagged) -> str:
    return value.type.rpartition(".")[2].removesuffix("Chunk")


def _stable_fields(value: Tagged) -> dict[Value, Value]:
    """Return the fields of a message without its id and without fields that mark a chunk."""
    left_out: Sequence[str] = ("id", "type", *_CHUNK_ONLY)
    return {name: field for name, field in fields_of(value).items() if name not in left_out}


# LangGraph's channels, exactly: the reducers that stored values are verified with.
#
# The reducer of a channel is not stored in a thread. Each reducer here computes the value of a
# channel after some writes, or raises that it does not accept such values; `elimination` finds
# out which reducer a channel has, and `unknown_reducer` which one it probably has. Source:
# `langgraph/channels` of 1.2.24; older versions and LangGraph.js have the same rules.


CUSTOM = "custom"
"""Reducer name that a user gives for a channel with a reducer that is not listed here."""


class Absent(Enum):
    """The content of a channel without a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
NOT_STORED: Final = Cut(None, 0, "not stored")
"""Placeholder for a value that the layout does not store."""
Held: TypeAlias = "Value | Absent"
"""The content of a channel. A list may contain `Pending` messages."""
Batch: TypeAlias = "Sequence[Value]"
"""The writes that a channel receives in one update, in order; empty if a step did not write to it.
"""
Update: TypeAlias = "tuple[Batch, tuple[Value] | None]"
"""A batch, and the value of the `Overwrite` in it in a tuple; None if it has no `Overwrite`."""


class DoesNotApply(Exception):
    """The reducer does not accept such values."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """How a channel merges writes."""

    name: str
    merge: Callable[[Held, Batch], Held]
    """Maps (content before, one batch) to the content after. Raises `DoesNotApply`."""
    starts: tuple[Held, ...] = (ABSENT,)
    """Possible start values of an empty channel: for example `int()` is 0, which is not stored."""
    makes: bool = False
    """Makes new values, so it is unlikely to explain another reducer's result by chance."""
    replaced: Callable[[Value], Held] = lambda replacement: replacement
    """Maps the value of an `Overwrite` to the content after it."""
    delta: Callable[[Held, Batch, bool], Held] | None = None
    """How a DeltaChannel merges writes, if it differs.

    It is also told whether a `RemoveMessage` may empty the list, as in LangGraph since 1.2.24.
    """
    holds: tuple[type, ...] = (object,)
    """Types of content that `merge` may accept with writes, besides `ABSENT`."""
    takes: tuple[type, ...] = (object,)
    """Types of writes that `merge` may accept."""

    def results(self, base: Held, batches: Sequence[Batch]) -> list[Held]:
        """Return what a channel may hold after these batches; empty if they do not apply."""
        return self.results_of(base, updates_of(batches))

    def results_of(
        self, base: Held, updates: Sequence[Update], clears: bool | None = None
    ) -> list[Held]:
        """Return the same, for batches in which `Overwrite`s were looked for.

        `clears` is what `delta` is told of a DeltaChannel; None for any other channel.
        """
        found: list[Held] = []
        own = None if clears is None else self.delta
        is_started = base is not ABSENT or not any(batch for batch, _ in updates)
        for start in (base,) if is_started else self.starts:
            held = start
            try:
                for batch, replacement in updates:
                    if replacement is not None:
                        held = replacement[0] if own else self.replaced(replacement[0])
                    else:
                        held = own(held, batch, bool(clears)) if own else self.merge(held, batch)
            except DoesNotApply:
                continue
            found.append(held)
        return found


def overwrite(write: Value) -> tuple[bool, Value]:
    """Return whether a write is an `Overwrite` in one of its three stored forms, and its value."""
    if type(write) in _SIMPLE:  # Replay asks once for each reducer.
        return False, None
    if isinstance(write, Tagged):
        fields = write.payload
        if write.type.endswith(".Overwrite") and isinstance(fields, dict):
            return True, fields.get("value")
    elif isinstance(write, dict):
        if len(write) == 1 and "__overwrite__" in write:
            return True, write["__overwrite__"]
        if write.get("type") == "__overwrite__" and "value" in write:
            return True, write["value"]
    return False, None


_SIMPLE = {str, int, float, bool, bytes, list, type(None)}


def is_override(write: Value) -> TypeGuard[dict[Value, Value]]:
    """Return whether a write replaces the value of a channel with the reducer `override`."""
    return isinstance(write, dict) and write.get("type") == "override"


def updates_of(batches: Sequence[Batch]) -> list[Update]:
    """Look for an `Overwrite` in each batch."""
    return [(batch, _replacement(batch)) for batch in batches]


def _replacement(batch: Batch) -> tuple[Value] | None:
    for value in batch:
        found, replacement = overwrite(value)
        if found:
            # A step may have only one Overwrite; its other writes are lost.
            return (replacement,)
    return None


def reducers_for(held: Held, updates: Sequence[Update]) -> Sequence[tuple[int, Reducer]]:
    """Return the reducers that may accept this content and these updates, each with its place.

    All others raise `DoesNotApply`; most of them are left out by the types of the values alone.
    """
    if len(updates) == 1 and updates[0][0] and updates[0][1] is None:
        kind: type = type(held)
        return _reducers_for_types(kind, frozenset(map(type, updates[0][0])))
    return _reducers_for_types(Absent, frozenset())


@lru_cache(1024)
def _reducers_for_types(held: type, written: frozenset[type]) -> Sequence[tuple[int, Reducer]]:
    return tuple(
        (place, reducer)
        for place, reducer in enumerate(REDUCERS.values())
        if issubclass(held, (Absent, *reducer.holds))
        and all(issubclass(one, reducer.takes) for one in written)
    )


def held_fits(expected: Held, stored: Held) -> bool:
    """Return whether a stored value equals the expected one, apart from generated ids."""
    if expected is stored:
        return True
    if expected is ABSENT or stored is ABSENT:
        # JavaScript's `undefined` is stored as a write, but not in the state.
        return stored is ABSENT and expected == UNDEFINED
    if isinstance(stored, _BYTES_OR_DICT) and (data := _bytes(expected)) is not None:
        if isinstance(stored, bytes):
            return stored == data
        return stored == {str(n): byte for n, byte in enumerate(data)}
    if isinstance(stored, Tagged) and isinstance(expected, bytes):
        return _bytes(stored) == expected
    if not (isinstance(expected, list) and isinstance(stored, list)):
        return same(expected, stored)
    if len(expected) != len(stored):
        return False
    # Most lists hold no `Pending`: that is asked last, since lists are long.
    return same(expected, stored) or (
        Pending in map(type, expected) and all(map(_item_fits, expected, stored))
    )


_BYTES_OR_DICT = (bytes, dict)
"""For `isinstance`, which is slower with a union."""


def is_not_stored(value: Held) -> bool:
    return value is NOT_STORED


def is_empty(value: Held) -> bool:
    """Return whether a channel may start with this value: absent, zero, or without items."""
    if isinstance(value, Tagged):
        return is_set(value) and value.payload == []
    return value is ABSENT or not value


def is_complete(value: Held) -> bool:
    """Return whether the whole value is known, including generated ids."""
    return not (
        isinstance(value, Absent) or (isinstance(value, list) and Pending in map(type, value))
    )


def same_objects(one: Held, other: Held) -> bool:
    """Return whether two results consist of the same objects; False may mean unknown."""
    if one is other:
        return True
    return (
        isinstance(one, list)
        and isinstance(other, list)
        and len(one) == len(other)
        and all(map(is_, one, other))
    )


def _bytes(value: Value) -> bytes | None:
    """Return the value as bytes; None if it is something else.

    Writes of bytes have a type tag of their own; in a body they are part of msgpack or JSON.
    LangGraph.js writes them to JSON as an object with one key per byte. Old savers for Redis store
    a bytearray as bytes in a write.
    """
    if isinstance(value, Tagged) and value.type == "builtins.bytearray":
        value = value.payload
    return value if isinstance(value, bytes) else None


def _item_fits(expected: Value, stored: Value) -> bool:
    if isinstance(expected, Pending):
        return fits(expected, stored)
    return same(expected, stored)


def _last_value(held: Held, batch: Batch) -> Held:
    if len(batch) > 1:
        raise DoesNotApply  # LangGraph raises InvalidUpdateError
    return batch[0] if batch else held


def _any_value(held: Held, batch: Batch) -> Held:
    return batch[-1] if batch else held


def _first_value(held: Held, batch: Batch) -> Held:
    return held if held is not ABSENT or not batch else batch[0]


def _add_messages(held: Held, batch: Batch) -> Held:
    for value in batch:
        merged = merge([] if held is ABSENT else held, value)
        if merged is None:
            raise DoesNotApply
        held = merged
    return held


def _add_messages_delta(held: Held, batch: Batch, clears: bool) -> Held:
    if not batch:
        return held
    merged = merge_delta([] if held is ABSENT else held, batch, clears=clears)
    if merged is None:
        raise DoesNotApply
    return merged


def _not_plain(held: Held, batch: Batch) -> Held:
    """LangGraph 1.2.0 to 1.2.23 merged DeltaChannels of messages in a way of their own."""
    if not batch:
        return held
    raise DoesNotApply


def _append(held: Held, batch: Batch) -> Held:
    """`operator.add` on lists; a write that is not a list is one item, and None is nothing."""
    if not batch:
        return held
    if not (held is ABSENT or isinstance(held, list)):
        raise DoesNotApply
    parts = [value if isinstance(value, list) else [value] for value in batch if value is not None]
    return [*([] if held is ABSENT else held), *chain.from_iterable(parts)]


def _concat(held: Held, batch: Batch) -> Held:
    if not all(isinstance(value, str) for value in batch):
        raise DoesNotApply
    texts = [value for value in batch if isinstance(value, str)]
    if not texts:
        return held
    if not (held is ABSENT or isinstance(held, str)):
        raise DoesNotApply
    return "".join([*([] if held is ABSENT else [held]), *texts])


def _numbers(held: Held, batch: Batch) -> list[int | float]:
    values = list(batch) if held is ABSENT else [held, *batch]
    numbers = [value for value in values if _is_number(value)]
    if len(numbers) < len(values):
        raise DoesNotApply
    return numbers


_NUMBERS = (int, float)


def _is_number(value: Held) -> TypeGuard[int | float]:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _numeric(fold: Callable[[list[int | float]], int | float]) -> Callable[[Held, Batch], Held]:
    return lambda held, batch: fold(_numbers(held, batch)) if batch else held


# Do not use `sum`: since Python 3.12 it rounds floats differently.
_sum = _numeric(partial(reduce, add))
_max, _min = _numeric(max), _numeric(min)


def _dict_merge(held: Held, batch: Batch) -> Held:
    if not batch:
        return held
    merged: dict[Value, Value] = {}
    for value in batch if held is ABSENT else [held, *batch]:
        if value is None:
            continue
        if not isinstance(value, dict):
            raise DoesNotApply
        merged |= value
    return merged


def _dict_patch(held: Held, batch: Batch) -> Held:
    """`_file_data_reducer` and `_file_data_delta_reducer` of Deep Agents: None removes a key.

    Source: `deepagents/middleware/filesystem.py`, the same from 0.6.0 to 0.7.32.
    """
    if not batch:
        return held
    if not (held is ABSENT or held is None or isinstance(held, dict)):
        raise DoesNotApply
    merged: dict[Value, Value] = dict(held) if isinstance(held, dict) else {}
    for value in batch:
        if not isinstance(value, dict):
            raise DoesNotApply
        for key, item in value.items():
            if item is None:
                merged.pop(key, None)
            else:
                merged[key] = item
    return merged


def _override(held: Held, batch: Batch) -> Held:
    """`override_reducer` of open_deep_research: `operator.add`, or `{"type": "override"}`.

    Source: `open_deep_research/state.py` (0.0.16).
    """
    for value in batch:
        if is_override(value):
            held = value.get("value", value)
        elif isinstance(value, list):
            held = _append(held, [value])
        else:
            raise DoesNotApply
    return held


def _set_union(held: Held, batch: Batch) -> Held:
    if not batch:
        return held
    numbers = Numbers()
    members: dict[int, Value] = {}
    kind = ""
    for value in batch if held is ABSENT else [held, *batch]:
        if not (isinstance(value, Tagged) and is_set(value) and isinstance(value.payload, list)):
            raise DoesNotApply
        kind = kind or value.type
        for item in value.payload:
            members.setdefault(numbers(item), item)
    return Tagged(kind, list(members.values()))


def _topic(held: Held, batch: Batch) -> Held:
    """A `Topic` that does not accumulate: only the writes of the last step."""
    if held is not ABSENT and not isinstance(held, list):
        raise DoesNotApply
    if not batch:
        return ABSENT if held is ABSENT else []
    return list(chain.from_iterable(v if isinstance(v, list) else [v] for v in batch))


def _ephemeral(_: Held, batch: Batch) -> Held:
    """`EphemeralValue` and `AnyValue`: the last write of the last step, or nothing."""
    return batch[-1] if batch else ABSENT


def _barrier(held: Held, batch: Batch) -> Held:
    """`NamedBarrierValue`: the set of names that have arrived."""
    if not (held is ABSENT or (isinstance(held, Tagged) and is_set(held))):
        raise DoesNotApply
    if not batch:
        return held
    if not all(isinstance(value, str) for value in batch):
        raise DoesNotApply
    arrived = Tagged("builtins.set", list(batch))
    return _set_union(held, [arrived])


def _untracked(held: Held, _: Batch) -> Held:
    """`UntrackedValue`, or a channel that the graph does not have: nothing is ever stored."""
    if held is not ABSENT:
        raise DoesNotApply
    return ABSENT


_NONE = type(None)
_ALL = (
    Reducer(
        "add_messages",
        _add_messages,
        makes=True,
        replaced=replaced_by,
        delta=_add_messages_delta,
        holds=(list, dict, Tagged),
        takes=(list, dict, Tagged, str),
    ),
    Reducer(
        "add_messages_1.2.23",
        _not_plain,
        makes=True,
        delta=lambda held, batch, _: _add_messages_delta(held, batch, clears=False),
        holds=(list, dict, Tagged),
        takes=(list, dict, Tagged, str),
    ),
    Reducer("last_value", _last_value),
    Reducer("append", _append, makes=True, holds=(list,)),
    Reducer("dict_merge", _dict_merge, makes=True, holds=(dict, _NONE), takes=(dict, _NONE)),
    Reducer("dict_patch", _dict_patch, makes=True, holds=(dict, _NONE), takes=(dict,)),
    Reducer("set_union", _set_union, makes=True, holds=(Tagged,), takes=(Tagged,)),
    Reducer("sum", _sum, (ABSENT, 0.0), makes=True, holds=_NUMBERS, takes=_NUMBERS),
    Reducer("concat", _concat, makes=True, holds=(str,), takes=(str,)),
    Reducer("any_value", _any_value),
    Reducer("max", _max, (ABSENT, 0, 0.0), holds=_NUMBERS, takes=_NUMBERS),
    Reducer("min", _min, (ABSENT, 0, 0.0), holds=_NUMBERS, takes=_NUMBERS),
    Reducer("first_value", _first_value),
    Reducer("override", _override, makes=True, holds=(list,), takes=(list, dict)),
    Reducer("topic", _topic, holds=(list,)),
    Reducer("ephemeral", _ephemeral),
    Reducer("barrier", _barrier, makes=True, holds=(Tagged,), takes=(str,)),
    Reducer("untracked", _untracked, holds=()),
)
REDUCERS: Mapping[str, Reducer] = {reducer.name: reducer for reducer in _ALL}
"""In order of preference, for reducers that the data cannot tell apart."""


_REDUCER_NAMES = [*REDUCERS, CUSTOM]


def named_reducers(options: Iterable[str]) -> dict[str, str]:
    """Parse `--reducer CHANNEL=NAME` options to channel and reducer. Raises `UsageError`."""
    named: dict[str, str] = {}
    for option in options:
        channel, equals, name = option.rpartition("=")
        if not equals or not channel:
            hint = "write it as CHANNEL=NAME, such as notes=append"
            raise UsageError(f"cannot read --reducer '{option}'", hint=hint)
        named[channel] = name
    return named


def known_reducers(chosen: dict[str, str]) -> dict[str, str]:
    """Return channel to reducer. Raises `UsageError` for an unknown reducer."""
    for channel, name in chosen.items():
        if name not in _REDUCER_NAMES:
            raise UsageError(
                f"no reducer '{name}' for channel '{channel}'",
                hint=did_you_mean(name, _REDUCER_NAMES) or f"reducers: {', '.join(_REDUCER_NAMES)}",
            )
    return chosen


def unknown_channel(name: str, known: Collection[str], where: str) -> NotFound:
    """Return the error for a channel that does not exist."""
    there = f"channels: {', '.join(map(shell.word, sorted(known)))}" if known else None
    return NotFound(
        f"no channel '{name}' in {where}", hint=did_you_mean(name, sorted(known)) or there
    )


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with known names that are similar to an unknown one; None if there are none."""
    close = get_close_matches(name, list(known), n=3)
    return f"did you mean {' or '.join(map(shell.name, close))}?" if close else None


# Merge writes into a channel whose reducer is not stored.
#
# The reducer is told, or guessed from the look of the values, as the libraries that people use
# write them; then the result is always marked as assumed. The merging itself is that of
# `reducers`.


_BEFORE, _NEWEST = "1.2.23", "1.2.24"
"""From the second on, `REMOVE_ALL_MESSAGES` empties a DeltaChannel of messages."""
JAVASCRIPT = "javascript"
"""In place of a release: `messagesDeltaReducer` of LangGraph.js always let it empty the list."""
_SET = "builtins.set"
_EMPTY: Mapping[str, Value] = {"dict_merge": {}, "dict_patch": {}, "set_union": Tagged(_SET, [])}
"""What a DeltaChannel holds after `Overwrite(None)`, by its reducer; otherwise an empty list."""


class Rules(NamedTuple):
    """How values that are not stored are rebuilt, as far as the user told it."""

    reducers: Mapping[str, str] = MappingProxyType({})
    """Maps a channel to its reducer, also as `NODE/CHANNEL` for the subgraph that a node calls."""
    library: str = ""
    """The release of LangGraph whose state is wanted; empty for the newest, `JAVASCRIPT` for any of
    LangGraph.js.
    """

    @property
    def clears(self) -> bool:
        """Whether that release lets `REMOVE_ALL_MESSAGES` empty a DeltaChannel."""
        if self.library in {"", JAVASCRIPT}:
            return True
        return _release_numbers(self.library) >= _release_numbers(_NEWEST)

    def told(self, graph: str, channel: str) -> str:
        """Return the reducer that was told for a channel of a graph; empty if none was."""
        label = f"{graph}/{channel}" if graph else channel
        name = self.reducers.get(label, self.reducers.get(channel, ""))
        return name if name in REDUCERS else ""

    def merge(
        self, graph: str, channel: str, base: Value, writes: Sequence[Value], *, delta: bool
    ) -> tuple[Value, str]:
        """Merge writes into a channel of a graph as `fold` does, with the reducer that was told.

        Returns the value and how the reducer is known, such as `assumed append`.
        """
        told = self.told(graph, channel)
        value, name = fold(base, writes, told, delta=delta, clears=self.clears)
        return value, f"{name}, as told" if name == told else f"assumed {name}"


NO_RULES = Rules()


def known_release(text: str) -> str:
    """Return the number of a release of LangGraph. Raises `UsageError` for any other text."""
    if re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,2}", text) is None:
        raise UsageError(
            f"'{text}' is not a release of LangGraph", hint="give its number, such as 1.2.22"
        )
    return text


def _release_numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def fold(
    base: Value,
    writes: Sequence[Value],
    told: str = "",
    *,
    delta: bool = False,
    clears: bool = True,
) -> tuple[Value, str]:
    """Merge writes, oldest first, into a base (None if there is none); return (value, reducer
    name).

    The last `Overwrite` among the writes replaces everything before it. `told` names the reducer,
    if it is known. `delta` is whether it is a DeltaChannel, `clears` whether `REMOVE_ALL_MESSAGES`
    empties it. Source: `DeltaChannel.replay_writes` in `langgraph/channels/delta.py`.
    """
    held: Held = ABSENT if base is None else base
    start, is_emptied = 0, False
    for i, write in enumerate(writes):
        found, replacement = overwrite(write)
        if found:
            held, start, is_emptied = replacement, i + 1, replacement is None
    rest = writes[start:]
    guesses = _guesses(base, writes)
    for name in chain((told,), guesses) if told else guesses:
        before = _EMPTY.get(name, []) if delta and is_emptied else held
        if name == "add_messages" and rest and not delta:
            before = before if before is ABSENT else converted(before)
            rest = [*map(converted, rest)]
        # Of the writes of many steps, each is the last value in its turn.
        batches = [[one] for one in rest] if name == "last_value" else [rest] if rest else []
        updates = [(batch, None) for batch in batches]
        for merged in REDUCERS[name].results_of(before, updates, clears if delta else None):
            return (None if merged is ABSENT else settled(merged)), name
    raise AssertionError("last_value takes any value")


class OtherReading(NamedTuple):
    """Another release of LangGraph reads other messages out of the same rows."""

    release: str
    """The release whose state is shown."""
    items: int
    """The number of messages that it reads."""
    other: str
    """The nearest release that reads others."""
    other_items: int

    @property
    def told(self) -> str:
        """What the user is told of a rebuilt value, after how it was rebuilt."""
        number = f"{self.other_items} message{'' if self.other_items == 1 else 's'}"
        if self.release == _NEWEST:
            return f"; LangGraph {self.other} and earlier read {number}"
        side = "later" if self.other == _NEWEST else "earlier"
        return f" as by LangGraph {self.release}; {self.other} and {side} read {number}"


def other_reading(
    rules: Rules, graph: str, channel: str, value: Value, base: Value, writes: Sequence[Value]
) -> OtherReading | None:
    """Return which release reads other messages than `value`; None if all read the same.

    `base` and `writes` are what the rules made `value` of, for a DeltaChannel.
    """
    if rules.library == JAVASCRIPT or not clears_all(writes):
        return None
    told = rules.told(graph, channel)
    other, name = fold(base, writes, told, delta=True, clears=not rules.clears)
    if name != "add_messages" or same(value, other):
        return None
    counts = [len(one) if isinstance(one, list) else 0 for one in (value, other)]
    release = rules.library or _NEWEST
    return OtherReading(release, counts[0], _BEFORE if rules.clears else _NEWEST, counts[1])


def one_step(writes: Sequence[Value]) -> Sequence[Value]:
    """Return those of the writes of one step that count: an `Overwrite` counts alone."""
    return next(([one] for one in writes if overwrite(one)[0]), writes)


def _guesses(base: Value, writes: Sequence[Value]) -> Iterator[str]:
    """Yield the reducers that may merge such values, the likeliest first; the last one takes any
    value.
    """
    read = [base]
    for write in writes:
        is_whole, replacement = overwrite(write)
        read.append(replacement if is_whole else write)
    plain = [value for value in read if value is not None]
    if any(map(is_override, plain)) and any(
        isinstance(one.get("value") if is_override(one) else one, list) for one in plain
    ):
        yield "override"
    items = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    if items and are_message_likes(items):
        yield "add_messages"
    if any(isinstance(value, list) for value in plain):
        yield "append"
    if plain and all(isinstance(value, dict) for value in plain):
        if _are_patches(base, writes):
            yield "dict_patch"
        yield "dict_merge"
    if plain and all(isinstance(value, Tagged) and value.type == _SET for value in plain):
        yield "set_union"
    yield "last_value"


def _are_patches(base: Value, writes: Sequence[Value]) -> bool:
    """Return whether a None in these dicts removes a key, as in the `files` of Deep Agents.

    Their keys are absolute paths, and their values dicts with the key `content`. A base that holds
    None shows that it is a value like any other.
    """
    written = [write for write in writes if isinstance(write, dict)]
    held = base if isinstance(base, dict) else {}
    if None in held.values() or not any(None in write.values() for write in written):
        return False
    keys = [key for one in (held, *written) for key in one]
    values = [value for one in (held, *written) for value in one.values() if value is not None]
    if all(isinstance(key, str) and key.startswith("/") for key in keys):
        return True
    return bool(values) and all(isinstance(one, dict) and "content" in one for one in values)
