"""Takes the ids of erased threads out of lines of the log of operations, and reads the history of
`ckpt sql`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

ERASED = "[erased]"
CANNOT_UNDO = "what it changed was erased"
_ENTRY = rb"(?:(?!\+).*\n)*(?:\+.*(?:\n|$))+|(?s:.+)"
_WORD, _LITERAL = r"[^\s'\"(),;=<>]+", r"'((?:[^']|'')*)'"


def history_entries(history: bytes) -> list[bytes]:
    """Return the entries of a history of queries.

    An entry is a time as a comment, then the lines of the query, each behind a `+`, as
    prompt-toolkit's `FileHistory` writes them.
    """
    return re.findall(_ENTRY, history)


def query_of(entry: bytes) -> str:
    """Return the query of an entry."""
    lines = entry.decode(errors="replace").split("\n")
    return "\n".join(one[1:] for one in lines if one.startswith("+"))


def words_of_query(text: str) -> set[str]:
    """Return the words and the literals of a query, without the wildcards around them."""
    literals = (one.replace("''", "'") for one in re.findall(_LITERAL, text))
    return {one.strip("%") for one in (*re.findall(_WORD, text), *literals)}


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
