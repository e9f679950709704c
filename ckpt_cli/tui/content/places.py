"""What threads wait for: open questions and failed tasks, one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_cli.core.tasks.attribution import error_start
from ckpt_cli.queries import incidents as errors
from ckpt_cli.queries import incidents as interrupts
from ckpt_cli.render.table import age
from ckpt_cli.render.text import Style, StyledLine, cell_len, fit, line, pad, safe_text, visible_id
from ckpt_cli.render.values import summary

_LONGEST = 500
"""Maximum number of columns of a question or an error."""
_WIDEST_NAME = 30


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A checkpoint at which a thread waits."""

    key: CheckpointKey
    since: datetime | None
    node: str
    reason: str
    """The question or the error, without control characters."""


@dataclass(frozen=True, slots=True)
class PlaceList:
    """One kind of places, of all threads of a store."""

    name: str
    none: str
    """What to say if there are none."""
    channels: frozenset[str]
    """A thread with such a place has a write on one of these channels at its head."""
    read: Callable[[Store, Sequence[Thread]], list[WaitingPlace]]
    """Reads those of a few hundred threads, in their order."""
    style: Style

    def threads(self, store: Store) -> list[Thread]:
        """Return the threads that may have such places, newest first."""
        return list(store.threads_within(ThreadBounds(head_channels=self.channels)))


def _questions(store: Store, threads: Sequence[Thread]) -> list[WaitingPlace]:
    return [
        WaitingPlace(
            one.key,
            one.since,
            safe_text(one.question.node or "?"),
            summary(one.question.value, _LONGEST),
        )
        for one in interrupts.of_threads(store, threads)
    ]


def _errors(store: Store, threads: Sequence[Thread]) -> list[WaitingPlace]:
    return [
        WaitingPlace(one.key, one.at, safe_text(one.node), safe_text(error_start(one.error)))
        for one in errors.failures_of_threads(store, threads)
    ]


QUESTIONS = PlaceList(
    "Questions", "no unanswered questions", interrupts.HEAD_CHANNELS, _questions, "question"
)
ERRORS = PlaceList(
    "Errors", "no thread waits after an error", errors.HEAD_CHANNELS, _errors, "error"
)


def place_lines(
    places: Sequence[WaitingPlace], style: Style, now: datetime, width: int
) -> list[StyledLine]:
    """Return one line per place: thread, age, node and reason."""
    longest = max((cell_len(safe_text(visible_id(one.key.thread_id))) for one in places), default=0)
    widest = min(longest, _WIDEST_NAME)
    return [_line(one, style, now, width, widest) for one in places]


def _line(one: WaitingPlace, style: Style, now: datetime, width: int, widest: int) -> StyledLine:
    old = age(one.since, now) if one.since is not None else "?"
    name = pad(fit(safe_text(visible_id(one.key.thread_id)), widest), widest)
    room = max(width - cell_len(name) - cell_len(one.node) - 10, 10)
    return line(
        (name, "head"),
        (f"{old:>5}  ", "time"),
        (one.node, "node"),
        "  ",
        (fit(one.reason, room), style),
    )
