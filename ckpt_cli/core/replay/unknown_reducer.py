"""Merge writes into a channel with an unknown reducer.

The reducer is guessed from the look of the values, so the result is always marked as assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.values.equality import Numbers

Fold = Callable[[Value, Sequence[Value]], Value]
"""Maps (base, writes in order) to the merged value."""

REMOVE_ALL = "__remove_all__"
"""Id of the `RemoveMessage` that empties the list."""


def fold(base: Value, writes: Sequence[Value]) -> tuple[Value, str]:
    """Merge writes, oldest first, into a base (None if there is none); return (value, reducer
    name).

    The last `Overwrite` among the writes replaces everything before it.
    """
    start = 0
    for i, write in enumerate(writes):
        found, replacement = overwrite(write)
        if found:
            base, start = replacement, i + 1
    rest = writes[start:]
    name = guess(base, writes)
    return (FOLDS[name](base, rest) if rest else base), name


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
        if write.get("type") == "__overwrite__":
            return True, write.get("value")
    return False, None


def guess(base: Value, writes: Sequence[Value]) -> str:
    """Return the name of the reducer that usually merges values of these types."""
    plain = [value for value in [base, *writes] if value is not None and not overwrite(value)[0]]
    items = [item for value in plain for item in (value if isinstance(value, list) else [value])]
    if items and all(as_message(item) is not None for item in items):
        return "add_messages"
    if any(isinstance(value, list) for value in plain):
        return "append"
    if plain and all(isinstance(value, dict) for value in plain):
        return "dict_merge"
    if plain and all(isinstance(value, Tagged) and value.type == _SET for value in plain):
        return "set_union"
    return "last_value"


def append(base: Value, writes: Sequence[Value]) -> Value:
    """Concatenate lists; a write that is not a list counts as one item."""
    merged = [] if base is None else list(_as_list(base))
    for write in writes:
        merged.extend(_as_list(write))
    return merged


def add_messages(base: Value, writes: Sequence[Value]) -> Value:
    """LangGraph's `add_messages`: replace a message by id, remove it, or append it."""
    merged = [] if base is None else _as_list(base)
    for write in writes:
        merged = _merge_messages(merged, _as_list(write))
    return merged


def dict_merge(base: Value, writes: Sequence[Value]) -> Value:
    """Merge dicts; later keys win."""
    merged = dict(base) if isinstance(base, dict) else {}
    for write in writes:
        if isinstance(write, dict):
            merged.update(write)
    return merged


def set_union(base: Value, writes: Sequence[Value]) -> Value:
    """Unite sets; members keep the order in which they were added."""
    numbers = Numbers()
    members: dict[int, Value] = {}
    for value in [base, *writes]:
        if isinstance(value, Tagged) and isinstance(value.payload, list):
            for item in value.payload:
                members.setdefault(numbers(item), item)
    return Tagged(_SET, list(members.values()))


def last_value(base: Value, writes: Sequence[Value]) -> Value:
    """Return the last write."""
    return writes[-1] if writes else base


_SET = "builtins.set"
_SIMPLE = {str, int, float, bool, bytes, list, type(None)}

FOLDS: Mapping[str, Fold] = {
    "add_messages": add_messages,
    "append": append,
    "dict_merge": dict_merge,
    "set_union": set_union,
    "last_value": last_value,
}


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _merge_messages(left: list[Value], right: list[Value]) -> list[Value]:
    ids = [_message_id(message) for message in right]
    if REMOVE_ALL in ids:
        last = len(ids) - 1 - ids[::-1].index(REMOVE_ALL)
        return right[last + 1 :]
    merged = list(left)
    places = {_message_id(message): i for i, message in enumerate(merged)}
    removed: set[int] = set()
    for message, message_id in zip(right, ids, strict=True):
        place = places.get(message_id) if message_id is not None else None
        found = as_message(message)
        if place is None:
            places[message_id] = len(merged)
            merged.append(message)
        elif found is not None and found.role == "remove":
            removed.add(place)
        else:
            removed.discard(place)
            merged[place] = message
    return [message for i, message in enumerate(merged) if i not in removed]


def _message_id(value: Value) -> str | None:
    message = as_message(value)
    return message.id if message is not None else None
