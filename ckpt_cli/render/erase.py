"""Print what an erasure found, did and left, as text and as a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ckpt_cli.core.erasure.places import ErasurePlace, ErasureReport
from ckpt_cli.core.erasure.receipt import place_record
from ckpt_cli.plans.erase import DRY_RUN, ErasurePlan
from ckpt_cli.render.terminal.cell_width import wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.terminal.units import size
from ckpt_cli.render.values.one_line import counted

_STYLES: dict[str, Style] = {"erased": "add", "kept": "change", "unreachable": "dim"}
_NAMED = 20
"""Maximum number of mentions that a table lists."""
_NOUNS = {
    "threads": "thread",
    "memory": "item",
    "sessions": "session",
    "archives": "archive",
    "plans": "saved plan",
    "repairs": "record of a repair",
    "queries": "history of queries",
    "operations": "line of the log",
}


def place_columns() -> Sequence[Column]:
    """Return the columns of the places."""
    return [
        Column("STATE", "state", style=lambda state: _STYLES[state]),
        Column("WHAT", "kind"),
        Column("ITEMS", "items", right=True, drop=1),
        Column("SIZE", "bytes", size, right=True, drop=2),
        Column("WHERE", "store", style="head"),
        Column("WHY", "reason", cut=True, style="dim", least=40),
    ]


def place_rows(report: ErasureReport) -> list[dict[str, Any]]:
    """Return one row for each place."""
    return list(map(place_record, report.places))


def erasure_record(report: ErasureReport) -> dict[str, Any]:
    """Return the whole answer as a JSON object."""
    return {
        "subject": report.subject,
        "dry_run": report.is_dry_run,
        "complete": report.is_complete,
        "places": place_rows(report),
        "mentions": [asdict(one) for one in report.mentions] if report.is_searched else None,
        "more_mentions": report.has_more_mentions,
        "statements": report.statements,
        "stopped": report.stopped,
    }


def erasure_lines(report: ErasureReport, width: int) -> Iterator[StyledLine]:
    """Yield the places and the mentions."""
    if report.is_dry_run and report.places:
        yield from _plan_lines(report, width)
    elif report.places:
        yield from table_lines(place_rows(report), place_columns(), width)
    else:
        yield line("Nothing to erase.")
    if report.statements:
        yield line("")
        text = f"done: {', '.join(report.statements)}"
        yield from (line((safe_text(part), "dim")) for part in wrap(text, width))
    yield from mention_lines(report, width)


def _plan_lines(report: ErasureReport, width: int) -> Iterator[StyledLine]:
    """Yield what would be erased, and below it what would stay."""
    found = [one for one in report.places if one.reason == DRY_RUN]
    unread = [one for one in report.places if one.reason != DRY_RUN]
    if found:
        yield line("Would erase:")
        columns = [one for one in place_columns() if one.key not in {"state", "reason"}]
        yield from table_lines(map(place_record, found), columns, width)
    if unread:
        yield line("Would stay:")
        yield from table_lines(map(place_record, unread), place_columns()[1:], width)


def mention_lines(report: ErasureReport, width: int) -> Iterator[StyledLine]:
    """Yield where the person is named elsewhere."""
    if not report.mentions:
        return
    more = "more than " if report.has_more_mentions else ""
    yield line("")
    number = counted(len(report.mentions), "other place")
    yield line((f"Named in {more}{number}, which stay:", "question"))
    rows = [asdict(one) for one in report.mentions[:_NAMED]]
    columns = [
        Column("WHAT", "kind"),
        Column("NAME", "name", style="head"),
        Column("HITS", "hits", right=True),
        Column("FIRST", "where", cut=True, style="dim"),
        Column("WHERE", "store", cut=True, style="dim", drop=1),
    ]
    yield from table_lines(rows, columns, width)
    if len(report.mentions) > _NAMED:
        yield line((f"{len(report.mentions) - _NAMED} more; -o json lists them", "dim"))


def erasure_question(plan: ErasurePlan) -> str:
    """Return the question for confirmation."""
    numbers: dict[str, int] = {}
    for one in plan.found():
        numbers[one.kind] = numbers.get(one.kind, 0) + (one.items or 0)
    parts = [counted(number, _NOUNS[kind]) for kind, number in numbers.items() if number]
    return f"Erase {', '.join(parts) or 'what an earlier run left'}? This cannot be undone."


def verification_record(receipt: str, places: Sequence[ErasurePlace]) -> dict[str, Any]:
    """Return the answer of `erase --verify` as a JSON object."""
    return {
        "receipt": receipt,
        "complete": all(one.state == "erased" for one in places),
        "places": list(map(place_record, places)),
    }
