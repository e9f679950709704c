"""Failed tasks and open questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from ckpt_cli.core.tasks.attribution import error_start
from ckpt_cli.core.tasks.tasks import HANDLED, RETRIED, path_text
from ckpt_cli.queries.incidents import Failure, FailureGroup, GroupBy
from ckpt_cli.render.table import THREAD, Column, ago, optional_iso, when
from ckpt_cli.render.text import Style

BLOCKS = "failed"
LEFT = "left"
"""The thread went another way: by a new input, a rollback or a fork."""


def failure_record(found: Failure) -> dict[str, Any]:
    """Return one failed task of `errors`."""
    return {
        **found.key._asdict(),
        "task_id": found.task_id,
        "node": found.path[-1],
        "path": list(found.path),
        "error": found.error,
        "at": optional_iso(found.at),
        "retried": found.retried,
        "handled": found.handled,
        "state": failure_state(found),
        "resume": found.resume,
    }


def failure_state(found: Failure) -> str:
    """Return what became of a failed task, in one word."""
    if found.retried:
        return RETRIED
    if found.handled:
        return HANDLED
    return BLOCKS if found.blocks else LEFT


def failure_columns(now: datetime, *, history: bool) -> Sequence[Column]:
    """Return the columns of `errors`; with `history`, also what became of each failure."""
    return [
        THREAD,
        Column("NODE", "path", path_text, style="node"),
        Column("NODE", "node", table=False),
        Column("STATE", "state", style=_state_style, table=history),
        Column("FAILED", "at", ago(now), style="time", right=True, drop=1),
        Column("ERROR", "error", error_start, style="error", cut=True),
        Column("NAMESPACE", "checkpoint_ns", table=False),
        Column("CHECKPOINT", "checkpoint_id", table=False),
        Column("TASK", "task_id", table=False),
        Column("RETRIED", "retried", table=False),
        Column("HANDLED", "handled", table=False),
        Column("RESUME", "resume", table=False),
    ]


def _state_style(state: str) -> Style:
    return "error" if state == BLOCKS else "dim"


def group_record(found: FailureGroup, by: GroupBy) -> dict[str, Any]:
    """Return one line of `errors --by`."""
    return {
        by: found.name,
        "failures": found.failures,
        "threads": found.threads,
        ("nodes" if by == "error" else "errors"): dict(found.others.most_common()),
        "first_at": optional_iso(found.first_at),
        "last_at": optional_iso(found.last_at),
        "newest": found.newest,
    }


def group_columns(by: GroupBy, now: datetime, zone: tzinfo) -> Sequence[Column]:
    """Return the columns of `errors --by`."""

    def at(text: str) -> str:
        return when(datetime.fromisoformat(text), now, zone)

    if by == "error":
        kinds = Column("ERROR", "error", style="error", cut=True, least=30)
        groups = [kinds, Column("NODES", "nodes", _counted, style="node", cut=True)]
    else:
        errors = Column("ERRORS", "errors", _counted, style="error", cut=True)
        groups = [Column("NODE", "node", style="node"), errors]
    return [
        Column("COUNT", "failures", lambda n: f"{n} ×", right=True),
        Column("THREADS", "threads", right=True, drop=3),
        *groups,
        Column("SINCE", "first_at", at, style="time", drop=2),
        Column("LAST", "last_at", ago(now), style="time", right=True, drop=1),
        Column("NEWEST", "newest", style="head", drop=4),
    ]


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{n}" if len(counts) > 1 else name for name, n in counts.items())
