"""Boxes of text: the help, messages, command lines to copy, and a plan with its question."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from itertools import accumulate, chain, zip_longest
from time import monotonic
from typing import ClassVar, TypeAlias

from rich.style import Style as RichStyle
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import MouseDown
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, Label, Static

from ckpt_backends.errors import CkptError
from ckpt_cli.render.text import Style, StyledLine, cell_len, line, safe_text, wrap
from ckpt_cli.tui.keys import KeyGroup
from ckpt_cli.tui.panes.rows import RowList, SearchableLines
from ckpt_cli.tui.reading import ScreenMessage, error_text
from ckpt_cli.tui.styles import as_text, title


class KeyLine(Widget, can_focus=False):
    """The keys that work now. A click on one presses it.

    Textual's footer is built again for each focus, and keeps each key that it ever built (8.2).
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--description"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        color: $footer-foreground;
        background: $footer-background;
        .key-line--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        .key-line--description {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
    }
    """

    def __init__(self, hides: Collection[str] = ()) -> None:
        """`hides` are actions whose keys are not shown."""
        super().__init__()
        self._hides = hides
        self.shown: tuple[Binding, ...] = ()

    def render(self) -> Text:
        key_style = self.get_component_rich_style("key-line--key")
        description_style = self.get_component_rich_style("key-line--description")
        line = Text(no_wrap=True)
        for one in self.shown:
            pressed = RichStyle(meta={"key": one.key})
            line.append(f" {self.app.get_key_display(one)} ", key_style + pressed)
            line.append(f"{one.description} ", description_style + pressed)
        return line

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.bindings_changed)

    def on_mouse_down(self, event: MouseDown) -> None:
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now."""
        if not self.is_attached or screen is not self.screen or not screen.app.app_focus:
            return
        # Several keys may do the same: the first one is shown.
        found: dict[str, Binding] = {}
        for one in screen.active_bindings.values():
            if one.binding.show and one.binding.action not in self._hides:
                found.setdefault(one.binding.action, one.binding)
        if self.shown != (shown := tuple(found.values())):
            self.shown = shown
            self.refresh()


class HelpedScreen(Screen[ScreenResultType]):
    """A screen with a list of its keys."""

    GROUPS: ClassVar[Sequence[KeyGroup]]

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(HelpScreen(self.GROUPS))


_HELP_COLUMN = 76
"""Columns of a key and its help, beside another one."""
_TIME = 10
"""Columns of the time before a message."""


Lines: TypeAlias = Callable[[int], Sequence[StyledLine]]
"""Returns a text for a width in columns."""


class TextScreen(ModalScreen[None]):
    """A text in a box."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h,question_mark", "dismiss", "Close", key_display="Esc")
    ]

    def __init__(self, heading: str, lines: Lines) -> None:
        super().__init__()
        self._heading, self._lines = heading, lines
        self.rows = SearchableLines(id="text")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            title(box, self._heading)
            yield self.rows
        yield KeyLine()

    def on_mount(self) -> None:
        self.rows.focus()

    def on_resize(self) -> None:
        self.rows.show_lines(self._lines(self.rows.width), self.rows.cursor)


class HelpScreen(TextScreen):
    """All keys in groups, and what the signs mean; in two columns if there is space."""

    def __init__(self, groups: Sequence[KeyGroup], signs: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__("Keys and signs" if signs else "Keys", self._drawn)
        self._parts = [(group.heading, group.rows) for group in groups]
        if signs:
            self._parts.append(("Signs", signs))

    def _drawn(self, width: int) -> Sequence[StyledLine]:
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
        super().__init__("Messages of this session", self._drawn)
        self._messages, self._zone = messages, zone

    def _drawn(self, width: int) -> Sequence[StyledLine]:
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
        super().__init__(heading, self._drawn)
        self._texts = texts
        self._owners: list[str] = []
        """For each line, the text that it belongs to."""

    def _drawn(self, width: int) -> Sequence[StyledLine]:
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


class TimeScreen(ModalScreen[str | None]):
    """Asks for the time as of which the store is shown. Returns the text; None to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Show", priority=True),
        Binding("escape", "dismiss(None)", "Cancel", key_display="Esc"),
    ]

    def __init__(self, offered: str, check: Callable[[str], object]) -> None:
        """`check` raises `UsageError` for a text that is no time."""
        super().__init__()
        self._check = check
        examples = "2h, friday 14:00, 2026-04-07T10:00; empty: now"
        self._field = Input(offered, placeholder=examples, compact=True, id="time")
        self._refusal = Static(id="refusal")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box form") as box:
            title(box, "As of")
            yield Label("Show the store as it was at this time; empty: as it is now", markup=False)
            yield self._field
            yield self._refusal
        yield KeyLine()

    def action_submit(self) -> None:
        try:
            self._check(self._field.value)
        except CkptError as error:
            self._refusal.update(as_text(line((safe_text(error_text(error)), "error"))))
        else:
            self.dismiss(self._field.value)


_UNREAD = 0.3
"""Seconds in which `y` is ignored, because it was meant for the previous screen."""


class PlanScreen(ModalScreen[bool]):
    """Shows the same text as the command prints; only `y` applies the plan."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "Yes"),
        Binding("n,escape,q,h", "dismiss(False)", "No", key_display="n Esc"),
    ]

    def __init__(self, question: str, lines: Lines) -> None:
        super().__init__()
        self._question, self._lines = question, lines
        self.since = monotonic()

    def compose(self) -> ComposeResult:
        self._rows = RowList(id="plan")
        self._foot = Static(id="question")
        with Vertical(classes="box") as box:
            title(box, "Plan")
            yield self._rows
            yield self._foot
        yield KeyLine()

    def on_mount(self) -> None:
        self.since = monotonic()
        self._rows.focus()

    def on_resize(self) -> None:
        lines = self._lines(self._rows.width)
        self._rows.show_lines(lines)
        more = "  scroll down for the rest" if len(lines) > self._rows.size.height else ""
        self._foot.update(as_text(line((self._question, "question"), (more, "dim"))))

    def action_agree(self) -> None:
        if monotonic() - self.since >= _UNREAD:
            self.dismiss(True)
