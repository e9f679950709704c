"""Draw the nodes of a state that folds: one line for each, more for a text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.render.terminal.cell_width import cell_len, fit, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.values.folding import (
    BEGINNING,
    ITEMS,
    PART,
    ValueNode,
    is_empty,
    is_index,
    parts_of,
    text_of,
)
from ckpt_cli.render.values.one_line import (
    counted,
    key_text,
    message_label,
    noun_for,
    summary,
)
from ckpt_cli.render.values.scalars import cut_note, leaf, short_class

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
        is_long = len(parts_of(node.value) or ()) > ITEMS
        shown = _held(node.value) if is_long else summary(node.value, _room(node, width))
        return [line(*lead, label, (": ", label[1]), shown)]
    return _wrapped(node, _scalar(node.value), width, [*lead, label])


def _room(node: ValueNode, width: int) -> int:
    """Return the columns for a value behind its key."""
    return max(width - sign_column(node, width) - 4 - cell_len(_label(node)[0]), 1)


def _label(node: ValueNode) -> Span:
    if node.parent is None:
        return safe_text(node.key if isinstance(node.key, str) else ""), "head"
    return key_text(node.key, width=_WIDEST_KEY), "dim" if is_index(node.key) else "node"


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
    size: Span = (f"  ({_size(text)}{_cut(node.value)})", "dim")
    if node.is_open is None:
        return _wrapped(node, summary(node.value, BEGINNING), width, [*lead, label])
    if node.is_open:
        shown = safe_text(text[:BEGINNING], newlines=True)
        return [
            line(*lead, label, (f"  {_kind(node.value)}".rstrip(), "dim"), size),
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
        words += [counted(empty, "empty field")] if empty else []
        return f"… {', '.join(words)}"
    text = text_of(node.value)
    if text is None:
        held = parts_of(node.value) or ()
        noun = "keys" if isinstance(held, dict) else "items"
        return f"… {noun} {node.start:,}–{node.stop - 1:,} of {len(held):,}"
    if node.start == BEGINNING and node.stop == len(text):
        noun = "character" if node.stop - node.start == 1 else "characters"
        return f"… {node.stop - node.start:,} more {noun}"
    return f"… characters {node.start:,}–{node.stop - 1:,} of {len(text):,}"


def _scalar(value: Value) -> str:
    """Return a value without parts, or the beginning of a long one."""
    if isinstance(value, bytes) and len(value) > _BYTES:
        return f"{leaf(value, _BYTES)} …"
    text = leaf(value, _BYTES) if not isinstance(value, Cut) else None
    return fit(text, BEGINNING) if text is not None else summary(value, BEGINNING)


def _held(value: Value) -> str:
    """Return what kind of value is unfolded, and how long it is."""
    held = parts_of(value) or ()
    message = as_message(value)
    if message is not None:
        return message_label(message)
    if isinstance(held, dict):
        number = f"{{{_many(len(held), 'key')}}}"
    else:
        number = f"[{_many(len(held), noun_for(islice(held, _SAMPLE)))}]"
    return f"{_kind(value)}{number}{_cut(value)}"


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(text: str) -> str:
    return _many(len(text), "character")


def _kind(value: Value) -> str:
    """Return the class names around a value, each with a blank behind it."""
    names = ""
    while isinstance(value, Tagged | Cut):
        names += f"{short_class(value.type)} " if isinstance(value, Tagged) else ""
        value = value.payload if isinstance(value, Tagged) else value.kept
    return names


def _cut(value: Value) -> str:
    """Return the notes that a value was cut."""
    notes = ""
    while isinstance(value, Tagged | Cut):
        notes += f" {cut_note(value)}" if isinstance(value, Cut) else ""
        value = value.payload if isinstance(value, Tagged) else value.kept
    return notes
