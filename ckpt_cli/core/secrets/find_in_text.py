"""Find credentials in one text, by rules; however long or hostile it is."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ckpt_cli.core.secrets.rules import SecretRule

_SECONDS = 1.0
"""The search of one piece of a text by one rule is stopped after this time."""
_MOST_STOPS = 3
"""A rule that was stopped this often is not tried again."""
_PIECE, _OVERLAP = 1 << 16, 1 << 14
"""Long texts are searched in pieces. A secret is shorter than the part that two pieces share."""
_SHORT = 64
"""Longer texts are remembered by their hash."""
_MOST_KNOWN, _MOST_SPANS = 100_000, 100
"""Number of texts that are remembered, and of credentials in each."""
_EDGES = " \t\r\n\"'=:"
"""Some patterns of detect-secrets match what is around a secret."""


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Where a credential is in a text."""

    kind: str
    start: int
    end: int


class TextRules:
    """Rules, compiled, with what they found in the texts before."""

    def __init__(self, rules: Sequence[SecretRule]) -> None:
        self._rules = [(rule, _compiled(rule)) for rule in rules]
        self._anchors = _by_anchor(rules, ignore_case=False)
        self._lower_anchors = _by_anchor(rules, ignore_case=True)
        self._stops: Counter[int] = Counter()
        self._known: dict[str | bytes, tuple[SecretSpan, ...]] = {}

    @property
    def stopped(self) -> int:
        """How often a rule was stopped because it took too long."""
        return self._stops.total()

    def find(self, text: str) -> tuple[SecretSpan, ...]:
        """Return the credentials in a text, in order; they do not overlap."""
        key = text if len(text) <= _SHORT else _digest(text)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._search(text)
            if len(found) <= _MOST_SPANS:
                self._known[key] = found
        return found

    def _search(self, text: str) -> tuple[SecretSpan, ...]:
        if len(text) <= _PIECE:
            return _apart(self._in_piece(text, 0))
        found: list[SecretSpan] = []
        for start in range(0, len(text) - _OVERLAP, _PIECE - _OVERLAP):
            found += self._in_piece(text[start : start + _PIECE], start)
        # Of a secret that two pieces share, one may see only a part.
        return _apart(sorted(found, key=lambda one: one.start - one.end))

    def _in_piece(self, text: str, offset: int) -> Iterator[SecretSpan]:
        for number in self._to_try(text):
            rule, pattern = self._rules[number]
            if self._stops[number] >= _MOST_STOPS:
                continue
            try:
                for match in pattern.finditer(text, timeout=_SECONDS, concurrent=True):
                    start, end = _place(match, rule.shortest_group)
                    if rule.accepts(text[start:end]):
                        yield SecretSpan(rule.kind, offset + start, offset + end)
            except (TimeoutError, MemoryError):
                self._stops[number] += 1

    def _to_try(self, text: str) -> list[int]:
        """Return the rules with an anchor in a text."""
        found: set[int] = set()
        for anchor, numbers in self._anchors:
            if anchor in text:
                found |= numbers
        lower = text.lower()
        for anchor, numbers in self._lower_anchors:
            if anchor in lower:
                found |= numbers
        return sorted(found)


def _by_anchor(rules: Sequence[SecretRule], *, ignore_case: bool) -> list[tuple[str, set[int]]]:
    """Return each anchor with the rules that have it."""
    found: dict[str, set[int]] = {}
    for number, rule in enumerate(rules):
        if rule.ignore_case is ignore_case:
            for anchor in rule.anchors:
                found.setdefault(anchor.lower() if ignore_case else anchor, set()).add(number)
    return list(found.items())


def _compiled(rule: SecretRule) -> Any:
    import regex  # takes 20 ms; its searches can be stopped

    flags = regex.VERSION0 | (regex.IGNORECASE if rule.ignore_case else 0)
    return regex.compile(rule.pattern, flags)


def _place(match: Any, shortest: int) -> tuple[int, int]:
    """Return where the secret of a match is."""
    spans = [match.span(number) for number in range(1, match.re.groups + 1)]
    start, end = max(spans, key=lambda one: one[1] - one[0], default=(0, 0))
    if end - start >= shortest:
        return int(start), int(end)
    start, end = match.span()
    text = match.group()
    before = len(text) - len(text.lstrip(_EDGES))
    return start + before, end - (len(text) - len(text.rstrip(_EDGES)))


def _apart(found: Iterable[SecretSpan]) -> tuple[SecretSpan, ...]:
    """Return the spans in the order of the text; of two that overlap, the first that is given."""
    starts: list[int] = []
    kept: list[SecretSpan] = []
    for one in found:
        place = bisect_left(starts, one.start)
        is_before = place == len(kept) or one.end <= kept[place].start
        is_behind = place == 0 or kept[place - 1].end <= one.start
        if is_before and is_behind:
            starts.insert(place, one.start)
            kept.insert(place, one)
    return tuple(kept)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
