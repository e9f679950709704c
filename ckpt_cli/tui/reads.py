"""Queries of the panes: functions for a `Lane` that return lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from itertools import islice
from typing import Literal, cast

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation.messages import Message
from ckpt_cli.core.tree import CallRow, FoldRow, Key, SectionRow, StepRow
from ckpt_cli.core.tree import Row as TreeRow
from ckpt_cli.core.values.clip import clip
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.queries.blame import blame
from ckpt_cli.queries.diff import compare
from ckpt_cli.queries.messages import conversation
from ckpt_cli.queries.show import CheckpointView, raw_bytes, view
from ckpt_cli.queries.step_writes import written
from ckpt_cli.queries.tree import Tree, read_tree
from ckpt_cli.render.messages import turn_lines
from ckpt_cli.render.state import placed_lines, standing_lines, value_lines
from ckpt_cli.render.step_writes import written_lines
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.thread import PLAINTEXT, lifetime_lines, step_lines
from ckpt_cli.render.thread import field as field_lines
from ckpt_cli.render.tree.lines import drawn_rows
from ckpt_cli.render.values.compared import compared_lines
from ckpt_cli.render.values.diff import diff_text
from ckpt_cli.render.values.one_line import summary
from ckpt_cli.threads.heads import read_heads
from ckpt_cli.threads.target import Target
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

CheckpointTab = Literal["state", "diff", "writes", "messages", "metadata", "raw"]
Tab = Literal[CheckpointTab, "memory"]
TABS: tuple[Tab, ...] = ("state", "diff", "writes", "messages", "metadata", "raw", "memory")

_MOST_LINES = 20_000
"""Maximum number of lines of one document; `ckpt show` prints more."""
_QUESTION_WIDTH = 200
_RAW_BYTES = 16 * 1024
_RAW_ROW = 16


@dataclass(frozen=True, slots=True)
class SelectedCheckpoint:
    """A checkpoint of the store, as passed between panes."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str

    @property
    def key(self) -> Key:
        return self.checkpoint_ns, self.checkpoint_id


@dataclass(frozen=True, slots=True)
class Clock:
    """The current time, and the time zone of the times shown."""

    now: datetime
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class Picture:
    """The tree of a thread or of one namespace, as lines."""

    tree: Tree
    lines: Sequence[StyledLine]
    keys: Sequence[Key | None]
    """The checkpoint of each line; None if the cursor does not stop there."""
    inner: Mapping[int, str]
    """The namespace of each line that is a subgraph call."""
    folds: frozenset[int]
    """Lines of folded steps."""
    head: Key | None
    """The head of the first tree; None if it is not shown."""

    def line_of(self, key: Key | None) -> int | None:
        """Return the line of a checkpoint; None if it is folded."""
        return next((at for at, one in enumerate(self.keys) if one == key), None)


@dataclass(frozen=True, slots=True)
class TabContent:
    """The content of a tab."""

    lines: Sequence[StyledLine]
    marks: Mapping[int, str] = field(default_factory=dict)
    """By line: the path of the value that starts there; the cursor stops there."""
    items: Mapping[int, ItemKey] = field(default_factory=dict)
    """By line: the key of the memory item that starts there."""


def read_threads(store: Store, before: Sequence[Thread] = ()) -> list[Thread]:
    """Return all threads, newest first; for unchanged ones, the same objects as in `before`."""
    known = {one.thread_id: one for one in before}
    found = []
    for one in store.threads():
        same = known.get(one.thread_id)
        found.append(same if same == one and same is not None else one)
    return found


def read_conditions(store: Store, threads: Sequence[Thread]) -> list[Sequence[Status]]:
    """Return the conditions of each thread, the worst first."""
    heads = read_heads(store, threads, TriggerInference(store))
    found = {one.key.thread_id: one.conditions for one in heads}
    return [
        (Status.EMPTY,) if one.head is None else found.get(one.thread_id, (Status.UNKNOWN,))
        for one in threads
    ]


def read_thread_tree(
    store: Store, thread_id: str, ns: str | None, *, unfold: bool, nest: bool, keep: Key | None
) -> Tree:
    """Return the tree of a thread, or of one namespace of it. Raises `NotFound`."""
    return read_tree(
        ThreadReader(store, thread_id),
        ns,
        lambda value: summary(value, _QUESTION_WIDTH),
        nest=nest,
        unfold=unfold,
        keep=keep,
    )


def draw_tree(tree: Tree, clock: Clock, width: int) -> Picture:
    """Return a tree as lines."""
    drawn = list(
        drawn_rows(tree.plan, tree.details, tree.refs, zone=clock.zone, now=clock.now, width=width)
    )
    return Picture(
        tree,
        [text for _, text in drawn],
        [_key(row) for row, _ in drawn],
        {at: row.namespaces[0] for at, (row, _) in enumerate(drawn) if isinstance(row, CallRow)},
        frozenset(at for at, (row, _) in enumerate(drawn) if isinstance(row, FoldRow)),
        next((row.key for row, _ in drawn if isinstance(row, StepRow) and row.head), None),
    )


def _key(row: TreeRow | None) -> Key | None:
    match row:
        case StepRow():
            return row.key
        case FoldRow():
            return row.ns, row.ids[-1]
        case CallRow():
            return row.heads[0]
        case SectionRow() | None:
            return None


def read_document(
    store: Store,
    tab: CheckpointTab,
    place: SelectedCheckpoint,
    base: SelectedCheckpoint | None,
    clock: Clock,
    width: int,
) -> TabContent:
    """Return a tab of a checkpoint; its diff is against `base`, or else against its parent.

    Raises `NotFound`, `Unreadable`, and other errors of the same command.
    """
    target = target_of(store, place)
    if tab == "messages":
        return _messages(target, width)
    if tab == "state":
        return _state(target, clock, width)
    lines = {
        "diff": lambda: _diff(target, None if base is None else target_of(store, base), width),
        "writes": lambda: _writes(target, clock, width),
        "metadata": lambda: _metadata(target, clock, width),
        "raw": lambda: _raw(target, width),
    }[tab]()
    return TabContent(cut(lines))


def target_of(store: Store, place: SelectedCheckpoint) -> Target:
    """Return the checkpoint for the functions of `reading`. Raises `NotFound`."""
    reader = ThreadReader(store, place.thread_id)
    return Target(reader, place.checkpoint_ns, place.checkpoint_id, chosen=True)


def read_origin(
    store: Store, place: SelectedCheckpoint, path: str
) -> tuple[SelectedCheckpoint, str]:
    """Return the first checkpoint that had a value, and the writer of the value."""
    found = blame(target_of(store, place), path)
    key = found.moment.key
    who = found.node or found.by
    if found.writes:
        who += f", task {found.writes[-1].write.task_id}"
    return SelectedCheckpoint(key.thread_id, key.checkpoint_ns, key.checkpoint_id), who


def _state(target: Target, clock: Clock, width: int) -> TabContent:
    found = view(target, None, writes=False)
    lines: list[StyledLine] = []
    marks: dict[int, str] = {}
    for one in cut(_heading(found, clock, width)):
        lines.append(one)
    for name, value in found.state.values.items():
        marks[len(lines)] = format_path((name,))
        remark = found.state.rebuilt.get(name)
        lines += cut(value_lines(name, clip(value), width, remark))
    return TabContent(lines, marks)


def _heading(found: CheckpointView, clock: Clock, width: int) -> Iterator[StyledLine]:
    """Yield next nodes, questions and problems."""
    yield from step_lines(found.moment, width, live=found.is_head)
    if found.moment.body.problem is not None:
        reason = f"not readable: {found.moment.body.problem.reason}"
        yield from field_lines("problem", reason, width, "error")
    yield from lifetime_lines(found.lifetime, clock.now, clock.zone, width)
    if found.plaintext:
        yield from field_lines("warning", PLAINTEXT, width, "error")
    yield line("")
    if not found.state.values:
        yield line(("no values", "dim"))


def _diff(target: Target, base: Target | None, width: int) -> Iterator[StyledLine]:
    found = compare(target, None, None) if base is None else compare(base, target, None)
    yield from compared_lines(found)
    yield from diff_text(found.changes, width=width)
    if not found.changes:
        yield line(("no differences", "dim"))


def _writes(target: Target, clock: Clock, width: int) -> Iterator[StyledLine]:
    found = _seen(target, writes=True)
    if found.writes:
        yield line(("writes stored at this checkpoint", "bold"))
        yield from placed_lines(found.writes, clock.zone, width)
        yield line("")
    yield line(("writes that produced this checkpoint", "bold"))
    try:
        yield from written_lines(written(target, {}), width)
    except CkptError as error:
        yield line((safe_text(error.message), "dim"))


def _messages(target: Target, width: int) -> TabContent:
    found = conversation(target, None)
    lines: list[StyledLine] = []
    marks: dict[int, str] = {}
    if found.others:
        names = safe_text(", ".join(found.others))
        lines.append(
            line((f"channel {safe_text(found.channel)}; others with messages: {names}", "dim"))
        )
    turns = [replace(one, message=_clipped(one.message)) for one in found.turns]
    for turn in turns:
        if turn.answers is not None:
            continue
        if len(lines) > _MOST_LINES:
            lines.append(line((f"… {len(turns) - turn.index} more messages", "dim")))
            break
        if marks:
            lines.append(line(""))
        marks[len(lines)] = format_path((found.channel, turn.index))
        lines += turn_lines(turn, turns, width, cut=False)
    if not turns:
        lines.append(line(("no messages yet", "dim")))
    return TabContent(lines, marks)


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


def cut(lines: Iterator[StyledLine]) -> list[StyledLine]:
    found = list(islice(lines, _MOST_LINES + 1))
    if len(found) > _MOST_LINES:
        found[-1] = line(("… more; `ckpt show` prints all", "dim"))
    return found


def _clipped(message: Message) -> Message:
    return replace(message, content=clip(message.content))


def _seen(target: Target, *, writes: bool) -> CheckpointView:
    """Return a checkpoint without its values, or with them if its body is not readable."""
    try:
        return view(target, (), writes=writes)
    except Unreadable:
        return view(target, None, writes=writes)
