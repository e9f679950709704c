"""Work on parts of a store, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

from ckpt_backends.errors import CkptError, PartlyDone
from ckpt_backends.protocol import Store

Part = TypeVar("Part")
Result = TypeVar("Result")
Work: TypeAlias = Callable[[Store], Callable[[Sequence[Part]], Iterable[Result]]]
"""Maps a store to the function that returns one result for each of some parts. Picklable."""
_FIRST = 20
"""Parts that are worked on together at first, so that the first results come soon."""


@dataclass(frozen=True, slots=True)
class LostThread:
    """A thread that was left out."""

    thread_id: str
    reason: str
    trace: str = field(default="", repr=False)
    """Where in the code it happened, without any value; `''` if its worker was killed."""


class WorkFailed(Exception):
    """The cause of an error: what a worker told, for `--debug`."""


def refuse_lost(lost: Sequence[LostThread]) -> None:
    """Raise `PartlyDone` that names threads that were left out."""
    first = lost[0]
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    raise PartlyDone(
        f"left out thread '{first.thread_id}'{more}: {first.reason}",
        hint="try it alone; if it fails again, that is a bug in ckpt: report what --debug prints",
    ) from WorkFailed(first.trace)


def id_of(part: Any) -> str:
    """Return the id of the thread that a part is, or that it is about."""
    return part if isinstance(part, str) else str(part.thread_id)


class Each(Generic[Result]):
    """Calls a function of one thread id for each of some parts."""

    def __init__(self, function: Callable[[str], Result]) -> None:
        self._function = function

    def __call__(self, parts: Sequence[Any]) -> Iterator[Result]:
        return (self._function(id_of(one)) for one in parts)


def each(function: Callable[[str], Result]) -> Each[Result]:
    """Return a function of some parts, of one that takes a thread id."""
    return Each(function)


@dataclass(frozen=True, slots=True)
class RangeDone(Generic[Result]):
    """The results of a range, in its order."""

    results: list[Result]
    error: tuple[type[CkptError], dict[str, Any]] | None = None
    """What ended the work: results of later parts are missing. Taken apart, since not every error
    can be sent as it is."""

    def raise_error(self) -> None:
        """Raise what ended the work, if anything did."""
        if self.error is not None:
            kind, fields = self.error
            error = kind.__new__(kind, fields["message"])
            error.__dict__.update(fields)
            raise error


@dataclass(frozen=True, slots=True)
class RangeFailed:
    """A range that raised an unexpected error, or whose worker ended."""

    reason: str
    trace: str = ""


Outcome: TypeAlias = RangeDone[Any] | RangeFailed


def failed(error: Exception) -> RangeFailed:
    """Return what may be told of an unexpected error: its text may contain values."""
    import traceback  # late: it is an error of this program

    name = type(error).__name__
    trace = "".join(traceback.format_tb(error.__traceback__))
    return RangeFailed(f"internal error: {name}", f"{trace}{name}")


def work_through(
    do: Callable[[Sequence[Any]], Iterable[Any]],
    parts: Sequence[Any],
    at_once: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Outcome:
    """Work on a range; `at_once` parts are handed over together.

    Stops before some parts if `go_on` returns false: nobody waits for the outcome then.
    """
    results: list[Any] = []
    try:
        for start in range(0, len(parts), at_once):
            if not go_on():
                break
            results += do(parts[start : start + at_once])
    except CkptError as error:
        return RangeDone(results, (type(error), dict(vars(error))))
    except Exception as error:
        return failed(error)
    return RangeDone(results)


def work_here(
    do: Callable[[Sequence[Any]], Iterable[Result]],
    parts: Iterable[Any],
    at_once: int,
    lost: Callable[[LostThread], None],
) -> Iterator[Result]:
    """Yield the results in this process, each as soon as it is there."""
    remaining, number = iter(parts), min(_FIRST, at_once)
    while some := list(islice(remaining, number)):
        number = min(2 * number, at_once)
        done = 0
        try:
            for result in do(some):
                done += 1
                yield result
        except CkptError:
            raise
        except Exception:
            yield from _one_by_one(do, some[done:], lost)


def _one_by_one(
    do: Callable[[Sequence[Any]], Iterable[Result]],
    parts: Sequence[Any],
    lost: Callable[[LostThread], None],
) -> Iterator[Result]:
    """Yield the results of parts of which the first failed once."""
    attempts = 1
    for part in parts:
        while True:
            outcome = work_through(do, [part], 1)
            if isinstance(outcome, RangeDone):
                yield from outcome.results
                outcome.raise_error()
                break
            attempts += 1
            if attempts == 2:
                lost(LostThread(id_of(part), outcome.reason, outcome.trace))
                break
        attempts = 0
