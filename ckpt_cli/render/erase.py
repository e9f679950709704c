"""Erasures, their plans and receipts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ckpt_backends.changes.remains import Remains
from ckpt_backends.erasing.thread import ChangedPath
from ckpt_cli.core.erasure import ErasurePlace, ErasureReport, place_record
from ckpt_cli.core.values import format_path
from ckpt_cli.plans.erase import DRY_RUN, ErasurePlan
from ckpt_cli.plans.erase_value import EraseValuePlan
from ckpt_cli.render.table import THREAD, Column, size, table_lines
from ckpt_cli.render.text import Style, StyledLine, line, safe_text, wrap
from ckpt_cli.render.values import counted

_STYLES: dict[str, Style] = {"erased": "add", "kept": "change", "unreachable": "dim"}
_NAMED = 20
"""Maximum number of mentions that a table lists."""
_NOUNS = {
    "threads": "thread",
    "memory": "item",
    "sessions": "session",
    "archives": "archive",
    "plans": "saved plan",
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


_MOST_LINES = 30


def erased_record(
    plan: EraseValuePlan, remains: Remains | None, *, dry_run: bool
) -> dict[str, Any]:
    """Return what happens to one thread as a JSON object."""
    return {
        "thread_id": plan.thread_id,
        "dry_run": dry_run,
        "places": [_place(one, number) for one, number in _in_order(plan)],
        "checkpoints": plan.counts.checkpoints,
        "writes": plan.counts.writes,
        "values": plan.counts.values,
        "remains": None if remains is None else _remains_record(remains),
    }


def erased_columns() -> Sequence[Column]:
    """Return the columns of the places."""
    return [
        THREAD,
        Column("PLACE", "place"),
        Column("PATH", "path", cut=True),
        Column("TIMES", "rows", right=True),
    ]


def erased_rows(plans: Sequence[EraseValuePlan]) -> Iterator[dict[str, Any]]:
    """Yield one row for each place of each thread."""
    for plan in plans:
        for one, number in _in_order(plan):
            yield {"thread_id": plan.thread_id, **_place(one, number)}


def erased_lines(
    plans: Sequence[EraseValuePlan], width: int, *, is_done: bool = False
) -> Iterator[StyledLine]:
    """Yield what is rewritten in each thread, or what was."""
    for plan in plans:
        rows = list(erased_rows([plan]))
        yield from table_lines(rows[:_MOST_LINES], erased_columns(), width)
        if len(rows) > _MOST_LINES:
            yield line((f"... and {counted(len(rows) - _MOST_LINES, 'other place')}", "dim"))
        yield line(f"{_counts(plan, is_done=is_done)}; ids, versions and times stay")
    if not is_done:
        yield line(("This rewrites stored history. It cannot be undone.", "warn"))


def _counts(plan: EraseValuePlan, *, is_done: bool) -> str:
    counts = plan.counts
    numbers = [
        counted(number, word)
        for number, word in (
            (counts.checkpoints, "checkpoint"),
            (counts.writes, "write"),
            (counts.values, "stored value"),
        )
        if number
    ]
    *first, last = numbers or ["nothing"]
    named = f"{', '.join(first)} and {last}" if first else last
    return f"{named} of thread '{safe_text(plan.thread_id)}' {'changed' if is_done else 'change'}"


def remains_lines(remains: Remains) -> Iterator[StyledLine]:
    """Yield what was done about the old bytes, and where they may still be."""
    if remains.done:
        yield line(("removed old bytes: ", "dim"), safe_text(", ".join(remains.done)))
    for one in remains.places:
        yield line(("may still be in ", "dim"), safe_text(f"{one.place}: {one.reason}"))


def _in_order(plan: EraseValuePlan) -> list[tuple[ChangedPath, int]]:
    places = plan.counts.places.items()
    return sorted(places, key=lambda one: (one[0].place, one[0].channel, str(one[0].path)))


def _place(one: ChangedPath, number: int) -> dict[str, Any]:
    return {
        "place": one.place,
        "channel": one.channel or None,
        "path": format_path(one.path),
        "rows": number,
    }


def _remains_record(remains: Remains) -> dict[str, Any]:
    return {
        "done": list(remains.done),
        "places": [
            {
                "place": one.place,
                "state": "kept" if one.is_reachable or one.needs_rewrite else "unreachable",
                "reason": one.reason,
            }
            for one in remains.places
        ],
    }
