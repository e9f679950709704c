"""What `ckpt` changed in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from ckpt_cli.queries.operations import ListedOperation
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.reading.store import Opening
from ckpt_cli.render.table import age
from ckpt_cli.render.text import StyledLine, line, safe_text
from ckpt_cli.tui.keys import bindings, keys_of
from ckpt_cli.tui.list_keys import OPERATIONS_GROUPS
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.search import SearchableLines, SearchPane
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.screens.helped import HelpedScreen

_READ_ONLY = "the screen is read-only; to undo, start `ckpt tui` with --write"


class OperationsScreen(HelpedScreen[str | None]):
    """One line per operation, newest first. Returns the id of the one that is to be undone."""

    GROUPS = OPERATIONS_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(OPERATIONS_GROUPS))

    def __init__(self, opening: Opening, thread_id: str, now: datetime, *, writes: bool) -> None:
        super().__init__()
        self._operations = ThreadOperations(opening, thread_id)
        self._of, self._now, self._writes = safe_text(thread_id), now, writes
        self._found: Sequence[ListedOperation] = ()

    def compose(self) -> ComposeResult:
        self._rows = SearchableLines(id="operations")
        self._pane = SearchPane(self._rows, id="operations-pane")
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        title(self._pane, f"Operations of ckpt on {self._of}: loading")
        self._rows.focus()
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        # The log is on a disk, and may be long.
        found = await asyncio.to_thread(lambda: self._operations.newest_first)
        title(self._pane, f"Operations of ckpt on {self._of}: {len(found):,}")
        self._found = found
        self._rows.show_lines(operation_lines(found, self._now))

    def action_undo(self) -> None:
        """Choose the operation under the cursor to be undone, or say why it cannot be."""
        if not self._found:
            return
        one = self._found[self._rows.cursor]
        if one.why_not:
            self._refuse(f"cannot undo {one.operation.action} {one.op}: {one.why_not}")
        elif not self._writes:
            self._refuse(_READ_ONLY)
        else:
            self.dismiss(one.op)

    def _refuse(self, said: str) -> None:
        self.notify(safe_text(said), severity="error", markup=False)


def operation_lines(found: Sequence[ListedOperation], now: datetime) -> list[StyledLine]:
    """Return one line per operation: its age, action, id, user, reason, and what became of it."""
    if not found:
        return [line(("ckpt recorded no change of this thread", "dim"))]
    longest = max(len(one.operation.action) for one in found)
    return [_line(one, now, longest) for one in found]


def _line(one: ListedOperation, now: datetime, longest: int) -> StyledLine:
    operation = one.operation
    others = operation.number - 1
    said = [
        f"by {operation.user}" if operation.user else "",
        f"with {others:,} other threads" if others > 1 else "",
        f"undoes {operation.undoes}" if operation.undoes else "",
        _became(one),
        operation.reason or "",
        operation.ended,
    ]
    return line(
        (f"{age(operation.at, now):>5}  ", "time"),
        (f"{safe_text(operation.action):{longest}}  ", "head"),
        (operation.op, "id"),
        (f"  {safe_text('; '.join(filter(None, said)))}", "dim" if one.undone_by else "plain"),
    )


def _became(one: ListedOperation) -> str:
    if one.undone_by is not None:
        return f"undone by {one.undone_by}"
    return f"cannot be undone: {one.why_not}" if one.why_not else ""
