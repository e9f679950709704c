"""Print a checkpoint: its place in the thread, its state, and the writes of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, cast

from ckpt_backends.codec.values import Cut, Value
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.shell import word
from ckpt_cli.core.conversation import said
from ckpt_cli.core.state import MEANINGS, NOT_STORED
from ckpt_cli.core.tasks import TaskWrite
from ckpt_cli.core.values import Selected, clip_state, format_path
from ckpt_cli.queries.show import CheckpointView
from ckpt_cli.render.table import age, size, step_words, when
from ckpt_cli.render.text import Span, Style, StyledLine, cell_len, field, line, pad, safe_text
from ckpt_cli.render.thread import (
    PLAINTEXT,
    join_lines,
    lifetime_lines,
    rollback_lines,
    status_lines,
    step_lines,
    thread_lines,
)
from ckpt_cli.render.values import block, summary

if TYPE_CHECKING:
    from ckpt_cli.queries.show import WholeThread

_INDENT = 2
_SIZE_CELLS = 16
"""Columns for the size and the gaps in the line of a write."""
_TIME_CELLS = 14
"""Columns of a time such as `  10:00:30.100`."""
_WORTH = 20
"""Minimum columns of a value; if fewer are left, times are not shown."""
_WIDEST = 30
"""Maximum width of the node and channel columns of writes; longer names are not cut."""


def show_lines(
    found: CheckpointView,
    now: datetime,
    zone: tzinfo,
    width: int,
    *,
    writes: bool,
    metadata: bool,
    whole: bool = True,
    words: Sequence[str] = (),
    memories: Sequence[Mapping[str, Any]] = (),
) -> Iterator[StyledLine]:
    """Yield a checkpoint with its values, and optionally its writes and metadata.

    With the thread as a whole, it begins with what is wrong and how to go on; `words` are the
    options that name the store, `memories` what was made from the thread. If not `whole`, long
    values are cut, and say how to see all of them.
    """
    if found.thread is None:
        yield from standing_lines(found, now, zone, width)
        yield from _trouble_lines(found, now, zone, width)
    else:
        yield from _urgent_lines(found, found.thread, words, width)
        yield from _trouble_lines(found, now, zone, width)
        yield from _place_lines(found, now, zone, width)
        yield from thread_lines(found.thread, words, now, zone, width)
    if memories:
        from ckpt_cli.render.memory import memory_lines  # late: most threads have none

        yield from memory_lines(memories, width)
    yield from given_lines(found, width)
    for name, value in found.state.values.items():
        yield line("")
        remark = found.state.rebuilt.get(name) or MEANINGS.get(name)
        shown, is_cut = (value, False) if whole else clip_state(value)
        if is_cut:
            how = f"cut; --channel {word(name)} or --full shows all"
            remark = f"{remark}; {how}" if remark else how
        yield from value_lines(name, shown, width, remark)
    if writes:
        yield line("")
        yield from placed_lines(found.writes, zone, width, dropped=found.dropped)
    if metadata:
        yield line("")
        stored = cast("Value", dict(found.moment.metadata))
        shown, is_cut = (stored, False) if whole else clip_state(stored)
        remark = "cut; --full shows all" if is_cut else None
        yield from value_lines("metadata", shown, width, remark)


def _urgent_lines(
    found: CheckpointView, thread: WholeThread, words: Sequence[str], width: int
) -> Iterator[StyledLine]:
    """Yield what is wrong with a thread or what it waits for, and how it goes on."""
    moment, resume = found.moment, found.resume
    yield from field("thread", moment.key.thread_id, width, "head")
    yield from status_lines(moment.conditions, width)
    yield from step_lines(moment, width, live=True, resume=resume)
    if resume is not None:
        from ckpt_cli.render.thread import config_lines

        yield from config_lines(moment, resume)
    yield from rollback_lines(thread, resume, words, width)
    yield from join_lines(found.joins, width)


def _trouble_lines(
    found: CheckpointView, now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield what of a checkpoint cannot be read, and what else a reader should know of it."""
    if found.moment.body.problem is not None:
        reason = found.moment.body.problem.reason
        reason = reason if reason.startswith(NOT_STORED) else f"not readable: {reason}"
        yield from field("problem", reason, width, "error")
    if found.unstored:
        names = ", ".join(found.unstored)
        yield from field("missing", f"{names}: written, but the value is not stored", width, "warn")
    yield from lifetime_lines(found.lifetime, now, zone, width)
    if found.plaintext:
        yield from field("warning", PLAINTEXT, width, "error")
    if found.unloaded:
        yield from field("warning", found.unloaded, width, "error")


def picked_lines(found: Sequence[Selected], width: int) -> Iterator[StyledLine]:
    """Yield parts of a state in full, below their paths if there are several."""
    for one in found:
        if len(found) > 1:
            yield line((safe_text(format_path(one.path)), "head"))
        if isinstance(one.value, str):
            yield from (line(text) for text in safe_text(one.value, newlines=True).split("\n"))
        else:
            yield from map(line, block(one.value, 0, width))


def standing_lines(
    found: CheckpointView, now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield the ids of a checkpoint, its place in the thread, and what comes after it."""
    moment = found.moment
    yield from field("thread", moment.key.thread_id, width, "head")
    yield from _place_lines(found, now, zone, width)
    if found.is_head:
        yield from status_lines(moment.conditions, width)
    yield from step_lines(moment, width, live=found.is_head, resume=found.resume)
    yield from join_lines(found.joins, width)


def _place_lines(
    found: CheckpointView, now: datetime, zone: tzinfo, width: int
) -> Iterator[StyledLine]:
    """Yield the ids of a checkpoint and its place in the thread."""
    moment = found.moment
    key, parent = moment.key, moment.checkpoint.parent_checkpoint_id
    at = "" if moment.at is None else f"  {when(moment.at, now, zone)} ({age(moment.at, now)} ago)"
    facts: list[tuple[str, str | None, Style]] = [
        ("ns", key.checkpoint_ns or None, "plain"),
        ("ckpt", key.checkpoint_id + ("  (head)" if found.is_head else ""), "id"),
        ("parent", "none" if parent is None else parent, "plain"),
        ("children", ", ".join(found.children) if len(found.children) > 1 else None, "plain"),
        ("step", f"{step_words(moment.number, moment.source)}{at}", "plain"),
    ]
    for name, text, style in facts:
        if text is not None:
            yield from field(name, text, width, style)


def given_lines(found: CheckpointView, width: int) -> Iterator[StyledLine]:
    """Yield the input that waits at a checkpoint, if there is one."""
    given = found.given
    if given is None:
        return
    if isinstance(given, dict):
        given = {name: said(value) for name, value in given.items()}
    yield line("")
    yield from value_lines("input", given, width, "the next step takes it in")


def value_lines(name: str, value: Value, width: int, remark: str | None) -> Iterator[StyledLine]:
    """Yield a named value in full, with a remark."""
    title = safe_text(name)
    note: Span = (f"  {remark}" if remark else "", "dim")
    if not _long(value):
        short = summary(value, width)
        if len(title) + 2 + cell_len(short) < width:
            yield line((f"{title}: ", "head"), short, note)
            return
    yield line((title, "head"), note)
    for text in block(value, _INDENT, width):
        yield line(text)


def _long(value: Value) -> bool:
    """Return whether a value is printed below its name."""
    if isinstance(value, Cut):
        return _long(value.kept)
    if isinstance(value, str):
        return "\n" in value
    return isinstance(value, list | dict) and bool(value)


def placed_lines(
    writes: Sequence[TaskWrite], zone: tzinfo, width: int, *, dropped: bool
) -> Iterator[StyledLine]:
    """Yield the writes of a checkpoint's tasks, one per line, with times if known."""
    remark = "  dropped: a new input came before all tasks had finished" if dropped else ""
    yield line((f"writes  {len(writes)}", "head"), (remark, "dim"))
    whose = [
        "(caller)" if one.write.task_id == NULL_TASK_ID else safe_text(one.node or "?")
        for one in writes
    ]
    where = [safe_text(one.write.channel) for one in writes]
    named, put = (min(max(map(cell_len, one), default=0), _WIDEST) for one in (whose, where))
    # If there is not enough space for both, values are shown and times are not.
    is_wide = width - named - put - _SIZE_CELLS - _TIME_CELLS >= _WORTH
    for placed, who, channel in zip(writes, whose, where, strict=True):
        write, at = placed.write, ""
        if is_wide and write.at is not None:
            at = f"  {write.at.astimezone(zone):%H:%M:%S.%f}"[:_TIME_CELLS]
        first, second = pad(who, named), pad(channel, put)
        room = width - len(at) - cell_len(first) - cell_len(second) - _SIZE_CELLS
        value = "" if write.value is None else summary(said(placed.value), max(room, _INDENT))
        spans: list[Span | str] = [(at, "time"), "  ", (first, "node"), "  ", (second, "head")]
        yield line(*spans, (f"  {size(write.size):>8}", "dim"), f"  {value}" if value else "")
