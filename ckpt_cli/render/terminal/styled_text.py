"""Lines of text with styles that describe meaning; one writer turns the styles into colours."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from typing import Literal, NamedTuple, TypeAlias

Style: TypeAlias = Literal[
    "plain",
    "dim",
    "bold",
    "add",
    "remove",
    "added",
    "added-part",
    "removed",
    "removed-part",
    "change",
    "warn",
    "error",
    "head",
    "question",
    "id",
    "node",
    "time",
]
"""Meaning of a piece of text. The text must be clear without it: colour may be off."""

Span: TypeAlias = tuple[str, Style]


class StyledLine(NamedTuple):
    """One line in styled pieces; safe to print."""

    spans: tuple[Span, ...]
    whole: bool = False
    """Never folded to the width of the terminal, since people copy it."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.spans)


def line(*spans: Span | str) -> StyledLine:
    """Make a line from pieces; bare strings get the style plain, empty pieces are left out."""
    styled: list[Span] = [(span, "plain") if isinstance(span, str) else span for span in spans]
    return StyledLine(tuple(span for span in styled if span[0]))
