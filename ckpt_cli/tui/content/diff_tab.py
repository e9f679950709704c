"""The differences from one checkpoint to another, one below the other: the tab Diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.values import format_path
from ckpt_cli.reading.target import Target
from ckpt_cli.render.text import Style, StyledLine, cell_len, fit, line
from ckpt_cli.render.value_diff import diff_text
from ckpt_cli.tui.content.sides import change_starts, read_comparison
from ckpt_cli.tui.content.tabs import TabContent, cut

_MOST_LINES = 8
"""Maximum number of lines of one value; the diff side by side shows more."""
_TINTS: Mapping[Style, Style] = {
    "added": "added",
    "added-part": "added",
    "removed": "removed",
    "removed-part": "removed",
}


def read_diff(
    store: Store,
    target: Target,
    base: CheckpointKey | None,
    refs: Mapping[str, str],
    width: int,
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
