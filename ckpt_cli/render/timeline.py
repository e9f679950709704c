"""Time of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

from ckpt_cli.core.timeline import Kind, NodeTime, OpenStep, TimedStep, Timeline, seconds_between
from ckpt_cli.core.tree import Key
from ckpt_cli.render.fields import Field, Shape, View
from ckpt_cli.render.table import Column, age, duration, step_number, table_lines, when
from ckpt_cli.render.text import (
    Span,
    Style,
    StyledLine,
    Ui,
    cell_len,
    fit,
    line,
    safe_text,
    short_ns,
)
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.types import INTEGER, KEY_IN_THREAD, SECONDS, TEXT, TIME, one_of
from ckpt_cli.render.values import counted

KIND = one_of("run", "human", "idle")
CAUSE = one_of("input", "update", "fork", "answer", "retry", "resume").or_null
NODE_TIME = Shape(
    "The runs of one node.",
    Field("runs", INTEGER, "Number of runs."),
    Field("measured", INTEGER, "Runs whose time is known.", "seconds.count"),
    Field("shared", INTEGER, "Runs that shared a step, and count with all of its time."),
    Field(
        "seconds",
        SECONDS.or_null,
        "Their time.",
        lambda one: one.seconds.total if one.seconds.count else None,
    ),
    Field("p50", SECONDS.or_null, "Median.", lambda one: one.seconds.percentile(50)),
    Field("p95", SECONDS.or_null, "95 % took less.", lambda one: one.seconds.percentile(95)),
    Field("max", SECONDS.or_null, "Longest.", "seconds.longest"),
)
NODE_COLUMNS = [
    Column("NODE", "node", style="node"),
    *NODE_TIME.columns(
        Column("RUNS", "runs", right=True),
        Column("MEASURED", "measured", right=True, drop=2),
        "shared",
        Column("TOTAL", "seconds", duration, right=True),
        Column("P50", "p50", duration, right=True, drop=1),
        Column("P95", "p95", duration, right=True, drop=1),
        Column("MAX", "max", duration, right=True),
    ),
]
STEP = Shape(
    "A step; those of subgraphs follow the step that called them.",
    *KEY_IN_THREAD,
    Field("step", INTEGER.or_null, "Step."),
    Field("nodes", TEXT.list.or_null, "Nodes that ran, one for each task."),
    Field("started_at", TIME.or_null, "When the checkpoint before was saved."),
    Field("ended_at", TIME.or_null, "When its own was saved."),
    Field("seconds", SECONDS.or_null, "How long it took."),
    Field("kind", KIND, "Nodes ran, an answer was waited for, or nothing happened."),
    Field("cause", CAUSE, "What began it; null if the run before simply continued."),
    Field("waiting_seconds", SECONDS, "How much of it was waiting for an answer."),
    Field("depth", INTEGER, "0 in the root graph, 1 in its subgraphs."),
)
OPEN = Shape(
    "What the thread waits for.",
    Field("kind", KIND, "A run, an answer, or a retry."),
    Field("nodes", TEXT.list, "Nodes that are to run."),
    Field("since", TIME.or_null, "Since when."),
    Field("cause", TEXT.or_null, "`failed`; `fork` if `ckpt` went back and nothing followed."),
)
TIMELINE = Shape(
    "How long each step of a thread took.",
    Field("thread_id", TEXT, "Thread."),
    Field("first_at", TIME.or_null, "When the first step began."),
    Field("last_at", TIME.or_null, "When the last ended."),
    Field("seconds", SECONDS.or_null, "The time between them."),
    Field("running_seconds", SECONDS, "How much of it nodes ran."),
    Field("waiting_seconds", SECONDS, "How much of it was waiting for answers."),
    Field("idle_seconds", SECONDS, "How much of it nothing ran."),
    Field("steps", STEP.list, "The steps."),
    Field(
        "nodes",
        NODE_TIME.by_name,
        "The nodes, the longest first.",
        lambda found: by_total(found.nodes),
    ),
    Field("open", OPEN.or_null, "What it waits for now."),
    Field("left_out", INTEGER, "Number of earlier steps that are left out."),
)


def node_rows(nodes: Mapping[str, NodeTime]) -> Iterator[dict[str, Any]]:
    """Yield one record for each node, with the longest total first."""
    return ({"node": name, **NODE_TIME.record(one)} for name, one in by_total(nodes).items())


def node_remarks(nodes: Mapping[str, NodeTime]) -> list[str]:
    """Return what the times of nodes do not tell."""
    found = []
    if any(one.runs > one.seconds.count for one in nodes.values()):
        found.append("runs are not measured if an answer or a pause came within their step")
    if any(one.shared for one in nodes.values()):
        found.append("nodes that share a step, such as parallel ones, count with all of its time")
    if any(one.seconds.is_estimated for one in nodes.values()):
        found.append("P50 and P95 of more than 10,000 runs are estimates, 1 % off at most")
    return found


def remark_lines(texts: Iterable[str]) -> Iterator[StyledLine]:
    """Yield remarks below a table, after a blank line."""
    for place, text in enumerate(texts):
        if not place:
            yield line("")
        yield line((text, "dim"))


def by_total(nodes: Mapping[str, NodeTime]) -> dict[str, NodeTime]:
    """Return the nodes, with the longest total first."""
    return dict(sorted(nodes.items(), key=lambda item: (-item[1].seconds.total, item[0])))


def local(moment: datetime, zone: tzinfo) -> datetime:
    """Return a time in a zone; a stored time in the first or last year stays as it is."""
    return moment if not 1 < moment.year < 9999 else moment.astimezone(zone)


def is_shown(step: TimedStep) -> bool:
    """Return whether a step is worth a line: reading the input takes no time."""
    return bool(step.seconds is None or step.seconds >= _BRIEF) or not (
        step.is_start or (step.depth and step.cause == "input")
    )


_BRIEF = 0.1

# Draw the steps of a thread as lines with bars.
#
# Each bar shows how long a step took. The bars of a subgraph begin where its steps began within
# the step that called it, so that calls in parallel are seen side by side.


_NAMES = 28
"""Widest column of nodes."""
_LEAST_BAR = 8
_LONGEST_BAR = 50
"""Of a command: its output may be a pipe, where lines have no end."""
_CLOCK = 8
_TOOK = 8
_PAST: dict[Kind, Style] = {"run": "node", "human": "plain", "idle": "dim"}
_NOW: dict[Kind, Style] = {**_PAST, "human": "question"}
"""Only what waits now has the colour of a question."""
_MARKS = {
    "answer": "answered",
    "retry": "failed, run again",
    # Perhaps only what its tasks had stored was applied.
    "resume": "resumed after a pause",
    "fork": "",
}
_ANSWERED = "answered: with the run after it; the store does not tell when answers came"
_UNICODE: dict[Kind, str] = {"run": "█", "human": "▒", "idle": "·"}
_ASCII: dict[Kind, str] = {"run": "#", "human": "?", "idle": "."}


class BarRow(NamedTuple):
    """One line of the drawing: a step, or a call of a subgraph."""

    number: str
    name: str
    kind: Kind
    depth: int
    start: datetime | None
    end: datetime | None
    mark: str = ""
    key: Key | None = None
    """The checkpoint that it ends with."""
    begins: float = 0.0
    """Where its bar begins, as a part of the longest one."""
    length: float | None = None
    """The length of its bar in the same unit; None if its time is not known."""

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.start, self.end)


def timeline_lines(found: Timeline, ui: Ui, *, ascii_only: bool = False) -> Iterator[StyledLine]:
    """Yield a summary, one line for each step, and the times of each node."""
    ui = ui._replace(unicode=ui.unicode and not ascii_only)
    return (text for _, text in timeline_rows(found, ui, longest_bar=_LONGEST_BAR))


TIMELINE_VIEW = View(
    TIMELINE.record, timeline_lines, lambda found: map(STEP.record, found.steps), STEP.columns()
)


def timeline_rows(
    found: Timeline, ui: Ui, *, longest_bar: int | None = None
) -> Iterator[tuple[Key | None, StyledLine]]:
    """Yield the same lines, each with the checkpoint that its step or call ends with, if any.

    Bars have the rest of the width, or at most `longest_bar` columns of it.
    """
    for text in (*_heading(found), line("")):
        yield None, text
    rows = bar_rows(found.steps)
    shape = _shape(rows, ui.width)
    if longest_bar is not None:
        shape = shape._replace(bars=min(shape.bars, longest_bar))
    yield from _drawn(rows, ui.zone, shape, _UNICODE if ui.unicode else _ASCII)
    for text in _after(found, ui):
        yield None, text


def _after(found: Timeline, ui: Ui) -> Iterator[StyledLine]:
    """Yield what the branch waits for, the times of each node, and remarks."""
    if found.open is not None:
        yield from _open(found, ui)
    rows = list(node_rows(found.nodes))
    if rows:
        yield line("")
        yield from table_lines(rows, NODE_COLUMNS, ui)
    yield from _remarks(found)


def _heading(found: Timeline) -> Iterator[StyledLine]:
    steps = counted(sum(not one.depth for one in found.steps), "step")
    left = f", {found.left_out} earlier ones left out" if found.left_out else ""
    yield line(("thread ", "dim"), (safe_text(found.thread_id), "head"), f"   {steps}{left}")
    if found.seconds is not None:
        yield line(spent_text(found))


def spent_text(found: Timeline) -> str:
    """Return what the time of a thread was spent on; its first and last times must be known."""
    parts = [f"{duration(found.running_seconds)} running"]
    if found.waiting_seconds:
        parts.append(f"{duration(found.waiting_seconds)} waiting for answers")
    if found.idle_seconds:
        parts.append(f"{duration(found.idle_seconds)} idle")
    return f"{duration(found.seconds or 0.0)}: {', '.join(parts)}"


def bar_rows(steps: Sequence[TimedStep]) -> list[BarRow]:
    """Return the rows of steps; the bars of a subgraph begin within the step that called it."""
    rows = list(_rows(steps))
    runs = [one.seconds or 0.0 for one in rows if one.kind == "run" and not one.depth]
    longest = max(runs, default=0.0) or max((one.seconds or 0.0 for one in rows), default=0.0)
    outer: BarRow | None = None
    found = []
    for one in rows:
        if outer is None or not one.depth or _is_after(one, outer):
            outer = one
        if one.seconds is None or not longest:
            found.append(one)
            continue
        whole = max(longest, outer.seconds or one.seconds)
        before = seconds_between(outer.start, one.start) or 0.0
        found.append(one._replace(begins=before / whole, length=one.seconds / whole))
    return found


def _rows(steps: Sequence[TimedStep]) -> Iterator[BarRow]:
    """Yield a row for each step, and one above the steps of each subgraph call."""
    calls: list[str] = []
    """The namespaces of the calls that the step before is part of, outermost first."""
    for place, step in enumerate(steps):
        if calls[step.depth - 1 : step.depth] != [step.checkpoint_ns][: step.depth]:
            yield _call(steps, place)
        calls = [*calls[: max(step.depth - 1, 0)], step.checkpoint_ns][: step.depth]
        if is_shown(step):
            yield BarRow(
                number="" if step.depth else step_number(step.step),
                name=_name(step),
                kind=step.kind,
                depth=2 * step.depth,
                start=step.started_at,
                end=step.ended_at,
                mark=_mark(step),
                key=(step.checkpoint_ns, step.checkpoint_id),
            )


def _call(steps: Sequence[TimedStep], place: int) -> BarRow:
    """Return the row of a call, from its first step to its last."""
    first = last = steps[place]
    kinds: set[Kind] = set()
    for step in steps[place:]:
        if step.depth < first.depth or (
            step.depth == first.depth and step.checkpoint_ns != first.checkpoint_ns
        ):
            break
        last = step if step.depth == first.depth else last
        kinds.add(step.kind)
    name = short_ns(first.checkpoint_ns.rpartition("|")[2])
    return BarRow(
        "",
        name,
        # It was not at work all the time if it was stopped, or waited.
        next((kind for kind in ("idle", "human") if kind in kinds), "run"),
        2 * first.depth - 1,
        first.started_at,
        last.ended_at,
        key=(last.checkpoint_ns, last.checkpoint_id),
    )


def _name(step: TimedStep) -> str:
    if step.cause in {"input", "update"}:
        return step.cause or ""
    if step.cause == "fork" and not step.nodes:
        return "fork"
    return "?" if step.nodes is None else counted_names(step.nodes) or "?"


def _mark(step: TimedStep) -> str:
    mark = _MARKS.get(step.cause or "", "")
    if step.kind == "human" and step.cause != "answer":
        return "not answered"
    if len(step.nodes or ()) > 1 and step.failed and None not in step.failed.values():
        # What the others had stored was applied.
        failed = [node for node in step.failed.values() if node is not None]
        return f"{counted_names(failed)} failed, run again"
    if step.kind == "human" and step.waiting_seconds != step.seconds:
        return f"{mark} in {duration(step.waiting_seconds)}"
    return mark


class _Shape(NamedTuple):
    """The widths of the columns, and which of them there are."""

    numbers: int
    names: int
    bars: int
    """0 if there is no space for bars."""
    has_clock: bool = True
    has_marks: bool = True


def _shape(rows: Sequence[BarRow], width: int) -> _Shape:
    """Return the columns: bars have the rest of the width, before clock times and marks."""
    names = min(_NAMES, max((cell_len(one.name) + one.depth for one in rows), default=0))
    numbers = max((len(one.number) for one in rows), default=0)
    marks = max((cell_len(one.mark) + 2 for one in rows if one.mark), default=0)
    rest = width - (numbers + 2 + names + 2 + _TOOK + 2)
    for has_clock, has_marks in ((True, True), (False, True), (False, False)):
        bars = rest - has_clock * (_CLOCK + 2) - has_marks * marks
        if bars >= _LEAST_BAR:
            return _Shape(numbers, names, bars, has_clock, has_marks)
    return _Shape(numbers, names, 0)


def _drawn(
    rows: Sequence[BarRow], zone: tzinfo, shape: _Shape, glyphs: dict[Kind, str]
) -> Iterator[tuple[Key | None, StyledLine]]:
    day: date | None = None
    for one in rows:
        shown = one.start or one.end
        clock = ""
        if shown is not None:
            at = local(shown, zone)
            clock = f"{at:%H:%M:%S}"
            if at.date() != day:
                day = at.date()
                yield None, line((f"{at:%a} {at.day} {at:%b %Y}", "dim"))
        name = fit(" " * one.depth + safe_text(one.name), shape.names)
        took = "" if one.seconds is None else f"  {duration(one.seconds):>{_TOOK}}"
        bar = _bar(one, shape.bars, glyphs) if shape.bars else ""
        yield (
            one.key,
            line(
                (f"{one.number:>{shape.numbers}}  ", "plain"),
                (
                    name + " " * (shape.names - cell_len(name)),
                    "node" if one.kind == "run" else "plain",
                ),
                (f"  {clock:{_CLOCK}}" if shape.has_clock else "", "time"),
                took,
                *([(f"  {bar}", _PAST[one.kind])] if bar else []),
                *([(f"  {one.mark}", _PAST[one.kind])] if one.mark and shape.has_marks else []),
            ),
        )


def _is_after(one: BarRow, outer: BarRow) -> bool:
    """Return whether a row began after a step: a call of a step that is not over yet."""
    return one.start is not None and outer.end is not None and one.start >= outer.end


def _bar(one: BarRow, room: int, glyphs: dict[Kind, str]) -> str:
    if one.length is None:
        return ""
    begin = min(round(one.begins * room), room - 1)
    length = min(max(round(one.length * room), 1), room - begin)
    return " " * begin + glyphs[one.kind] * length


def _open(found: Timeline, ui: Ui) -> Iterator[StyledLine]:
    step = found.open
    assert step is not None  # noqa: S101
    nodes: Span = (safe_text(", ".join(step.nodes)), "node")
    since = ""
    if step.since is not None:
        since = f" since {when(step.since, ui.now, ui.zone)} ({age(step.since, ui.now)})"
    yield line((open_words(step), _NOW[step.kind]), since, ": " if step.nodes else "", nodes)


def open_words(step: OpenStep) -> str:
    """Return what a branch is doing since its last checkpoint."""
    words = {"human": "waiting for an answer", "idle": "failed", "run": "running, or stopped"}
    return words[step.kind] if step.cause != "fork" else "nothing has run"


def _remarks(found: Timeline) -> Iterator[StyledLine]:
    """Yield what the times do not tell."""
    answered = any(
        one.kind == "human" and one.waiting_seconds == one.seconds for one in found.steps
    )
    yield from remark_lines([*([_ANSWERED] if answered else []), *node_remarks(found.nodes)])
