"""Filters for items of long-term memory, and the text form of namespaces and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from ckpt_backends.memory.protocol import Item, ItemKey, Namespace

_ESCAPE, _SEPARATOR, _EMPTY = "\\", "/", "\\e"


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter for items. All conditions that are given must hold."""

    match: str | None = None
    """Shell pattern that the whole key must match."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the last update, both inclusive; an item without a time never matches."""
    expired: bool | None = None
    """True: only expired items. False: only items that are not expired."""
    category: str | None = None
    min_confidence: float | None = None
    """Items without a confidence never match."""
    source: str | None = None
    """The thread that an item names as its source."""

    def fits(self, item: Item, now: datetime) -> bool:
        """Return whether an item matches."""
        if self.match is not None and not fnmatchcase(item.key.key, self.match):
            return False
        if self.expired is not None and is_expired(item, now) is not self.expired:
            return False
        if self.category is not None and item.category != self.category:
            return False
        if self.min_confidence is not None and (
            item.confidence is None or item.confidence < self.min_confidence
        ):
            return False
        if self.source is not None and (
            item.source is None or item.source.thread_id != self.source
        ):
            return False
        return self._is_of_time(item.updated_at)

    def _is_of_time(self, at: datetime | None) -> bool:
        if self.since is None and self.until is None:
            return True
        if at is None:
            return False
        return not (
            (self.since is not None and at < self.since)
            or (self.until is not None and at > self.until)
        )


def is_expired(item: Item, now: datetime) -> bool:
    """Return whether the application's next sweep will remove the item."""
    return item.expires_at is not None and item.expires_at < now


def format_namespace(namespace: Namespace) -> str:
    r"""Join labels with `/`. In a label, `/` becomes `\/` and a backslash `\\`; an empty label is
    `\e`.
    """
    return _SEPARATOR.join(map(_escaped, namespace))


def format_key(key: ItemKey) -> str:
    """Return an item's namespace and key as one text; `item_keys` reverses it."""
    return _SEPARATOR.join(map(_escaped, (*key.namespace, key.key)))


def parse_namespace(text: str) -> Namespace:
    """Reverse `format_namespace`; slashes at the ends are ignored."""
    return tuple(_unescaped(part) for part in _parts(text) if part)


def item_keys(text: str) -> Iterator[ItemKey]:
    """Yield all readings of `NAMESPACE/KEY`: a key may itself contain slashes, escaped or not."""
    parts = list(_parts(text))
    for end in range(len(parts) - 1, 0, -1):
        namespace = tuple(map(_unescaped, filter(None, parts[:end])))
        rest = _SEPARATOR.join(parts[end:])
        for key in dict.fromkeys((_unescaped(rest), rest)):
            yield ItemKey(namespace, key)


def _escaped(label: str) -> str:
    if not label:
        return _EMPTY
    for character in (_ESCAPE, _SEPARATOR):
        label = label.replace(character, _ESCAPE + character)
    return label


def _unescaped(part: str) -> str:
    if part == _EMPTY:
        return ""
    letters = iter(part)
    return "".join(next(letters, _ESCAPE) if one == _ESCAPE else one for one in letters)


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between unescaped slashes; escapes in them are kept."""
    start = place = 0
    while place < len(text):
        if text[place] == _ESCAPE:
            place += 1
        elif text[place] == _SEPARATOR:
            yield text[start:place]
            start = place + 1
        place += 1
    yield text[start:]
