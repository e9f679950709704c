"""What a store must offer to be run through the conformance suite."""

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
    """The kind of server that it needs."""
    has_history: ClassVar[bool] = True
    """Whether the layout keeps more than a namespace's newest checkpoint."""
    has_writes: ClassVar[bool] = True
    """Whether what tasks write is stored before it is merged, with their questions and errors."""
    refused: ClassVar[frozenset[str]] = frozenset()
    """Scenarios whose values the saver itself cannot store; their threads end before them."""
    refusal: ClassVar[Refusal] = Exception
    """What the saver raises then."""
    options: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What the graphs are called with, where the saver must be spared a race of its own."""
    mangled: ClassVar[frozenset[str]] = frozenset()
    """Scenarios with values that the saver stores without a part of them, so that no truth is left
    to compare with."""
    parsed: ClassVar[bool] = False
    """Whether the engine keeps values parsed, so that they take more room than their text."""
    pickled: ClassVar[bool] = False
    """Whether tuples, and the classes of objects inside of others, are stored as what they are."""
    damaged: ClassVar[frozenset[tuple[str, int, str]]] = frozenset()
    """Thread, step and channel of values that the saver stores otherwise than its tasks wrote them,
    or lets another branch overwrite."""
    wrapped: ClassVar[bool] = False
    """Whether values are stored as texts, which are longer than they are."""
    sparse: ClassVar[bool] = False
    """Whether objects are stored under an old path of their class, and without their defaults."""

    by_arrival: ClassVar[bool] = False
    """Whether the saver gives the writes of a checkpoint in the order in which they came."""
    fixture: ClassVar[str | None] = None
    """The fixture that fills it, where its saver cannot be run from Python."""

    def __init__(self, folder: Path, server: Server | None) -> None: ...

    @property
    def url(self) -> str:
        """What `ckpt -s` opens it with."""
        ...

    def saver(self) -> AbstractContextManager[Any]:
        """The official saver of the layout, ready to use."""
        ...

    def truthful(self, saver: Any) -> Any:
        """The saver for reading, with what it is known to read wrongly put right."""
        return saver

    def forget(self, saver: Any, thread_id: str) -> None:
        """Remove a thread."""
        ...

    def restore(self) -> None:
        """Put the fixture in."""
        raise TypeError("it has no fixture")

    def told(self) -> dict[str, Any]:
        """What the fixture's own library said of it, by thread, as in `truth.json`."""
        raise TypeError("it has no fixture")

    def takes(self, thread_id: str) -> bool:
        """Whether the saver can store a thread of that id."""
        return True

    def add(self, thread_id: str) -> None:
        """Store a thread with some checkpoint, as another process would."""
        config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        with self.saver() as saver:
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})

    def remove(self, thread_id: str) -> None:
        """Remove what `add` stored."""
        with self.saver() as saver:
            self.forget(saver, thread_id)

    def fingerprint(self) -> object:
        """Equal before and after as long as nothing in the store changed."""
        ...

    def times(self, thread_id: str) -> tuple[datetime, datetime] | None:
        """When the first and the last checkpoint of a thread were stored, where the saver goes by
        that; None where ids tell."""
        return None

    def close(self) -> None:
        """Remove what was made."""
        ...
