"""LangGraph's channels, exactly: the reducers that stored values are verified with.

The reducer of a channel is not stored in a thread. Each reducer here computes the value of a
channel after some writes, or raises that it does not accept such values; `elimination` finds out
which reducer a channel has, and `unknown_reducer` which one it probably has. Source:
`langgraph/channels` of 1.2.24; older versions and LangGraph.js have the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce
from itertools import chain
from operator import add, is_
from typing import Final, TypeAlias, TypeGuard

from ckpt_backends.codec.values import UNDEFINED, Cut, Tagged, Value
from ckpt_cli.core.replay import add_messages
from ckpt_cli.core.replay.add_messages import Pending
from ckpt_cli.core.values.equality import Numbers, is_set, same

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


def fits(expected: Held, stored: Held) -> bool:
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
        return add_messages.fits(expected, stored)
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
        merged = add_messages.merge([] if held is ABSENT else held, value)
        if merged is None:
            raise DoesNotApply
        held = merged
    return held


def _add_messages_delta(held: Held, batch: Batch, clears: bool) -> Held:
    if not batch:
        return held
    merged = add_messages.merge_delta([] if held is ABSENT else held, batch, clears=clears)
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


def _sum(held: Held, batch: Batch) -> Held:
    # Do not use `sum`: since Python 3.12 it rounds floats differently.
    return reduce(add, _numbers(held, batch)) if batch else held


def _max(held: Held, batch: Batch) -> Held:
    return max(_numbers(held, batch)) if batch else held


def _min(held: Held, batch: Batch) -> Held:
    return min(_numbers(held, batch)) if batch else held


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
        replaced=add_messages.replaced_by,
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
