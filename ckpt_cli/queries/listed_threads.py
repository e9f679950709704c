"""Threads of a list, with the facts that were read from their heads.

Lists without such facts import nothing of what reads heads; see `head_details`.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.model import Status, Thread

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Cut, Value
    from ckpt_cli.core.tasks.tasks import Question


class Head(NamedTuple):
    """A thread's head without its values."""

    step: int | None
    source: str | None
    parent: str | None
    metadata: Mapping[str, "Value"]


class Details(NamedTuple):
    """The facts about a thread that are read from its head."""

    conditions: tuple[Status, ...]
    """All conditions of the thread, the worst first; at least one."""
    head: Head | None
    bytes: int | None
    """None if the size was not requested."""
    expires_at: datetime | None = None
    """When the head expires; None if it does not."""
    next: tuple[str, ...] | None = None
    """The nodes of the tasks that wait, as `get_state` gives them; None if not known."""
    runs: tuple[str, ...] | None = None
    """The nodes and error handlers that run first in a resume; None if not known."""
    error: str | None = None
    """The error of the first task that failed, and was neither retried nor handled."""
    question: "Question | None" = None
    """The first question that waits for an answer."""
    title: "str | Cut | None" = None
    """The first thing that a person said; a `Cut` if the messages were not read."""

    @property
    def status(self) -> Status:
        return self.conditions[0]


class ListedThread(NamedTuple):
    """One thread of a list; `details` is None if its head was not read."""

    thread: Thread
    details: Details | None = None
    first_message: str | None = None
    """The first human message, if it was requested."""
