"""Splits the text of a document into its members, each with its exact text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_SCANNER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def members_of(document: str) -> dict[str, str]:
    """By name, the texts of the members of an object. Raises ValueError for any other text."""
    found: dict[str, str] = {}
    at = _past(document, 0, "{")
    while not document.startswith("}", at):
        if found:
            at = _past(document, at, ",")
        name, at = _SCANNER.raw_decode(document, at)
        start = _past(document, at, ":")
        _, end = _SCANNER.raw_decode(document, start)
        if not isinstance(name, str) or name in found:
            raise ValueError("a name is no text, or appears twice")
        found[name] = document[start:end]
        at = _space(document, end)
    return found


def _past(text: str, at: int, mark: str) -> int:
    """The place behind a mark, with the space around it."""
    at = _space(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"'{mark}' expected at character {at}")
    return _space(text, at + 1)


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def joined(members: Mapping[str, str]) -> str:
    """The text of an object with these members."""
    inside = ", ".join(
        f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members.items()
    )
    return "{" + inside + "}"
