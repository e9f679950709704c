"""The tree of a thread as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, datetime, tzinfo
from typing import NamedTuple

from ckpt_backends.model import time_of
from ckpt_cli.core.lineage import innermost, is_subgraph_call
from ckpt_cli.core.timeline import Kind, seconds_between
from ckpt_cli.core.tree import (
    CallRow,
    FoldRow,
    Key,
    Row,
    SectionRow,
    StepDetails,
    StepRow,
    TreeLayout,
)
from ckpt_cli.queries.tree import Tree
from ckpt_cli.render.table import duration, thousands
from ckpt_cli.render.text import Span, Style, StyledLine, Ui, cell_len, fit, line, safe_text, wrap
from ckpt_cli.render.values import changes_text, counted

_TASK_ID_SHOWN = 8
_UNKNOWN = StepDetails()


class Glyphs(NamedTuple):
    """The signs of the tree; each lane and each sign before a ref is two columns wide."""

    step: str = "○ "
    input: str = "◆ "
    hand: str = "◇ "
    """An update or a fork, made by a person or a tool."""
    head: str = "● "
    fold: str = "┊ "
    call: str = "╰ "
    lane: str = "│ "
    branch: str = "├─"
    cut_lane: str = "⋯ "
    gone: str = "┆ "
    question: str = "? "
    error: str = "✗ "
    problem: str = "! "
    answered: str = "✓ "
    arrow: str = " → "
    times: str = "×"
    to: str = "–"
    dots: str = "…"
    dot: str = " · "


UNICODE = Glyphs()
ASCII = Glyphs(
    step="o ",
    input="> ",
    hand="~ ",
    head="* ",
    fold=": ",
    call="` ",
    lane="| ",
    branch="|-",
    cut_lane="< ",
    gone=": ",
    error="x ",
    answered="+ ",
    arrow=" -> ",
    times="x",
    to="-",
    dots="...",
    dot=", ",
)


class TreeWording:
    """The text of each row. Only this class escapes data for printing."""

    def __init__(self, tree: Tree, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self._ns = tree.plan.ns
        self._details = tree.details
        self._refs = tree.refs
        self._asked_below: dict[Key, list[str]] = {}
        for row in tree.plan.rows:
            if isinstance(row, CallRow) and row.nested:
                below = self._asked_below.setdefault(row.caller, [])
                for node in map(self.node, row.heads):
                    below += (*node.questions, *node.errors)

    def node(self, key: Key) -> StepDetails:
        return self._details.get(key, _UNKNOWN)

    def ref(self, checkpoint_id: str) -> str:
        return safe_text(self._refs.get(checkpoint_id) or checkpoint_id[-8:])

    def step(self, row: StepRow) -> str:
        step = self.node(row.key).step
        step = row.step if step is None else step
        return "" if step is None else str(step)

    def sign(self, row: StepRow) -> Span:
        """Return the sign of a checkpoint in the graph."""
        source = self.node(row.key).source
        if row.head:
            return self.glyphs.head, "head"
        if source == "input":
            return self.glyphs.input, "bold"
        if source in {"update", "fork"}:
            return self.glyphs.hand, "change"
        return self.glyphs.step, "plain"

    def made(self, row: StepRow) -> Span:
        """Return what made the checkpoint: an input, an update, a fork, or the nodes that ran."""
        node = self.node(row.key)
        if node.source == "input":
            return "input", "bold"
        origin = f" of {self.ref(node.forked_from)}" if node.forked_from else ""
        nodes = self.counted(Counter(node.ran).items())
        if node.source == "fork":
            return f"fork{origin}", "change"
        if node.source == "update":
            return f"update{origin}" + (f" as {nodes}" if nodes else ""), "change"
        if node.ran == ("__start__",):
            return nodes, "dim"
        if not nodes:
            return ("?" if row.key in self._details else ""), "dim"
        return nodes, "node"

    def next(self, row: StepRow) -> str:
        """Return the nodes that run after a tip, those that a resume runs after the head; empty
        for other rows, since the next row shows them.
        """
        if not row.last or row.key not in self._details:
            return ""
        node = self.node(row.key)
        found = node.next if node.resumes is None else node.resumes
        if found is None:
            return f"{self.glyphs.arrow}?"
        return f"{self.glyphs.arrow}{self.counted(Counter(found).items()) or 'END'}"

    def marks(self, row: StepRow) -> list[Span]:
        glyphs = self.glyphs
        answered = self.node(row.key).answered
        number = f"{answered} " if answered > 1 else ""
        marks: list[Span] = [(f"{glyphs.answered}{number}answered", "add")] if answered else []
        # The newest checkpoint of a call is not a head that a run would continue from.
        if row.head and (row.ns == self._ns or not is_subgraph_call(row.ns)):
            marks.append((f"{glyphs.head}head", "head"))
        elif row.last and not row.head:
            marks.append((f"{glyphs.step}tip", "dim"))
        return marks

    def remarks(self, row: StepRow) -> list[Span]:
        """Return the operation that added the checkpoint, questions, errors and problems, one line
        each, without those shown by a call below.

        LangGraph stores a question and an error of a subgraph at every level.
        """
        glyphs = self.glyphs
        node = self.node(row.key)
        below = Counter(self._asked_below.get(row.key, ()))
        lines: list[Span] = [(safe_text(node.change), "dim")] if node.change else []
        for sign, texts, style in _signed(node, glyphs):
            for text in texts:
                if below[text] > 0:
                    below[text] -= 1
                else:
                    lines.append((f"{sign}{safe_text(text)}", style))
        return lines

    def folded(self, row: FoldRow) -> str:
        known = self.counted((node, runs) for node, runs in row.ran if node != "__start__")
        if row.all_known or not known:
            return known
        return f"{known}, {self.glyphs.dots}"

    def call_name(self, row: CallRow) -> str:
        if len(row.namespaces) > 1:
            node = safe_text(innermost(row.namespaces[0]).node)
            return f"{node} {self.glyphs.times}{len(row.namespaces)}"
        return self.short_ns(row.namespaces[0])

    def call_facts(self, row: CallRow) -> str:
        facts = [counted(len(row.keys), "checkpoint")]
        if row.branches > 1:
            facts.append(counted(row.branches, "branch"))
        return self.glyphs.dot.join(facts)

    def section_facts(self, row: SectionRow) -> str:
        kind = "keeps its state between calls"
        if row.call:
            kind = "subgraph call, its step is not stored"
        return self.glyphs.dot.join((counted(row.checkpoints, "checkpoint"), kind))

    def call_status(self, row: CallRow) -> str:
        """Return the status of the call; empty if its own tree shows it, or if it is not known."""
        if row.nested:
            return ""
        nodes = [self._details[key] for key in row.heads if key in self._details]
        failed = ["error"] if any(node.errors for node in nodes) else []
        asking = ["interrupted"] if any(node.questions for node in nodes) else []
        if failed or asking:
            return ", ".join([*failed, *asking])
        if any(node.next for node in nodes):
            return "pending"
        done = len(nodes) == len(row.heads) and all(node.next == () for node in nodes)
        return "done" if done else ""

    def counted(self, counts: Iterable[tuple[str, int]]) -> str:
        times = self.glyphs.times
        return ", ".join(
            f"{safe_text(node)} {times}{n}" if n > 1 else safe_text(node) for node, n in counts
        )

    def short_ns(self, ns: str) -> str:
        """Return a call's own namespace with a short task id: `research:9c1e2b07…`."""
        _, node, task, number = innermost(ns)
        if task is None:
            return safe_text(ns)
        short = task[:_TASK_ID_SHOWN] + self.glyphs.dots if len(task) > _TASK_ID_SHOWN else task
        return safe_text(f"{node}:{short}" + (f"|{number}" if number else ""))


def _signed(node: StepDetails, glyphs: Glyphs) -> list[tuple[str, Sequence[str], Style]]:
    problems = () if node.problem is None else (node.problem,)
    return [
        (glyphs.question, node.questions, "question"),
        (glyphs.error, node.errors, "error"),
        (glyphs.problem, problems, "error"),
    ]


def status_style(status: str) -> Style:
    """Return the style of the worst condition in a text such as `error, interrupted`."""
    styles: dict[str, Style] = {"interrupted": "question", "error": "error", "pending": "warn"}
    return styles.get(status.partition(",")[0], "plain")


def cut(text: str, room: int, dots: str) -> str:
    """Cut a text to `room` columns; a cut text ends with dots."""
    if cell_len(text) <= room:
        return text
    if room < len(dots):
        return ""
    return fit(text, room - len(dots) + 1)[:-1].rstrip() + dots


_ROOMY = 60
"""In fewer columns, nodes come before the number of writes and the time."""
_LEAST = 12
"""Columns that what a step changed needs at least, unless it is shorter."""
_MOST = 60
"""Columns of it that are printed at most, also if there is room for more."""


class RowDraft(NamedTuple):
    """A line before the column widths are known."""

    left: tuple[Span, ...]
    """The graph and the ref; never cut."""
    text: tuple[Span, ...] = ()
    """Cut if it does not fit."""
    marks: tuple[Span, ...] = ()
    """Shown after the text; never cut."""
    changes: str = ""
    """What the step changed, in the space that is left."""
    writes: str = ""
    time: str = ""
    """A time; a range of times also uses the column of the writes."""
    remark: bool = False
    """The line is outside the columns and may use the whole width."""
    row: Row | None = None
    """The row that the line shows; None for remarks, dates and gaps."""


def in_columns(drafts: Sequence[RowDraft], width: int, dots: str) -> Iterator[StyledLine]:
    """Yield the lines with times aligned to the end of the longest, so short trees stay narrow."""
    drafts = [one._replace(changes=cut(one.changes, _MOST, dots)) for one in drafts]
    time_width = max((len(draft.time) for draft in drafts if draft.writes), default=0)
    columns = [_writes_and_time(draft, time_width) for draft in drafts]
    sizes = [cells_of((*draft.left, *draft.text, *draft.marks)) for draft in drafts]
    natural = max(
        (
            size + (2 + cell_len(draft.changes) if draft.changes else 0) + cells_of(right)
            for draft, size, right in zip(drafts, sizes, columns, strict=True)
            if not draft.remark
        ),
        default=0,
    )
    for draft, size, right in zip(drafts, sizes, columns, strict=True):
        full = width if draft.remark else min(width, natural)
        is_tight = full < _ROOMY and size + cells_of(right) > full
        yield with_right(draft, () if is_tight else right, full, dots)


def _writes_and_time(draft: RowDraft, time_width: int) -> tuple[Span, ...]:
    if not draft.writes:
        return (("  ", "plain"), (draft.time, "time")) if draft.time else ()
    gap = " " * (2 + time_width - len(draft.time))
    return ("  ", "plain"), (draft.writes + gap, "dim"), (draft.time, "time")


def with_right(draft: RowDraft, right: Sequence[Span], width: int, dots: str) -> StyledLine:
    """Return a line with columns at its right end.

    They are left out if a long ref leaves no space for them.
    """
    taken = cells_of(right)
    spans = with_changes(draft, width - taken, dots)
    space = width - taken - cells_of(spans)
    return line(*spans, " " * space, *right) if right and space >= 0 else trimmed(spans)


def with_changes(draft: RowDraft, room: int, dots: str) -> tuple[Span, ...]:
    """Return a row without its columns at the right: its text is cut to the room.

    What the step changed is added if there is space.
    """
    size = cells_of((*draft.left, *draft.text, *draft.marks))
    if size > room:
        text = fitting(draft.text, max(room - size + cells_of(draft.text), 0), dots)
        return (*draft.left, *text, *draft.marks)
    left = room - size - 2
    changes = cut(draft.changes, left, dots) if left >= min(_LEAST, cell_len(draft.changes)) else ""
    more: tuple[Span, ...] = ((f"  {changes}", "plain"),) if changes else ()
    return (*draft.left, *draft.text, *draft.marks, *more)


def fitting(spans: Sequence[Span], room: int, dots: str) -> tuple[Span, ...]:
    """Fit one or two texts; if both are long, each gets half of the space."""
    first = cell_len(spans[0][0]) if spans else 0
    later = cells_of(spans[1:])
    for_later = min(later, max(room - first, room // 2))
    shares = (room - for_later, for_later)
    return tuple(
        (cut(text, share, dots), style) for (text, style), share in zip(spans, shares, strict=False)
    )


def cells_of(spans: Iterable[Span]) -> int:
    return cell_len("".join(text for text, _ in spans))


def trimmed(spans: Sequence[Span]) -> StyledLine:
    kept = list(spans)
    while kept and not kept[-1][0].strip():
        kept.pop()
    if not kept:
        return StyledLine(())
    text, style = kept[-1]
    return line(*kept[:-1], (text.rstrip(), style))


# The tree of a thread as lines of text: one line per checkpoint, fold or subgraph call.
#
# ◆ a17c -1  input                   1 write  09:41:58
# ┊ 4 steps  agent ×2, tools ×2      09:41:58–09:42:31
# ○ 77d1  4  agent                  2 writes  09:44:12
# ├─○ 51aa  5  tools → agent  ○ tip           09:44:13
# ◇ 2b9f  5  fork of 51aa                     09:50:01
# ● e4f0  6  agent → refund  ● head  1 write  09:50:07
#   ? Refund 89.00 EUR?


NARROWEST = 40
_SHOWN_LANES = 10
_WIDEST_REF_COLUMN = 8
"""Longer refs are rare; they shift only their own row."""


def tree_lines(tree: Tree, ui: Ui) -> Iterator[StyledLine]:
    """Yield the tree in at least `NARROWEST` columns, and no wider than needed.

    A date is printed when it changes, starting from today. A line is wider than the terminal only
    if a ref itself is too long.
    """
    width = max(ui.width, NARROWEST)
    words = TreeWording(tree, UNICODE if ui.unicode else ASCII)
    yield from tree_header(tree, words, width)
    yield StyledLine(())
    drafts = list(TreeDrafter(tree.plan, words, ui.zone).drafts(ui.now))
    yield from in_columns(drafts, width, words.glyphs.dots)
    if tree.plan.folded:
        yield StyledLine(())
        number = counted(tree.plan.folded, "plain step")
        yield line((f"{words.glyphs.fold}{number} folded; --unfold shows all", "dim"))


def tree_header(tree: Tree, words: TreeWording, width: int) -> Iterator[StyledLine]:
    """Yield the thread id, the number of checkpoints and branches, and the status."""
    plan, dot = tree.plan, words.glyphs.dot
    counts = [counted(plan.checkpoints, "checkpoint")]
    if plan.branches > 1:
        counts.append(counted(plan.branches, "branch"))
    if plan.calls:
        counts.append(counted(plan.calls, "subgraph call"))
    facts: list[Span] = [(dot.join(counts), "plain")]
    status = ", ".join(tree.conditions)
    if status:
        facts += [(dot, "plain"), (safe_text(status), status_style(status))]
    inside = f"{dot}{words.short_ns(plan.ns)}" if plan.ns else ""
    *above, name = wrap(f"thread {safe_text(tree.thread_id)}{inside}", width)
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
            left=(*self._graph(row.lanes, row.depth), (f"{self.glyphs.fold}{steps}  ", "dim")),
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
        name: Span = (self.words.short_ns(row.ns), "bold")
        facts = f"   {self.words.section_facts(row)}"
        return RowDraft((), (name,), ((facts, "plain"),), remark=True, row=row)

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


# The tree of a thread as lines of a screen, with the time and the tokens of each step.
#
# ○ 77d1 4 agent +1 ai: Hotel Kanra… 1.2k tok 1.2s 09:44:12 ○ 51aa 5 tools budget 120 → 90 ▒ 3m
# 05s 09:47:17
#
# Lines share only the widths of columns, so a line is drawn again alone after its checkpoint was
# read.


_TOOK_FROM, _CLOCK_FROM, _TOKENS_FROM = 40, 56, 72
"""Columns of the tree from which each column at its right is shown."""
_CLOCK, _TOKENS = 8, 8
_WAITS: Mapping[Kind, str] = {"run": "", "human": "▒ ", "idle": "· "}
"""Before the time of a step, as in `ckpt timeline`."""


class ScreenTree:
    """Draws one tree, and rows of it again."""

    def __init__(self, tree: Tree, ui: Ui) -> None:
        self._ui = ui
        self._width = ui.width
        self._steps = tree.steps
        self._drafter = TreeDrafter(tree.plan, TreeWording(tree, UNICODE), ui.zone)
        self._has_tokens = self._width >= _TOKENS_FROM and any(
            one.tokens for one in tree.details.values()
        )
        self._took_width = 0
        """Columns of the longest time."""

    def rows(self) -> Iterator[tuple[Row | None, StyledLine]]:
        """Yield all lines, each with its row; the row is None for remarks, dates and gaps."""
        drafts = list(self._drafter.drafts(self._ui.now))
        times = (self._took(draft.row) for draft in drafts if draft.row is not None)
        self._took_width = max(map(len, times), default=0)
        return ((draft.row, self._line(draft)) for draft in drafts)

    def show(self, tree: Tree) -> None:
        """Use other details of the same tree for the lines that are drawn again."""
        self._drafter.words = TreeWording(tree, UNICODE)

    def line(self, row: StepRow) -> StyledLine | None:
        """Return the line of a step; None if all must be drawn again, because more is shown."""
        drafts = self._drafter.row(row)
        is_alone = len(drafts) == 1
        is_new = bool(self._drafter.words.node(row.key).tokens) and not self._has_tokens
        if not is_alone or (is_new and self._width >= _TOKENS_FROM):
            return None
        return self._line(drafts[0])

    def _line(self, draft: RowDraft) -> StyledLine:
        return with_right(draft, self._columns(draft), self._width, UNICODE.dots)

    def _columns(self, draft: RowDraft) -> list[Span]:
        if draft.row is None or draft.remark:  # a date, or a line outside the columns
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
