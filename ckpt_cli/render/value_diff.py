"""Differences between values as lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import groupby, zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.diff import ChannelChange, Counts, Op, count, op_record, sizes
from ckpt_cli.core.replay import Differences
from ckpt_cli.core.values import format_path, is_set, unwrap
from ckpt_cli.queries.diff import Comparison
from ckpt_cli.reading.thread import Moment
from ckpt_cli.render.fields import Field, Shape, View
from ckpt_cli.render.table import plain_columns, size, step_number
from ckpt_cli.render.text import (
    Span,
    Style,
    StyledLine,
    Ui,
    cell_len,
    fit,
    line,
    pad,
    safe_text,
    wrap,
)
from ckpt_cli.render.types import INTEGER, KEY, OBJECT, TIME, VALUE, one_of
from ckpt_cli.render.values import count_marks, counted, noun_for, summary

CHANGE = Shape(
    "A channel that differs.",
    Field("change", one_of("added", "removed", "changed"), "What happened to it."),
    Field("before", VALUE, "Its value before; null if it did not exist."),
    Field("after", VALUE, "Its value after; null if it does not exist."),
    Field(
        "ops",
        OBJECT.converted_by(op_record).list,
        "What changed inside it. `op` is `add`, `remove`, `replace` or `move`, and `path` a JSON"
        " pointer; there is also `before`, `after`, `from` (of a move), and the `id` of a message.",
    ),
)
_CHECKPOINT = Shape(
    "A checkpoint.",
    *KEY,
    Field("step", INTEGER.or_null, "Its step.", "number"),
    Field("ts", TIME.or_null, "When it was saved.", "at"),
)
DIFF = Shape(
    "What changed between two checkpoints.",
    Field("from", _CHECKPOINT.or_null, "The first; null if there is no parent.", "before"),
    Field("to", _CHECKPOINT, "The second.", "after"),
    Field("channels", CHANGE.by_name, "Channels that differ.", "changes"),
)


def _change_rows(found: Comparison) -> Iterator[dict[str, Any]]:
    """Yield one row per operation, or per added or removed channel."""
    for name, change in found.changes.items():
        record = CHANGE.record(change)
        for op in record.pop("ops") or [record]:
            yield {**op, "channel": name, "change": change.change}


def _diff_lines(found: Comparison, ui: Ui, *, stat: bool = False) -> Iterator[StyledLine]:
    yield from diff_header_lines(found)
    yield from diff_text(found.changes, stat=stat, width=ui.width)


DIFF_VIEW = View(
    DIFF.record,
    _diff_lines,
    _change_rows,
    plain_columns("channel", "change", "op", "path", "before", "after"),
)


def diff_header_lines(found: Comparison) -> Iterator[StyledLine]:
    """Yield the old and the new checkpoint of a diff, in the way git names two files."""
    is_first = found.after.checkpoint.parent_checkpoint_id is None
    before: tuple[Span, ...] = (("nothing" if is_first else "the parent is not stored", "dim"),)
    if found.before is not None:
        before = _named(found.before)
    yield line(("--- ", "remove"), *before)
    yield line(("+++ ", "add"), *_named(found.after))


def _named(moment: Moment) -> tuple[Span, ...]:
    key = moment.key
    ns = f" {safe_text(key.checkpoint_ns)}" if key.checkpoint_ns else ""
    return (
        (safe_text(key.thread_id), "head"),
        (f"@{safe_text(key.checkpoint_id)}", "id"),
        (f"{ns}  step {step_number(moment.number)}", "dim"),
    )


_CELLS = 40
"""Maximum columns of each of the two values."""
_BEFORE = 12
"""Number of characters shown before the first difference of long texts."""


def difference_texts(found: Differences) -> Iterator[str]:
    """Yield one text for each place: `[149].note: "tick 150" ≠ "tick 999"`."""
    for op in found.ops:
        path = safe_text(format_path(op.path)) if op.path else ""
        yield f"{path}: {_text(op)}" if path else _text(op)
    if found.more:
        yield f"and {found.more} more"


def difference_records(found: Differences) -> dict[str, Any]:
    """Return the same as JSON; a side that does not exist is null."""
    return {
        "places": [
            {
                "op": op.op,
                "path": format_path(op.path) if op.path else "",
                "rebuilt": to_json(op.before),
                "stored": to_json(op.after),
            }
            for op in found.ops
        ],
        "more": found.more,
    }


def _text(op: Op) -> str:
    if op.op == "add":
        return f"{_side(op.after)} is stored, but was not written"
    if op.op == "remove":
        return f"{_side(op.before)} was written, but is not stored"
    if op.op == "move":
        return f"was at [{op.moved_from}]"
    before, after = _apart(op.before, op.after, _CELLS // 2, _BEFORE)
    return f"{_side(before)} ≠ {_side(after)}"


def _side(value: Value) -> str:
    return summary(value, _CELLS, quote=True)


def _apart(one: Value, other: Value, least: int, kept: int) -> tuple[Value, Value]:
    """Shorten two texts that begin with `least` equal characters or more.

    They then start `kept` characters before their first difference.
    """
    if not (isinstance(one, str) and isinstance(other, str)):
        return one, other
    ends = min(len(one), len(other))
    at = next((n for n in range(ends) if one[n] != other[n]), ends)
    return (one, other) if at < least else (f"…{one[at - kept :]}", f"…{other[at - kept :]}")


_WORD = re.compile(r"\w+|[^\w\s]")
_MOST = 250_000
"""Two blocks are compared only up to this product of their numbers of words."""
_LEAST_ALIKE = 0.4
"""If fewer words are equal, the blocks have nothing to do with each other."""

Parts: TypeAlias = list[tuple[str, bool]]
"""The pieces of a line, each with whether it differs."""


def changed_words(
    before: Sequence[str], after: Sequence[str]
) -> tuple[list[Parts], list[Parts]] | None:
    """Return both blocks with the words that differ; None if too little is alike.

    Words are compared over line ends, because a longer word moves others to the next line.
    """
    old, new = _words(before), _words(after)
    if not 0 < len(old) * len(new) <= _MOST:
        return None
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return None
    kept: tuple[set[int], set[int]] = set(), set()
    for left, right, length in matcher.get_matching_blocks():
        kept[0].update(range(left, left + length))
        kept[1].update(range(right, right + length))
    return list(_marked(before, kept[0])), list(_marked(after, kept[1]))


def _words(lines: Sequence[str]) -> list[str]:
    return [found.group() for text in lines for found in _WORD.finditer(text)]


def _marked(lines: Sequence[str], kept: set[int]) -> Iterator[Parts]:
    word = 0
    for text in lines:
        parts: Parts = []
        at = 0
        for found in _WORD.finditer(text):
            is_changed = word not in kept
            # The blanks between two changed words belong to the change.
            joins = is_changed and bool(parts) and parts[-1][1]
            _add(parts, text[at : found.start()], is_changed=joins)
            _add(parts, found.group(), is_changed=is_changed)
            at = found.end()
            word += 1
        _add(parts, text[at:], is_changed=False)
        yield parts


def _add(parts: Parts, text: str, *, is_changed: bool) -> None:
    if text and parts and parts[-1][1] == is_changed:
        parts[-1] = parts[-1][0] + text, is_changed
    elif text:
        parts.append((text, is_changed))


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
    tally = [(f" {mark}{n}", style) for mark, n, style in count_marks(counts)]
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
    around = width * space.lines // 4
    before, after = _apart(op.before, op.after, 2 * around + 1, around)
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
    yield from _diff_side(f"{indent}- ", gone, "removed", "removed-part")
    yield from _diff_side(f"{indent}+ ", come, "added", "added-part")


def _diff_side(
    start: str, texts: Sequence[Parts], whole: Style, part: Style
) -> Iterator[StyledLine]:
    for parts in texts:
        yield line((start, whole), *((text, part if differs else whole) for text, differs in parts))


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
    marks = count_marks(counts)
    return line(*((mark * max(round(n * scale), 1), style) for mark, n, style in marks))


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


MOST = 3000
"""Longer texts than this number of lines are not aligned, but printed line by line."""
_BETWEEN = " │ "


_AROUND = 3
"""Number of equal lines that are shown around different ones."""

Pair = tuple[str | None, str | None, bool]
"""(left line, right line, whether they are equal); a line is None for a gap."""

Side = Literal["removed", "added"]

_SIGNS: dict[Side, str] = {"removed": "- ", "added": "+ "}
_PARTS: dict[Side, Style] = {"removed": "removed-part", "added": "added-part"}


def columns(left: Span, right: Span, width: int) -> StyledLine:
    """Return one line in two columns."""
    room = _room(width)
    first = pad(fit(left[0], room), room), left[1]
    return line(first, (_BETWEEN, "dim"), (fit(right[0], room), right[1]))


def side_by_side(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield two texts in two columns; different words are marked, long equal parts left out.

    If one text is empty, the other one has all columns.
    """
    if not (before and after):
        yield from (_alone(text, "removed", width) for text in before)
        yield from (_alone(text, "added", width) for text in after)
        return
    for is_same, group in groupby(aligned(before, after), key=lambda pair: pair[2]):
        pairs = list(group)
        if not is_same:
            yield from _different(pairs, _room(width))
            continue
        if len(pairs) > 2 * _AROUND + 1:
            yield from (_equal(pair, width) for pair in pairs[:_AROUND])
            skipped = f"… {len(pairs) - 2 * _AROUND} equal lines"
            yield line((fit(skipped, width), "dim"))
            pairs = pairs[-_AROUND:]
        yield from (_equal(pair, width) for pair in pairs)


def aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    """Yield the lines of two texts in pairs."""
    if len(before) > MOST or len(after) > MOST:
        for left, right in zip_longest(before, after):
            yield left, right, left == right
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for left, right in zip_longest(before[start:end], after[other_start:other_end]):
            yield left, right, tag == "equal"


def _room(width: int) -> int:
    """Return the width of one column."""
    return max((width - len(_BETWEEN)) // 2, 1)


def _alone(text: str, side: Side, width: int) -> StyledLine:
    return line((pad(fit(_SIGNS[side] + text, width), width), side))


def _equal(pair: Pair, width: int) -> StyledLine:
    left, right, _ = pair
    return columns((f"  {left}", "plain"), (f"  {right}", "plain"), width)


def _different(pairs: Sequence[Pair], room: int) -> Iterator[StyledLine]:
    left = [one for one, _, _ in pairs if one is not None]
    right = [one for _, one, _ in pairs if one is not None]
    parts = changed_words(left, right)
    if parts is None:
        parts = [[(one, False)] for one in left], [[(one, False)] for one in right]
    for old, new in zip_longest(*parts):
        yield line(*_cell(old, "removed", room), (_BETWEEN, "dim"), *_cell(new, "added", room))


def _cell(parts: Parts | None, side: Side, room: int) -> Iterator[Span]:
    """Yield a line in its column; blanks for a gap."""
    if parts is None:
        yield " " * room, "plain"
        return
    sign, text = _SIGNS[side], "".join(part for part, _ in parts)
    used = cell_len(sign) + cell_len(text)
    if used > room:
        yield pad(fit(sign + text, room), room), side
        return
    yield sign, side
    for part, is_changed in parts:
        yield part, _PARTS[side] if is_changed else side
    yield " " * (room - used), side
