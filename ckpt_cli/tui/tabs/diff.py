"""The differences of two checkpoints: the tab Diff, and side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import ChannelChange
from ckpt_cli.core.values import clip, format_path, same_start
from ckpt_cli.queries.diff import Comparison, compare
from ckpt_cli.reading.target import Target
from ckpt_cli.render.text import Style, StyledLine, cell_len, fit, line, pad, safe_text
from ckpt_cli.render.value_diff import MOST, columns, diff_text, side_by_side
from ckpt_cli.render.values import block, counted, noun_for
from ckpt_cli.tui.tabs.content import TabContent, cut, name_of, target_of

_NARROWEST = 20
_SIGN = 2
_CHANGED = {"added", "removed", "change"}


@dataclass(frozen=True, slots=True)
class Sides:
    """The content of the diff side by side."""

    names: StyledLine
    """Above the columns: the step, the node and the ref of each checkpoint."""
    lines: Sequence[StyledLine]
    changes: Sequence[int]
    """The lines where a change starts."""


def read_sides(
    store: Store,
    base: CheckpointKey | None,
    place: CheckpointKey,
    refs: Mapping[str, str],
    width: int,
) -> Sides:
    """Compare a checkpoint with `base`, or else with its parent. Raises what `compare` raises."""
    found, before, after = read_comparison(store, target_of(store, place), base, refs)
    lines: list[StyledLine] = []
    for name, change in found.changes.items():
        if lines:
            lines.append(line(""))
        lines.append(line((pad(fit(safe_text(name), width), width), "head")))
        lines += _changed(change, width)
    if not found.changes:
        lines.append(line(("no differences", "dim")))
    names = columns((before, "head"), (after, "head"), width)
    return Sides(names, lines, list(change_starts(lines)))


def read_comparison(
    store: Store, target: Target, base: CheckpointKey | None, refs: Mapping[str, str]
) -> tuple[Comparison, str, str]:
    """Return how a checkpoint differs from `base`, or else from its parent, and both names.

    `refs` has the short refs that are known. Raises what `compare` raises.
    """
    first = None if base is None else target_of(store, base)
    found = compare(target, None, None) if first is None else compare(first, target, None)
    others = base is not None and base.thread_id != target.reader.thread_id
    before = "nothing" if found.after.checkpoint.parent_checkpoint_id is None else "not stored"
    if found.before is not None:
        reader = target.reader if first is None else first.reader
        before = name_of(found.before, reader, refs, with_thread=others)
    return found, before, name_of(found.after, target.reader, refs, with_thread=others)


def _changed(change: ChannelChange, width: int) -> Iterator[StyledLine]:
    """Yield a channel before and after, without equal items at the ends of a list."""
    before = [] if change.change == "added" else [change.before]
    after = [] if change.change == "removed" else [change.after]
    values = _values
    ahead = behind = 0
    noun = "item"
    old, new = change.before, change.after
    if change.change == "changed" and isinstance(old, list) and isinstance(new, list):
        ahead = same_start(old, new)
        behind = same_start(old[ahead:][::-1], new[ahead:][::-1])
        noun = noun_for(old + new)
        before, after = old[ahead : len(old) - behind], new[ahead : len(new) - behind]
        values = _items
    if ahead:
        yield line((fit(f"… {counted(ahead, f'equal {noun}')}", width), "dim"))
    room = width // 2 - 2 * _SIGN if before and after else width - _SIGN
    room = max(room, _NARROWEST)
    yield from side_by_side(_some(values(before, room)), _some(values(after, room)), width)
    if behind:
        yield line((fit(f"… {counted(behind, f'equal {noun}')}", width), "dim"))


def _values(values: Sequence[Value], width: int) -> Iterator[str]:
    for value in values:
        yield from block(clip(value), 0, width)


def _items(values: Sequence[Value], width: int) -> Iterator[str]:
    """Yield the items of a list, each with a dash before its first line."""
    for value in values:
        start = "- "
        for one in block(clip(value), 0, width - len(start)):
            yield start + one
            start = "  "


def _some(lines: Iterator[str]) -> list[str]:
    found = list(islice(lines, MOST))
    if next(lines, None) is not None:
        found[-1] = "… more; `ckpt diff` prints all"
    return found


def change_starts(lines: Sequence[StyledLine]) -> Iterator[int]:
    """Yield the lines with a change whose line above has none."""
    was = False
    for at, one in enumerate(lines):
        is_changed = any(style in _CHANGED for _, style in one.spans)
        if is_changed and not was:
            yield at
        was = is_changed


_MOST_LINES = 8
"""Maximum number of lines of one value; the diff side by side shows more."""
_TINTS: Mapping[Style, Style] = {
    "added": "added",
    "added-part": "added",
    "removed": "removed",
    "removed-part": "removed",
}


def read_diff(
    store: Store, target: Target, base: CheckpointKey | None, refs: Mapping[str, str], width: int
) -> TabContent:
    """Compare a checkpoint with `base`, or else with its parent. Raises what `compare` raises."""
    found, before, after = read_comparison(store, target, base, refs)
    lines = [
        line(("--- ", "remove"), (fit(before, width - 4), "head")),
        line(("+++ ", "add"), (fit(after, width - 4), "head")),
    ]
    marks: dict[int, str] = {}
    for name, change in found.changes.items():
        marks[len(lines)] = format_path((name,))
        lines += cut(_filled(diff_text({name: change}, width=width, lines=_MOST_LINES), width))
    if not found.changes:
        lines.append(line(("no differences", "dim")))
    return TabContent(lines, marks, changes=list(change_starts(lines)))


def _filled(lines: Iterator[StyledLine], width: int) -> Iterator[StyledLine]:
    """Yield lines; a tint at the end of one goes on to the end of the pane."""
    for one in lines:
        style = _TINTS.get(one.spans[-1][1]) if one.spans else None
        yield (
            one if style is None else line(*one.spans, (" " * (width - cell_len(one.text)), style))
        )
