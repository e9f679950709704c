"""Cut an answer into pages: as many items as a number of characters holds, then a cursor."""

from __future__ import annotations

import binascii
import hashlib
import json
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from ckpt_backends.errors import UsageError
from ckpt_cli.render.terminal.safe_text import safe_json, safe_text

Item: TypeAlias = Mapping[str, Any] | str
"""One part of an answer: a record, or a line of a drawing."""
_DEEPEST = 50
"""Levels of a record as JSON; parsers of clients refuse more than 100 or 200 in a message."""
_AROUND = 900
"""Number of characters for what stands around the items."""


@dataclass(frozen=True, slots=True)
class PageStart:
    """Where a page begins."""

    item: int = 0
    """Number of items before it."""
    offset: int = 0
    """Number of characters of the first item that earlier pages had."""


@dataclass(frozen=True, slots=True)
class Page:
    """Items of an answer, and where the next page begins."""

    items: list[Item]
    following: PageStart | None
    """None on the last page."""


def call_key(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a text that differs between calls whose pages must not be mixed."""
    rest = {key: value for key, value in arguments.items() if key not in {"cursor", "max_chars"}}
    asked = json.dumps([name, rest], sort_keys=True)
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def to_cursor(place: PageStart, key: str) -> str:
    """Return the text that a client sends for the page that begins at a place."""
    text = f"{place.item}:{place.offset}:{key}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def from_cursor(cursor: str, key: str) -> PageStart:
    """Return the place of a cursor. Raises `UsageError` if it belongs to another call."""
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        item, offset, of = text.split(":")
        place = PageStart(int(item), int(offset))
    except (binascii.Error, ValueError):
        raise _foreign() from None
    if of != key or not (0 <= place.item <= sys.maxsize and 0 <= place.offset <= sys.maxsize):
        raise _foreign()
    return place


def _foreign() -> UsageError:
    return UsageError(
        "this cursor is not from this call",
        hint="send next_cursor with the same arguments, or leave out the cursor",
    )


def cut(items: Iterable[Item], place: PageStart, size: int) -> Page:
    """Return the page that begins at a place. Raises `UsageError` if an item ends before it.

    It has at least one item, and at most about `size` characters, as text and as JSON. An item
    that is larger than a page comes in parts, each with a piece of its JSON text.
    """
    room = max(size - _AROUND, _AROUND)
    found = islice(items, place.item, None)
    first = next(found, None)
    if first is None:
        return Page([], None)
    if place.offset or width(first) > room:
        return _part(first, found, place, room)
    taken, room = [first], room - width(first)
    for n, one in enumerate(found, place.item + 1):
        room -= width(one)
        if room < 0:
            return Page(taken, PageStart(n))
        taken.append(one)
    return Page(taken, None)


def _part(item: Item, following: Iterator[Item], place: PageStart, room: int) -> Page:
    """Return a page with a part of one item."""
    text = line(item)
    if place.offset > len(text):
        raise _foreign()
    # Its quotes and backslashes are escaped once more as a part of a JSON text.
    end, room = place.offset, room - _AROUND // 2
    while end < len(text) and room > 0:
        room -= len(json.dumps(text[end])) - 2
        end += 1
    part = {"part": text[place.offset : end], "from": place.offset, "of": len(text)}
    if end < len(text):
        return Page([part], PageStart(place.item, end))
    more = next(following, None) is not None
    return Page([part], PageStart(place.item + 1) if more else None)


def line(item: Item) -> str:
    """Return an item as one line of text, without keys that say nothing."""
    if isinstance(item, str):
        return safe_text(item)
    kept = {key: value for key, value in item.items() if value not in (None, [], {}, "")}
    return safe_json(json.dumps(kept, ensure_ascii=False, separators=(",", ":")))


def width(item: Item) -> int:
    """Return the number of characters of an item, as text or as JSON, whatever is more."""
    return max(len(line(item)), len(json.dumps(structured(item), ensure_ascii=False))) + 2


def structured(item: Item) -> dict[str, Any]:
    """Return an item as JSON for programs, whose texts a reader cannot be fooled by either."""
    if isinstance(item, str):
        return {"line": safe_text(item)}
    return {safe_text(key): _shallow(value, _DEEPEST) for key, value in item.items()}


def _shallow(value: Any, levels: int) -> Any:
    """Return a JSON value with at most this number of levels; the text has the rest."""
    match value:
        case dict() | list() if not levels:
            return {"$deeper": "the text of this answer has the rest"}
        case dict():
            return {safe_text(key): _shallow(one, levels - 1) for key, one in value.items()}
        case list():
            return [_shallow(one, levels - 1) for one in value]
        case str():
            return safe_text(value, newlines=True)
    return value
