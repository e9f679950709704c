"""Lines of a label and its text."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_cli.render.terminal.cell_width import longest_part, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line

_LABEL = 9
"""Width of a label."""
_BELOW = 2


def command_field(name: str, command: str) -> StyledLine:
    """Return a label and a command, which is never wrapped."""
    return StyledLine(((f"{name:<{_LABEL}}", "dim"), (safe_text(command), "plain")), whole=True)


def field(name: str, text: str, width: int, style: Style = "plain") -> Iterator[StyledLine]:
    """Yield a label and its text, wrapped; below the label if an id would be broken next to it."""
    text, label = safe_text(text), f"{name:<{_LABEL}}"
    if name and width - _LABEL < longest_part(text) <= width - _BELOW:
        yield line((name, "dim"))
        label = " " * _BELOW
    for part in wrap(text, width - len(label)):
        yield line((label, "dim"), (part, style))
        label = " " * len(label)
