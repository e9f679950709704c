"""One operation: a change that `ckpt` made to a store, as one line of the log.

{"ckpt_operation": 1, "op": "3f2a9c0b7d41", "at": "...", "user": "anna", "action": "rollback",
 "store": "postgresql://db/agents", "place": "...", "threads": ["user-42"], "number": 1, ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

FORMAT = 1
MOST_THREADS = 1000
"""Maximum number of thread ids in the record; the steps name all of them."""


class Operation(NamedTuple):
    """A change of a store, of one thread or of many."""

    op: str
    """Its id: 12 hexadecimal digits."""
    at: datetime
    """When it began, UTC."""
    user: str
    """The name of the user of the operating system."""
    action: str
    """`rollback`, `fork`, `repair`, `undo`, `purge`, ..."""
    store: str
    """URL of the store without secrets."""
    place: str
    """A digest of where the store is; see `place`."""
    threads: tuple[str, ...] = ()
    """The ids of the changed threads, at most `MOST_THREADS`."""
    number: int = 0
    """The number of changed threads, or of changed items of long-term memory."""
    reason: str | None = None
    command: str = ""
    """The command line without secrets and values."""
    undoes: str | None = None
    """The operation that it takes back."""
    cannot_undo: str = ""
    """Why it cannot be taken back; `''` if its steps say how."""
    added: tuple[str, ...] = ()
    """Ids of the checkpoints that it added, at most `MOST_THREADS`."""
    ended: str = ""
    """Why it stopped early, or that it was found by a later run; `''` if it ended as planned."""

    @property
    def keeps_steps(self) -> bool:
        """Whether its steps are kept: to take it back, or to know what an undo left to do."""
        return not self.cannot_undo or self.undoes is not None

    @property
    def why_not_kept(self) -> str:
        """Why it cannot be taken back if its steps do not say how."""
        if self.undoes is not None:
            return "what it removed was not kept; run the original command again"
        return "what it replaced was not kept"


def to_record(one: Operation) -> dict[str, Any]:
    """Return an operation as a line of the log."""
    return {
        "ckpt_operation": FORMAT,
        "op": one.op,
        "at": one.at.isoformat(),
        "user": one.user,
        "action": one.action,
        "store": one.store,
        "place": one.place,
        "threads": list(one.threads),
        "number": one.number,
        "reason": one.reason,
        "command": one.command,
        "undoes": one.undoes,
        "cannot_undo": one.cannot_undo,
        "added": list(one.added),
        "ended": one.ended,
    }


def from_record(record: Mapping[str, Any]) -> Operation:
    """Parse a line of the log. Raises `ValueError`, `KeyError` or `TypeError`."""
    if record["ckpt_operation"] != FORMAT:
        raise ValueError(record["ckpt_operation"])
    texts = ("op", "user", "action", "store", "place", "command", "cannot_undo", "ended")
    return Operation(
        at=datetime.fromisoformat(record["at"]),
        threads=tuple(map(str, record["threads"])),
        number=int(record["number"]),
        reason=_optional(record["reason"]),
        undoes=_optional(record["undoes"]),
        added=tuple(map(str, record["added"])),
        **{name: str(record[name]) for name in texts},
    )


def _optional(text: object) -> str | None:
    return None if text is None else str(text)
