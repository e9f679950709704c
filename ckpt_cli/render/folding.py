"""Values that fold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.values import format_path, parse_path, unwrap
from ckpt_cli.render import values
from ckpt_cli.render.text import Span, StyledLine, cell_len, fit, line, safe_text, wrap

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
    is_array = isinstance(value, Tagged) and value.type == values.NDARRAY
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
    return bool(records_of(node.value))


def children(node: ValueNode) -> list[ValueNode]:
    """Return the nodes directly below a node, whether it is open or not."""
    if type(node.value) in _SCALARS or (
        isinstance(node.value, str) and len(node.value) <= BEGINNING
    ):
        # Most values; asked first, because a search asks for the children of each.
        return []
    if node.kind == "characters":
        long = node.stop - node.start > PART
        return _folded_parts(node, node.start, node.stop, PART) if long else []
    if node.kind == "items":
        if node.stop - node.start > ITEMS:
            return _folded_parts(node, node.start, node.stop, ITEMS)
        return _entries(node, node.start, node.stop)
    if node.kind == "fields":
        return _entries(node, 0, len(records_of(node.value) or ()))
    text = text_of(node.value)
    if text is not None:
        return _folded_parts(node, BEGINNING, len(text), max(PART, len(text)))
    held = records_of(node.value) or ()
    if (fields := _message_fields(node.value)) is not None:
        return _message_nodes(node, fields)
    return _entries(node, 0, min(len(held), ITEMS)) + _folded_parts(node, ITEMS, len(held), ITEMS)


def text_of(value: Value) -> str | None:
    """Return the text that a value consists of; None for any other value."""
    held = value
    while isinstance(held, Tagged | Cut):
        held = held.payload if isinstance(held, Tagged) else held.kept
    is_scalar = (
        isinstance(value, Tagged) and isinstance(held, str) and values.leaf(value) is not None
    )
    return held if isinstance(held, str) and not is_scalar else None


def records_of(value: Value) -> dict[Value, Value] | list[Value] | None:
    """Return the dict or list inside a value; None if it is shown as one scalar."""
    held = unwrap(value)
    if held is None or not isinstance(value, Tagged) or len(held) > _SCALAR_PARTS:
        return held
    return held if values.leaf(value) is None else None


def part_of(node: ValueNode) -> Value:
    """Return what a node stands for: its value, or a part of it."""
    if node.kind == "characters":
        return (text_of(node.value) or "")[node.start : node.stop]
    held = records_of(node.value)
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
        is_bare = _BARE.fullmatch(key)
        return f"{name}.{key}" if is_bare else f"{name}[{json.dumps(key, ensure_ascii=False)}]"
    if isinstance(key, int) and is_index(key) and abs(key) < _LONGEST_INDEX:
        return f"{name}[{key}]"
    return None


def _entries(node: ValueNode, start: int, stop: int) -> list[ValueNode]:
    """Return the items of a list or dict from one position to another."""
    held = records_of(node.value) or []
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


def _folded_parts(node: ValueNode, start: int, stop: int, size: int) -> list[ValueNode]:
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


FOLDED, UNFOLDED = "▸", "▾"
GUTTER = 2
"""Columns before a line for the sign of a change and a blank."""
_INDENT = 2
_WIDEST_KEY = 60
_NUMBER = 24
"""Columns that every float fits into, and every whole number up to a billion."""
_BILLION = 10**9
_BYTES = 64
"""Number of bytes that are shown of a value."""
_SAMPLE = 100
"""Number of items that are asked whether they are messages."""


def sign_column(node: ValueNode, width: int) -> int:
    """Return the column of the sign that folds or unfolds a node."""
    return GUTTER + min(_INDENT * node.depth, width // 2)


def takes_one_line(node: ValueNode, width: int) -> bool:
    """Return whether a node surely has one line, without drawing it."""
    if node.kind == "characters":
        return not (node.is_open and node.stop - node.start <= PART)
    if node.kind != "value" or node.is_open is False:
        return True
    if node.is_open and isinstance(node.value, str):
        return False
    value, room = node.value, _room(node, width)
    if isinstance(value, str):
        # In quotes it is at most twice as long.
        return value.isascii() and value.isprintable() and 2 * len(value) + 2 < room
    if isinstance(value, int):
        return -_BILLION < value < _BILLION and room > _NUMBER
    return (node.is_open is not None and text_of(value) is None) or (
        isinstance(value, float | None) and room > _NUMBER
    )


def node_lines(node: ValueNode, width: int, change: Span = ("", "plain")) -> list[StyledLine]:
    """Return the lines of a node; `change` is the sign of what a step did to it."""
    sign = "" if node.is_open is None else UNFOLDED if node.is_open else FOLDED
    lead: list[Span | str] = [
        (f"{change[0]:<{GUTTER}}", change[1]),
        " " * (sign_column(node, width) - GUTTER) + f"{sign:<2}",
    ]
    if node.kind == "characters":
        return _characters(node, width, lead)
    if node.kind != "value":
        return [line(*lead, (_said_of(node), "dim"))]
    text = text_of(node.value)
    if text is not None:
        return _text(node, text, width, lead)
    label = _label(node)
    if node.is_open:
        return [line(*lead, label, "  ", (_held(node.value), "dim"))]
    if node.is_open is False:
        # A summary of a list looks at each item.
        is_long = len(records_of(node.value) or ()) > ITEMS
        shown = _held(node.value) if is_long else values.summary(node.value, _room(node, width))
        return [line(*lead, label, (": ", label[1]), shown)]
    return _wrapped(node, _scalar(node.value), width, [*lead, label])


def _room(node: ValueNode, width: int) -> int:
    """Return the columns for a value behind its key."""
    return max(width - sign_column(node, width) - 4 - cell_len(_label(node)[0]), 1)


def _label(node: ValueNode) -> Span:
    if node.parent is None:
        return safe_text(node.key if isinstance(node.key, str) else ""), "head"
    return values.key_text(node.key, width=_WIDEST_KEY), "dim" if is_index(node.key) else "node"


def _wrapped(node: ValueNode, text: str, width: int, lead: list[Span | str]) -> list[StyledLine]:
    """Return a text behind its key, or below it if there is not enough space."""
    separator = (":", _label(node)[1])
    if cell_len(text) < _room(node, width):
        return [line(*lead, separator, " " if text else "", text)]
    return [line(*lead, separator), *_below(node, text, width)]


def _below(node: ValueNode, text: str, width: int) -> Iterator[StyledLine]:
    """Yield a text over as many lines as needed, with blanks in the place of tabs."""
    indent = " " * (sign_column(node, width) + 4)
    for one in text.expandtabs().split("\n"):
        for piece in wrap(one, width - len(indent)):
            yield line(indent, piece) if piece else line("")


def _text(node: ValueNode, text: str, width: int, lead: list[Span | str]) -> list[StyledLine]:
    label = _label(node)
    size: Span = (f"  ({_many(len(text), 'character')}{_wrapping(node.value)[1]})", "dim")
    if node.is_open is None:
        return _wrapped(node, values.summary(node.value, BEGINNING), width, [*lead, label])
    if node.is_open:
        shown = safe_text(text[:BEGINNING], newlines=True)
        return [
            line(*lead, label, (f"  {_wrapping(node.value)[0]}".rstrip(), "dim"), size),
            *_below(node, shown, width),
        ]
    beginning = safe_text(text[:width].strip().partition("\n")[0])
    room = max(_room(node, width) - len(size[0]), 1)
    return [line(*lead, label, (": ", label[1]), fit(f"{beginning}…", room), size)]


def _characters(node: ValueNode, width: int, lead: list[Span | str]) -> list[StyledLine]:
    title = line(*lead, (_said_of(node), "dim"))
    if not node.is_open or node.stop - node.start > PART:
        return [title]
    text = (text_of(node.value) or "")[node.start : node.stop]
    return [title, *_below(node, safe_text(text, newlines=True), width)]


def _said_of(node: ValueNode) -> str:
    """Return what a node says about the part that it stands for."""
    if node.kind == "fields" and isinstance(node.value, dict):
        named = [key for key, one in node.value.items() if not is_empty(one)]
        empty = len(node.value) - len(named)
        words = [safe_text(str(key)) for key in named]
        words += [values.counted(empty, "empty field")] if empty else []
        return f"… {', '.join(words)}"
    text = text_of(node.value)
    is_one = node.stop - node.start == 1
    which = f"{node.start:,}" if is_one else f"{node.start:,}–{node.stop - 1:,}"
    if text is None:
        held = records_of(node.value) or ()
        noun = "key" if isinstance(held, dict) else "item"
        return f"… {noun if is_one else f'{noun}s'} {which} of {len(held):,}"
    noun = "character" if is_one else "characters"
    if node.start == BEGINNING and node.stop == len(text):
        return f"… {node.stop - node.start:,} more {noun}"
    return f"… {noun} {which} of {len(text):,}"


def _scalar(value: Value) -> str:
    """Return a value without parts, or the beginning of a long one."""
    if isinstance(value, bytes) and len(value) > _BYTES:
        return f"{values.leaf(value, _BYTES)} …"
    text = values.leaf(value, _BYTES) if not isinstance(value, Cut) else None
    return fit(text, BEGINNING) if text is not None else values.summary(value, BEGINNING)


def _held(value: Value) -> str:
    """Return what kind of value is unfolded, and how long it is."""
    held = records_of(value) or ()
    message = as_message(value)
    if message is not None:
        return values.message_label(message)
    if isinstance(held, dict):
        number = f"{{{_many(len(held), 'key')}}}"
    else:
        number = f"[{_many(len(held), values.noun_for(islice(held, _SAMPLE)))}]"
    names, notes = _wrapping(value)
    return f"{names}{number}{notes}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _wrapping(value: Value) -> tuple[str, str]:
    """Return the class names around a value, each with a blank behind it, and that it was cut."""
    names = notes = ""
    while isinstance(value, Tagged | Cut):
        if isinstance(value, Tagged):
            names += f"{values.short_class(value.type)} "
            value = value.payload
        else:
            notes += f" {values.cut_note(value)}"
            value = value.kept
    return names, notes
