"""The texts that a line must contain to match a pattern: without them, nothing is decoded."""

from __future__ import annotations

import re

from ckpt_backends.codec.stored_text import is_findable, is_findable_in_any_case
from ckpt_cli.core.search.patterns import tokens

_PLAIN_CLASSES = frozenset("dDwWsSbBAZ")
"""Letters that stand for a kind of character or for a place."""
_OF_NUMBERS = re.compile(r"[0-9eE.+\-]*")
_WORDS = ("true", "false", "inf", "nan")
"""Texts of values that are not stored as texts."""
_FEWEST, _FEWEST_DIGITS = 3, 4
"""Shorter parts of a word or of a number are almost everywhere."""


def needed_texts(pattern: str, *, fixed: bool, ignore_case: bool) -> tuple[str, ...]:
    """Return texts, one of which stands in the stored bytes of every value with a matching line.

    Empty if that is not known: the values must be decoded and searched then. With `ignore_case`,
    the texts stand there in any case.
    """
    found = [[pattern]] if fixed else _runs(pattern)
    if ignore_case:
        found = [[part for run in runs for part in _in_any_case(run)] for runs in found]
    longest = [max(filter(_is_usable, runs), key=len, default="") for runs in found]
    return tuple(dict.fromkeys(longest)) if all(longest) else ()


def _in_any_case(run: str) -> list[str]:
    """Return the parts of a run that stand in stored bytes in upper or lower case, and no other."""
    parts = [""]
    for character in run:
        if is_findable_in_any_case(character):
            parts[-1] += character.lower()
        else:
            parts.append("")
    return [part for part in parts if len(part) >= _FEWEST]


def _is_usable(text: str) -> bool:
    is_rare = len(text) >= _FEWEST_DIGITS or _OF_NUMBERS.fullmatch(text) is None
    return is_rare and is_findable(text) and not any(text in word for word in _WORDS)


def _runs(pattern: str) -> list[list[str]]:
    """Return, for each alternative of a pattern, the runs of plain characters outside of groups.

    No run is returned for a pattern with escapes or flags that change what characters mean.
    """
    alternatives: list[list[str]] = [[""]]
    depth = 0
    if "(?" in pattern:
        return [[]]
    for token in tokens(pattern):
        text, runs = token[0], alternatives[-1]
        if text[0] == "\\" and len(text) > 1 and text[1].isalnum():
            if text[1] not in _PLAIN_CLASSES:
                return [[]]
            text = ""
        elif text[0] == "\\":
            text = text[1:]
        elif token["open"] or token["close"]:
            depth += 1 if token["open"] else -1
            text = ""
        elif text == "|" and not depth:
            alternatives.append([""])
            continue
        elif text in ("*", "?") or token["count"]:
            # The character before may be missing.
            runs[-1] = runs[-1][:-1]
            text = ""
        elif text in ("+", "|", ".", "^", "$") or token["set"]:
            text = ""
        if text and not depth:
            runs[-1] += text
        else:
            runs.append("")
    return alternatives
