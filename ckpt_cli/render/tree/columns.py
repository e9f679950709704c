"""Put the parts of each row of a tree into columns."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ckpt_cli.core.tree.rows import Row
from ckpt_cli.render.terminal.cell_width import cell_len
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.tree.wording import cut

_ROOMY = 60
"""In fewer columns, nodes come before the number of writes and the time."""
_LEAST = 12
"""Columns that what a step changed needs at least, unless it is shorter."""
_MOST = 60
"""Columns of it that are printed at most, also if there is room for more."""


class RowDraft(NamedTuple):
    """A line before the column widths are known."""

    left: tuple[Span, ...]
    """The graph and the ref; never cut."""
    text: tuple[Span, ...] = ()
    """Cut if it does not fit."""
    marks: tuple[Span, ...] = ()
    """Shown after the text; never cut."""
    changes: str = ""
    """What the step changed, in the space that is left."""
    writes: str = ""
    time: str = ""
    """A time; a range of times also uses the column of the writes."""
    remark: bool = False
    """The line is outside the columns and may use the whole width."""
    row: Row | None = None
    """The row that the line shows; None for remarks, dates and gaps."""


def in_columns(drafts: Sequence[RowDraft], width: int, dots: str) -> Iterator[StyledLine]:
    """Yield the lines with times aligned to the end of the longest, so short trees stay narrow."""
    drafts = [
        one
        if cell_len(one.changes) <= _MOST
        else one._replace(changes=cut(one.changes, _MOST, dots))
        for one in drafts
    ]
    time_width = max((len(draft.time) for draft in drafts if draft.writes), default=0)
    rights = [
        f"{draft.writes}  {draft.time.rjust(time_width)}" if draft.writes else draft.time
        for draft in drafts
    ]
    sizes = [cells_of((*draft.left, *draft.text, *draft.marks)) for draft in drafts]
    natural = max(
        (
            size + _more(draft.changes) + _more(right)
            for draft, size, right in zip(drafts, sizes, rights, strict=True)
            if not draft.remark
        ),
        default=0,
    )
    for draft, size, right in zip(drafts, sizes, rights, strict=True):
        full = width if draft.remark else min(width, natural)
        yield _set(draft, size, right, full, dots)


def _more(text: str) -> int:
    return 2 + cell_len(text) if text else 0


def _set(draft: RowDraft, size: int, right: str, width: int, dots: str) -> StyledLine:
    room = width - _more(right)
    if size > room and width < _ROOMY:
        right, room = "", width
    spans = with_changes(draft, room, dots, size=size)
    space = width - cells_of(spans) - len(right)
    # If a long ref leaves no space, writes and time are left out.
    if not right or space < 2:
        return trimmed(spans)
    writes = right[: len(right) - len(draft.time)]
    return line(*spans, " " * space, (writes, "dim"), (draft.time, "time"))


def with_changes(
    draft: RowDraft, room: int, dots: str, *, size: int | None = None
) -> tuple[Span, ...]:
    """Return a row without its columns at the right: its text is cut to the room.

    What the step changed is added if there is space.
    """
    size = cells_of((*draft.left, *draft.text, *draft.marks)) if size is None else size
    text = draft.text
    if size > room:
        text = fitting(text, max(room - size + cells_of(text), 0), dots)
        return (*draft.left, *text, *draft.marks)
    left = room - size - 2
    changes = cut(draft.changes, left, dots) if left >= min(_LEAST, cell_len(draft.changes)) else ""
    more: tuple[Span, ...] = ((f"  {changes}", "plain"),) if changes else ()
    return (*draft.left, *text, *draft.marks, *more)


def fitting(spans: Sequence[Span], room: int, dots: str) -> tuple[Span, ...]:
    """Fit one or two texts; if both are long, each gets half of the space."""
    first = cell_len(spans[0][0]) if spans else 0
    later = cells_of(spans[1:])
    for_later = min(later, max(room - first, room // 2))
    shares = (room - for_later, for_later)
    return tuple(
        (cut(text, share, dots), style) for (text, style), share in zip(spans, shares, strict=False)
    )


def cells_of(spans: Iterable[Span]) -> int:
    return cell_len("".join(text for text, _ in spans))


def trimmed(spans: Sequence[Span]) -> StyledLine:
    kept = list(spans)
    while kept and not kept[-1][0].strip():
        kept.pop()
    if not kept:
        return StyledLine(())
    text, style = kept[-1]
    return line(*kept[:-1], (text.rstrip(), style))
