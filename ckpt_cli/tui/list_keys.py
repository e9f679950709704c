"""The keys of the screens that list something over the main screen."""

from __future__ import annotations

from collections.abc import Sequence

from ckpt_cli.tui.keys import LINES, Key, KeyGroup

_MOVING: Sequence[tuple[str, str]] = (("↑ ↓ j k", "Move by a line"), *LINES)
_SEARCH = ("/", "Search; then n next, N previous")
_ENTER = ("Enter l", "Go to the checkpoint")
_HELP = Key("question_mark", "help", "Help", "Show this help", "?", True)


def _close(keys: str = "escape,q,h", shown: str = "Esc q h") -> Key:
    return Key(keys, "dismiss(None)", "Close", "Close this screen", shown, True)


PLACES_GROUPS = (KeyGroup("Questions and errors", (_HELP, _close()), (*_MOVING, _SEARCH, _ENTER)),)
"""The keys of the lists of questions and of errors."""

SEARCH_GROUPS = (
    KeyGroup(
        "Search",
        (
            Key("slash", "type", "Edit pattern", "Edit the pattern", "/", True),
            Key("t", "scope", "This / all", "Search this thread, or all threads", "t", True),
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
            Key("u,U", "undo", "Undo", "Undo this operation; needs --write", "u U", True),
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
            Key("n,right_square_bracket", "jump(1)", "Next", "Go to the next change", "n ]", True),
            Key(
                "N,left_square_bracket",
                "jump(-1)",
                "Previous",
                "Go to the previous change",
                "N [",
                True,
            ),
            _HELP,
            _close("escape,q,h,d", "Esc q h d"),
        ),
        (*_MOVING, ("/", "Search")),
    ),
)
