"""Panes of lines with a cursor, their search and their filter; only visible lines are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input

from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.reading import error_text
from ckpt_cli.tui.styles import as_strip


class RowList(ScrollView, can_focus=True):
    """Lines with a cursor. A subclass may draw lines that it does not hold."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--found"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", "Page down", show=False),
        Binding("ctrl+u", "page(-0.5)", "Half a page up", show=False),
        Binding("ctrl+d", "page(0.5)", "Half a page down", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("enter,l", "choose", "Open", show=False),
    ]
    DEFAULT_CSS = """
    RowList { overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; }
    RowList > .rows--cursor { background: $foreground 12%; }
    RowList:focus > .rows--cursor { background: $primary 30%; }
    RowList > .rows--found { background: $secondary 30%; text-style: bold; }
    """

    cursor: reactive[int] = reactive(0, repaint=False)
    _width = _height = 0

    class Moved(Message):
        """The cursor moved, or the line under it changed."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> RowList:
            return self.rows

    class Chosen(Moved):
        """The line under the cursor was chosen."""

    class Reshaped(Moved):
        """The width of the pane changed."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines: Sequence[StyledLine] = ()

    def count(self) -> int:
        """Return the number of lines."""
        return len(self.lines)

    def line_at(self, index: int, width: int) -> StyledLine:  # noqa: ARG002
        """Return a line of at most `width` columns."""
        return self.lines[index]

    def show_lines(self, lines: Sequence[StyledLine], cursor: int = 0) -> None:
        """Show other lines."""
        self.lines = lines
        self.resize(cursor)

    @property
    def width(self) -> int:
        """The width of a line in columns."""
        return self.scrollable_content_region.width

    @property
    def seen(self) -> range:
        """The lines that are visible now."""
        top = round(self.scroll_y)
        return range(top, top + self.size.height)

    def is_stop(self, index: int) -> bool:  # noqa: ARG002
        """Return whether the cursor stops at a line."""
        return True

    def is_found(self, index: int) -> bool:  # noqa: ARG002
        """Return whether a search matches a line."""
        return False

    def resize(self, cursor: int) -> None:
        """Show other lines; the cursor keeps its position on the screen."""
        below = self.cursor - round(self.scroll_y)
        self.virtual_size = Size(self.size.width, self.count())
        self.set_reactive(RowList.cursor, self._near(cursor))
        self.scroll_to(y=max(self.cursor - below, 0), animate=False)
        self._show_cursor()
        self.refresh()
        # Posted later and from this pane: a message does not bubble past its sender.
        self.call_next(self._say_moved)

    def validate_cursor(self, cursor: int) -> int:
        return self._near(cursor, 1 if cursor >= self.cursor else -1)

    def watch_cursor(self, before: int, after: int) -> None:
        self.refresh_line(before)
        self.refresh_line(after)
        self._show_cursor()
        self.call_next(self._say_moved)

    def _say_moved(self) -> None:
        self.post_message(self.Moved(self))

    def render_line(self, y: int) -> Strip:
        index = round(self.scroll_y) + y
        width = self.width
        base = plain = self.rich_style
        if index >= self.count():
            return Strip.blank(width, base)
        if index == self.cursor and self.is_stop(index):
            base += self._mark("rows--cursor")
        elif self.is_found(index):
            base += self._mark("rows--found")
        # A tint would hide the cursor or the match.
        strip = as_strip(self.line_at(index, width), base, is_tinted=base == plain)
        if strip.cell_length > width:
            # Show that the line is cut.
            strip = Strip([*strip.crop(0, width - 1), Segment("…", base)])
        return strip.crop_extend(0, width, base).apply_offsets(0, index)

    def _mark(self, component: str) -> RichStyle:
        """Return the style of the cursor or of a match: little colour, so that red stays red."""
        styles, below = self.get_component_styles(component), self.background_colors[1]
        if below.ansi is not None:
            # The colours of the terminal are not known, and cannot be mixed.
            has_focus = component == "rows--cursor" and self.has_focus
            return RichStyle(reverse=has_focus, underline=not has_focus)
        return styles.text_style + RichStyle(bgcolor=(below + styles.background).rich_color)

    def action_move(self, by: int) -> None:
        if self._has_cursor():
            self.cursor += by
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, pages: float) -> None:
        self.action_move(round(pages * max(self.size.height - 1, 2)))

    def action_edge(self, end: int) -> None:
        if self._has_cursor():
            self.cursor = self.count() - 1 if end else 0
        else:
            self.scroll_to(y=self.count() if end else 0, animate=False)

    def action_choose(self) -> None:
        if self.count():
            self.post_message(self.Chosen(self))

    def on_resize(self, event: Resize) -> None:
        if event.size.width != self._width:
            self._width = event.size.width
            self.post_message(self.Reshaped(self))
        if event.size.height < self._height and self._has_cursor():
            self._show_cursor()
        self._height = event.size.height

    def on_click(self, event: Click) -> None:
        index = round(self.scroll_y) + event.y
        if 0 <= index < self.count() and self.is_stop(index):
            again = index == self.cursor and event.chain > 1
            self.cursor = index
            if again:
                self.action_choose()

    def _has_cursor(self) -> bool:
        """Return whether there is a cursor; a text without stops has none."""
        return self.cursor < self.count() and self.is_stop(self.cursor)

    def _near(self, cursor: int, way: int = 1) -> int:
        """Return the nearest line where the cursor stops, searching first in one direction."""
        count = self.count()
        start = min(max(cursor, 0), max(count - 1, 0))
        last = count if way > 0 else -1
        ahead = (at for at in range(start, last, way) if self.is_stop(at))
        behind = (at for at in range(start, -1 if way > 0 else count, -way) if self.is_stop(at))
        return next(ahead, next(behind, start))

    def _show_cursor(self) -> None:
        # The lines above the first stop are a heading: show them too.
        top = 0 if self._near(0) == self.cursor else self.cursor
        region = Region(0, top, 1, self.cursor - top + 1)
        self.scroll_to_region(region, animate=False, force=True)


class Search(Input):
    """The field at the bottom of a pane for its filter or search."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Clear", show=False)]

    class Left(Message):
        """Escape was pressed: clear the field."""

        def __init__(self, search: Search) -> None:
            super().__init__()
            self.search = search

        @property
        def control(self) -> Search:
            return self.search

    def action_leave(self) -> None:
        self.post_message(self.Left(self))


class SearchableLines(RowList):
    """Lines that can be searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next(1)", "Next", show=False),
        Binding("N", "next(-1)", "Previous", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.wanted = ""
        self.here = -1
        """Line of the last match."""

    def look_for(self, text: str) -> None:
        """Mark the lines that contain a text, and go to the first one from the cursor."""
        self.wanted = text.casefold()
        self.here = self.cursor - 1
        self.refresh()
        if self.wanted:
            self.action_next(1)

    def is_found(self, index: int) -> bool:
        return bool(self.wanted) and self.wanted in self.lines[index].text.casefold()

    def action_next(self, way: int) -> None:
        count = len(self.lines)
        if not self.wanted:
            # The screen may have another meaning for the key.
            raise SkipAction
        if not count:
            return
        ways = (range(1, count + 1), range(-1, -count - 1, -1))[way < 0]
        hits = ((self.here + by) % count for by in ways)
        at = next((one for one in hits if self.is_found(one)), None)
        if at is None:
            self.app.notify(f"no match for '{self.wanted}'", severity="warning", markup=False)
            return
        self.here = at
        if self.is_stop(at):
            self.cursor = at
        else:
            self.scroll_to(y=max(at - self.size.height // 2, 0), animate=False)


class FieldPane(Vertical):
    """A pane of lines with a field below them that is hidden until it is needed."""

    def __init__(self, rows: RowList, search: Search, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.rows = rows
        self.search = search

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self.search

    def on_mount(self) -> None:
        self.search.display = False

    def action_search(self) -> None:
        self.search.display = True
        self.search.focus()


class SearchPane(FieldPane):
    """A pane of lines with a search."""

    rows: SearchableLines

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Search", key_display="/")]

    def __init__(self, rows: SearchableLines, *, id: str) -> None:  # noqa: A002
        search = Search(placeholder="text; then n next, N previous", id=f"{id}-search")
        super().__init__(rows, search, id=id)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.search.display = False
        self.rows.focus()
        self.rows.look_for(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_search_left(self, event: Search.Left) -> None:
        event.stop()
        self.search.value = ""
        self.search.display = False
        self.rows.look_for("")
        self.rows.focus()


class FilterPane(FieldPane):
    """A pane of lines with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "search", "Filter", key_display="/")]

    class Narrowed(Message):
        """The filter or the order was changed."""

    def __init__(
        self,
        rows: RowList,
        hint: str,
        narrow: Callable[[str], None],
        *,
        id: str,  # noqa: A002
    ) -> None:
        """`narrow` applies a filter, and raises `UsageError` if it is invalid."""
        super().__init__(rows, Search(placeholder=hint, id="filter"), id=id)
        self._narrow = narrow

    def narrow(self, text: str) -> None:
        """Apply a filter. Raises `UsageError` if it is invalid."""
        self._narrow(text)
        self.post_message(self.Narrowed())

    def action_clear(self) -> None:
        self.search.value = ""
        self.search.display = False
        self.narrow("")
        self.rows.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        try:
            self.narrow(event.value)
        except UsageError:
            # A status may be only half typed; Enter shows the error.
            return

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.narrow(event.value)
        except UsageError as error:
            if isinstance(error, ParseError) and error.text == event.value:
                self.search.cursor_position = error.position
            self.app.notify(error_text(error), severity="error", markup=False)
            return
        self.search.display = bool(event.value)
        self.rows.focus()

    def on_search_left(self, event: Search.Left) -> None:
        event.stop()
        self.action_clear()
