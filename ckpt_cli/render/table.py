"""Records as a table for people, and as TSV for scripts.

A table is laid out here and not by rich, whose tables hold every row and cut ids in a narrow
terminal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from ckpt_cli.render.cells import cell_len, fit
from ckpt_cli.render.lines import Line, Style
from ckpt_cli.render.text import safe_text

Record = Mapping[str, Any]

_WIDTHS_FROM = 1000
"""Rows whose cells decide a table's column widths; later rows may be wider."""
_NARROWEST = 8
"""A column that may be cut keeps so many cells."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table or of TSV."""

    header: str
    key: str
    """Key of the record; TSV prints its value as JSON has it."""
    show: Callable[[Any], str] = str
    """The value as a person reads it in a table."""
    style: Style = "plain"
    right: bool = False
    cut: bool = False
    """Whether the table may shorten it to fit the terminal. Ids are never cut."""
    table: bool = True
    """Whether a table shows it; TSV has all columns."""


def tsv_lines(rows: Iterable[Record], columns: Sequence[Column]) -> Iterator[str]:
    """A header line and a line a row; tab, newline and backslash are escaped."""
    lines = ("\t".join(_tsv_cell(row.get(column.key)) for column in columns) for row in rows)
    # An answer that fails at its first row prints no header.
    first = list(islice(lines, 1))
    yield "\t".join(column.key for column in columns)
    yield from chain(first, lines)


def _tsv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | dict | list):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return safe_text(str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n"))


def table_lines(rows: Iterable[Record], columns: Sequence[Column], width: int) -> Iterator[Line]:
    """A header and a line a row, columns aligned, at most `width` cells where that is possible."""
    columns = [column for column in columns if column.table]
    cells = ([_cell(row, column) for column in columns] for row in rows)
    first = list(islice(cells, _WIDTHS_FROM))
    if not first:
        return
    headers = [column.header for column in columns]
    widths = _widths([headers, *first], columns, width)
    yield _line(headers, ["bold"] * len(columns), columns, widths)
    styles = [column.style for column in columns]
    for row in chain(first, cells):
        yield _line(row, styles, columns, widths)


def _cell(row: Record, column: Column) -> str:
    value = row.get(column.key)
    return "" if value is None else safe_text(column.show(value))


def _widths(rows: list[list[str]], columns: Sequence[Column], width: int) -> list[int]:
    """Each column's width: its widest cell; if that is too much, the cuttable ones give way."""
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(columns))]
    over = sum(widths) + 2 * (len(columns) - 1) - width
    for i, column in sorted(enumerate(columns), key=lambda pair: -widths[pair[0]]):
        if over > 0 and column.cut:
            smaller = min(widths[i], max(_NARROWEST, widths[i] - over))
            over -= widths[i] - smaller
            widths[i] = smaller
    return widths


def _line(
    cells: list[str], styles: Sequence[Style], columns: Sequence[Column], widths: list[int]
) -> Line:
    spans: list[tuple[str, Style]] = []
    last = len(cells) - 1
    for i, (cell, style, column, width) in enumerate(
        zip(cells, styles, columns, widths, strict=True)
    ):
        text = fit(cell, width) if column.cut else cell
        fill = " " * (width - cell_len(text))
        if column.right:
            text = fill + text
        elif i < last:
            text += fill
        spans.append((text, style))
        if i < last:
            spans.append(("  ", "plain"))
    return Line(tuple(spans))
