"""Who is told about scans, which a store does that has no index of its threads."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol


class ScanObserver(Protocol):
    """Is told about scans: reads of a whole table, which take time and may cost money.

    All calls come from the thread that reads the store.
    """

    @abstractmethod
    def scanning(self, label: str, done: int, total: int | None) -> None:
        """A scan has read `done` rows of about `total`; `label` says of what, in a few words."""

    @abstractmethod
    def scanned(self, report: str) -> None:
        """A scan has ended, also after an error; `report` says what it read and what it cost."""
