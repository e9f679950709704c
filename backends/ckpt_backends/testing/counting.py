"""The contents of a store in numbers, as its engine counts them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Count:
    """Rows by table, and their contents."""

    rows: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    """Numbers of `checkpoints`, `writes`, `blobs` and `bytes`."""

    def add(self, table: str, what: str, size: int, rows: int = 1) -> None:
        """Add rows of a table that hold `what` ("checkpoints", "writes" or "blobs").

        `size` is the number of bytes of their values.
        """
        self.rows[table] += rows
        self.held[what] += rows
        self.held["bytes"] += size

    def minus(self, other: Count) -> Count:
        return Count(self.rows - other.rows, self.held - other.held)
