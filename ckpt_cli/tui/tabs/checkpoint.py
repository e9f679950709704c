"""The tabs about one checkpoint: state, writes, messages, metadata and raw bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.values import clip, format_path
from ckpt_cli.queries.blame import blame
from ckpt_cli.queries.diff import changed_values
from ckpt_cli.queries.messages import conversation
from ckpt_cli.queries.replay import written
from ckpt_cli.queries.show import CheckpointView, raw_bytes, view
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.reading.target import Target
from ckpt_cli.render.messages import turn_lines
from ckpt_cli.render.replay import written_lines
from ckpt_cli.render.state import given_lines, placed_lines, standing_lines, value_lines
from ckpt_cli.render.table import size
from ckpt_cli.render.text import StyledLine, Ui, line, safe_text
from ckpt_cli.render.text import field as field_lines
from ckpt_cli.render.thread import PLAINTEXT, lifetime_lines, step_lines
from ckpt_cli.tui.command_line import tab_command
from ckpt_cli.tui.panes.values import StateValues
from ckpt_cli.tui.tabs.content import (
    MOST_LINES,
    Clock,
    InspectorTab,
    KeptReader,
    Subject,
    TabContent,
    TabQuestion,
    cut,
    target_of,
)
from ckpt_cli.tui.tabs.content import CheckpointTab as TabName

_RAW_BYTES = 16 * 1024
_RAW_ROW = 16


class CheckpointTab(InspectorTab):
    """A tab about one checkpoint."""

    loading = "Checkpoint: loading"
    is_of_thread = False

    def __init__(self, name: TabName, worker: StoreWorker[Store], kept: KeptReader) -> None:
        self._name, self._worker, self._kept = name, worker, kept

    def heading(self, subject: Subject) -> str:
        is_between = self._name == "diff" and subject.base is not None
        return f"{subject.base_name} → {subject.name}" if is_between else subject.name

    async def read(self, asked: TabQuestion) -> TabContent:
        subject = asked.subject
        question = partial(
            read_document,
            tab=self._name,
            place=subject.place,
            base=subject.base,
            clock=asked.clock,
            width=asked.width,
            kept=self._kept,
            refs=subject.refs,
        )
        return await self._worker.ask(question)

    def is_current(self, asked: TabQuestion) -> bool:
        return asked.is_again

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        return tab_command(store, self._name, subject.place, subject.base)


def read_document(
    store: Store,
    tab: TabName,
    place: CheckpointKey,
    base: CheckpointKey | None,
    clock: Clock,
    width: int,
    kept: KeptReader | None = None,
    refs: Mapping[str, str] | None = None,
) -> TabContent:
    """Return a tab of a checkpoint; its diff is against `base`, or else against its parent.

    `kept` is the reader of the call before, `refs` has the short refs that are known. Raises
    `NotFound`, `Unreadable`, and other errors of the same command.
    """
    target = target_of(store, place, kept)
    if tab == "messages":
        return _messages(target, width)
    if tab == "diff":
        # That module returns what is defined here.
        from ckpt_cli.tui.tabs.diff import read_diff

        return read_diff(store, target, base, refs or {}, width)
    if tab == "state":
        return _state(target, clock, width)
    lines = {
        "writes": lambda: _writes(target, clock, width, kept or KeptReader()),
        "metadata": lambda: _metadata(target, clock, width),
        "raw": lambda: _raw(target, width),
    }[tab]()
    return TabContent(cut(lines))


def read_origin(store: Store, place: CheckpointKey, path: str) -> tuple[CheckpointKey, str]:
    """Return the first checkpoint that had a value, and the writer of the value."""
    found = blame(target_of(store, place), path)
    who = found.node or found.by
    if found.writes:
        who += f", task {found.writes[-1].write.task_id}"
    return found.moment.key, who


def _state(target: Target, clock: Clock, width: int) -> TabContent:
    found = view(target, None, writes=False)
    heading = cut(_heading(found, clock, width))
    changed = changed_values(target, found).items()
    changes = {format_path(path): change for path, change in changed}
    state = StateValues(heading, found.state.values, found.state.rebuilt, changes)
    return TabContent(heading, state=state)


def _heading(found: CheckpointView, clock: Clock, width: int) -> Iterator[StyledLine]:
    """Yield next nodes, questions and problems."""
    yield from step_lines(found.moment, width, live=found.is_head, resume=found.resume)
    if found.moment.body.problem is not None:
        reason = f"not readable: {found.moment.body.problem.reason}"
        yield from field_lines("problem", reason, width, "error")
    yield from lifetime_lines(found.lifetime, clock.now, clock.zone, width)
    if found.plaintext:
        yield from field_lines("warning", PLAINTEXT, width, "error")
    yield from given_lines(found, width)
    yield line("")
    if not found.state.values:
        yield line(("no values", "dim"))


def _writes(target: Target, clock: Clock, width: int, kept: KeptReader) -> Iterator[StyledLine]:
    found = _seen(target, writes=True)
    if found.writes:
        yield line(("writes stored at this checkpoint", "bold"))
        yield from placed_lines(found.writes, clock.zone, width, dropped=found.dropped)
        yield line("")
    yield line(("writes that produced this checkpoint", "bold"))
    try:
        yield from written_lines(
            written(target, {}, kept=kept.replay), Ui(clock.now, clock.zone, width)
        )
    except CkptError as error:
        yield line((safe_text(error.message), "dim"))


def _messages(target: Target, width: int) -> TabContent:
    found = conversation(target, None)
    lines: list[StyledLine] = []
    marks: dict[int, str] = {}
    values: dict[int, Value] = {}
    if found.others:
        names = safe_text(", ".join(found.others))
        lines.append(
            line((f"channel {safe_text(found.channel)}; others with messages: {names}", "dim"))
        )
    if not found.turns:
        lines.append(line((f"channel {safe_text(found.channel)} is empty here", "dim")))
    turns = [
        replace(one, message=one.message._replace(content=clip(one.message.content)))
        for one in found.turns
    ]
    for turn in turns:
        if turn.answers is not None:
            continue
        if len(lines) > MOST_LINES:
            lines.append(line((f"… {len(turns) - turn.index} more messages", "dim")))
            break
        if marks:
            lines.append(line(""))
        marks[len(lines)] = format_path((found.channel, turn.index))
        values[len(lines)] = found.turns[turn.index].value
        lines += turn_lines(turn, turns, width, cut=False)
    if not turns:
        lines.append(line(("no messages yet", "dim")))
    return TabContent(lines, marks, values=values)


def _metadata(target: Target, clock: Clock, width: int) -> Iterator[StyledLine]:
    found = _seen(target, writes=False)
    yield from standing_lines(found, clock.now, clock.zone, width)
    yield from lifetime_lines(found.lifetime, clock.now, clock.zone, width)
    yield line("")
    for name, value in found.moment.metadata.items():
        yield from value_lines(name, clip(value), width, None)
    yield line("")
    versions = cast("Value", dict(found.moment.body.versions))
    yield from value_lines("channel_versions", versions, width, None)


def _raw(target: Target, width: int) -> Iterator[StyledLine]:
    """Yield where the checkpoint is stored, and the first bytes of its body."""
    body = raw_bytes(target)
    key = target.reader.moment(target.checkpoint_ns, target.checkpoint_id).key
    for query in target.reader.store.sources(key):
        yield from field_lines("where", query, width, "dim")
    yield from field_lines("id", key.checkpoint_id, width, "id")
    yield from field_lines("body", size(len(body)), width)
    yield line("")
    for start in range(0, min(len(body), _RAW_BYTES), _RAW_ROW):
        part = body[start : start + _RAW_ROW]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        # Only the bytes, if there is not enough space for both.
        tail = f"  {text}" if width >= 8 + 3 * _RAW_ROW + _RAW_ROW else ""
        yield line((f"{start:06x}  ", "dim"), f"{part.hex(' '):<{3 * _RAW_ROW - 1}}", tail)
    if len(body) > _RAW_BYTES:
        yield line((f"… {size(len(body) - _RAW_BYTES)} more; `ckpt show --raw` prints all", "dim"))


def _seen(target: Target, *, writes: bool) -> CheckpointView:
    """Return a checkpoint without its values, or with them if its body is not readable."""
    try:
        return view(target, (), writes=writes)
    except Unreadable:
        return view(target, None, writes=writes)
