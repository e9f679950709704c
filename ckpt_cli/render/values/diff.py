"""Print differences between states in the style of git."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import groupby
from typing import NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.diff.state_diff import ChannelChange, Counts, count, sizes
from ckpt_cli.core.diff.value_diff import Op
from ckpt_cli.core.values.equality import is_set
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.core.values.unwrap import unwrap
from ckpt_cli.render.terminal.cell_width import cell_len, fit, pad, wrap
from ckpt_cli.render.terminal.changed_words import Parts, changed_words
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted, noun_for, summary

MAX_BAR = 40
MAX_COMPARED = 4_000_000
"""Two texts are compared line by line only up to this product of their line counts."""

_MARKS: dict[str, tuple[str, Style]] = {
    "add": ("+", "add"),
    "remove": ("-", "remove"),
    "replace": ("~", "change"),
    "move": ("~", "change"),
}
_LINES: dict[Style, Style] = {"add": "added", "remove": "removed"}
"""The styles of whole lines, which a screen tints."""


class _Space(NamedTuple):
    """The space for one value."""

    width: int
    lines: int

    def wrapped(self, text: str, room: int) -> list[str]:
        """Return a text as lines of `room` columns."""
        return [text] if self.lines == 1 else list(wrap(text, room)) or [""]


def diff_text(
    changes: Mapping[str, ChannelChange], *, stat: bool = False, width: int = 100, lines: int = 1
) -> Iterator[StyledLine]:
    """Yield one block per channel; with `stat`, one line per channel and a total.

    A value has about this number of `lines`, and is cut after them.
    """
    space = _Space(width, lines)
    if stat:
        yield from _stat(changes)
        return
    for name, change in changes.items():
        yield _heading(name, change)
        if change.change == "changed":
            for op in change.ops:
                yield from _op(op, change.after, space)
        else:
            yield from _whole(change, space)


def _heading(name: str, change: ChannelChange) -> StyledLine:
    counts = count(change)
    title: Span = (safe_text(name), "head")
    if change.change != "changed":
        style: Style = "add" if change.change == "added" else "remove"
        return line(title, "  ", (change.change, style), (_held(change), "dim"))
    tally = [(f" {mark}{n}", style) for mark, n, style in _marks(counts)]
    return line(title, " ", *tally, (_held(change), "dim"))


def _held(change: ChannelChange) -> str:
    """Return the number of items of a list, set or dict before and after: ` (4 → 6 messages)`."""
    sides = [change.before] if change.change == "removed" else [change.after]
    if change.change == "changed":
        sides = [change.before, change.after]
    held = [side for side in map(unwrap, sides) if side is not None]
    if len(held) < len(sides) or as_message(sides[-1]):
        return ""
    if all(isinstance(side, list) for side in held):
        noun = noun_for([item for side in held for item in side])
    elif all(isinstance(side, dict) for side in held):
        noun = "key"
    else:
        return ""
    numbers = [len(side) for side in held]
    if len(set(numbers)) == 1:
        return f"  ({counted(numbers[0], noun)})"
    return f"  ({numbers[0]} → {counted(numbers[1], noun)})"


def _whole(change: ChannelChange, space: _Space) -> Iterator[StyledLine]:
    """Yield the lines of an added or removed channel: one per item of a list, otherwise one."""
    mark, style = _MARKS["add" if change.change == "added" else "remove"]
    value = change.after if change.change == "added" else change.before
    for item in value if isinstance(value, list) else [value]:
        yield from _value_lines(f"  {mark} ", item, style, space)


def _op(op: Op, after: Value, space: _Space) -> Iterator[StyledLine]:
    mark, style = _MARKS[op.op]
    if op.op == "replace":
        yield from _replace(op, space)
    elif op.op == "move":
        label = f"{_name((*op.path[:-1], op.moved_from or 0))} moved to [{op.path[-1]}]: "
        yield from _value_lines(f"  {mark} {label}", _at(after, op.path), style, space)
    else:
        value = op.before if op.op == "remove" else op.after
        # The index of a message is of little use, and the index of a set member is meaningless.
        nameless = as_message(value) or is_set(_at(after, op.path[:-1]))
        name = _name(op.path[:-1] if nameless else op.path)
        start = f"  {mark} {name}{': ' if name else ''}"
        yield from _value_lines(start, value, style, space)


def _replace(op: Op, space: _Space) -> Iterator[StyledLine]:
    name, width = _name(op.path), space.width
    if isinstance(op.before, str) and isinstance(op.after, str) and "\n" in op.before + op.after:
        lines = op.before.splitlines(), op.after.splitlines()
        if len(lines[0]) * len(lines[1]) <= MAX_COMPARED and lines[0] != lines[1]:
            yield line((f"  ~ {name}{':' if name else 'text:'}", "change"))
            yield from _line_diff(*lines, space)
            return
    start = f"  ~ {name}{': ' if name else ''}"
    room = width - cell_len(start) - 3
    one, other = (summary(side, width, quote=True) for side in (op.before, op.after))
    if cell_len(one) + cell_len(other) <= room:
        yield line((start, "change"), (one, "removed"), " → ", (other, "added"))
        return
    indent = "  "
    if name:
        indent = "    "
        yield line((f"  ~ {name}:", "change"))
    before, after = _apart(op.before, op.after, width * space.lines)
    room = max(width - cell_len(indent) - 2, 1)
    old, new = (space.wrapped(summary(one, room * space.lines), room) for one in (before, after))
    is_text = isinstance(before, str) and isinstance(after, str)
    yield from _both(indent, old, new, is_text=is_text)


def _line_diff(before: list[str], after: list[str], space: _Space) -> Iterator[StyledLine]:
    """Yield different lines as git does, with some lines around them."""
    found = list(unified_diff(before, after, n=2, lineterm=""))[2:]
    room = max(space.width - 6, 1)
    for is_changed, group in groupby(found, key=lambda text: text[0] in "-+"):
        if is_changed:
            sides: dict[str, list[str]] = {"-": [], "+": []}
            for text in group:
                shown = fit(safe_text(text[1:]), room * space.lines)
                sides[text[0]] += space.wrapped(shown, room)
            yield from _both("    ", sides["-"], sides["+"], is_text=True)
            continue
        for text in group:
            if text[0] == "@":
                yield line((f"    {text}", "dim"))
            else:
                yield line(f"      {fit(safe_text(text[1:]), room)}".rstrip())


def _both(
    indent: str, before: Sequence[str], after: Sequence[str], *, is_text: bool
) -> Iterator[StyledLine]:
    """Yield removed and added lines; in texts, the words that changed are marked."""
    words = changed_words(before, after) if is_text else None
    gone, come = words or (
        [[(text, False)] for text in before],
        [[(text, False)] for text in after],
    )
    yield from _side(f"{indent}- ", gone, "removed", "removed-part")
    yield from _side(f"{indent}+ ", come, "added", "added-part")


def _side(start: str, texts: Sequence[Parts], whole: Style, part: Style) -> Iterator[StyledLine]:
    for parts in texts:
        yield line((start, whole), *((text, part if differs else whole) for text, differs in parts))


def _apart(before: Value, after: Value, width: int) -> tuple[Value, Value]:
    """Shorten two long strings at the start, where they are equal."""
    if not (isinstance(before, str) and isinstance(after, str)):
        return before, after
    pairs = enumerate(zip(before, after, strict=False))
    ends = min(len(before), len(after))
    common = next((at for at, (one, other) in pairs if one != other), ends)
    skipped = common - width // 4
    if skipped <= width // 4:
        return before, after
    return f"…{before[skipped:]}", f"…{after[skipped:]}"


def _stat(changes: Mapping[str, ChannelChange]) -> Iterator[StyledLine]:
    if not changes:
        return
    names = [safe_text(name) for name in changes]
    counts = [count(change) for change in changes.values()]
    bytes_of = [sizes(change) for change in changes.values()]
    most = max(row.total for row in counts)
    bars = [_bar(row, most) for row in counts]
    name_width = max(map(cell_len, names))
    bar_width = max(len(bar.text) for bar in bars)
    for name, row, bar, (before, after) in zip(names, counts, bars, bytes_of, strict=True):
        start = f" {pad(name, name_width)} | {row.total:{len(str(most))}} "
        gap = " " * (bar_width - len(bar.text) + 2)
        weight = f"{size(before)} → {size(after)} ({_signed(after - before)})"
        yield line(start, *bar.spans, gap, (weight, "dim"))
    grown = sum(after - before for before, after in bytes_of)
    yield line(" " + ", ".join([*_sums(counts), _signed(grown)]))


def _sums(rows: list[Counts]) -> Iterator[str]:
    yield f"{counted(len(rows), 'channel')} changed"
    for word, n in (
        ("added(+)", sum(row.added for row in rows)),
        ("removed(-)", sum(row.removed for row in rows)),
        ("changed(~)", sum(row.changed for row in rows)),
    ):
        if n:
            yield f"{counted(n, 'item')} {word}"


def _bar(counts: Counts, most: int) -> StyledLine:
    scale = min(1.0, MAX_BAR / most) if most else 1.0
    return line(*((mark * max(round(n * scale), 1), style) for mark, n, style in _marks(counts)))


def _marks(counts: Counts) -> list[tuple[str, int, Style]]:
    marks: list[tuple[str, int, Style]] = [
        ("+", counts.added, "add"),
        ("-", counts.removed, "remove"),
        ("~", counts.changed, "change"),
    ]
    return [mark for mark in marks if mark[1]]


def _signed(n: int) -> str:
    return f"{'-' if n < 0 else '+'}{size(abs(n))}"


def _value_lines(start: str, value: Value, style: Style, space: _Space) -> Iterator[StyledLine]:
    """Yield a value after the start of its first line."""
    room = max(space.width - cell_len(start), 1)
    whole = _LINES.get(style, style)
    for text in space.wrapped(summary(value, room * space.lines), room):
        yield line((start + text, whole))
        start = " " * cell_len(start)


def _name(path: tuple[str | int, ...]) -> str:
    return safe_text(format_path(path)) if path else ""


def _at(value: Value, path: tuple[str | int, ...]) -> Value:
    for step in path:
        held = unwrap(value)
        value = held[int(step)] if isinstance(held, list) else (held or {})[step]
    return value
