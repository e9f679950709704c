"""The lines of a tab."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.tree import Key
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.content.tabs import Tab as TabName
from ckpt_cli.tui.content.tabs import TabContent
from ckpt_cli.tui.panes.search import SearchableLines

_HERE = "▸ "


class DocumentRows(SearchableLines):
    """The lines of a tab."""

    def __init__(self) -> None:
        super().__init__(id="document")
        self.document = TabContent(())
        self.signed: int | None = None
        """The line with the sign of the checkpoint under the cursor of the tree."""
        self._missed: tuple[int, str, int] | None = None
        """Where the cursor was put because a value is not there: its line, and the path and the
        line in the value to which it goes back in a checkpoint that has it."""
        self._row = (-1, 0)
        """A line that was shown above its row of the screen, for want of lines before it."""

    @property
    def path(self) -> str | None:
        """The path of the value under the cursor; None if there is none."""
        above = max((at for at in self.document.marks if at <= self.cursor), default=None)
        return None if above is None else self.document.marks[above]

    @property
    def chosen(self) -> str | None:
        """The same, also if it is not in this checkpoint and the cursor is on another for now."""
        is_missed = self._missed is not None and self._missed[0] == self.cursor
        return self._missed[1] if self._missed is not None and is_missed else self.path

    @property
    def item(self) -> ItemKey | None:
        """The memory item under the cursor; None if there is none."""
        above = max((at for at in self.document.items if at <= self.cursor), default=None)
        return None if above is None else self.document.items[above]

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor; None if there is none."""
        above = max((at for at in self.document.findings if at <= self.cursor), default=None)
        return None if above is None else self.document.findings[above]

    @property
    def place(self) -> Key | None:
        """The checkpoint that the line under the cursor is about; None if there is none."""
        above = max((at for at in self.document.places if at <= self.cursor), default=None)
        return None if above is None else self.document.places[above]

    def line_at(self, index: int, width: int) -> StyledLine:
        shown = super().line_at(index, width)
        if index != self.signed:
            return shown
        # The first part of the line is blank for it.
        return StyledLine(((_HERE, "head"), *shown.spans[1:]))

    def sign_line(self, at: int | None, *, goes: bool) -> None:
        """Set the sign before a line; with `goes`, go there."""
        self.signed = at
        if at is not None and goes:
            is_seen = at in self.seen[1:-1]
            self.cursor = at
            if not is_seen:
                # Show what is before and after it, too.
                self.scroll_to(y=max(at - self.size.height // 2, 0), animate=False)
        self.refresh()

    def next_change(self, way: int) -> str:
        """Go to the next or previous change of a diff; return which one it is."""
        changes = self.document.changes
        if not changes:
            return "no differences"
        after = (
            bisect_right(changes, self.cursor) if way > 0 else bisect_left(changes, self.cursor) - 1
        )
        at = min(max(after, 0), len(changes) - 1)
        self.cursor = changes[at]
        return f"change {at + 1} of {len(changes)}"

    def prepared(self, document: TabContent) -> TabContent:
        """Return a document as it is shown."""
        return document

    def show_document(self, document: TabContent, *, keep: bool) -> None:
        """Show a document from its start; with `keep` at the same line as before."""
        self.document = self.prepared(document)
        self._missed = self.signed = None
        below = round(self.scroll_y)
        self.show_lines(self.document.lines, self.cursor if keep else 0)
        self.scroll_to(y=below if keep else 0, animate=False)

    def show_step(
        self,
        document: TabContent,
        before: tuple[CheckpointKey, TabName] | None,
        now: tuple[CheckpointKey, TabName],
        *,
        is_last: bool,
    ) -> None:
        """Show a tab of a checkpoint after what was shown before; at its end with `is_last`."""
        place, tab = now
        if before == now and document.state is None:
            self.show_document(document, keep=True)
        elif is_last:
            self.show_document(document, keep=False)
            self.action_edge(1)
        elif before is not None and (before[0].thread_id, before[1]) == (place.thread_id, tab):
            self._show_next(document)
        else:
            self.show_document(document, keep=False)

    def _show_next(self, document: TabContent) -> None:
        """Show the same tab of another checkpoint, with the cursor on the same line of its value.

        Without that value, the cursor is on the nearest one above, until it is moved.
        """
        at = self.cursor if self.cursor in self.seen else round(self.scroll_y)
        below = self._row[1] if self._row[0] == at else at - round(self.scroll_y)
        shown = self.document
        document = self.prepared(document)
        before = [(line, path) for line, path in shown.marks.items() if line <= at]
        lines = {path: line for line, path in document.marks.items()}
        if self._missed is not None and self._missed[0] == at:
            _, wanted, inside = self._missed
        elif before:
            wanted, inside = before[-1][1], at - before[-1][0]
        else:
            wanted, inside = "", at
        if wanted in lines:
            after = min((one for one in lines.values() if one > lines[wanted]), default=None)
            last = len(document.lines) if after is None else after
            goal = min(lines[wanted] + inside, last - 1)
        else:
            near = [lines[path] for _, path in before if path in lines]
            goal = near[-1] if near else min(at, min(lines.values(), default=0))
        self.document, self.signed = document, None
        self.show_lines(document.lines, goal)
        self.scroll_to(y=max(goal - below, 0), animate=False)
        self._row = (goal if goal < below else -1, below)
        self._missed = (self.cursor, wanted, inside) if wanted and wanted not in lines else None
