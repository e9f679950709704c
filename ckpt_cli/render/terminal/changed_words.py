"""Find the words that differ between two blocks of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

_WORD = re.compile(r"\w+|[^\w\s]")
_MOST = 250_000
"""Two blocks are compared only up to this product of their numbers of words."""
_LEAST_ALIKE = 0.4
"""If fewer words are equal, the blocks have nothing to do with each other."""

Parts: TypeAlias = list[tuple[str, bool]]
"""The pieces of a line, each with whether it differs."""


def changed_words(
    before: Sequence[str], after: Sequence[str]
) -> tuple[list[Parts], list[Parts]] | None:
    """Return both blocks with the words that differ; None if too little is alike.

    Words are compared over line ends, because a longer word moves others to the next line.
    """
    old, new = _words(before), _words(after)
    if not 0 < len(old) * len(new) <= _MOST:
        return None
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < _LEAST_ALIKE:
        return None
    kept: tuple[set[int], set[int]] = set(), set()
    for left, right, length in matcher.get_matching_blocks():
        kept[0].update(range(left, left + length))
        kept[1].update(range(right, right + length))
    return list(_marked(before, kept[0])), list(_marked(after, kept[1]))


def _words(lines: Sequence[str]) -> list[str]:
    return [found.group() for text in lines for found in _WORD.finditer(text)]


def _marked(lines: Sequence[str], kept: set[int]) -> Iterator[Parts]:
    word = 0
    for text in lines:
        parts: Parts = []
        at = 0
        for found in _WORD.finditer(text):
            is_changed = word not in kept
            # The blanks between two changed words belong to the change.
            joins = is_changed and bool(parts) and parts[-1][1]
            _add(parts, text[at : found.start()], is_changed=joins)
            _add(parts, found.group(), is_changed=is_changed)
            at = found.end()
            word += 1
        _add(parts, text[at:], is_changed=False)
        yield parts


def _add(parts: Parts, text: str, *, is_changed: bool) -> None:
    if text and parts and parts[-1][1] == is_changed:
        parts[-1] = parts[-1][0] + text, is_changed
    elif text:
        parts.append((text, is_changed))
