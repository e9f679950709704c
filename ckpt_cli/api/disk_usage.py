"""The disk usage of a store or of some threads, for their handles."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ckpt_backends.errors import UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.watch import Watcher
from ckpt_cli.queries.disk_usage import BYS, By, Survey, survey
from ckpt_cli.render.disk_usage import amount_records, survey_record

_TOP, _TOP_OF_ALL = 20, 8
"""Lines of a single listing, and of each listing in the summary."""


def disk_usage(
    store: Store, names: Collection[str] | None, top: int | None, watch: Watcher
) -> Answer[Survey]:
    """Measure a store, or the threads with these ids."""
    is_one = names is not None and len(names) == 1
    found = survey(store, names, top or _TOP_OF_ALL, scan=True, whole=is_one, watch=watch)
    return Answer(found, survey_record)


def disk_usage_by(
    store: Store, names: Collection[str] | None, by: By, top: int | None, watch: Watcher
) -> AnswerList[Survey]:
    """Measure only one listing. Raises `UsageError` if `by` is not one of `BYS`."""
    if by not in BYS:
        raise UsageError(f"cannot group by '{by}'", hint=f"use --by {', --by '.join(BYS)}")
    scan = by == "channel"
    whole = scan or (names is not None and len(names) == 1)
    found = survey(store, names, top or _TOP, scan=scan, whole=whole, watch=watch)
    return AnswerList(found, partial(amount_records, by=by))
