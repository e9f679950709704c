"""The keys of the screens in one place: bindings, help and the palette are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.binding import Binding, BindingType

from ckpt_cli.tui.reads import TABS


@dataclass(frozen=True, slots=True)
class Key:
    """One key, and what it does."""

    keys: str
    """As Textual names them, separated by commas."""
    action: str
    title: str
    help: str
    shown: str
    """How the help writes the key."""
    footer: bool = False
    """Whether the foot of the screen shows it."""


LOOKING: Sequence[Key] = (
    Key("tab", "pane(1)", "Next pane", "Go to the next pane", "Tab"),
    Key("shift+tab", "pane(-1)", "Previous pane", "Go to the pane before", "Shift-Tab"),
    Key("z", "zoom", "Zoom", "This pane alone, or all again", "z"),
    *(
        Key(
            str(number),
            f"tab('{name}')",
            name.capitalize(),
            f"Show the tab {name.capitalize()}",
            str(number),
        )
        for number, name in enumerate(TABS, 1)
    ),
    Key("left_square_bracket", "turn(-1)", "Tab before", "Show the tab before", "["),
    Key("right_square_bracket", "turn(1)", "Next tab", "Show the next tab", "]"),
    Key("f", "follow", "Follow", "Keep the cursor on the head, or let it stay", "f"),
    Key("o", "unfold", "Unfold", "Every step of the tree, or folded", "o"),
    Key("a", "nest", "All namespaces", "Draw subgraph calls inside the tree", "a"),
    Key("m", "mark", "Mark", "Mark this checkpoint as one side of a diff", "m", True),
    Key("d", "compare", "Diff", "Side by side with the marked one, or its parent", "d", True),
    Key("i", "questions", "Questions", "List the questions that wait, in all threads", "i", True),
    Key("S", "grep", "Search", "Search the values of this thread, or of all", "S"),
    Key("M", "memory", "Memory", "What is remembered across threads", "M"),
    Key("y", "copy_ref", "Copy ref", "Copy THREAD@CHECKPOINT", "y"),
    Key("Y", "copy_config", "Copy config", "Copy the config dict of this checkpoint", "Y"),
    Key("c", "command_line", "Command", "The command line that prints what is shown", "c"),
    Key("r", "again", "Refresh", "Look at the store again now", "r"),
    Key("colon", "app.command_palette", "Palette", "Any of these by name; THREAD@REF", ":"),
    Key("question_mark", "help", "Help", "Show all keys", "?", True),
    Key("q", "app.quit", "Quit", "Leave", "q", True),
)

REMEMBERING: Sequence[Key] = (
    Key("tab,shift+tab", "pane", "Next pane", "Go to the other pane", "Tab"),
    Key("z", "zoom", "Zoom", "This pane alone, or both again", "z"),
    Key("y", "copy_command", "Copy command", "Copy the command that prints this item", "y", True),
    Key("r", "again", "Refresh", "Look at the memory again now", "r"),
    Key("question_mark", "help", "Help", "Show all keys", "?", True),
    Key("q", "leave", "Close", "Close", "q", True),
)
"""The keys of the Memory screen."""

MOVING: Sequence[tuple[str, str]] = (
    ("↑ ↓ j k", "Move by a line"),
    ("PgUp PgDn Space", "Move by a page"),
    ("g G", "To the first, to the last"),
    ("Enter", "On a thread: to its tree"),
    ("Enter", "On a checkpoint: to what stands in it"),
    ("Enter", "On a subgraph call: into its namespace"),
    ("Enter", "On a fold: unfold it"),
    ("Enter", "On a message or value: to the step that wrote it"),
    ("Enter", "On an item of memory: to what it says, and to its thread"),
    ("Esc", "Back, out of a namespace, out of a filter"),
    ("/", "Threads and memory: filter; elsewhere: search, then n and N"),
    ("s", "Threads: sort by newest, oldest, id, checkpoints"),
)
"""What the panes themselves do with keys."""


def bindings(keys: Sequence[Key]) -> list[BindingType]:
    """The keys as a screen takes them."""
    return [
        Binding(key.keys, key.action, key.title, show=key.footer, key_display=key.shown)
        for key in keys
    ]
