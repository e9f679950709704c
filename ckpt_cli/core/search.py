"""Searches texts in values."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ckpt_backends.codec.stored import is_findable, is_findable_in_any_case
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.errors import UsageError
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.values import Path, same

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
    pattern: str, *, fixed: bool, ignore_case: bool, hint: str = "-F searches for the text as it is"
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


@dataclass(frozen=True, slots=True)
class Match:
    """A line of a value that matches the pattern."""

    path: Path
    """Path inside the channel."""
    place: tuple[str | int, ...]
    """The path with a message's id in place of its index, and without other list indexes: it stays
    the same when items are inserted or removed before it.
    """
    line: str
    number: int
    """Number of the line, from 1."""
    start: int
    end: int
    """Start and end of the first match in the line."""


@dataclass(slots=True)
class SeenMatches:
    """What was found on a branch so far; each match is a hash of its place and line."""

    reported: dict[int, int] = field(default_factory=dict)
    """Number of times that each match was reported."""
    here: dict[str, Counter[int]] = field(default_factory=dict)
    """For each channel, the number of times that its last value contains each match."""
    lines: set[int] = field(default_factory=set)
    """All lines that matched: hashes of (channel, text) and of (None, text)."""

    def copy(self) -> SeenMatches:
        """Return a copy for another branch."""
        here = {name: one.copy() for name, one in self.here.items()}
        return SeenMatches(self.reported.copy(), here, self.lines.copy())

    def has(self, channel: str | None, line: str) -> bool:
        """Return whether a value of the channel (of any channel, if None) contained this line."""
        return hash((channel, line)) in self.lines


def search(value: Value, find: Finder, first: int = 0) -> Iterator[Match | None]:
    """Yield the matching lines of a value, in order; None for a part that could not be read.

    Texts and numbers are searched at any depth; keys and field names are not. Of a list, items from
    index `first` on are searched. Not recursive.
    """
    todo: list[tuple[Path, tuple[str | int, ...], Value]] = [((), (), value)]
    if first and isinstance(value, list):
        todo = [((n,), (_identity(value[n]),), value[n]) for n in range(first, len(value))]
        todo.reverse()
    while todo:
        path, place, item = todo.pop()
        while isinstance(item, Tagged | Cut):
            if isinstance(item, Cut) or _is_raw(item):
                yield None
            item = item.payload if isinstance(item, Tagged) else item.kept
        if isinstance(item, Opaque):
            yield None
        text = _text(item)
        if text is not None:
            yield from _lines(path, place, text, find)
        elif isinstance(item, list):
            parts = [((*path, n), (*place, _identity(one)), one) for n, one in enumerate(item)]
            todo += reversed(parts)
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                name = key if isinstance(key, str | int) else str(key)
                todo.append(((*path, name), (*place, name), part))


def search_questions(value: Value, find: Finder) -> Iterator[Match | None]:
    """Yield the matching lines of the questions in an `__interrupt__` write."""
    raised = value.kept if isinstance(value, Cut) else value
    items = items_of(raised)
    for number, item in enumerate([raised] if items is None else items):
        payload = item.payload if isinstance(item, Tagged) else item
        path: Path = () if items is None else (number,)
        asked: Value = item
        if isinstance(payload, dict) and "value" in payload:
            path, asked = (*path, "value"), payload["value"]
        for match in search(asked, find):
            yield None if match is None else replace(match, path=(*path, *match.path))
    if isinstance(value, Cut):
        yield None


def appended_from(before: Value, after: Value) -> int:
    """Return the number of earlier items if a list was only appended to; otherwise 0."""
    if not isinstance(before, list) or not isinstance(after, list) or len(before) > len(after):
        return 0
    return len(before) if same(before, after[: len(before)]) else 0


def new_matches(
    channel: str, matches: Iterable[Match], known: SeenMatches, *, added: bool
) -> list[Match]:
    """Return the matches that were not reported on this branch yet, and add them to `known`.

    Equal lines at equal places are counted: of three, if two are known, the last is new. With
    `added`, the matches are only those of items that the last value did not have.
    """
    if not added:
        known.here[channel] = Counter()
    here = known.here.setdefault(channel, Counter())
    fresh: list[Match] = []
    for match in matches:
        key = hash((channel, match.place, match.line))
        here[key] += 1
        known.lines |= {hash((channel, match.line)), hash((None, match.line))}
        if here[key] > known.reported.get(key, 0):
            known.reported[key] = here[key]
            fresh.append(match)
    return fresh


def _is_raw(value: Tagged) -> bool:
    """Return whether it is an extension type with a payload that could not be decoded."""
    return value.type.startswith("ext:") and isinstance(value.payload, bytes)


def _lines(path: Path, place: tuple[str | int, ...], text: str, find: Finder) -> Iterator[Match]:
    for number, one in enumerate(text.split("\n"), 1):
        if (found := find(one)) is not None:
            yield Match(path, place, one, number, *found)


def _identity(item: Value) -> str:
    message = as_message(item)
    return "" if message is None or message.id is None else message.id


def _text(value: Value) -> str | None:
    """Return a leaf as text; None for containers and for values without text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() < 10_000 else hex(value)
    return repr(value) if isinstance(value, float) else None
