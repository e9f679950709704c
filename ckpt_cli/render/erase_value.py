"""Print what `ckpt erase --value` does, as text, as records and as rows. Never a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_backends.changes.remains import Remains
from ckpt_backends.erasing.thread import ChangedPath
from ckpt_cli.core.values.paths import format_path
from ckpt_cli.plans.erase_value import EraseValuePlan
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import THREAD, Column, table_lines
from ckpt_cli.render.values.one_line import counted

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
