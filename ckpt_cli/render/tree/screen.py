"""The tree of a thread as lines of a screen, with the time and the tokens of each step.

○ 77d1  4  agent  +1 ai: Hotel Kanra…  1.2k tok       1.2s  09:44:12
○ 51aa  5  tools  budget 120 → 90                 ▒ 3m 05s  09:47:17

Lines share only the widths of columns, so a line is drawn again alone after its checkpoint was
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, tzinfo

from ckpt_backends.checkpoint_ids import time_of
from ckpt_cli.core.timeline.steps import Kind, TimedStep, seconds_between
from ckpt_cli.core.tree.rows import CallRow, FoldRow, Key, Row, StepDetails, StepRow, TreeLayout
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.terminal.units import duration, thousands
from ckpt_cli.render.tree.columns import RowDraft, cells_of, trimmed, with_changes
from ckpt_cli.render.tree.lines import TreeDrafter
from ckpt_cli.render.tree.wording import UNICODE, TreeWording

_TOOK_FROM, _CLOCK_FROM, _TOKENS_FROM = 40, 56, 72
"""Columns of the tree from which each column at its right is shown."""
_CLOCK, _TOKENS = 8, 8
_WAITS: Mapping[Kind, str] = {"run": "", "human": "▒ ", "idle": "· "}
"""Before the time of a step, as in `ckpt timeline`."""


class ScreenTree:
    """Draws one tree, and rows of it again."""

    def __init__(
        self,
        plan: TreeLayout,
        refs: Mapping[str, str],
        steps: Mapping[Key, TimedStep],
        *,
        zone: tzinfo,
        width: int,
    ) -> None:
        self._plan = plan
        self._refs = refs
        self._steps = steps
        self._zone = zone
        self._width = width
        self._drafter = self._drafter_for({})
        self._has_tokens = False
        self._took_width = 0
        """Columns of the longest time."""

    def rows(
        self, details: Mapping[Key, StepDetails], now: datetime
    ) -> Iterator[tuple[Row | None, StyledLine]]:
        """Yield all lines, each with its row; the row is None for remarks, dates and gaps."""
        self._drafter = self._drafter_for(details)
        self._has_tokens = self._width >= _TOKENS_FROM and any(
            one.tokens for one in details.values()
        )
        drafts = list(self._drafter.drafts(now))
        times = (self._took(draft.row) for draft in drafts if draft.row is not None)
        self._took_width = max(map(len, times), default=0)
        return ((draft.row, self._line(draft)) for draft in drafts)

    def show(self, details: Mapping[Key, StepDetails]) -> None:
        """Use other details for the lines that are drawn again."""
        self._drafter.words = TreeWording(self._plan, details, self._refs, UNICODE)

    def line(self, row: StepRow) -> StyledLine | None:
        """Return the line of a step; None if all must be drawn again, because more is shown."""
        drafts = self._drafter.row(row)
        is_alone = len(drafts) == 1
        is_new = bool(self._drafter.words.node(row.key).tokens) and not self._has_tokens
        if not is_alone or (is_new and self._width >= _TOKENS_FROM):
            return None
        return self._line(drafts[0])

    def _drafter_for(self, details: Mapping[Key, StepDetails]) -> TreeDrafter:
        words = TreeWording(self._plan, details, self._refs, UNICODE)
        return TreeDrafter(self._plan, words, self._zone)

    def _line(self, draft: RowDraft) -> StyledLine:
        if draft.remark:
            return trimmed(with_changes(draft, self._width, UNICODE.dots))
        columns = self._columns(draft)
        taken = cells_of(columns)
        spans = with_changes(draft, self._width - taken, UNICODE.dots)
        space = self._width - cells_of(spans) - taken
        if not columns or space < 0:
            return trimmed(spans)
        return line(*spans, " " * space, *columns)

    def _columns(self, draft: RowDraft) -> list[Span]:
        if draft.row is None:  # a date
            return [(f"  {draft.time}", "time")] if draft.time else []
        took, tokens = self._took(draft.row), 0
        if isinstance(draft.row, StepRow):
            tokens = self._drafter.words.node(draft.row.key).tokens
        clock = draft.time.rpartition(UNICODE.to)[2]
        columns: list[Span] = []
        if self._has_tokens:
            columns.append((f"  {f'{thousands(tokens)} tok' if tokens else '':>{_TOKENS}}", "dim"))
        if self._width >= _TOOK_FROM:
            columns.append((f"  {took:>{self._took_width}}", "dim"))
        if self._width >= _CLOCK_FROM:
            columns.append((f"  {clock:>{_CLOCK}}", "time"))
        return columns

    def _took(self, row: Row) -> str:
        """Return how long a row took; a sign before it tells that nothing ran meanwhile."""
        if isinstance(row, StepRow):
            step = self._steps.get(row.key)
            if step is None or step.seconds is None:
                return ""
            return _WAITS[step.kind] + duration(step.seconds)
        if isinstance(row, FoldRow):
            first, last = (self._steps.get((row.ns, one)) for one in (row.ids[0], row.ids[-1]))
            start = None if first is None else first.started_at
            seconds = seconds_between(start, None if last is None else last.ended_at)
        elif isinstance(row, CallRow):
            seconds = seconds_between(time_of(row.first), time_of(row.last))
        else:
            return ""
        return "" if seconds is None else duration(seconds)
