"""The keys of the screens: bindings, help, palette and docs are generated from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from ckpt_cli.tui.panes.threads import SIGNS as STATUS_SIGNS
from ckpt_cli.tui.tabs.content import TABS


@dataclass(frozen=True, slots=True)
class Key:
    """One key binding."""

    keys: str
    """Characters or Textual's key names, separated by commas."""
    action: str
    title: str
    help: str
    label: str = ""
    """The keys as the help writes them, if that differs."""
    footer: bool = False
    """Whether the footer shows it."""

    @property
    def shown(self) -> str:
        """The keys as the help writes them."""
        return self.label or self.keys


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys for one purpose, as the help and the docs list them."""

    heading: str
    keys: Sequence[Key]
    panes: Sequence[tuple[str, str]] = ()
    """Keys that the panes bind themselves, and what they do; listed before the others."""

    @property
    def actions(self) -> frozenset[str]:
        """What the keys do."""
        return frozenset(key.action for key in self.keys)

    @property
    def rows(self) -> Sequence[tuple[str, str]]:
        """The keys and what they do; keys with the same help share a row."""
        found: dict[str, list[str]] = {}
        for key in self.keys:
            found.setdefault(key.help, []).append(key.shown)
        return [*self.panes, *((_together(shown), what) for what, shown in found.items())]


_MOST_NAMES = 4
"""A row names at most this number of keys; more keys are a range."""


def _together(shown: Sequence[str]) -> str:
    return " ".join(shown) if len(shown) <= _MOST_NAMES else f"{shown[0]} … {shown[-1]}"


LINES: Sequence[tuple[str, str]] = (
    ("PgUp PgDn Space", "Move by a page; Ctrl-d Ctrl-u: by half a page"),
    ("g G", "Go to the first line, to the last line"),
)
"""Keys of every list."""

MOST_USED = KeyGroup(
    "Most used",
    (
        Key("<", "step(-1)", "Step back", "Go to the parent, or on along the branch"),
        Key(">", "step(1)", "Step forward", "Go to the parent, or on along the branch"),
        *(
            Key(
                str(number % 10),
                f"tab('{name}')",
                f"Tab {name.capitalize()}",
                "Show a tab by its number",
            )
            for number, name in enumerate(TABS, 1)
        ),
    ),
    (
        ("↑ ↓ j k", "Move by a line"),
        ("Enter l", "Go in: from a thread to its tree, then to the state"),
        ("Esc h", "Go back; leave a subgraph; clear a filter"),
        ("/", "Filter threads or items; elsewhere search: n, N"),
    ),
)
MOVING = KeyGroup(
    "Move",
    (
        Key("tab", "pane(1)", "Next pane", "Focus the next or previous pane", "Tab"),
        Key(
            "shift+tab", "pane(-1)", "Previous pane", "Focus the next or previous pane", "Shift-Tab"
        ),
    ),
    (
        *LINES,
        ("Enter", "On a subgraph call: show its tree"),
        ("Enter", "On folded steps: unfold them"),
        ("Enter", "On a message or value: go to its writer"),
        ("Enter", "On a finding, error or timed step: go there"),
        ("Enter", "On a memory item: go to it"),
    ),
)
STEPPING = KeyGroup(
    "Step through time",
    (
        Key("{", "sibling(-1)", "Older sibling", "Go between checkpoints with the same parent"),
        Key("}", "sibling(1)", "Newer sibling", "Go between checkpoints with the same parent"),
        Key(
            "[", "change(-1)", "Previous change", "Go to where the channel under the cursor changed"
        ),
        Key("]", "change(1)", "Next change", "Go to where the channel under the cursor changed"),
        Key("f", "follow", "Follow", "Keep the cursor on the head (toggle)"),
    ),
)
LOOKING = KeyGroup(
    "Look at a checkpoint",
    (
        Key("(", "turn(-1)", "Previous tab", "Show the previous or next tab"),
        Key(")", "turn(1)", "Next tab", "Show the previous or next tab"),
        Key(
            "d",
            "compare",
            "Diff",
            "Diff side by side with the marked one, or the parent",
            footer=True,
        ),
        Key(
            "n",
            "difference(1)",
            "Next change",
            "In State and Diff: go to the next or previous change",
        ),
        Key(
            "N",
            "difference(-1)",
            "Previous change",
            "In State and Diff: go to the next or previous change",
        ),
        Key("m", "mark", "Mark", "Mark this checkpoint as the base of diffs", footer=True),
        Key("o", "unfold", "Unfold", "Unfold or fold long runs of steps"),
        Key("E", "unfold_all", "Unfold value", "Unfold all of this value, or fold it"),
        Key("p", "pin", "Pin", "Show this channel first, at each checkpoint (toggle)"),
        Key("a", "nest", "Subgraphs", "Show or hide subgraphs inside the tree"),
        Key("v", "check", "Check", "Check every value of this thread"),
    ),
    (("→ ←", "In State: unfold or fold a value; then go in or out"),),
)
FINDING = KeyGroup(
    "Find",
    (
        Key("i", "questions", "Questions", "List unanswered questions of all threads", footer=True),
        Key("e", "errors", "Errors", "List tasks that failed, of all threads", footer=True),
        Key("S", "grep", "Search", "Search values in this thread, or in all"),
        Key("O", "operations", "Operations", "List what ckpt changed in this thread"),
        Key("M", "memory", "Memory", "Browse long-term memory"),
    ),
)
COPYING = KeyGroup(
    "Copy",
    (
        Key("y", "copy_ref", "Copy ref", "Copy THREAD@CHECKPOINT"),
        Key("w", "copy_value", "Copy value", "Copy the value or message under the cursor"),
        Key("Y", "copy_config", "Copy config", "Copy the config dict of this checkpoint"),
        Key("c", "command_line", "Command", "Show the command line for what is shown"),
    ),
)
SCREEN = KeyGroup(
    "Screen",
    (
        Key("z", "zoom", "Zoom", "Show this pane alone, or all panes again"),
        Key("-", "size(-1)", "Smaller", "Make this pane smaller or larger"),
        Key("+,=", "size(1)", "Larger", "Make this pane smaller or larger", "+"),
        Key("_", "size(0)", "Fit panes", "Fit all panes to their content"),
        Key("r", "again", "Refresh", "Read the store again now"),
        Key("T", "app.change_theme", "Theme", "Choose the colours"),
        Key("L", "app.messages", "Messages of this session", "List what this screen said"),
        Key(":", "app.command_palette", "Palette", "Find a key by name, or go to THREAD@REF"),
        Key("?", "help", "Help", "Show this help", footer=True),
        Key("q", "app.quit", "Quit", "Quit", footer=True),
    ),
    (("s", "Sort threads: newest, oldest, id, checkpoints"),),
)

READING_GROUPS: Sequence[KeyGroup] = (
    *(MOST_USED, MOVING, STEPPING, LOOKING, FINDING, COPYING, SCREEN),
)
"""The keys of the main screen that only read; the keys used most come first."""

CHANGING = KeyGroup(
    "Change, with --write",
    (
        Key(
            "B,R",
            "write('rollback')",
            "Roll back",
            "Roll the thread back to this checkpoint",
            "B R",
            footer=True,
        ),
        Key(
            "F",
            "write('fork')",
            "Fork",
            "Fork this checkpoint to a branch or a new thread",
            footer=True,
        ),
        Key("U", "write('undo')", "Undo", "Undo the last change of this thread by ckpt"),
        Key("P", "write('repair')", "Repair", "Mend the finding, or lost values of this thread"),
        Key("D", "write('delete')", "Delete", "Delete this thread, whatever its status"),
        Key("X", "write('purge')", "Purge", "Remove threads, or prune their old checkpoints"),
    ),
)
WRITING_GROUPS: Sequence[KeyGroup] = (*READING_GROUPS, CHANGING)
"""The keys of the main screen with `--write`."""

MEMORY_GROUP = KeyGroup(
    "On the screen Memory",
    (
        Key("tab,shift+tab", "pane", "Next pane", "Focus the other pane", "Tab"),
        Key("z", "zoom", "Zoom", "Show this pane alone, or both again"),
        Key(
            "y",
            "copy_command",
            "Copy command",
            "Copy the command line that prints this item",
            footer=True,
        ),
        Key("r", "again", "Refresh", "Read the memory again now"),
        Key("T", "app.change_theme", "Theme", "Choose the colours"),
        Key("L", "app.messages", "Messages of this session", "List what this screen said"),
        Key("?", "help", "Help", "Show this help", footer=True),
        Key("q", "leave", "Close", "Close this screen", footer=True),
    ),
)
MEMORY_GROUPS: Sequence[KeyGroup] = (
    KeyGroup(
        "Move",
        (),
        (
            ("↑ ↓ j k", "Move by a line"),
            *LINES,
            ("Enter l", "Go to the value of an item, from there to its thread"),
            ("Esc h", "Go back; clear a filter"),
            ("/", "Filter items; below, search: n, N"),
        ),
    ),
    MEMORY_GROUP,
)
"""The keys of the memory screen."""


def keys_of(groups: Sequence[KeyGroup]) -> Sequence[Key]:
    """Return the keys of all groups."""
    return [key for group in groups for key in group.keys]


SIGNS: Sequence[tuple[str, str]] = (
    *((sign, f"Thread with status {status}") for status, sign in STATUS_SIGNS.items() if status),
    ("◆", "Checkpoint of an input"),
    ("○", "Checkpoint of a step"),
    ("◇", "Checkpoint of a fork or of an update by hand"),
    ("●", "Head: the checkpoint that the next run starts from"),
    ("┊", "Folded steps"),
    ("╰", "Call of a subgraph"),
    ("▒", "Time in which a question waited for an answer"),
    ("·", "Time in which nothing ran"),
    ("━", "Above the tree: a step that took long"),
    ("┬ ✗ ? ✓", "Above the tree: fork, error, question, answered"),
    ("┃", "Above the tree: where the cursor is"),
    ("▸ ▾", "In State: folded value, unfolded value"),
    ("+ ~", "In State: value that the step added, changed"),
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


_MOVING: Sequence[tuple[str, str]] = (("↑ ↓ j k", "Move by a line"), *LINES)
_SEARCH = ("/", "Search; then n next, N previous")
_ENTER = ("Enter l", "Go to the checkpoint")
_HELP = Key("?", "help", "Help", "Show this help", footer=True)


def _close(keys: str = "escape,q,h", shown: str = "Esc q h") -> Key:
    return Key(keys, "dismiss(None)", "Close", "Close this screen", shown, footer=True)


PLACES_GROUPS = (KeyGroup("Questions and errors", (_HELP, _close()), (*_MOVING, _SEARCH, _ENTER)),)
"""The keys of the lists of questions and of errors."""

SEARCH_GROUPS = (
    KeyGroup(
        "Search",
        (
            Key("slash", "type", "Edit pattern", "Edit the pattern", "/", footer=True),
            Key("t", "scope", "This / all", "Search this thread, or all threads", footer=True),
            _HELP,
            _close(),
        ),
        (*_MOVING, _ENTER),
    ),
)

OPERATIONS_GROUPS = (
    KeyGroup(
        "Operations",
        (
            Key("u,U", "undo", "Undo", "Undo this operation; needs --write", "u U", footer=True),
            _HELP,
            _close(),
        ),
        (*_MOVING, _SEARCH),
    ),
)

DIFF_GROUPS = (
    KeyGroup(
        "Diff side by side",
        (
            Key("n,]", "jump(1)", "Next", "Go to the next change", "n ]", footer=True),
            Key("N,[", "jump(-1)", "Previous", "Go to the previous change", "N [", footer=True),
            _HELP,
            _close("escape,q,h,d", "Esc q h d"),
        ),
        (*_MOVING, ("/", "Search")),
    ),
)


_SKIPPED = "app.command_palette"


class _MainScreen(Protocol):
    @property
    def key_groups(self) -> Sequence[KeyGroup]: ...

    def go_to(self, text: str) -> object: ...


class _App(Protocol):
    ran_lately: list[str]


def keys_by_use(groups: Sequence[KeyGroup], lately: Sequence[str]) -> Sequence[Key]:
    """Return the keys: first those of the actions that were run lately, then those of the footer.

    The rest is in the order of the help. `lately` has the last action last.
    """
    ranks = {action: at for at, action in enumerate(reversed(lately))}
    keys = [key for key in keys_of(groups) if key.action != _SKIPPED]
    return sorted(keys, key=lambda key: (ranks.get(key.action, len(ranks)), not key.footer))


class Palette(Provider):
    """The commands of the main screen, those that were used last first."""

    async def discover(self) -> Hits:
        for key in self._keys():
            shown = Content(f"{key.title} ({key.shown})")
            yield DiscoveryHit(shown, partial(self._run, key), text=key.title, help=key.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in self._keys():
            score = matcher.match(key.title)
            if score > 0:
                shown = Content.assemble(matcher.highlight(key.title), f" ({key.shown})")
                yield Hit(score, shown, partial(self._run, key), text=key.title, help=key.help)
        # Last, because any text may be a thread id.
        yield Hit(
            0.01,
            Content(f"Go to {query}"),
            partial(self._main.go_to, query),
            text=query,
            help="A thread, or THREAD@REF",
        )

    @property
    def _main(self) -> _MainScreen:
        return cast("_MainScreen", self.screen)

    @property
    def _lately(self) -> list[str]:
        return cast("_App", self.app).ran_lately

    def _keys(self) -> Sequence[Key]:
        return keys_by_use(self._main.key_groups, self._lately)

    async def _run(self, key: Key) -> None:
        lately = self._lately
        lately[:] = [*(one for one in lately if one != key.action), key.action]
        await self.screen.run_action(key.action)
