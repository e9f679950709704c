"""A state as a tree of values that fold: pure; nothing below a folded value is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.values.paths import format_path, parse_path
from ckpt_cli.core.values.unwrap import unwrap
from ckpt_cli.render.values.one_line import NDARRAY
from ckpt_cli.render.values.scalars import leaf

ITEMS = 100
"""Maximum number of items, keys or parts of a text that one node has as children."""
BEGINNING = 2_000
"""Number of characters of a text that are shown without unfolding more."""
PART = 10_000
"""Number of characters that are unfolded at once."""
_SHORT = 200
"""A text of one line with at most this number of characters does not fold."""
_SCALARS = {int, float, bool, bytes, type(None), Opaque}
_SCALAR_PARTS = 64
"""Maximum number of arguments of an object that is shown as one scalar, such as a path."""
_SPOKEN = ("content", "tool_calls", "invalid_tool_calls")
"""The fields of a message that say what happened; unfolded with it."""
NOISE = ("response_metadata", "usage_metadata", "additional_kwargs")
"""The fields of a message that are folded at the start."""
_NAMING = ("id", "type", "role")
_BARE = re.compile(r"[^\s.\[\]\"'\\]+")
_LONGEST_INDEX = 10**18
"""Paths have only smaller indexes than this."""


@dataclass(slots=True, eq=False)
class ValueNode:
    """A value, or a part of a long one, in the tree of a state."""

    name: str
    """Tells it from all other nodes of the state; the same in the next checkpoint."""
    path: str
    """The path of the value, or of the nearest value around it that has one."""
    key: Value
    """Its key or index; for a part, that of the value."""
    value: Value
    """For a part, the whole value; for the other fields of a message, only these."""
    depth: int
    parent: ValueNode | None = None
    kind: Literal["value", "items", "characters", "fields"] = "value"
    start: int = 0
    stop: int = 0
    """The range of a part, in items or characters."""
    starts_open: bool = False
    is_noise: bool = False
    is_spread: bool = False
    """Whether everything below it starts open."""
    is_open: bool | None = field(default=None)
    """None if it does not fold."""

    @property
    def channel(self) -> ValueNode:
        """The channel that it belongs to."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node


def channel_node(name: str, value: Value) -> ValueNode:
    """Return the node of a channel."""
    text = format_path((name,))
    is_array = isinstance(value, Tagged) and value.type == NDARRAY
    return ValueNode(text, text, name, value, 0, starts_open=not is_array)


def is_channel(name: str) -> bool:
    """Return whether a name of a node is that of a channel."""
    try:
        return len(parse_path(name)) == 1
    except UsageError:
        # The name of a part.
        return False


def unfold(roots: Iterable[ValueNode], folds: Mapping[str, bool]) -> Iterator[ValueNode]:
    """Yield all nodes that are not inside a folded one, from top to bottom.

    `folds` tells by name which nodes are open; all others are as at the start.
    """
    waiting = [iter(roots)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        node.is_open = folds.get(node.name, node.starts_open) if folds_up(node) else None
        yield node
        if node.is_open:
            waiting.append(iter(children(node)))


def folds_up(node: ValueNode) -> bool:
    """Return whether a node can be folded."""
    if node.kind != "value":
        return True
    text = text_of(node.value)
    if text is not None:
        return len(text) > _SHORT or "\n" in text
    return bool(parts_of(node.value))


def children(node: ValueNode) -> list[ValueNode]:
    """Return the nodes directly below a node, whether it is open or not."""
    if type(node.value) in _SCALARS or (
        isinstance(node.value, str) and len(node.value) <= BEGINNING
    ):
        # Most values; asked first, because a search asks for the children of each.
        return []
    if node.kind == "characters":
        long = node.stop - node.start > PART
        return _parts(node, node.start, node.stop, PART) if long else []
    if node.kind == "items":
        if node.stop - node.start > ITEMS:
            return _parts(node, node.start, node.stop, ITEMS)
        return _entries(node, node.start, node.stop)
    if node.kind == "fields":
        return _entries(node, 0, len(parts_of(node.value) or ()))
    text = text_of(node.value)
    if text is not None:
        return _parts(node, BEGINNING, len(text), max(PART, len(text)))
    held = parts_of(node.value) or ()
    if (fields := _message_fields(node.value)) is not None:
        return _message_nodes(node, fields)
    return _entries(node, 0, min(len(held), ITEMS)) + _parts(node, ITEMS, len(held), ITEMS)


def text_of(value: Value) -> str | None:
    """Return the text that a value consists of; None for any other value."""
    held = value
    while isinstance(held, Tagged | Cut):
        held = held.payload if isinstance(held, Tagged) else held.kept
    is_scalar = isinstance(value, Tagged) and isinstance(held, str) and leaf(value) is not None
    return held if isinstance(held, str) and not is_scalar else None


def parts_of(value: Value) -> dict[Value, Value] | list[Value] | None:
    """Return the dict or list inside a value; None if it is shown as one scalar."""
    held = unwrap(value)
    if held is None or not isinstance(value, Tagged) or len(held) > _SCALAR_PARTS:
        return held
    return held if leaf(value) is None else None


def part_of(node: ValueNode) -> Value:
    """Return what a node stands for: its value, or a part of it."""
    if node.kind == "characters":
        return (text_of(node.value) or "")[node.start : node.stop]
    held = parts_of(node.value)
    if node.kind == "items" and held is not None:
        if isinstance(held, list):
            return held[node.start : node.stop]
        return dict(islice(held.items(), node.start, node.stop))
    return node.value


def is_empty(value: Value) -> bool:
    """Return whether a field says nothing."""
    return value in (None, "", [], {}) or value is False


def is_index(key: Value) -> bool:
    """Return whether a key is the index of an item, or looks like one."""
    return isinstance(key, int) and not isinstance(key, bool)


def child_name(name: str, key: Value) -> str | None:
    """Return the path of a part of the value at a path; None if its key stands in no path."""
    if isinstance(key, str):
        return f"{name}.{key}" if _BARE.fullmatch(key) else f"{name}[{_quoted(key)}]"
    if isinstance(key, int) and is_index(key) and abs(key) < _LONGEST_INDEX:
        return f"{name}[{key}]"
    return None


def _quoted(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _entries(node: ValueNode, start: int, stop: int) -> list[ValueNode]:
    """Return the items of a list or dict from one position to another."""
    held = parts_of(node.value) or []
    if isinstance(held, list):
        pairs: Iterable[tuple[Value, Value]] = enumerate(held[start:stop], start)
    else:
        pairs = islice(held.items(), start, stop)
    return [_child(node, key, value, at) for at, (key, value) in enumerate(pairs, start)]


def _child(node: ValueNode, key: Value, value: Value, at: int) -> ValueNode:
    # The names of a value's parts must not depend on where they are shown.
    base = node.name if node.kind == "value" else _whole(node).name
    name = child_name(base, key)
    is_value = name is not None and base == node.path
    return ValueNode(
        # No path contains a blank outside of quotes, so this is never the name of another node.
        f"{base} {{{at}}}" if name is None else name,
        name if name is not None and is_value else node.path,
        key,
        value,
        node.depth + 1,
        node,
        # A list of long texts starts as a list of their beginnings.
        starts_open=node.is_spread or (text_of(value) is not None and not is_index(key)),
        is_spread=node.is_spread,
    )


def _whole(node: ValueNode) -> ValueNode:
    """Return the value that a node is a part of."""
    while node.kind != "value" and node.parent is not None:
        node = node.parent
    return node


def _parts(node: ValueNode, start: int, stop: int, size: int) -> list[ValueNode]:
    """Return nodes for ranges of a long value: at most `ITEMS`, each of at least `size`."""
    while stop - start > size * ITEMS:
        size *= ITEMS
    whole = _whole(node)
    kind: Literal["items", "characters"] = "items" if text_of(node.value) is None else "characters"
    return [
        ValueNode(
            # Without the end, so that it is the same part when the value has grown.
            f"{whole.name} {at}:{node.depth + 1 - whole.depth}",
            node.path,
            node.key,
            node.value,
            node.depth + 1,
            node,
            kind,
            at,
            min(at + size, stop),
        )
        for at in range(start, stop, size)
    ]


def _message_fields(value: Value) -> dict[str, Value] | None:
    """Return the fields of a message; None for any other value."""
    message = as_message(value)
    if message is None or len(message.fields) > ITEMS:
        return None
    fields = {key: one for key, one in message.fields.items() if isinstance(key, str)}
    return fields if len(fields) == len(message.fields) else None


def _message_nodes(node: ValueNode, fields: Mapping[str, Value]) -> list[ValueNode]:
    """Return the fields of a message: what it says, the others, and what is rarely of use."""
    spoken = [key for key in _SPOKEN if fields.get(key) or key == "content"]
    noise = [key for key in NOISE if fields.get(key)]
    empty = [key for key, one in fields.items() if is_empty(one)]
    rest = [key for key in fields if key in (*_NAMING, *empty) and key not in (*spoken, *noise)]
    shown = {*spoken, *noise, *rest}
    order = [*spoken, *(key for key in fields if key not in shown), *noise]
    found: list[ValueNode] = []
    for at, key in enumerate(order):
        child = _child(node, key, fields[key], at)
        child.is_noise = key in noise
        child.is_spread = key in _SPOKEN
        child.starts_open = key not in noise and (child.starts_open or child.is_spread)
        found.append(child)
    if rest:
        others: Value = {key: fields[key] for key in rest}
        name, depth = f"{node.name} fields", node.depth + 1
        found.append(ValueNode(name, node.path, None, others, depth, node, "fields", is_noise=True))
    return found


def everything_below(node: ValueNode, most: int) -> Sequence[ValueNode]:
    """Return the nodes below a node that fold, and the node: at most this number, without noise."""
    found: list[ValueNode] = []
    waiting = [node]
    while waiting and len(found) < most:
        one = waiting.pop()
        if folds_up(one):
            found.append(one)
            below = [child for child in children(one) if child.kind == "value"]
            waiting += [child for child in reversed(below) if not child.is_noise]
    return found
