"""The failed tasks of a store or of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.queries.error_groups import FailureGroup, group_failures, grouping
from ckpt_cli.queries.errors import Failure, failures_of_threads
from ckpt_cli.render.errors import failure_record, group_record


def failed_tasks(
    store: Store,
    around: Surroundings,
    threads: Iterable[Thread],
    since: When | None,
    *,
    history: bool,
) -> Iterator[Answer[Failure]]:
    """Yield the failed tasks of some threads. Raises `UsageError` for a time that is none."""
    found = failures_of_threads(store, threads, since=time_of(around, since), history=history)
    return (Answer(one, failure_record) for one in found)


def counted_failures(
    failures: Iterable[Answer[Failure]], by: str
) -> AnswerList[list[FailureGroup]]:
    """Return how many of these tasks failed alike. Raises `UsageError` for an unknown `by`."""
    kind = grouping(by)
    groups = group_failures((one.found for one in failures), kind)

    return AnswerList(groups, lambda found: [group_record(one, kind) for one in found])
