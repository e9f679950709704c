"""An open store, as Python code sees it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ckpt_backends.model import StoreInfo
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.checkpoint import CheckpointHandle
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.thread import ThreadHandle
from ckpt_cli.threads.target import TargetArguments, find_named, find_thread
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_cli.api.memory import MemoryHandle
    from ckpt_cli.queries.sessions import Joined
    from ckpt_cli.threads.target import NamedThread, Target


class StoreHandle:
    """A store that is open for reading. `ckpt_cli.open` returns one.

    Threads and checkpoints that it returns read when they are asked, so use them before the store
    is closed.
    """

    def __init__(self, store: Store, around: Surroundings) -> None:
        self._store = store
        self._around = around
        self._inference = TriggerInference(store)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection or the file."""
        if "memory" in self.__dict__:
            self.memory.close()
        self._store.close()

    def refresh(self) -> None:
        """See what was saved since the store was opened or last refreshed."""
        if "memory" in self.__dict__:
            self.memory.refresh()
        self._store.refresh()

    @property
    def info(self) -> StoreInfo:
        """The store's URL without secrets, its layout, saver, engine, size and capabilities."""
        return self._store.describe()

    def __getitem__(self, thread_id: str) -> ThreadHandle:
        """Return the thread with this id. Raises `NotFound`."""
        return self.thread(thread_id)

    def __contains__(self, thread_id: str) -> bool:
        return self._store.thread(thread_id) is not None

    def thread(self, thread_id: str) -> ThreadHandle:
        """Return the thread with this id. Raises `NotFound` with ids that are similar."""
        return ThreadHandle(find_thread(self._store, thread_id, self._around.note), self._around)

    def newest(self) -> ThreadHandle:
        """Return the thread that was active last. Raises `NotFound` if there is none."""
        return ThreadHandle(find_thread(self._store, None, self._around.note), self._around)

    def at(
        self, target: str, *, ns: str | None = None, as_of: str | datetime | None = None
    ) -> CheckpointHandle:
        """Return the checkpoint that `THREAD` or `THREAD@REF` names, as on the command line.

        `ns` names a namespace. `as_of` is a time: the checkpoint that was the head then.
        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        time = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        return self.checkpoint(self.named(TargetArguments(target, ns=ns, as_of=time)))

    def named(self, words: TargetArguments) -> NamedThread:
        """Return what the words of a command line name: a thread, perhaps with a ref."""
        return find_named(self._store, words, self._around.note)

    def checkpoint(self, named: NamedThread) -> CheckpointHandle:
        """Return the checkpoint of what was named; of a thread alone, its head."""
        return self.checkpoint_of(named.checkpoint(self._around.now, self._around.zone))

    def checkpoint_of(self, target: Target) -> CheckpointHandle:
        """Return a checkpoint that was found in this store."""
        return CheckpointHandle(ThreadHandle(target.reader, self._around), target)

    @cached_property
    def memory(self) -> MemoryHandle:
        """The long-term memory in the same place. Raises `UnknownLayout` or `Unsupported`."""
        from ckpt_cli.api.memory import opened_memory

        return opened_memory(self._around)

    def sessions(
        self, *, thread: str | None = None, user: str | None = None
    ) -> list[Answer[Joined]]:
        """Return the sessions of an application, as `ckpt sessions list` prints them.

        `thread` and `user` choose those of a thread or user. Raises `Unsupported` if applications
        store no sessions in such a store.
        """
        from ckpt_cli.api.sessions import sessions_beside

        return sessions_beside(self._around, lambda: self._store, thread=thread, user=user)

    def session(self, name: str) -> Answer[Joined]:
        """Return a session by its id, `USER:ID` or its key, as `ckpt sessions show` prints it.

        Raises `NotFound`, `Ambiguous` or `Unsupported`.
        """
        from ckpt_cli.api.sessions import session_beside

        return session_beside(self._around, lambda: self._store, name)

    def __iter__(self) -> Iterator[ThreadHandle]:
        """Yield all threads, newest first."""
        for one in self._store.threads():
            yield ThreadHandle(ThreadReader(self._store, one, self._inference), self._around)

    def __repr__(self) -> str:
        info = self.info
        return f"<StoreHandle {info.url} ({info.layout})>"
