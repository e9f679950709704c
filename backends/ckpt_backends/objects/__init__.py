"""Stores without transactions, in which each checkpoint and each write is an object of its own.

Names of objects tell threads, namespaces, checkpoints and the tasks of writes; parents, channels
and values are inside. An engine lists, reads and writes its objects (`Objects`); a layout says what
their names mean and what they hold (`store.ObjectStore`, `write.WritableObjectStore`).

`ckpt` keeps objects of its own where the saver looks for nothing: the lock of a store, and what a
change adds and removes while it is under way (`Unfinished`).
"""

from __future__ import annotations

import json
import secrets
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from ckpt_backends.errors import Closing, StoreUnavailable
from ckpt_backends.model import CheckpointKey, in_chunks
from ckpt_backends.rows import Cell
from ckpt_backends.servers import understood
from ckpt_backends.url import StoreUrl

CHECKPOINTS, WRITES = "checkpoints", "writes"
KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
PARENT = "parent_checkpoint_id"
_PENDING = ".pending"
_HELD, _KEPT, _PATIENCE = 30.0, 5.0, 6.0
"""Seconds that the lock of a killed run holds, between two extensions, and to wait for another."""
_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")


class Name(NamedTuple):
    """Which checkpoint or write an object is."""

    key: CheckpointKey
    task: tuple[str, int] | None
    """The task id and the idx of a write."""
    path: str
    parent: str | None = None
    """The id of the parent, if it is listed; empty if there is none."""

    @property
    def table(self) -> str:
        return CHECKPOINTS if self.task is None else WRITES

    @property
    def cells(self) -> dict[str, Cell]:
        """The cells of its key."""
        task = {} if self.task is None else dict(zip(("task_id", "idx"), self.task, strict=True))
        return {**self.key._asdict(), **task}


class Unfinished(NamedTuple):
    """A change under way. It is done as soon as all that it adds is there, and not yet begun
    before: until its record is removed, it is completed or taken back by the next run.
    """

    name: str
    added: Sequence[str]
    removed: Sequence[str]


class Objects(Closing):
    """The objects of a store, each named by its path. Raises `StoreUnavailable`."""

    own: str
    """What the paths of the objects of `ckpt` begin with."""
    at_once = 16
    """Number of requests that run at the same time."""

    def __init__(self, url: StoreUrl) -> None:
        self.url = url
        self._again = float("inf")
        """When the lock must be extended, as `time.monotonic`."""

    @abstractmethod
    def name_of(self, path: str) -> Name | None:
        """What the object at a path is; None if the saver stores none there."""

    @abstractmethod
    def thread_ids(self, prefix: str = "") -> Sequence[str]:
        """The ids of the threads that have objects, in order."""

    @abstractmethod
    def names(self, thread_id: str) -> Iterable[Name]:
        """The checkpoints and writes of a thread."""

    @abstractmethod
    def own_paths(self) -> Iterable[str]:
        """The objects of `ckpt`."""

    @abstractmethod
    def read(self, path: str) -> bytes | None:
        """The bytes of an object; None if there is none."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Store an object, whole or not at all."""

    @abstractmethod
    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects that may be there."""

    @abstractmethod
    def lock_made(self, path: str) -> datetime | None:
        """Store an object that is not there, and return None; otherwise, when it was stored."""

    def together(
        self, ask: Callable[[_Given], _Answer], given: Iterable[_Given]
    ) -> Iterator[_Answer]:
        """The answers in their order; some requests run at the same time."""
        if self.at_once == 1:
            yield from map(ask, given)
            return
        with ThreadPoolExecutor(self.at_once) as pool:
            for some in in_chunks(given, self.at_once):
                yield from pool.map(ask, some)

    # Changes under way

    def unfinished(self) -> Iterator[Unfinished]:
        """The changes under way, or left by a killed run."""
        for path in self.own_paths():
            if path.endswith(_PENDING) and (data := self.read(path)) is not None:
                with understood(self.url):
                    found = Unfinished(path, *json.loads(data))
                yield found

    def begin(self, added: Sequence[str], removed: Sequence[str]) -> Unfinished:
        """Record a change before it is carried out."""
        found = Unfinished(f"{self.own}{secrets.token_hex(8)}{_PENDING}", added, removed)
        self.write(found.name, json.dumps(found[1:]).encode())
        return found

    def is_done(self, one: Unfinished) -> bool:
        """Whether all is there that a change adds."""
        names = [name for path in one.added if (name := self.name_of(path)) is not None]
        threads = {name.key.thread_id for name in names}
        there = {name.path for thread_id in threads for name in self.names(thread_id)}
        return there.issuperset(one.added)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other runs of `ckpt` from changing the store; savers do not know of the lock."""
        until, lock = time.monotonic() + _PATIENCE, f"{self.own}lock"
        while (made := self.lock_made(lock)) is not None:
            if (datetime.now(UTC) - made).total_seconds() > _HELD:
                self.remove([lock])
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"'{self.url}' is being changed by another command, or has the lock of a"
                    " killed run",
                    hint=f"run the command again later: '{lock}' expires after {_HELD:.0f} s",
                )
            time.sleep(0.2)
        self._again = time.monotonic() + _KEPT
        try:
            yield
        finally:
            self._again = float("inf")
            self.remove([lock])

    def keep_lock(self) -> None:
        """Extend the lock if it is time."""
        if time.monotonic() >= self._again:
            self._again = float("inf")  # this writes, too
            self.write(f"{self.own}lock", b"")
            self._again = time.monotonic() + _KEPT

    def close(self) -> None:
        """Nothing to release: each request has a connection of its own."""
