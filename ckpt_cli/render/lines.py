"""Lines of text with meaning instead of colour; one writer turns the meaning into colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Style: TypeAlias = Literal[
    "plain",
    "dim",
    "bold",
    "add",
    "remove",
    "change",
    "warn",
    "error",
    "head",
    "question",
    "id",
    "node",
    "time",
]
"""What a piece of text is. The text alone must say the same: colour may be off."""

Span: TypeAlias = tuple[str, Style]


@dataclass(frozen=True, slots=True)
class Line:
    """One line, in pieces; safe to print as it is."""

    spans: tuple[Span, ...]
    whole: bool = False
    """Never folded to the width of the terminal, since people copy it."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(*spans: Span | str) -> Line:
    """A line of its pieces; bare text is plain, empty pieces are left out."""
    styled: list[Span] = [(span, "plain") if isinstance(span, str) else span for span in spans]
    return Line(tuple(span for span in styled if span[0]))
