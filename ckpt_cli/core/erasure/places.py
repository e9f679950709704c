"""The answer of an erasure: place by place, what was erased and what was not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

PlaceState = Literal["erased", "kept", "unreachable"]
PlaceKind = Literal[
    "threads",
    "memory",
    "sessions",
    "archives",
    "plans",
    "operations",
    "repairs",
    "queries",
    "engine",
    "other",
]
"""What a place holds; `engine` is the engine of a store with its logs and free space."""


@dataclass(frozen=True, slots=True)
class ErasurePlace:
    """One place that held something of the subject, or may still hold it."""

    store: str
    """URL without secrets, or a folder or file."""
    kind: PlaceKind
    items: int | None
    """Number of threads, items, sessions or files; None if it cannot be known."""
    bytes: int | None
    state: PlaceState
    reason: str = ""
    """Why it was not erased, or how it was."""
    is_left: bool = False
    """Whether something is left here that a later run can erase."""
    is_unknown: bool = False
    """Whether it was not looked at, so that nobody can say later what is back."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A text elsewhere that names the subject or an erased thread. It is never removed."""

    store: str
    kind: Literal["thread", "memory", "archive"]
    name: str
    """The thread, the item as NAMESPACE/KEY, or the file."""
    hits: int
    where: str = ""
    """The first place: a channel with its path, `thread_id`, `key`, `value` or `store`."""


@dataclass(slots=True)
class ErasureReport:
    """What an erasure did, or would do."""

    subject: str | None
    """As given; None if threads were given by id or by conditions."""
    is_dry_run: bool
    places: list[ErasurePlace] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    has_more_mentions: bool = False
    """Whether there are more mentions than are listed."""
    is_searched: bool = True
    """Whether mentions were looked for."""
    statements: list[str] = field(default_factory=list)
    """What engines and files did to the old bytes, in order."""
    stopped: str = ""
    """Why it stopped early; `''` if it did not."""

    @property
    def is_complete(self) -> bool:
        """Whether all that was found is erased, so that nothing of it can be read in any place.

        Free space that an engine reuses later, and what can never be reached, do not count.
        """
        return not (self.is_dry_run or self.stopped or any(one.is_left for one in self.places))

    def add(self, places: Iterable[ErasurePlace]) -> None:
        """Add places; what two stores of one server report is kept once."""
        for one in places:
            if one not in self.places:
                self.places.append(one)

    def did(self, statements: Iterable[str]) -> None:
        """Add statements, each once."""
        self.statements += [one for one in statements if one not in self.statements]
