"""The connections of the server to its one store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.store_names import StoreNames
from ckpt_cli.mcp.asking import Permission, SeenStore
from ckpt_cli.threads.executor.executor import Executor
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.store_worker import StoreWorker

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Served:
    """What the server was started with; the surroundings of its answers."""

    names: StoreNames
    opening: Opening
    """With `redact`, unless all values may be shown: so long-term memory is hidden, too."""
    zone: tzinfo

    @property
    def now(self) -> datetime:
        """The time of the call."""
        return datetime.now(UTC)

    def open_other(self, url: StoreUrl) -> Store:
        """Open another store in the same way; the caller closes it."""
        return self.opening._replace(url=url).open(self.note)

    def executor(
        self, jobs: int = 1, cluster: str | None = None, *, opening: Opening | None = None
    ) -> Executor:
        """Return what works on many threads."""
        return Executor(opening or self.opening, jobs, cluster)

    def note(self, text: str) -> None:
        """Drop a note: the agent gets answers and errors only."""

    def open(self, allowed: Permission) -> SeenStore:
        """Open the store of the server. Raises what opening it raises."""
        store = self.opening._replace(redact=False).open(self.note)
        return SeenStore(store, self, allowed)


class Connections:
    """A few connections, each in a thread of its own, so that long work does not hold up the rest.

    A connection is opened when it is first needed, and again after it was lost.
    """

    def __init__(self, open_store: Callable[[], SeenStore], number: int) -> None:
        self._workers = [StoreWorker[SeenStore](open_store) for _ in range(number)]

    async def ask(self, question: Callable[[SeenStore], _Answer]) -> _Answer:
        """Ask the connection that has least to do. Raises what the question raises."""
        return await min(self._workers, key=lambda one: one.load).ask(question)

    def close(self) -> None:
        """Close each connection after its last question."""
        for worker in self._workers:
            worker.close()
