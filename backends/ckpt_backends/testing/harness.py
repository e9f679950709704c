"""The harness of a layout: a store that its official saver fills and that `ckpt` reads and changes.

The conformance suite and the tests of time travel and removal run on every harness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, TypeAlias

Refusal: TypeAlias = type[Exception] | tuple[type[Exception], ...]
StoredRows: TypeAlias = dict[str, list[tuple[Any, ...]]]
"""The rows of a thread by table, or by kind of key, without the thread's id."""
POINTERS = "checkpoint_latest"
"""Keys in Redis that point to the heads, and change with them."""


class TestServer(Protocol):
    """A server that the tests started, or that they were given."""

    url: str


class Harness(ABC):
    """One layout: its store, empty at first, and the official saver that fills it."""

    name: ClassVar[str]
    server: ClassVar[str | None] = None
    """The kind of server that it needs; None for files."""
    modules: ClassVar[bool] = True
    """Whether its server, a Redis, needs RediSearch and RedisJSON."""
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

    def __init__(self, folder: Path, server: TestServer | None) -> None:
        self.stack = ExitStack()
        """What is closed when the test run ends."""
        self._url = self.create(folder, server)

    @classmethod
    def at(cls, url: str) -> Self:
        """Return the harness of a store that exists; an empty file or database counts as one."""
        made = cls.__new__(cls)
        made.stack, made._url = ExitStack(), url
        return made

    @property
    def url(self) -> str:
        """The URL for `ckpt -s`."""
        return self._url

    @abstractmethod
    def create(self, folder: Path, server: TestServer | None) -> str:
        """Create an empty store, and return its URL."""

    @abstractmethod
    def saver(self) -> AbstractContextManager[Any]:
        """Yield the official saver of the layout, ready to use."""

    @cached_property
    def kept_saver(self) -> Any:
        """The official saver, open until the harness is closed."""
        return self.stack.enter_context(self.saver())

    def truthful(self, saver: Any) -> Any:
        """Return the saver for reading, with its known reading faults corrected."""
        return saver

    @abstractmethod
    def forget(self, thread_id: str) -> None:
        """Remove all rows of a thread."""

    @abstractmethod
    def fingerprint(self) -> object:
        """Return a value that stays equal as long as nothing in the store changes."""

    def rows(self, thread_id: str) -> StoredRows:
        """Return all rows of a thread, as the engine returns them."""
        raise NotImplementedError

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        """Copy a thread's rows to a new id, up to a checkpoint in the order of ids.

        Checkpoint ids, and so task ids, stay the same, so LangGraph resumes the copy like the
        original.
        """
        raise NotImplementedError

    def has_memory(self, thread_id: str) -> bool:
        """Return whether a subgraph of the thread keeps its state between calls."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the fixture."""
        raise TypeError("it has no fixture")

    def told(self) -> dict[str, Any]:
        """Return what the fixture's own library read from it, by thread, as in `truth.json`."""
        raise TypeError("it has no fixture")

    def takes(self, thread_id: str) -> bool:  # noqa: ARG002
        """Return whether the saver can store a thread with this id."""
        return True

    def add(self, thread_id: str) -> None:
        """Store a thread with one checkpoint, as another process would."""
        from langgraph.checkpoint.base import empty_checkpoint

        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        with self.saver() as saver:
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})

    @property
    def has_questions(self) -> bool:
        """Whether writes of unfinished tasks, such as questions, are stored."""
        return self.has_writes and not self.bare

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:  # noqa: ARG002
        """Return the times of the first and the last checkpoint of a thread; None if its ids
        contain them.
        """
        return None

    def close(self) -> None:
        """Remove what was created."""
        self.stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
