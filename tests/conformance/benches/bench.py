"""What a store must provide for the conformance suite."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias

from langgraph.checkpoint.base import empty_checkpoint

from tests.servers import Server

Refusal: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class Bench(Protocol):
    """A place where an official saver can write and `ckpt` can read."""

    name: ClassVar[str]
    server: ClassVar[str | None]
    """The kind of server that it needs; None for files."""
    has_history: ClassVar[bool] = True
    """Whether the layout keeps more than the newest checkpoint of each namespace."""
    has_writes: ClassVar[bool] = True
    """Whether writes, questions and errors of tasks are stored before they are merged."""
    refused: ClassVar[frozenset[str]] = frozenset()
    """Scenarios with values that the saver cannot store; their threads end before these values."""
    refusal: ClassVar[Refusal] = Exception
    """What the saver raises for them."""
    options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Arguments for running graphs, to avoid a race in the saver."""
    mangled: ClassVar[frozenset[str]] = frozenset()
    """Scenarios with values that the saver stores only partly, so there is no truth to compare
    with.
    """
    parsed: ClassVar[bool] = False
    """Whether the engine stores parsed values, which need more space than their text."""
    pickled: ClassVar[bool] = False
    """Whether tuples, and the classes of nested objects, are preserved."""
    damaged: ClassVar[frozenset[tuple[str, int, str]]] = frozenset()
    """(thread, step, channel) of values that the saver stores differently from the writes, or
    that another branch overwrites.
    """
    wrapped: ClassVar[bool] = False
    """Whether values are stored as texts, which are longer than the values."""
    only: ClassVar[frozenset[str] | None] = None
    """The scenarios to run, if another bench of the same layout runs all of them; None for all."""
    bare: ClassVar[bool] = False
    """Whether only the place, the values and the writes of a checkpoint are stored.

    There are no metadata and no versions, so steps, sources and next nodes are unknown.
    """
    latest: ClassVar[bool] = False
    """Whether only the newest checkpoint has values, though others are listed."""
    sparse: ClassVar[bool] = False
    """Whether objects are stored under an old path of their class, and without default values."""

    by_arrival: ClassVar[bool] = False
    """Whether the saver returns the writes of a checkpoint in order of arrival."""
    fixture: ClassVar[str | None] = None
    """The fixture that fills the store, if its saver cannot be run from Python."""

    def __init__(self, folder: Path, server: Server | None) -> None: ...

    @property
    def url(self) -> str:
        """The URL for `ckpt -s`."""
        ...

    def saver(self) -> AbstractContextManager[Any]:
        """Yield the official saver of the layout, ready to use."""
        ...

    def truthful(self, saver: Any) -> Any:
        """Return the saver for reading, with its known reading faults corrected."""
        return saver

    def forget(self, saver: Any, thread_id: str) -> None:
        """Remove a thread."""
        ...

    def restore(self) -> None:
        """Restore the fixture."""
        raise TypeError("it has no fixture")

    def told(self) -> dict[str, Any]:
        """Return what the fixture's own library read from it, by thread, as in `truth.json`."""
        raise TypeError("it has no fixture")

    def takes(self, thread_id: str) -> bool:
        """Return whether the saver can store a thread with this id."""
        return True

    def add(self, thread_id: str) -> None:
        """Store a thread with one checkpoint, as another process would."""
        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        with self.saver() as saver:
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})

    def remove(self, thread_id: str) -> None:
        """Remove what `add` stored."""
        with self.saver() as saver:
            self.forget(saver, thread_id)

    def fingerprint(self) -> object:
        """Return a value that stays equal as long as nothing in the store changes."""
        ...

    @property
    def has_questions(self) -> bool:
        """Whether writes of unfinished tasks, such as questions, are stored."""
        return self.has_writes and not self.bare

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        """Return the times of the first and the last checkpoint of a thread; None if its ids
        contain them.
        """
        return None

    def close(self) -> None:
        """Remove what was created."""
        ...
