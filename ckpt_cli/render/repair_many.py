"""Print what a repair of many threads did, as a table, as text and as records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ckpt_cli.core.forking.thread_repair import RepairOutcome
from ckpt_cli.render.plan import plan_record, undo_command
from ckpt_cli.render.status import node_names
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.table import Column, table_lines
from ckpt_cli.render.values.one_line import counted

_WORDS = {"planned": "would repair", "repaired": "repaired", "skipped": "skipped"}


def outcome_columns() -> list[Column]:
    """Return the columns of the table and of TSV."""
    return [
        Column("THREAD", "thread_id", style="head"),
        Column("STATE", "state", style="change"),
        Column("NEXT", "next", node_names, style="node", drop=2),
        Column("MENDS", "mends", "; ".join, cut=True, least=30),
        Column("REASON", "reason", drop=1),
        Column("CHECKPOINT", "checkpoint_id", table=False),
        Column("CONFIGURABLE", "configurable", table=False),
    ]


def outcome_record(one: RepairOutcome, words: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
    """Return one thread as JSON: the plan as of `rollback`, without values, and what happened.

    `words` are the option that names the store.
    """
    about: dict[str, Any] = {"thread_id": one.thread_id}
    if one.plan is not None:
        undo = undo_command(words, one.thread_id) if one.plan.is_undoable else ""
        about = plan_record(one.plan, undo, dry_run=dry_run, rows=False)
        del about["changes"]
    about |= {"state": one.state, "mends": list(one.mends), "reason": one.reason or None}
    return {**about, "dry_run": dry_run}


def outcome_lines(
    outcomes: Sequence[RepairOutcome], words: Sequence[str], width: int, *, dry_run: bool
) -> Iterator[StyledLine]:
    """Yield a table of the threads, how to resume those that were repaired, and the counts."""
    rows = [outcome_record(one, words, dry_run=dry_run) for one in outcomes]
    if rows:
        yield from table_lines(rows, outcome_columns(), width)
    done = [one.plan for one in outcomes if one.state == "repaired" and one.plan is not None]
    if done:
        yield line("")
        yield line(("resume each of them with its configurable:", "dim"))
        for plan in done:
            text = json.dumps(dict(plan.configurable or {}), ensure_ascii=False)
            yield StyledLine(((f"  {safe_text(text)}", "plain"),), whole=True)
    if rows:
        yield line("")
        yield line(count_text(outcomes))


def count_text(outcomes: Sequence[RepairOutcome]) -> str:
    """Return the number of threads by what happened: `repaired 2 threads, skipped 1`."""
    numbers = Counter[str](one.state for one in outcomes)
    parts = [
        f"{word} {counted(numbers[state], 'thread')}"
        for state, word in _WORDS.items()
        if numbers[state]
    ]
    return ", ".join(parts)
