"""Find the first checkpoint where a condition holds."""

from __future__ import annotations

from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.filters import filter_of
from ckpt_cli.api.surroundings import Surroundings, When, time_of
from ckpt_cli.api.watch import Watcher
from ckpt_cli.queries.bisect import Bisection, BisectOptions, Test, bisect, bisect_by_test
from ckpt_cli.queries.stats import Range
from ckpt_cli.render.bisect import bisect_record
from ckpt_cli.threads.target import Target


def bisected(
    target: Target,
    around: Surroundings,
    condition: str | None,
    test: Test | None,
    within: tuple[When | None, When | None],
    watch: Watcher,
    *,
    binary: bool,
) -> Answer[Bisection]:
    """Search by a filter or by a test; the arguments are those of `ThreadHandle.bisect`."""
    since, until = within
    times = Range(time_of(around, since), time_of(around, until))
    options = BisectOptions(times, binary, watch)
    wanted = filter_of(around, condition)
    if wanted is not None and test is None:
        return Answer(bisect(target, wanted, options), bisect_record)
    if wanted is None and test is not None:
        return Answer(bisect_by_test(target, test, options), bisect_record)
    raise UsageError(
        "bisect takes a condition or a test" + ("" if test is None else ", not both"),
        hint="such as 'values.plan = null'",
    )
