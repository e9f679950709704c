"""What is left of removed data after an erasure, as data for a receipt."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from typing import NamedTuple


class Remaining(NamedTuple):
    """A place that may still hold removed data."""

    place: str
    """Without an id of a thread or a user: `write-ahead log of the server`."""
    reason: str
    is_reachable: bool = False
    """Whether a later run can erase it; False if a right is missing."""
    needs_rewrite: bool = False
    """Whether it is free space that only `rewrite` erases, which was not asked for."""


class Remains(NamedTuple):
    """What an erasure did to the old bytes, and where they may still be."""

    done: tuple[str, ...] = ()
    """Statements and steps that were carried out, in order: `VACUUM`."""
    places: tuple[Remaining, ...] = ()


BACKUPS = Remaining("backups", "copies that were made before cannot be reached from here")
FREED_BLOCKS = Remaining(
    "free blocks of the disk",
    "the blocks of deleted and shortened files stay until the system reuses them; snapshots,"
    " copy-on-write file systems and SSDs may keep them longer",
)
UNKNOWN_REMAINS = Remains(
    places=(Remaining("the store", "its backend does not say what it keeps of removed data"),)
)
"""The answer of a backend that cannot erase."""
