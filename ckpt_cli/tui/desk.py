"""What the screens have in common: how the store is reached and named, and the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from time import monotonic

from ckpt_cli.reading.opening import Opening
from ckpt_cli.tui.lane import Lane

_PATIENCE = 1.0
"""Seconds that leaving takes at most."""


class Desk:
    """One store, with a connection for each kind of question, so that none waits for another."""

    def __init__(
        self,
        opening: Opening,
        store_words: Sequence[str],
        zone: tzinfo,
        pause: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.opening = opening
        self.store_words = store_words
        """How a command line names the store."""
        self.zone = zone
        self.pause = pause
        """Seconds between two looks at the store; 0 for only when asked to."""
        self.now = now
        self.threads, self.heads, self.detail, self.searching = self.lanes = [
            Lane(lambda: opening.open(lambda _: None)) for _ in range(4)
        ]

    def close(self) -> None:
        """Close all connections; one that is still being answered is not waited for long."""
        for lane in self.lanes:
            lane.close()
        until = monotonic() + _PATIENCE
        for lane in self.lanes:
            lane.join(max(until - monotonic(), 0))
