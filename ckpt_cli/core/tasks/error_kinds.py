"""Tell which errors are of one kind: they differ in numbers and ids only."""

from __future__ import annotations

import re

_LINE_END = re.compile(r"\n|(?<!\\)\\n")
_MOST = 200
"""Maximum length of a kind."""
_BLANK = "…"
_END = "⏎"
_MOST_LINES = 20
_SHORT = 40
"""A first line with fewer characters does not tell what happened: the next ones are shown, too."""
_VARYING = r"""
    0x[0-9a-f]+ |                                     # addresses of objects
    [0-9a-f]{8}-[0-9a-f-]{4,32} |                     # UUIDs
    \b(?=[a-f]*\d)[0-9a-f]{8,}\b |                    # hashes and hex ids
    \d+(?:[.:,/-]\d+)*                                # numbers, times and addresses
"""
"""Compiled when it is used: most commands print errors as they are."""


def first_line(text: str) -> str:
    """Return the first line of an error, which may be a `repr` with escaped line ends."""
    stripped = text.strip()
    first = _LINE_END.split(stripped, maxsplit=1)[0]
    return first if first == stripped else f"{first} {_BLANK}"


def error_start(text: str) -> str:
    """Return an error on one line: its first line, with those after it while that is short.

    The end of each of these lines is shown as `⏎`.
    """
    lines = [one.strip() for one in _LINE_END.split(text.strip(), maxsplit=_MOST_LINES)]
    shown = lines[0]
    for number, one in enumerate(lines[1:], 1):
        if len(shown) >= _SHORT:
            return f"{shown} {_BLANK}" if any(lines[number:]) else shown
        shown = f"{shown} {_END} {one}" if one else shown
    return shown


def error_kind(text: str) -> str:
    """Return the first line of an error without what differs between errors of one kind.

    `TimeoutError('no answer after 31 s')` becomes `TimeoutError('no answer after … s')`.
    """
    line = first_line(text[: _MOST * 10])
    kind = re.sub(_VARYING, _BLANK, line, flags=re.VERBOSE | re.IGNORECASE)
    return kind if len(kind) <= _MOST else kind[: _MOST - 1] + _BLANK
