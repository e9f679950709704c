"""Time of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

from ckpt_cli.core.timeline import Kind, NodeTime, OpenStep, TimedStep, Timeline, seconds_between
from ckpt_cli.core.tree import Key
from ckpt_cli.render.table import (
    Column,
    age,
    duration,
    optional_iso,
    plain_columns,
    step_number,
    table_lines,
    when,
)
from ckpt_cli.render.text import Span, Style, StyledLine, cell_len, fit, line, safe_text, short_ns
from ckpt_cli.render.threads import counted_names
from ckpt_cli.render.values import counted

_DIGITS = 6
"""Decimal places of seconds: stores keep microseconds."""


def timeline_record(found: Timeline) -> dict[str, Any]:
    """Return the answer of `timeline` as JSON."""
    return {
        "thread_id": found.thread_id,
        "first_at": optional_iso(found.first_at),
        "last_at": optional_iso(found.last_at),
        "seconds": _rounded(found.seconds),
        "running_seconds": _rounded(found.running_seconds),
        "waiting_seconds": _rounded(found.waiting_seconds),
        "idle_seconds": _rounded(found.idle_seconds),
        "steps": list(step_records(found)),
        "nodes": {name: node_record(one) for name, one in by_total(found.nodes)},
        "open": None if found.open is None else _open_record(found.open),
        "left_out": found.left_out,
    }


def step_records(found: Timeline) -> Iterator[dict[str, Any]]:
    """Yield one record for each step; those of subgraphs follow the step that called them."""
    for one in found.steps:
        yield {
            "checkpoint_ns": one.checkpoint_ns,
            "checkpoint_id": one.checkpoint_id,
            "step": one.step,
            "nodes": None if one.nodes is None else list(one.nodes),
            "started_at": optional_iso(one.started_at),
            "ended_at": optional_iso(one.ended_at),
            "seconds": _rounded(one.seconds),
            "kind": one.kind,
            "cause": one.cause,
            "waiting_seconds": _rounded(one.waiting_seconds),
            "depth": one.depth,
        }


STEP_COLUMNS = plain_columns(
    "checkpoint_ns",
    "checkpoint_id",
    "step",
    "nodes",
    "started_at",
    "ended_at",
    "seconds",
    "kind",
    "cause",
    "waiting_seconds",
    "depth",
)


def node_record(one: NodeTime) -> dict[str, Any]:
    """Return the runs of one node as JSON."""
    seconds = one.seconds
    return {
        "runs": one.runs,
        "measured": seconds.count,
        "shared": one.shared,
        "seconds": _rounded(seconds.total) if seconds.count else None,
        "p50": _rounded(seconds.percentile(50)),
        "p95": _rounded(seconds.percentile(95)),
        "max": _rounded(seconds.longest),
    }


def node_columns() -> list[Column]:
    """Return the columns of a table of nodes."""
    return [
        Column("NODE", "node", style="node"),
        Column("RUNS", "runs", right=True),
        Column("MEASURED", "measured", right=True, drop=2),
        Column("SHARED", "shared", table=False),
        Column("TOTAL", "seconds", duration, right=True),
        Column("P50", "p50", duration, right=True, drop=1),
        Column("P95", "p95", duration, right=True, drop=1),
        Column("MAX", "max", duration, right=True),
    ]


def node_rows(nodes: Mapping[str, NodeTime]) -> Iterator[dict[str, Any]]:
    """Yield one record for each node, with the longest total first."""
    return ({"node": name, **node_record(one)} for name, one in by_total(nodes))


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


def by_total(nodes: Mapping[str, NodeTime]) -> Iterable[tuple[str, NodeTime]]:
    """Return the nodes, with the longest total first."""
    return sorted(nodes.items(), key=lambda item: (-item[1].seconds.total, item[0]))


def _open_record(step: OpenStep) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "nodes": list(step.nodes),
        "since": optional_iso(step.since),
        "cause": step.cause,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


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


class _Row(NamedTuple):
    """One line of the drawing."""

    number: str
    name: str
    kind: Kind
    depth: int
    start: datetime | None
    end: datetime | None
    mark: str = ""
    key: Key | None = None
    """The checkpoint that it ends with."""

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.start, self.end)


def timeline_lines(
    found: Timeline, *, now: datetime, zone: tzinfo, width: int, unicode: bool
) -> Iterator[StyledLine]:
    """Yield a summary, one line for each step, and the times of each node."""
    drawn = timeline_rows(
        found, now=now, zone=zone, width=width, unicode=unicode, longest_bar=_LONGEST_BAR
    )
    return (text for _, text in drawn)


def timeline_rows(
    found: Timeline,
    *,
    now: datetime,
    zone: tzinfo,
    width: int,
    unicode: bool,
    longest_bar: int | None = None,
) -> Iterator[tuple[Key | None, StyledLine]]:
    """Yield the same lines, each with the checkpoint that its step or call ends with, if any.

    Bars have the rest of the width, or at most `longest_bar` columns of it.
    """
    for text in (*_heading(found), line("")):
        yield None, text
    rows = list(_rows(found.steps))
    shape = _shape(rows, width)
    if longest_bar is not None:
        shape = shape._replace(bars=min(shape.bars, longest_bar))
    yield from _drawn(rows, zone, shape, _UNICODE if unicode else _ASCII)
    for text in _after(found, now, zone, width):
        yield None, text


def _after(found: Timeline, now: datetime, zone: tzinfo, width: int) -> Iterator[StyledLine]:
    """Yield what the branch waits for, the times of each node, and remarks."""
    if found.open is not None:
        yield from _open(found, now, zone)
    rows = list(node_rows(found.nodes))
    if rows:
        yield line("")
        yield from table_lines(rows, node_columns(), width)
    yield from _remarks(found)


def _heading(found: Timeline) -> Iterator[StyledLine]:
    steps = counted(sum(not one.depth for one in found.steps), "step")
    left = f", {found.left_out} earlier ones left out" if found.left_out else ""
    yield line(("thread ", "dim"), (safe_text(found.thread_id), "head"), f"   {steps}{left}")
    if found.seconds is None:
        return
    parts = [f"{duration(found.running_seconds)} running"]
    if found.waiting_seconds:
        parts.append(f"{duration(found.waiting_seconds)} waiting for answers")
    if found.idle_seconds:
        parts.append(f"{duration(found.idle_seconds)} idle")
    yield line(f"{duration(found.seconds)}: {', '.join(parts)}")


def _rows(steps: Sequence[TimedStep]) -> Iterator[_Row]:
    """Yield a row for each step, and one above the steps of each subgraph call."""
    calls: list[str] = []
    """The namespaces of the calls that the step before is part of, outermost first."""
    for place, step in enumerate(steps):
        if calls[step.depth - 1 : step.depth] != [step.checkpoint_ns][: step.depth]:
            yield _call(steps, place)
        calls = [*calls[: max(step.depth - 1, 0)], step.checkpoint_ns][: step.depth]
        if is_shown(step):
            yield _Row(
                number="" if step.depth else step_number(step.step),
                name=_name(step),
                kind=step.kind,
                depth=2 * step.depth,
                start=step.started_at,
                end=step.ended_at,
                mark=_mark(step),
                key=(step.checkpoint_ns, step.checkpoint_id),
            )


def _call(steps: Sequence[TimedStep], place: int) -> _Row:
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
    return _Row(
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


def _shape(rows: Sequence[_Row], width: int) -> _Shape:
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
    rows: Sequence[_Row], zone: tzinfo, shape: _Shape, glyphs: dict[Kind, str]
) -> Iterator[tuple[Key | None, StyledLine]]:
    runs = [one.seconds or 0.0 for one in rows if one.kind == "run" and not one.depth]
    longest = max(runs, default=0.0) or max((one.seconds or 0.0 for one in rows), default=0.0)
    day: date | None = None
    outer: _Row | None = None
    for one in rows:
        if outer is None or not one.depth or _is_after(one, outer):
            outer = one
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
        bar = _bar(one, outer, longest, shape.bars, glyphs) if shape.bars else ""
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


def _is_after(one: _Row, outer: _Row) -> bool:
    """Return whether a row began after a step: a call of a step that is not over yet."""
    return one.start is not None and outer.end is not None and one.start >= outer.end


def _bar(one: _Row, outer: _Row, longest: float, room: int, glyphs: dict[Kind, str]) -> str:
    """Return the bar of a row; that of an inner row begins where it began in its outer step."""
    if one.seconds is None or not longest:
        return ""
    whole = max(longest, outer.seconds or one.seconds)
    before = seconds_between(outer.start, one.start) or 0.0
    begin = min(round(before / whole * room), room - 1)
    length = min(max(round(one.seconds / whole * room), 1), room - begin)
    return " " * begin + glyphs[one.kind] * length


def _open(found: Timeline, now: datetime, zone: tzinfo) -> Iterator[StyledLine]:
    step = found.open
    assert step is not None  # noqa: S101
    words = {"human": "waiting for an answer", "idle": "failed", "run": "running, or stopped"}
    what = words[step.kind] if step.cause != "fork" else "nothing has run"
    nodes: Span = (safe_text(", ".join(step.nodes)), "node")
    since = ""
    if step.since is not None:
        since = f" since {when(step.since, now, zone)} ({age(step.since, now)})"
    yield line((what, _NOW[step.kind]), since, ": " if step.nodes else "", nodes)


def _remarks(found: Timeline) -> Iterator[StyledLine]:
    """Yield what the times do not tell."""
    answered = any(
        one.kind == "human" and one.waiting_seconds == one.seconds for one in found.steps
    )
    yield from remark_lines([*([_ANSWERED] if answered else []), *node_remarks(found.nodes)])
