"""Regular expressions from a person, matched against texts of a store within a time limit."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ckpt_backends.errors import UsageError

FASTER = "a repetition inside a repetition, such as '(a+)+', takes long"
"""Hint for a pattern that takes too long."""
_SECONDS = 1.0
"""The search of one line is stopped after this time."""
_MOST = 10
"""No more lines are searched after the search of this number of lines was stopped."""
_MOST_COPIES = 100_000
"""`regex` writes out what a count such as `{100}` repeats."""
_HARMLESS = re.compile(r"[^(*+?{]*")
"""Without a group and a repetition, `re` looks at each character only a few times."""
_TOKEN = re.compile(
    r"""
    \\N\{[^}]*\} | \\.                               # an escape
    | (?P<set>\[\^?\]?+(?:[^\]\\]|\\.)*+\])          # a set of characters
    | (?P<count>\{(?:(?P<least>\d+)(?:,(?P<most>\d*))?|,(?P<only_most>\d*))\})
    | (?P<brace>\{) | (?P<open>\() | (?P<close>\)) | .
    """,
    re.VERBOSE | re.DOTALL,
)


class Finder:
    """Finds the first match of a pattern in a line.

    A line that takes too long to search counts as a line without a match and is kept in `stopped`.
    """

    def __init__(self, search: Callable[[str], Any]) -> None:
        self._search = search
        self._stopped: set[str] = set()

    @property
    def stopped(self) -> int:
        """Number of different lines whose search was stopped."""
        return len(self._stopped)

    def __call__(self, line: str) -> tuple[int, int] | None:
        """Return where the first match starts and ends; None if there is none."""
        if self._stopped and (line in self._stopped or gave_up(self.stopped)):
            return None
        try:
            found = self._search(line)
        except (TimeoutError, MemoryError):
            self._stopped.add(line)
            return None
        return None if found is None else found.span()


def gave_up(stopped: int) -> bool:
    """Return whether the search of too many lines was stopped, so that the rest is not searched."""
    return stopped >= _MOST


def stopped_text(stopped: int) -> str:
    """Return how many lines were not searched; empty if none."""
    lines = "1 line" if stopped == 1 else f"{stopped} lines"
    return f"the pattern takes too long on {lines}" if stopped else ""


def compile_pattern(
    pattern: str,
    *,
    fixed: bool,
    ignore_case: bool,
    hint: str = "-F searches for the text as it is",
) -> Finder:
    """Return a function that finds the pattern in a line.

    Raises `UsageError` with this hint if the pattern is not a valid regular expression.
    """
    flags = re.IGNORECASE if ignore_case else 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            found = re.compile(re.escape(pattern) if fixed else pattern, flags)
        if not fixed and not _HARMLESS.fullmatch(pattern):
            return _bounded(pattern, ignore_case=ignore_case)
    except (ValueError, re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"cannot read the pattern '{pattern}': {error}", hint=hint) from None
    return Finder(found.search)


def tokens(pattern: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of a valid pattern: characters, escapes, sets, counts, groups' brackets."""
    return _TOKEN.finditer(pattern)


def _bounded(pattern: str, *, ignore_case: bool) -> Finder:
    """Return a function for a pattern that may backtrack for hours.

    `regex` stops after a given time, in any thread, and lets other threads run.
    """
    import regex  # takes 20 ms

    flags = regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0)
    try:
        search = regex.compile(_as_regex(pattern), flags).search
    except regex.error as error:
        raise ValueError(str(error)) from None
    return Finder(lambda line: search(line, timeout=_SECONDS, concurrent=True))


def _as_regex(pattern: str) -> str:
    """Return a valid pattern of `re` with the same meaning for `regex`.

    There, other braces than counts ask for similar texts, and `[:` begins a class in a set. Raises
    `ValueError` if the counts would make it too large.
    """
    parts: list[str] = []
    sizes, last = [0], 0
    for token in tokens(pattern):
        text, kind = token[0], token.lastgroup
        if kind == "open":
            sizes.append(0)
            last = 0
        elif token["count"]:
            numbers = (token["least"], token["most"], token["only_most"])
            times = max((int(one) for one in numbers if one), default=1)
            sizes[-1] += last * max(times - 1, 0)
            last *= max(times, 1)
        else:
            last = sizes.pop() + 1 if kind == "close" and len(sizes) > 1 else 1
            sizes[-1] += last
        if sizes[-1] > _MOST_COPIES:
            raise ValueError(f"its counts repeat more than {_MOST_COPIES:,} characters")
        if kind == "set":
            text = text[0] + text[1:].replace("[", r"\[")
        parts.append(r"\{" if kind == "brace" else text)
    return "".join(parts)
