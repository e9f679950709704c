"""What the screen said in this session: the last message, and all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.errors import CkptError

MOST = 200
"""Older messages are forgotten."""


@dataclass(frozen=True, slots=True)
class ScreenMessage:
    """One message of the screen."""

    at: datetime
    text: str
    is_error: bool

    @property
    def shown(self) -> str:
        """The text; errors also show without colours that they are errors."""
        return f"! {self.text}" if self.is_error else self.text


_WORDS: Sequence[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"run the command again", "try again"),
        (r"check the thread with `ckpt history`", "check its tree"),
        (r"(or )?`ckpt show THREAD@REF` says why", "the tab Raw shows its bytes"),
        (r"`ckpt diff [^`]*--writes[^`]*` shows what", "the tab Writes shows what"),
        (r"`ckpt show --where` prints (a query|queries) for .*", "the tab Raw shows where it is"),
        (r"`ckpt rollback [^`]*` goes to any checkpoint", "B on a checkpoint goes back to it"),
        (r"`ckpt rollback [^`]*`", "press B on it"),
        (r"`ckpt fork [^`]*`", "press F on it"),
        (r"`ckpt ops list[^`]*` lists", "press O to list"),
        (r"`ckpt memory list[^`]*` lists the items", "press M to list the items"),
    )
]
"""What a hint for the command line means on the screen."""
_OPTION = re.compile(r"(^|\s)--[a-z]")


def screen_hint(error: CkptError) -> str:
    """Return the hint of an error with keys for commands; empty if it is about options only."""
    hint = error.hint or ""
    for pattern, words in _WORDS:
        hint = pattern.sub(words, hint)
    return "; ".join(part for part in hint.split("; ") if part and not _OPTION.search(part))


def screen_message(error: CkptError) -> str:
    """Return the message of an error without options of a command that was not typed."""
    return error.message.replace("--raw cannot be combined with", "bytes are not shown with")


def error_text(error: CkptError) -> str:
    """Return an error and its hint as one message."""
    return "; ".join(filter(None, (screen_message(error), screen_hint(error))))
