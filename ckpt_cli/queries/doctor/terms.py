"""What is to be checked, and what was found in a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckpt_backends.model import Thread
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.core.doctor.replayed import ReplayedThread
from ckpt_cli.core.doctor.type_use import TypeUse

_BACKGROUND = timedelta(seconds=2)
"""How long the rows of a step may follow its checkpoint."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be checked. Can be sent to another process."""

    now: datetime
    before: datetime
    """What is younger is not reported if an agent may still be writing it."""
    deep: bool = False
    """Whether every value of every checkpoint is decoded, and every step replayed."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    """The reducers that the user named, by channel."""
    ignored: frozenset[str] = frozenset()
    """Codes that are not reported."""
    strict_types: bool = False
    """Whether to report classes that LANGGRAPH_STRICT_MSGPACK blocks."""
    evicted: str = ""
    """Why the engine itself may have removed rows of a thread, in words; `''` if it did not."""
    types: bool = False
    """Whether to gather all classes that values name, which reads every value."""
    together: bool = False
    """Whether threads that contradict themselves are judged last, by all threads."""

    @property
    def grace(self) -> str:
        """The age up to which rows are left alone, as options take it."""
        seconds = max(0, int((self.now - self.before).total_seconds()))
        units = (("d", 86_400), ("h", 3_600), ("m", 60))
        fitting = (one for one in units if seconds and seconds % one[1] == 0)
        unit, length = next(fitting, ("s", 1))
        return f"{seconds // length}{unit}"

    @property
    def settled(self) -> datetime:
        """When a step must have been stored whose rows should all be there by now.

        A saver stores writes in the background, some even after the checkpoint that they led to.
        """
        return max(self.before, self.now - _BACKGROUND)


@dataclass(frozen=True, slots=True)
class ThreadToCheck:
    """A thread, and what is known about it before it is read."""

    thread_id: str
    thread: Thread | None
    """None if only its id is known; it may have no checkpoint."""
    is_suspect: bool
    """Whether its keys may contradict each other."""


@dataclass(slots=True)
class ThreadReport:
    """What was found in one thread."""

    thread_id: str
    findings: list[Finding] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)
    unchecked: str = ""
    """Why it could not be checked completely; `''` if it was."""
    replayed: ReplayedThread | None = None
    """By what other threads are judged, and what is to be judged last; None if not replayed."""
    types: list[TypeUse] = field(default_factory=list)
    """The classes that its values name, if they were to be gathered."""
