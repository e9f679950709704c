"""Whether text is printed with colours and styles: --color, NO_COLOR and the terminal decide."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TextIO

chosen = ContextVar("chosen", default="auto")
"""What --color says in this run: auto, always or never."""


def has_color(when: str, stream: TextIO) -> bool:
    """Return whether what is written to a stream has colours and styles."""
    if when != "auto":
        return when == "always"
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
