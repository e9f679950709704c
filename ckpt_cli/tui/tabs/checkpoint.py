"""The tabs about one checkpoint: state, writes, messages, metadata and raw bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import ChannelChange
from ckpt_cli.core.resume import Why
from ckpt_cli.core.values import clip, format_path, same_start
from ckpt_cli.queries.blame import blame
from ckpt_cli.queries.diff import Comparison, changed_values, compare
from ckpt_cli.queries.messages import conversation
from ckpt_cli.queries.replay import written
from ckpt_cli.queries.show import CheckpointView, raw_bytes, view
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import why_of
from ckpt_cli.render import show
from ckpt_cli.render.messages import turn_lines
from ckpt_cli.render.replay import written_lines
from ckpt_cli.render.table import size
from ckpt_cli.render.text import Style, StyledLine, Ui, cell_len, fit, line, pad, safe_text
from ckpt_cli.render.text import field as field_lines
from ckpt_cli.render.value_diff import MOST, columns, diff_text, side_by_side
from ckpt_cli.render.values import block, counted, noun_for
from ckpt_cli.tui.command_line import tab_command
from ckpt_cli.tui.keys import DIFF_GROUPS, bindings
from ckpt_cli.tui.panes.document import MOST_LINES, StateValues, TabContent, cut
from ckpt_cli.tui.panes.rows import SearchableLines, SearchPane
from ckpt_cli.tui.reading import error_lines
from ckpt_cli.tui.screens.dialogs import HelpedScreen, KeyLine
from ckpt_cli.tui.styles import as_text, title
from ckpt_cli.tui.tabs.content import CheckpointTab as TabName
from ckpt_cli.tui.tabs.content import (
    InspectorTab,
    KeptReader,
    Subject,
    TabQuestion,
    name_of,
    target_of,
)

_NARROWEST = 20
_SIGN = 2
_CHANGED = {"added", "removed", "change"}


def read_sides(
    store: Store,
    base: CheckpointKey | None,
    place: CheckpointKey,
    refs: Mapping[str, str],
    width: int,
) -> tuple[StyledLine, TabContent]:
    """Compare a checkpoint with `base`, or else with its parent, side by side.

    Returns the names of the columns, and what is below them. Raises what `compare` raises.
    """
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
    return names, TabContent(lines, changes=list(change_starts(lines)))


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


_ABOVE = 3
"""Number of lines that are shown above a change."""


class SidesRows(SearchableLines):
    """The lines of a diff, and the change that was jumped to."""

    def __init__(self) -> None:
        super().__init__(id="sides")
        self._changes: Sequence[int] = ()
        self._at: int | None = None

    def is_stop(self, index: int) -> bool:  # noqa: ARG002
        """Return False: without a cursor, keys scroll, and all tints are seen."""
        return False

    def show_sides(self, sides: TabContent) -> None:
        """Show another diff, or the same one in another width."""
        self._changes, self._at = sides.changes, None
        self.show_lines(sides.lines)

    def jump(self, way: int) -> str:
        """Go to the next or previous change from what is on the screen; return which one it is."""
        changes, seen = self._changes, self.seen
        if not changes:
            return "no differences"
        at = self._at
        if at is None or changes[at] not in seen:
            at = bisect_left(changes, seen.start) - (way > 0)
        self._at = at = min(max(at + way, 0), len(changes) - 1)
        self.scroll_to(y=max(changes[at] - _ABOVE, 0), animate=False)
        return f"change {at + 1} of {len(changes)}"


class SidesPane(SearchPane):
    """A diff below the names of its two columns."""

    rows: SidesRows

    def __init__(self) -> None:
        super().__init__(SidesRows(), id="sides-pane")
        self.names = Static(id="sides-names")

    def compose(self) -> ComposeResult:
        yield self.names
        yield from super().compose()


class DiffScreen(HelpedScreen[None]):
    """The diff of two checkpoints, or of one checkpoint and its parent."""

    GROUPS = DIFF_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(DIFF_GROUPS)

    def __init__(
        self,
        worker: StoreWorker[Store],
        base: CheckpointKey | None,
        place: CheckpointKey,
        refs: Mapping[str, str],
    ) -> None:
        super().__init__()
        self._worker, self._base, self._place, self._refs = worker, base, place, refs

    def compose(self) -> ComposeResult:
        self._pane = SidesPane()
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        title(self._pane, "Diff: loading")
        self._pane.rows.focus()

    def on_resize(self) -> None:
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        rows = self._pane.rows
        question = partial(
            read_sides, base=self._base, place=self._place, refs=self._refs, width=rows.width
        )
        try:
            names, sides = await self._worker.ask(question)
        except CkptError as error:
            title(self._pane, "Diff")
            rows.show_lines(error_lines(error, rows.width))
            return
        title(self._pane, f"Diff of {safe_text(self._place.thread_id)}")
        self._pane.names.update(as_text(names))
        rows.show_sides(sides)

    def action_jump(self, way: int) -> None:
        said = self._pane.rows.jump(way)
        title(self._pane, f"Diff of {safe_text(self._place.thread_id)}: {said}")


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
        subject, ui, kept = asked.subject, asked.ui, self._kept
        question = partial(read_document, tab=self._name, subject=subject, ui=ui, kept=kept)
        return await self._worker.ask(question)

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        return tab_command(store, self._name, subject.place, subject.base)


def read_document(
    store: Store, tab: TabName, subject: Subject, ui: Ui, kept: KeptReader
) -> TabContent:
    """Return a tab of a checkpoint; its diff is against the base, or else against its parent.

    `kept` is the reader of the call before. Raises `NotFound`, `Unreadable`, and other errors of
    the same command.
    """
    target = target_of(store, subject.place, kept)
    match tab:
        case "messages":
            return _messages(target, ui.width)
        case "diff":
            return read_diff(store, target, subject.base, subject.refs, ui.width)
        case "state":
            return _state(target, ui)
        case "writes":
            lines = _writes(target, ui, kept)
        case "metadata":
            lines = _metadata(target, ui)
        case "raw":
            lines = _raw(target, ui.width)
    return TabContent(cut(lines))


def read_origin(store: Store, place: CheckpointKey, path: str) -> tuple[CheckpointKey, str]:
    """Return the first checkpoint that had a value, and the writer of the value."""
    found = blame(target_of(store, place), path)
    who = found.node or found.by
    if found.writes:
        who += f", task {found.writes[-1].write.task_id}"
    return found.moment.key, who


def _state(target: Target, ui: Ui) -> TabContent:
    found = view(target, None, writes=False)
    is_root = found.is_head and not target.checkpoint_ns
    why = why_of(target.reader, found.moment, ui.now) if is_root else None
    heading = cut(_heading(found, why, ui))
    changed = changed_values(target, found).items()
    changes = {format_path(path): change for path, change in changed}
    state = StateValues(heading, found.state.values, found.state.rebuilt, changes)
    return TabContent(heading, state=state)


def _heading(found: CheckpointView, why: Why | None, ui: Ui) -> Iterator[StyledLine]:
    """Yield why the thread does not go on, next nodes, questions and problems."""
    width = ui.width
    yield from show.why_lines(why, width)
    yield from show.join_lines(found.joins, width)
    yield from show.step_lines(found.moment, width, live=found.is_head, resume=found.resume)
    if found.moment.body.problem is not None:
        reason = f"not readable: {found.moment.body.problem.reason}"
        yield from field_lines("problem", reason, width, "error")
    yield from show.lifetime_lines(found.lifetime, ui)
    if found.plaintext:
        yield from field_lines("warning", show.PLAINTEXT, width, "error")
    yield from show.given_lines(found, width)
    yield line("")
    if not found.state.values:
        yield line(("no values", "dim"))


def _writes(target: Target, ui: Ui, kept: KeptReader) -> Iterator[StyledLine]:
    found = _seen(target, writes=True)
    if found.writes:
        yield line(("writes stored at this checkpoint", "bold"))
        yield from show.placed_lines(found.writes, ui, dropped=found.dropped)
        yield line("")
    yield line(("writes that produced this checkpoint", "bold"))
    try:
        yield from written_lines(written(target, {}, kept=kept.replay), ui)
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


def _metadata(target: Target, ui: Ui) -> Iterator[StyledLine]:
    found = _seen(target, writes=False)
    yield from show.standing_lines(found, ui)
    yield from show.lifetime_lines(found.lifetime, ui)
    yield line("")
    for name, value in found.moment.metadata.items():
        yield from show.value_lines(name, clip(value), ui.width, None)
    yield line("")
    versions = cast("Value", dict(found.moment.body.versions))
    yield from show.value_lines("channel_versions", versions, ui.width, None)


_RAW_BYTES = 16 * 1024
_RAW_ROW = 16


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
