"""The tree of a thread as lines of text: one line per checkpoint, fold or subgraph call.

◆ a17c -1  input                   1 write  09:41:58
┊ 4 steps  agent ×2, tools ×2      09:41:58–09:42:31
○ 77d1  4  agent                  2 writes  09:44:12
├─○ 51aa  5  tools → agent  ○ tip           09:44:13
◇ 2b9f  5  fork of 51aa                     09:50:01
● e4f0  6  agent → refund  ● head  1 write  09:50:07
  ? Refund 89.00 EUR?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, datetime, tzinfo

from ckpt_backends.checkpoint_ids import time_of
from ckpt_cli.core.tree.rows import (
    CallRow,
    FoldRow,
    Key,
    Row,
    SectionRow,
    StepDetails,
    StepRow,
    TreeLayout,
)
from ckpt_cli.render.step_changes import changes_text
from ckpt_cli.render.terminal.cell_width import cell_len, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.tree.columns import RowDraft, cells_of, in_columns
from ckpt_cli.render.tree.wording import UNICODE, Glyphs, TreeWording, status_style
from ckpt_cli.render.values.one_line import counted

NARROWEST = 40
_SHOWN_LANES = 10
_WIDEST_REF_COLUMN = 8
"""Longer refs are rare; they shift only their own row."""


def tree_lines(
    plan: TreeLayout,
    details: Mapping[Key, StepDetails],
    refs: Mapping[str, str],
    *,
    thread_id: str,
    zone: tzinfo,
    now: datetime,
    status: str | None = None,
    width: int = 80,
    glyphs: Glyphs = UNICODE,
) -> Iterator[StyledLine]:
    """Yield the tree in `width` columns, at least `NARROWEST`, and no wider than needed.

    `refs` has the short ref of each checkpoint id. A date is printed when it changes, starting from
    today. A line is longer than `width` only if a ref itself is too long.
    """
    width = max(width, NARROWEST)
    yield from tree_header(plan, TreeWording(plan, details, refs, glyphs), thread_id, status, width)
    yield StyledLine(())
    for _, drawn in drawn_rows(plan, details, refs, zone=zone, now=now, width=width, glyphs=glyphs):
        yield drawn
    if plan.folded:
        yield StyledLine(())
        hint = f"{glyphs.fold}{counted(plan.folded, 'plain step')} folded; --unfold shows all"
        yield line((hint, "dim"))


def drawn_rows(
    plan: TreeLayout,
    details: Mapping[Key, StepDetails],
    refs: Mapping[str, str],
    *,
    zone: tzinfo,
    now: datetime,
    width: int,
    glyphs: Glyphs = UNICODE,
) -> Iterator[tuple[Row | None, StyledLine]]:
    """Yield the lines of the tree without its header, each with its row.

    Uses `width` columns, however few. The row is None for remarks, dates and gaps between trees.
    """
    drafts = list(TreeDrafter(plan, TreeWording(plan, details, refs, glyphs), zone).drafts(now))
    rows = (draft.row for draft in drafts)
    return zip(rows, in_columns(drafts, width, glyphs.dots), strict=True)


def tree_header(
    plan: TreeLayout, words: TreeWording, thread_id: str, status: str | None, width: int
) -> Iterator[StyledLine]:
    """Yield the thread id, the number of checkpoints and branches, and the status."""
    dot = words.glyphs.dot
    counts = [counted(plan.checkpoints, "checkpoint")]
    if plan.branches > 1:
        counts.append(counted(plan.branches, "branch"))
    if plan.calls:
        counts.append(counted(plan.calls, "subgraph call"))
    facts: list[Span] = [(dot.join(counts), "plain")]
    if status:
        facts += [(dot, "plain"), (safe_text(status), status_style(status))]
    inside = f"{dot}{words.short_ns(plan.ns)}" if plan.ns else ""
    *above, name = wrap(f"thread {safe_text(thread_id)}{inside}", width)
    for piece in above:
        yield line((piece, "bold"))
    if cell_len(name) + 3 + cells_of(facts) <= width:
        yield line((name, "bold"), "   ", *facts)
    else:
        yield line((name, "bold"))
        yield line(*facts)


class TreeDrafter:
    """Combines the words of each row with its part of the graph."""

    def __init__(self, plan: TreeLayout, words: TreeWording, zone: tzinfo) -> None:
        self.plan = plan
        self.words = words
        self.zone = zone
        self.glyphs = words.glyphs
        steps = [row for row in plan.rows if isinstance(row, StepRow)]
        widest = max((cell_len(words.ref(row.id)) for row in steps), default=0)
        self.ref_width = min(widest, _WIDEST_REF_COLUMN)
        self.step_width = max((len(words.step(row)) for row in steps), default=0)

    def drafts(self, now: datetime) -> Iterator[RowDraft]:
        day = now.astimezone(self.zone).date()
        before: Row | None = None
        for row in self.plan.rows:
            if self._is_another_tree(row, before):
                yield RowDraft(self._above(row))
            before = row
            times = self._times(row)
            if times and times[0].date() != day:
                day = times[0].date()
                yield RowDraft(self._above(row), time=f"{day:%a} {day.day} {day:%b %Y}")
            yield from self._row(row, self._clock(times))
            day = times[-1].date() if times else day

    def row(self, row: Row) -> list[RowDraft]:
        """Return the lines of one row, without the date above it."""
        return list(self._row(row, self._clock(self._times(row))))

    def _is_another_tree(self, row: Row, before: Row | None) -> bool:
        """Return whether a row needs a gap before it, because the tip above is not its parent."""
        begins = isinstance(before, SectionRow) or (isinstance(before, CallRow) and before.nested)
        return before is not None and not begins and isinstance(row, StepRow) and row.first

    def _row(self, row: Row, time: str) -> Iterator[RowDraft]:
        if isinstance(row, StepRow):
            yield from self._step_row(row, time)
        elif isinstance(row, FoldRow):
            yield self._fold_row(row, time)
        elif isinstance(row, CallRow):
            yield self._call_row(row, time)
        else:
            yield RowDraft(())
            yield self._section_row(row)

    def _step_row(self, row: StepRow, time: str) -> Iterator[RowDraft]:
        words = self.words
        ref, step = words.ref(row.id), words.step(row)
        writes = words.node(row.key).writes
        gap = " " * max(self.ref_width - cell_len(ref), 0)
        if row.trouble is not None:
            yield self._trouble(row)
        yield RowDraft(
            left=(
                *self._graph(row.lanes, row.depth, branch=row.branch),
                words.sign(row),
                (ref, "head" if row.head else "id"),
                (f"{gap} {step.rjust(self.step_width)}  ", "dim"),
            ),
            text=(words.made(row), (words.next(row), "plain")),
            marks=tuple((f"  {text}", style) for text, style in words.marks(row)),
            changes=changes_text(words.node(row.key).changes, self.glyphs.arrow),
            writes=counted(writes, "write") if writes else "",
            time=time,
            row=row,
        )
        lane: Span = ("  " if row.last else self.glyphs.lane, "dim")
        left = (*self._graph(row.lanes, row.depth), lane)
        for remark in words.remarks(row):
            yield RowDraft(left, (remark,), remark=True)

    def _trouble(self, row: StepRow) -> RowDraft:
        if row.trouble == "loop":
            text = "its parents form a loop"
        else:
            text = f"its parent {self.words.ref(row.parent or '')} is not stored"
        sign: Span = (self.glyphs.gone, "dim")
        return RowDraft((*self._above(row), sign), ((text, "dim"),), remark=True)

    def _fold_row(self, row: FoldRow, time: str) -> RowDraft:
        steps = counted(len(row.ids), "step").ljust(self.ref_width + 1 + self.step_width)
        return RowDraft(
            left=(
                *self._graph(row.lanes, row.depth),
                (f"{self.glyphs.fold}{steps}  ", "dim"),
            ),
            text=((self.words.folded(row), "dim"),),
            time=time,
            row=row,
        )

    def _call_row(self, row: CallRow, time: str) -> RowDraft:
        words = self.words
        status = words.call_status(row)
        style = status_style(status)
        return RowDraft(
            left=(*self._graph(row.lanes, row.depth), (self.glyphs.call, "dim")),
            text=((words.call_name(row), "node"),),
            marks=(
                (f"  {words.call_facts(row)}" + (self.glyphs.dot if status else ""), "dim"),
                (status, "dim" if style == "plain" else style),
            ),
            time=time,
            row=row,
        )

    def _section_row(self, row: SectionRow) -> RowDraft:
        kind = (
            "subgraph call, its step is not stored" if row.call else "keeps its state between calls"
        )
        facts = self.glyphs.dot.join((counted(row.checkpoints, "checkpoint"), kind))
        name: Span = (self.words.short_ns(row.ns), "bold")
        return RowDraft((), (name,), ((f"   {facts}", "plain"),), remark=True, row=row)

    def _graph(self, lanes: str, depth: int, *, branch: bool = False) -> tuple[Span, ...]:
        glyphs = self.glyphs
        signs = [glyphs.lane if lane == "|" else "  " for lane in lanes[-_SHOWN_LANES:]]
        if depth > _SHOWN_LANES:
            signs[0] = glyphs.cut_lane
        if branch:
            signs[-1] = glyphs.branch
        return (("".join(signs), "dim"),)

    def _above(self, row: Row) -> tuple[Span, ...]:
        """Return the graph for a line between a row and the row before it."""
        if isinstance(row, SectionRow):
            return ()
        begins = isinstance(row, CallRow) or (
            isinstance(row, StepRow) and (row.first or row.branch)
        )
        return (*self._graph(row.lanes, row.depth), ("" if begins else self.glyphs.lane, "dim"))

    def _times(self, row: Row) -> list[datetime]:
        """Return the start and end time of the row; empty if not known."""
        if isinstance(row, SectionRow):
            return []
        if isinstance(row, StepRow):
            ends = [self.words.node(row.key).at or time_of(row.id)]
        elif isinstance(row, FoldRow):
            ends = [time_of(row.ids[0]), time_of(row.ids[-1])]
        else:
            ends = [time_of(row.first), time_of(row.last)]
        return [end.astimezone(self.zone) for end in ends if end is not None and has_zones(end)]

    def _clock(self, times: Sequence[datetime]) -> str:
        clocks = list(dict.fromkeys(f"{time:%H:%M:%S}" for time in times))
        days = (times[-1].date() - times[0].date()).days if times else 0
        return self.glyphs.to.join(clocks) + (f" {days:+}d" if days else "")


def has_zones(at: datetime) -> bool:
    """Return whether a time can be converted to every time zone; a store may contain year 1."""
    return MINYEAR < at.year < MAXYEAR
