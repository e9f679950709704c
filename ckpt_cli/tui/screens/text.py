"""Boxes of text: the help, messages, and command lines to copy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from itertools import accumulate, chain, zip_longest
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ckpt_cli.render.text import Style, StyledLine, cell_len, line, safe_text, wrap
from ckpt_cli.tui.keys import KeyGroup
from ckpt_cli.tui.messages import ScreenMessage
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.search import SearchableLines
from ckpt_cli.tui.panes.styles import title

_HELP_COLUMN = 76
"""Columns of a key and its help, beside another one."""
_TIME = 10
"""Columns of the time before a message."""


class TextScreen(ModalScreen[None]):
    """Lines in a box."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h,question_mark", "dismiss", "Close", key_display="Esc"),
    ]

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._heading = heading
        self.rows = SearchableLines(id="text")

    def lines(self, width: int) -> Sequence[StyledLine]:
        """Return the text for a width in columns."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            title(box, self._heading)
            yield self.rows
        yield KeyLine()

    def on_mount(self) -> None:
        self.rows.focus()

    def on_resize(self) -> None:
        self.rows.show_lines(self.lines(self.rows.width), self.rows.cursor)


class HelpScreen(TextScreen):
    """All keys in groups, and what the signs mean; in two columns if there is space."""

    def __init__(self, groups: Sequence[KeyGroup], signs: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__("Keys and signs" if signs else "Keys")
        self._parts = [(group.heading, group.rows) for group in groups]
        if signs:
            self._parts.append(("Signs", signs))

    def lines(self, width: int) -> Sequence[StyledLine]:
        parts = [_part_lines(heading, rows) for heading, rows in self._parts]
        if width < 2 * _HELP_COLUMN:
            return list(chain.from_iterable(parts))
        half = sum(map(len, parts)) / 2
        ends = accumulate(map(len, parts))
        split = min(enumerate(ends, 1), key=lambda end: abs(end[1] - half))[0]
        left, right = (list(chain.from_iterable(some)) for some in (parts[:split], parts[split:]))
        return [_beside(*pair) for pair in zip_longest(left, right, fillvalue=line(""))]


def _part_lines(heading: str, rows: Sequence[tuple[str, str]]) -> list[StyledLine]:
    named = (line((f"{name:<16} ", "head"), text) for name, text in rows)
    return [line((heading, "bold")), *named, line("")]


def _beside(left: StyledLine, right: StyledLine) -> StyledLine:
    return StyledLine(
        (*left.spans, (" " * (_HELP_COLUMN - cell_len(left.text)), "plain"), *right.spans)
    )


class MessagesScreen(TextScreen):
    """What the screen said in this session, the newest first."""

    def __init__(self, messages: Sequence[ScreenMessage], zone: tzinfo) -> None:
        super().__init__("Messages of this session")
        self._messages, self._zone = messages, zone

    def lines(self, width: int) -> Sequence[StyledLine]:
        found: list[StyledLine] = []
        for one in reversed(self._messages):
            first, *rest = wrap(one.shown, max(width - _TIME, 1))
            style: Style = "error" if one.is_error else "plain"
            at = one.at.astimezone(self._zone)
            found.append(line((f"{at:%H:%M:%S}  ", "time"), (first, style)))
            found += [line((" " * _TIME + part, style)) for part in rest]
        return found or [line(("no messages yet", "dim"))]


class CopyScreen(TextScreen):
    """Texts; `y` copies the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "copy", "Copy")]

    def __init__(self, heading: str, texts: Sequence[str]) -> None:
        super().__init__(heading)
        self._texts = texts
        self._owners: list[str] = []
        """For each line, the text that it belongs to."""

    def lines(self, width: int) -> Sequence[StyledLine]:
        found: list[StyledLine] = []
        self._owners = []
        for text in self._texts:
            pieces = [line(piece) for piece in wrap(safe_text(text), width)]
            found += [*pieces, line("")]
            self._owners += [text] * (len(pieces) + 1)
        return found

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self._owners[self.rows.cursor])
        self.notify("copied", markup=False)
