"""Print a whole memory on one page: the text of each item, below its namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from ckpt_backends.codec.values import Value
from ckpt_cli.core.memory.item_filter import format_namespace
from ckpt_cli.queries.memory import Read
from ckpt_cli.render.terminal.cell_width import MIN_WIDTH, cell_len, pad, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line
from ckpt_cli.render.values.one_line import summary

_SAYS = ("content", "summary")
"""Keys of the text in a fact or a section."""
_GAP = 2
_ALIGNED = 200
"""Maximum number of items of one namespace that are aligned with each other."""
_SHORT = 1000
"""Maximum number of characters of a value without a text."""
_STYLES: Sequence[Style] = ("head", "plain", "plain", "id")


def full_text_lines(items: Iterable[Read], width: int) -> Iterator[StyledLine]:
    """Yield items by namespace in columns, with wrapped text.

    Leaves out empty items, such as sections of DeerFlow that are not filled yet.
    """
    between = False
    for namespace, some in groupby(items, key=lambda one: one.item.key.namespace):
        speaking = ((_cells(one), said) for one in some if (said := item_text(one.value)))
        first = True
        while rows := list(islice(speaking, _ALIGNED)):
            if first and between:
                yield line("")
            if first:
                yield line((f"{safe_text(format_namespace(namespace))}/", "node"))
            first, between = False, True
            yield from _rows(rows, width)


def _rows(rows: Sequence[tuple[Sequence[str], str]], width: int) -> Iterator[StyledLine]:
    widths = [
        max(map(cell_len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)
    ]
    room = max(width - sum(one + _GAP for one in widths if one) - _GAP, MIN_WIDTH)
    for cells, said in rows:
        spans: list[Span] = [(" " * _GAP, "plain")]
        for text, size, style in zip(cells, widths, _STYLES, strict=True):
            if size:
                spans.append((pad(text, size + _GAP), style))
        indent = " " * sum(cell_len(text) for text, _ in spans)
        parts = (part for one in said.split("\n") for part in wrap(one, room))
        for number, part in enumerate(parts):
            yield line(*spans, part) if number == 0 else line(indent, part)


def _cells(one: Read) -> tuple[str, str, str, str]:
    """Return key, category, confidence and source, escaped; empty if there is none."""
    item = one.item
    source = item.source
    return (
        safe_text(item.key.key),
        safe_text(item.category or ""),
        "" if item.confidence is None else f"{item.confidence:.2f}",
        "" if source is None else safe_text(source.thread_id or source.kind),
    )


def item_text(value: Value) -> str:
    """Return the text of an item, escaped, or else its value on one line."""
    if isinstance(value, dict):
        for name in _SAYS:
            if isinstance(words := value.get(name), str):
                return safe_text(words.strip(), newlines=True)
    return summary(value, _SHORT)
