"""The keys of the screens: bindings, help, palette and docs are generated from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.binding import Binding, BindingType

from ckpt_cli.tui.content.tabs import TABS
from ckpt_cli.tui.content.thread_list import SIGNS as STATUS_SIGNS


@dataclass(frozen=True, slots=True)
class Key:
    """One key binding."""

    keys: str
    """Textual's key names, separated by commas."""
    action: str
    title: str
    help: str
    shown: str
    """The key as the help writes it."""
    footer: bool = False
    """Whether the footer shows it."""


READING_KEYS: Sequence[Key] = (
    Key("tab", "pane(1)", "Next pane", "Focus the next pane", "Tab"),
    Key("shift+tab", "pane(-1)", "Previous pane", "Focus the previous pane", "Shift-Tab"),
    Key("z", "zoom", "Zoom", "Show this pane alone, or all panes again", "z"),
    *(
        Key(
            str(number % 10),
            f"tab('{name}')",
            name.capitalize(),
            f"Show tab {name.capitalize()}",
            str(number % 10),
        )
        for number, name in enumerate(TABS, 1)
    ),
    Key("left_square_bracket", "turn(-1)", "Previous tab", "Show the previous tab", "["),
    Key("right_square_bracket", "turn(1)", "Next tab", "Show the next tab", "]"),
    Key("v", "check", "Check", "Check every value of this thread", "v"),
    Key("f", "follow", "Follow", "Keep the cursor on the head (toggle)", "f"),
    Key("o", "unfold", "Unfold", "Unfold or fold long runs of steps", "o"),
    Key("a", "nest", "Subgraphs", "Show or hide subgraphs inside the tree", "a"),
    Key("m", "mark", "Mark", "Mark this checkpoint as the base of diffs", "m", True),
    Key("d", "compare", "Diff", "Diff side by side with the marked one, or the parent", "d", True),
    Key("i", "questions", "Questions", "List unanswered questions of all threads", "i", True),
    Key("e", "errors", "Errors", "List tasks that failed, of all threads", "e", True),
    Key("S", "grep", "Search", "Search values in this thread, or in all", "S"),
    Key("O", "operations", "Operations", "List what ckpt changed in this thread", "O"),
    Key("M", "memory", "Memory", "Browse long-term memory", "M"),
    Key("y", "copy_ref", "Copy ref", "Copy THREAD@CHECKPOINT", "y"),
    Key("Y", "copy_config", "Copy config", "Copy the config dict of this checkpoint", "Y"),
    Key("c", "command_line", "Command", "Show the command line for what is shown", "c"),
    Key("r", "again", "Refresh", "Read the store again now", "r"),
    Key("colon", "app.command_palette", "Palette", "Find a key by name, or go to THREAD@REF", ":"),
    Key("question_mark", "help", "Help", "Show this help", "?", True),
    Key("q", "app.quit", "Quit", "Quit", "q", True),
)

MEMORY_KEYS: Sequence[Key] = (
    Key("tab,shift+tab", "pane", "Next pane", "Focus the other pane", "Tab"),
    Key("z", "zoom", "Zoom", "Show this pane alone, or both again", "z"),
    Key(
        "y",
        "copy_command",
        "Copy command",
        "Copy the command line that prints this item",
        "y",
        True,
    ),
    Key("r", "again", "Refresh", "Read the memory again now", "r"),
    Key("question_mark", "help", "Help", "Show this help", "?", True),
    Key("q", "leave", "Close", "Close this screen", "q", True),
)
"""The keys of the memory screen."""

PANE_KEYS: Sequence[tuple[str, str]] = (
    ("↑ ↓ j k", "Move by a line"),
    ("PgUp PgDn Space", "Move by a page; Ctrl-d Ctrl-u: by half a page"),
    ("g G", "Go to the first line, to the last line"),
    ("Enter l", "On a thread: go to its tree"),
    ("Enter", "On a checkpoint: go to its state"),
    ("Enter", "On a subgraph call: show its tree"),
    ("Enter", "On folded steps: unfold them"),
    ("Enter", "On a message or value: go to its writer"),
    ("Enter", "On a finding: go to its checkpoint"),
    ("Enter", "On a memory item: go to its value, its thread"),
    ("Esc h", "Go back; leave a subgraph; clear a filter"),
    ("/", "Filter threads or items; elsewhere search: n, N"),
    ("s", "Sort threads: newest, oldest, id, checkpoints"),
)
"""The keys inside panes."""


SIGNS: Sequence[tuple[str, str]] = (
    *((sign, f"Thread with status {status}") for status, sign in STATUS_SIGNS.items() if status),
    ("◆", "Checkpoint of an input"),
    ("○", "Checkpoint of a step"),
    ("◇", "Checkpoint of a fork or of an update by hand"),
    ("●", "Head: the checkpoint that the next run starts from"),
    ("┊", "Folded steps"),
    ("╰", "Call of a subgraph"),
    ("!", "Checkpoint with findings"),
    ("▌", "The marked checkpoint, which diffs start from"),
)
"""What the signs before threads and checkpoints mean."""


def bindings(keys: Sequence[Key]) -> list[BindingType]:
    """Return the keys as bindings for a screen."""
    return [
        Binding(key.keys, key.action, key.title, show=key.footer, key_display=key.shown)
        for key in keys
    ]
