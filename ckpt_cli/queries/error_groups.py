"""Count failed tasks by the kind of their error, or by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from ckpt_backends.errors import UsageError
from ckpt_cli.core.tasks.error_kinds import error_kind
from ckpt_cli.queries.errors import Failure

GroupBy = Literal["error", "node"]
GROUPINGS: tuple[GroupBy, ...] = get_args(GroupBy)


@dataclass(slots=True)
class FailureGroup:
    """Failures of one kind, or of one node."""

    name: str
    """The kind of the error, or the path of the node."""
    failures: int = 0
    threads: int = 0
    others: Counter[str] = field(default_factory=Counter)
    """How many failures each node has, or each kind of error."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    newest: str = ""
    """The thread of the first failure that was counted: in the order of a list, the newest."""


def grouping(text: str) -> GroupBy:
    """Return what to count by. Raises `UsageError` if there is nothing of this name."""
    for known in GROUPINGS:
        if known == text:
            return known
    raise UsageError(f"cannot count by '{text}'", hint=f"use one of {', '.join(GROUPINGS)}")


def group_failures(failures: Iterable[Failure], by: GroupBy) -> list[FailureGroup]:
    """Return the groups of some failures, the largest first; those of a thread must be adjacent."""
    groups: dict[str, FailureGroup] = {}
    seen: dict[str, str] = {}
    for one in failures:
        kind, node, thread_id = error_kind(one.error), one.node, one.key.thread_id
        name, other = (kind, node) if by == "error" else (node, kind)
        group = groups.setdefault(name, FailureGroup(name, newest=thread_id))
        group.failures += 1
        group.threads += seen.get(name) != thread_id
        seen[name] = thread_id
        group.others[other] += 1
        if one.at is not None:
            group.first_at = min(group.first_at or one.at, one.at)
            group.last_at = max(group.last_at or one.at, one.at)
    return sorted(groups.values(), key=lambda group: (-group.failures, group.name))
