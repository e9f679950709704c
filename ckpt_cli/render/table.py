"""Tables, and numbers with units."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.model import TICKS_TO_1970, ticks_of
from ckpt_cli.render.text import (
    Span,
    Style,
    StyledLine,
    Ui,
    cell_len,
    fit,
    line,
    safe_text,
    visible_id,
    wrap,
)

_AGES = ((365 * 86400, "y"), (30 * 86400, "mo"), (7 * 86400, "w"), (86400, "d"), (3600, "h"))


def size(n: int) -> str:
    """Return bytes in IEC units: `512 B`, `1.2 KiB`, `34 MiB`."""
    if n < 1024:
        return f"{n} B"
    value, units = n / 1024, ["TiB", "GiB", "MiB", "KiB"]
    # A number that rounds up to 1024 is shown in the next unit.
    while value >= 1023.5 and len(units) > 1:
        value /= 1024
        units.pop()
    unit = units[-1]
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def when(moment: datetime, now: datetime, zone: tzinfo) -> str:
    """Return a time in a zone, with the year if it is not the current one."""
    moment, now = moment.astimezone(zone), now.astimezone(zone)
    year = "" if moment.year == now.year else f" {moment.year}"
    return f"{moment:%b} {moment.day:2}{year} {moment:%H:%M:%S}"


def age(moment: datetime, now: datetime) -> str:
    """Return the time since a moment in one unit, rounded down: `45s`, `3h`; `in 5m` if it is
    future.
    """
    seconds = int((now - moment).total_seconds())
    if seconds < 0:
        return f"in {span(-seconds)}"
    return span(seconds)


def duration(seconds: float) -> str:
    """Return a duration in one or two units: `85ms`, `1.2s`, `38s`, `3m 05s`, `4d 03h`."""
    if seconds < 0.00995:
        return f"{seconds * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def thousands(n: int) -> str:
    """Return a number in at most four characters: `842`, `1.2k`, `34k`, `5.6M`."""
    value, units = float(n), ["", "k", "M", "G"]
    # A number that rounds up to 1000 is shown in the next unit.
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.1f}{units[0]}" if units[0] and value < 9.95 else f"{value:.0f}{units[0]}"


def step_number(step: int | None) -> str:
    """Return the step of a checkpoint; `?` if its layout stores none."""
    return "?" if step is None else str(step)


def step_words(step: int | None, source: str | None) -> str:
    """Return step and source, such as `3 loop`; one `?` if neither is stored."""
    if step is None and source is None:
        return "?"
    return f"{step_number(step)} {source or '?'}"


def step_at(step: int | None, source: str | None, at: datetime | None, ui: Ui) -> str:
    """Return the same with the time, if it is known, and its age."""
    text = step_words(step, source)
    return text if at is None else f"{text}  {when(at, ui.now, ui.zone)} ({age(at, ui.now)} ago)"


def iso(moment: datetime) -> str:
    """Return a time in UTC as ISO 8601 with microseconds, for JSON."""
    if moment.tzinfo is not UTC:  # times from ids are in UTC already
        moment = moment.astimezone(UTC)
    # `isoformat` of a time with a zone takes twice as long.
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % (  # noqa: UP031
        *(moment.year, moment.month, moment.day),
        *(moment.hour, moment.minute, moment.second, moment.microsecond),
    )


def optional_iso(moment: datetime | None) -> str | None:
    """Return the same; None for an unknown time."""
    return None if moment is None else iso(moment)


def iso_of(checkpoint_id: str) -> str | None:
    """Return the time in a checkpoint's id in the same form, or None if it contains none.

    Each row of a list has two times: without a `datetime`, they take half the time.
    """
    ticks = ticks_of(checkpoint_id)
    if ticks is None:
        return None
    minutes, ticks = divmod(ticks - TICKS_TO_1970, 600_000_000)
    days, minutes = divmod(minutes, 24 * 60)
    digits = str(1_000_000_000 + ticks)  # after the first, two of seconds and seven of a fraction
    return f"{_day(days)}T{_minute(minutes)}:{digits[1:3]}.{digits[3:9]}Z"


def values_record(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the values of channels in JSON form."""
    return {
        # Most are versions, which are such texts.
        name: value if type(value) is str and value.isascii() else to_json(value)
        for name, value in values.items()
    }


@lru_cache(1000)
def _day(days: int) -> str:
    """Return a day by its number since 1970, as ISO 8601."""
    return (date(1970, 1, 1) + timedelta(days)).isoformat()


@lru_cache(24 * 60)
def _minute(minutes: int) -> str:
    """Return a minute of a day, such as `09:05`."""
    return f"{minutes // 60:02}:{minutes % 60:02}"


def span(seconds: int) -> str:
    for length, unit in (*_AGES, (60, "m")):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


# Print records as a table for people, and as TSV for scripts.
#
# Tables do not use rich, which keeps every row in memory and cuts ids in a narrow terminal.


Record = Mapping[str, Any]

_WIDTHS_FROM = 200
"""Number of rows that decide the column widths; later rows may be wider."""
_GAP = 2
_MINOR = 5
"""Columns with at least this `drop` are left out for the `room` of others."""


class Timed(NamedTuple):
    """How a table shows the time of a record."""

    text: Callable[[datetime, Ui], str]


AGO = Timed(lambda moment, ui: f"{age(moment, ui.now)} ago")
"""`3h ago`."""
AGE = Timed(lambda moment, ui: age(moment, ui.now))
"""`3h`, or `in 3h` for the future."""
AT = Timed(lambda moment, ui: when(moment, ui.now, ui.zone))
"""`Apr  7 10:00:01`."""


class Column(NamedTuple):
    """One column of a table or of TSV."""

    header: str
    key: str
    """Key in the record; TSV prints its JSON value."""
    show: Callable[[Any], str] | Timed = str
    """Formats the value for a table."""
    empty: str = ""
    """What a table shows if the record has no value."""
    style: Style | Callable[[Any], Style] = "plain"
    """One style for all rows, or a function of the value."""
    right: bool = False
    cut: bool = False
    """Whether a table may shorten it. Ids are never cut."""
    least: int = 16
    """A column that is cut keeps this width; others are left out for it."""
    room: int = 0
    """Width for which columns with a high `drop` are left out, and other columns are cut first."""
    table: bool = True
    """Whether a table shows it; TSV always has all columns."""
    drop: int = 0
    """Columns above 0 are left out if all cells are empty or the terminal is too narrow, the
    highest number first.
    """
    combine: Callable[[Record, Collection[str]], Span] | None = None
    """Makes the cell of a table from several keys of the record, and from the keys of the columns
    that are shown. TSV leaves such a column out.
    """


THREAD = Column("THREAD", "thread_id", visible_id, style="head")


def plain_columns(*keys: str) -> list[Column]:
    """Return columns of TSV, each with its key as the header."""
    return [Column(key.upper(), key) for key in keys]


def tsv_lines(rows: Iterable[Record], columns: Sequence[Column]) -> Iterator[str]:
    """Yield a header line and one line per row; tab, newline and backslash are escaped."""
    keys = [column.key for column in columns if column.combine is None]
    lines = (_tsv_line(map(row.get, keys)) for row in rows)
    # If the first row raises an error, no header is printed.
    first = list(islice(lines, 1))
    yield "\t".join(keys)
    yield from chain(first, lines)


def _tsv_line(values: Iterable[Any]) -> str:
    cells = [value if type(value) is str else _tsv_text(value) for value in values]
    # Almost all lines are plain, which one look at all cells together shows.
    return "\t".join(cells if _is_plain("".join(cells)) else map(_escaped, cells))


def _tsv_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _is_plain(text: str) -> bool:
    return "\\" not in text and text.isascii() and text.isprintable()


def _escaped(cell: str) -> str:
    return safe_text(cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n"))


def table_lines(rows: Iterable[Record], columns: Sequence[Column], ui: Ui) -> Iterator[StyledLine]:
    """Yield a header and one line per row, with aligned columns, within the width.

    Less important columns are dropped if the terminal is too narrow. If the rest is still too wide,
    each row becomes a block with a line per column; so does a later row that is too wide.
    """
    stream = iter(rows)
    first = list(islice(stream, _WIDTHS_FROM))
    if not first:
        return
    columns = [column for column in columns if column.table]
    width = ui.width
    shown = _fitting(first, columns, ui)
    headers: list[Span] = [(column.header, "bold") for column in shown]
    widths = _widths([headers, *(_cells(row, shown, ui) for row in first)], shown, width)
    if _total(widths) > width:
        for number, row in enumerate(chain(first, stream)):
            yield from _block(row, columns, ui, apart=number > 0)
        return
    yield _line(headers, shown, widths)
    for row in chain(first, stream):
        cells = _cells(row, shown, ui)
        if _total(_widened(cells, shown, widths)) > width:
            yield from _block(row, columns, ui, apart=False)
        else:
            yield _line(cells, shown, widths)


def _cells(row: Record, shown: Sequence[Column], ui: Ui) -> list[Span]:
    keys = {column.key for column in shown}
    return [_cell(row, column, keys, ui) for column in shown]


def _cell(row: Record, column: Column, shown: Collection[str], ui: Ui) -> Span:
    if column.combine is not None:
        text, combined_style = column.combine(row, shown)
        return safe_text(text), combined_style
    value = row.get(column.key)
    if value is None:
        return column.empty, "plain"
    style = column.style(value) if callable(column.style) else column.style
    if isinstance(column.show, Timed):
        try:
            return column.show.text(datetime.fromisoformat(value), ui), style
        except ValueError:  # DuckDB has times that Python has not, such as infinity.
            return safe_text(value), style
    return safe_text(column.show(value)), style


def _fitting(rows: Sequence[Record], columns: list[Column], ui: Ui) -> list[Column]:
    """Return the columns without those that are empty or do not fit."""
    needs = {}
    keys = {column.key for column in columns}
    for column in columns:
        longest = max(cell_len(_cell(row, column, keys, ui)[0]) for row in rows)
        if longest or not column.drop:
            needs[column] = max(longest, cell_len(column.header))
    for column in sorted(needs, key=lambda column: -column.drop):
        kept = {one: max(one.least, one.room if column.drop >= _MINOR else 0) for one in needs}
        least = [min(need, kept[one]) if one.cut else need for one, need in needs.items()]
        if column.drop and _total(least) > ui.width:
            del needs[column]
    return list(needs)


def _widths(rows: list[list[Span]], columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of columns: the widest cell; if that is too wide, cuttable columns
    shrink.
    """
    widths = [max(cell_len(row[i][0]) for row in rows) for i in range(len(columns))]
    over = _total(widths) - width
    by_width = sorted(enumerate(columns), key=lambda pair: -widths[pair[0]])
    for has_room in (True, False):
        for i, column in by_width:
            if over > 0 and column.cut:
                least = max(column.least, column.room) if has_room else column.least
                smaller = min(widths[i], max(least, widths[i] - over))
                over -= widths[i] - smaller
                widths[i] = smaller
    return widths


def _widened(cells: list[Span], columns: Sequence[Column], widths: list[int]) -> list[int]:
    """Return the widths for one row with cells that may be wider than the column."""
    return [
        width if column.cut else max(width, cell_len(text))
        for (text, _), column, width in zip(cells, columns, widths, strict=True)
    ]


def _total(widths: Iterable[int]) -> int:
    """Return the width of a line with columns of these widths."""
    return sum(width + _GAP for width in widths) - _GAP


def _line(cells: Sequence[Span], columns: Sequence[Column], widths: list[int]) -> StyledLine:
    spans: list[Span] = []
    for (cell, style), column, width in zip(cells, columns, widths, strict=True):
        text = fit(cell, width) if column.cut else cell
        fill = " " * (width - cell_len(text))
        gap = " " * (_GAP if spans else 0)
        spans += [(gap + fill if column.right else gap, "plain"), (text, style)]
        spans.append(("" if column.right else fill, "plain"))
    while spans and not spans[-1][0].strip():
        spans.pop()
    return StyledLine(tuple(span for span in spans if span[0]))


def _block(row: Record, columns: Sequence[Column], ui: Ui, *, apart: bool) -> Iterator[StyledLine]:
    """Yield a row as lines of `header: value`; a longer value goes below its header."""
    if apart:
        yield line("")
    keys = {column.key for column in columns}
    for column in columns:
        text, style = _cell(row, column, keys, ui)
        if not text:
            continue
        head = f"{column.header.lower()}: "
        if cell_len(head) + cell_len(text) <= ui.width:
            yield line((head, "bold"), (text, style))
            continue
        yield line((head.rstrip(), "bold"))
        room = ui.width - _GAP
        for part in (fit(text, room),) if column.cut else wrap(text, room):
            yield line(" " * _GAP, (part, style))
