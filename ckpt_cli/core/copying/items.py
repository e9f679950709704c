"""What became of each item of long-term memory that was to be copied."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ckpt_backends.memory.protocol import ItemKey
from ckpt_cli.core.copying.outcomes import CopyStep


@dataclass(slots=True)
class CopiedItem:
    """What became of one item, or what would."""

    key: ItemKey
    step: CopyStep
    size: int = 0
    """Bytes of the value in the source."""
    vectors: int = 0
    """Vectors that the source has of it, which are not copied."""
    digest: bytes = b""
    """Of the value and the times, as the target has to store them."""
    there: bytes = b""
    """The same of another item that the target has; empty if it has none."""
    expires_at: datetime | None = None
    reason: str = ""
    """Why it is skipped or replaced."""
    is_different: bool = False
    """Whether the target has another item with this key."""
    has_expired: bool = False
    """Whether it is left out because the target's server would remove it at once."""
    is_verified: bool = False
    """Whether it was read back from the target and is equal."""


@dataclass(slots=True)
class MemoryCopyReport:
    """What became of all items."""

    source: str
    """URL without a password."""
    target: str
    is_dry_run: bool
    items: list[CopiedItem] = field(default_factory=list)
    """Those that are not merely present, in order."""
    number: int = 0
    """Items that the target has."""
    bytes: int = 0
    """Of these items."""
    added: int = 0
    expired: int = 0
    """Items that were left out because they have expired."""
    embedded: int = 0
    """Items among those of the target whose vectors were not copied."""
    unverified: int = 0

    def add(self, one: CopiedItem) -> None:
        """Add what became of an item."""
        if one.has_expired:
            self.expired += 1
            return
        if one.step is not CopyStep.PRESENT:
            self.items.append(one)
        if one.step is CopyStep.SKIP:
            return
        self.number += 1
        self.bytes += one.size
        if one.step is not CopyStep.PRESENT:
            self.added += 1
            self.embedded += one.vectors > 0
        self.unverified += not one.is_verified

    @property
    def skipped(self) -> list[CopiedItem]:
        """The items that were not copied."""
        return [one for one in self.items if one.step is CopyStep.SKIP]

    @property
    def is_verified(self) -> bool:
        """Whether all items of the target were read back and are equal."""
        return not self.is_dry_run and not self.unverified
