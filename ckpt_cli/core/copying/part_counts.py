"""Numbers of the parts of threads."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.transfer.parts import Part, ValuePart, WritePart, part_size


@dataclass(slots=True)
class PartCounts:
    """Numbers of parts, and the bytes of their values."""

    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    bytes: int = 0
    newest: str = ""
    """The greatest checkpoint id."""

    def add(self, part: Part) -> None:
        """Count one part."""
        self.bytes += part_size(part)
        if isinstance(part, WritePart):
            self.writes += 1
        elif isinstance(part, ValuePart):
            self.values += 1
        else:
            self.checkpoints += 1
            self.newest = max(self.newest, part.key.checkpoint_id)

    def add_all(self, other: PartCounts) -> None:
        """Add the numbers of others."""
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
        self.bytes += other.bytes
        self.newest = max(self.newest, other.newest)

    @property
    def parts(self) -> int:
        """The number of parts of all kinds."""
        return self.checkpoints + self.writes + self.values
