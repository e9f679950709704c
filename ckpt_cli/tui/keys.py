"""The keys of the screens, as tables: bindings, help, palette and docs are made from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.binding import Binding, BindingType

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


def _group(heading: str, table: str) -> KeyGroup:
    """Return the keys of a table.

    A row has the keys, the action, the title, the help, and how the help writes the keys if that
    differs. The footer shows a key if its title ends with a star. A row with two columns names keys
    that the panes bind themselves.
    """
    keys, panes = list[Key](), list[tuple[str, str]]()
    for row in filter(None, table.splitlines()):
        names, action, *rest = (cell.strip() for cell in row.split("|"))
        if not rest:
            panes.append((names, action))
            continue
        title, what, label = (*rest, "")[:3]
        is_shown = title.endswith("*")
        keys.append(Key(names, action, title.rstrip("*"), what, label, is_shown))
    return KeyGroup(heading, keys, panes)


_LINES = """
↑ ↓ j k | Move by a line
"""
_PAGES = """
PgUp PgDn Space | Move by a page; Ctrl-d Ctrl-u: by half a page
g G | Go to the first line, to the last line
"""
"""Keys of every list."""
_TABS = "".join(
    f"{number % 10} | tab('{name}') | Tab {name.capitalize()} | Show a tab by its number\n"
    for number, name in enumerate(TABS, 1)
)
_SESSION = """
T | app.change_theme | Theme | Choose the colours
L | app.messages | Messages of this session | List what this screen said
"""
_HELP = "? | help | Help* | Show this help\n"

READING_GROUPS: Sequence[KeyGroup] = (
    _group(
        "Most used",
        f"""{_LINES}
Enter l | Go in: from a thread to its tree, then to the state
Esc h | Go back; leave a subgraph; clear a filter
/ | Filter threads or items; elsewhere search: n, N
< | step(-1) | Step back | Go to the parent, or on along the branch
> | step(1) | Step forward | Go to the parent, or on along the branch
{_TABS}""",
    ),
    _group(
        "Move",
        f"""{_PAGES}
Enter | On a subgraph call: show its tree
Enter | On folded steps: unfold them
Enter | On a message or value: go to its writer
Enter | On a finding, error or timed step: go there
Enter | On a memory item: go to it
tab | pane(1) | Next pane | Focus the next or previous pane | Tab
shift+tab | pane(-1) | Previous pane | Focus the next or previous pane | Shift-Tab
""",
    ),
    _group(
        "Step through time",
        """
{ | sibling(-1) | Older sibling | Go between checkpoints with the same parent
} | sibling(1) | Newer sibling | Go between checkpoints with the same parent
[ | change(-1) | Previous change | Go to where the channel under the cursor changed
] | change(1) | Next change | Go to where the channel under the cursor changed
f | follow | Follow | Keep the cursor on the head (toggle)
A | look_back | As of | Show the store as it was at a time
""",
    ),
    _group(
        "Look at a checkpoint",
        """
→ ← | In State: unfold or fold a value; then go in or out
( | turn(-1) | Previous tab | Show the previous or next tab
) | turn(1) | Next tab | Show the previous or next tab
d | compare | Diff* | Diff side by side with the marked one, or the parent
n | difference(1) | Next change | In State and Diff: go to the next or previous change
N | difference(-1) | Previous change | In State and Diff: go to the next or previous change
m | mark | Mark* | Mark this checkpoint as the base of diffs
o | unfold | Unfold | Unfold or fold long runs of steps
E | unfold_all | Unfold value | Unfold all of this value, or fold it
p | pin | Pin | Show this channel first, at each checkpoint (toggle)
a | nest | Subgraphs | Show or hide subgraphs inside the tree
v | check | Check | Check every value of this thread
C | tab('compat') | Tab Compat | With --compat: what the new graph would do
""",
    ),
    _group(
        "Find",
        """
i | questions | Questions* | List unanswered questions of all threads
e | errors | Errors* | List tasks that failed, of all threads
S | grep | Search | Search values in this thread, or in all
O | operations | Operations | List what ckpt changed in this thread
M | memory | Memory | Browse long-term memory
""",
    ),
    _group(
        "Copy",
        """
y | copy_ref | Copy ref | Copy THREAD@CHECKPOINT
w | copy_value | Copy value | Copy the value or message under the cursor
Y | copy_config | Copy config | Copy the config dict of this checkpoint
c | command_line | Command | Show the command line for what is shown
""",
    ),
    _group(
        "Screen",
        f"""
s | Sort threads: newest, oldest, id, checkpoints
z | zoom | Zoom | Show this pane alone, or all panes again
- | size(-1) | Smaller | Make this pane smaller or larger
+,= | size(1) | Larger | Make this pane smaller or larger | +
_ | size(0) | Fit panes | Fit all panes to their content
r | again | Refresh | Read the store again now
{_SESSION}
: | app.command_palette | Palette | Find a key by name, or go to THREAD@REF
{_HELP}
q | app.quit | Quit* | Quit
""",
    ),
)
"""The keys of the main screen that only read; the keys used most come first."""

CHANGING = _group(
    "Change, with --write",
    """
B,R | write('rollback') | Roll back* | Roll the thread back to this checkpoint | B R
F | write('fork') | Fork* | Fork this checkpoint to a branch or a new thread
U | write('undo') | Undo | Undo the last change of this thread by ckpt
P | write('repair') | Repair | Mend the finding, or lost values of this thread
D | write('delete') | Delete | Delete this thread, whatever its status
X | write('purge') | Purge | Remove threads, or prune their old checkpoints
""",
)
WRITING_GROUPS: Sequence[KeyGroup] = (*READING_GROUPS, CHANGING)
"""The keys of the main screen with `--write`."""

MEMORY_GROUP = _group(
    "On the screen Memory",
    f"""
tab,shift+tab | pane | Next pane | Focus the other pane | Tab
z | zoom | Zoom | Show this pane alone, or both again
y | copy_command | Copy command* | Copy the command line that prints this item
r | again | Refresh | Read the memory again now
{_SESSION}
{_HELP}
q | leave | Close* | Close this screen
""",
)
MEMORY_GROUPS: Sequence[KeyGroup] = (
    _group(
        "Move",
        f"""{_LINES}{_PAGES}
Enter l | Go to the value of an item, from there to its thread
Esc h | Go back; clear a filter
/ | Filter items; below, search: n, N
""",
    ),
    MEMORY_GROUP,
)
"""The keys of the memory screen."""

_MOVING = _LINES + _PAGES
_SEARCH = "/ | Search; then n next, N previous\n"
_ENTER = "Enter l | Go to the checkpoint\n"
_CLOSE = "escape,q,h | dismiss(None) | Close* | Close this screen | Esc q h\n"

PLACES_GROUPS = (_group("Questions and errors", f"{_MOVING}{_SEARCH}{_ENTER}{_HELP}{_CLOSE}"),)
"""The keys of the lists of questions and of errors."""
SEARCH_GROUPS = (
    _group(
        "Search",
        f"""{_MOVING}{_ENTER}
slash | type | Edit pattern* | Edit the pattern | /
t | scope | This / all* | Search this thread, or all threads
{_HELP}{_CLOSE}""",
    ),
)
OPERATIONS_GROUPS = (
    _group(
        "Operations",
        f"""{_MOVING}{_SEARCH}
u,U | undo | Undo* | Undo this operation; needs --write | u U
{_HELP}{_CLOSE}""",
    ),
)
DIFF_GROUPS = (
    _group(
        "Diff side by side",
        f"""{_MOVING}
/ | Search
n,] | jump(1) | Next* | Go to the next change | n ]
N,[ | jump(-1) | Previous* | Go to the previous change | N [
{_HELP}
escape,q,h,d | dismiss(None) | Close* | Close this screen | Esc q h d
""",
    ),
)


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


def bindings(groups: Sequence[KeyGroup]) -> list[BindingType]:
    """Return the keys of all groups as bindings for a screen."""
    return [
        Binding(key.keys, key.action, key.title, show=key.footer, key_display=key.shown)
        for key in keys_of(groups)
    ]


_SKIPPED = "app.command_palette"


def keys_by_use(groups: Sequence[KeyGroup], lately: Sequence[str]) -> Sequence[Key]:
    """Return the keys: first those of the actions that were run lately, then those of the footer.

    The rest is in the order of the help. `lately` has the last action last.
    """
    ranks = {action: at for at, action in enumerate(reversed(lately))}
    keys = [key for key in keys_of(groups) if key.action != _SKIPPED]
    return sorted(keys, key=lambda key: (ranks.get(key.action, len(ranks)), not key.footer))
