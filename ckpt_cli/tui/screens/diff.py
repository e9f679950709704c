"""Two checkpoints side by side, channel by channel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import ChannelChange
from ckpt_cli.core.values.clip import clip
from ckpt_cli.queries.diff import compare
from ckpt_cli.render.terminal.cell_width import fit, pad
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.side_by_side import MOST, side_by_side
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.values.block import block
from ckpt_cli.render.values.diff_header import diff_header_lines
from ckpt_cli.tui.content.checkpoint import target_of
from ckpt_cli.tui.panes.search import SearchableLines, SearchPane
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.store_worker import StoreWorker

_NARROWEST = 20


class DiffScreen(Screen[None]):
    """The diff of two checkpoints, or of one checkpoint and its parent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d", "dismiss(None)", "Close", key_display="Esc"),
    ]

    def __init__(
        self, worker: StoreWorker[Store], base: CheckpointKey | None, place: CheckpointKey
    ) -> None:
        super().__init__()
        self._worker, self._base, self._place = worker, base, place

    def compose(self) -> ComposeResult:
        self._rows = SearchableLines(id="sides")
        self._pane = SearchPane(self._rows, id="sides-pane")
        yield self._pane
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title(self._pane, "Diff: loading")
        self._rows.focus()

    def on_resize(self) -> None:
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        width = self._rows.width
        question = partial(_read, base=self._base, place=self._place, width=width)
        try:
            lines = await self._worker.ask(question)
        except CkptError as error:
            lines = [line((safe_text(error.message), "error"))]
        title(self._pane, "Diff")
        self._rows.show_lines(lines)


def _read(
    store: Store, base: CheckpointKey | None, place: CheckpointKey, width: int
) -> list[StyledLine]:
    target = target_of(store, place)
    found = compare(target, None, None)
    if base is not None:
        found = compare(target_of(store, base), target, None)
    lines = list(diff_header_lines(found))
    for name, change in found.changes.items():
        lines.append(line(""))
        lines.append(line((pad(fit(safe_text(name), width), width), "head")))
        lines += side_by_side(*_sides(change, width // 2 - 4), width)
    if not found.changes:
        lines.append(line(("no differences", "dim")))
    return lines


def _sides(change: ChannelChange, width: int) -> tuple[list[str], list[str]]:
    """Return the value before and after, as lines; no lines if there is no value."""
    before = [] if change.change == "added" else _lines(change.before, width)
    after = [] if change.change == "removed" else _lines(change.after, width)
    return before, after


def _lines(value: Value, width: int) -> list[str]:
    return list(islice(_block(value, width), MOST))


def _block(value: Value, width: int) -> Iterator[str]:
    return block(clip(value), 0, max(width, _NARROWEST))
