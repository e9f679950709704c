"""Takes the ids of erased threads out of lines of the log of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ERASED = "[erased]"
CANNOT_UNDO = "what it changed was erased"


def scrubbed(record: Mapping[str, Any], is_erased: Callable[[str], bool]) -> dict[str, Any]:
    """Return a line without erased ids and without texts that may quote one.

    The operation cannot be taken back any more.
    """
    threads = record.get("threads")
    kept = [
        ERASED if not isinstance(one, str) or is_erased(one) else one
        for one in (threads if isinstance(threads, list) else ())
    ]
    return {
        **record,
        "threads": kept,
        "reason": None if record.get("reason") is None else ERASED,
        "command": f"ckpt {record.get('action', '')} {ERASED}",
        "added": [],
        "cannot_undo": CANNOT_UNDO,
        "ended": ERASED if record.get("ended") else "",
    }
