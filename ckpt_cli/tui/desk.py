"""What the screens have in common: how the store is reached and named, and the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from time import monotonic
from typing import Any

from ckpt_backends.memory import MemoryStore
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.reading.opening import Opening
from ckpt_cli.tui.lane import Lane

_PATIENCE = 1.0
"""Seconds that leaving takes at most."""


@dataclass(frozen=True, slots=True)
class MemoryNamed:
    """The long-term memory that goes with some threads."""

    url: StoreUrl
    words: Sequence[str]
    """How a command line names it."""

    @property
    def name(self) -> str:
        """What stands behind `--memory`."""
        return self.words[-1] if self.words else str(self.url)


class Desk:
    """One store, with a connection for each kind of question, so that none waits for another.

    Its long-term memory has one too, which is opened by the first who asks for it.
    """

    def __init__(
        self,
        opening: Opening,
        store_words: Sequence[str],
        zone: tzinfo,
        pause: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        memory: MemoryNamed | None = None,
    ) -> None:
        self.opening = opening
        self.store_words = store_words
        """How a command line names the store."""
        self.zone = zone
        self.pause = pause
        """Seconds between two looks at the store; 0 for only when asked to."""
        self.now = now
        self.memory_named = memory or MemoryNamed(opening.url, store_words)
        self.threads, self.heads, self.detail, self.searching = lanes = [
            Lane[Store](lambda: opening.open(lambda _: None)) for _ in range(4)
        ]
        self.memory = Lane[MemoryStore](lambda: open_memory(self.memory_named.url))
        self.lanes: Sequence[Lane[Any]] = (*lanes, self.memory)

    def close(self) -> None:
        """Close all connections; one that is still being answered is not waited for long."""
        for lane in self.lanes:
            lane.close()
        until = monotonic() + _PATIENCE
        for lane in self.lanes:
            lane.join(max(until - monotonic(), 0))
