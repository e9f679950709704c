"""Answers from long-term memory: lists, single items and searches.

With `redacted`, no value leaves this module, only namespaces, keys, times, sizes and the names of
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Ambiguous, NotFound
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, Namespace
from ckpt_cli.core.memory.item_filter import ItemFilter, format_key, item_keys
from ckpt_cli.core.redact import redact, redact_match
from ckpt_cli.core.search.matches import Match, search
from ckpt_cli.core.search.patterns import Finder, gave_up

_NAMED = 5
"""Maximum number of candidates that an error names."""
Place = Literal["namespace", "key", "value"]


@dataclass(frozen=True, slots=True)
class Read:
    """An item with its value."""

    item: Item
    value: Value


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A matching line of an item."""

    item: Item
    place: Place
    label: int | None
    """Index of the matching label in the namespace."""
    match: Match


def list_items(
    memory: MemoryStore, prefix: Namespace, wanted: ItemFilter, now: datetime, *, redacted: bool
) -> Iterator[Item]:
    """Yield the matching items under a namespace, in order.

    Values are read only to filter by source thread, because items of a Store name it in their
    value.
    """
    found = memory.items(prefix=prefix, values=wanted.source is not None)
    for one in found if wanted.source is None else map(_with_source, found):
        if wanted.fits(one, now):
            yield without_values(one) if redacted else one


def read_items(
    memory: MemoryStore, prefix: Namespace, wanted: ItemFilter, now: datetime, *, redacted: bool
) -> Iterator[Read]:
    """Yield the same items with their values, one at a time."""
    for one in memory.items(prefix=prefix, values=True):
        if wanted.fits(one, now):
            yield _read(one, redacted=redacted)


def named_items(memory: MemoryStore, names: Iterable[str], prefix: Namespace) -> Iterator[Item]:
    """Yield the named items, in order. Raises `NotFound` or `Ambiguous`."""
    yield from memory.items(keys=dict.fromkeys(find_key(memory, name, prefix) for name in names))


def find_key(memory: MemoryStore, text: str, prefix: Namespace) -> ItemKey:
    """Return the key of the item with this key under a namespace, or with this NAMESPACE/KEY.

    An item in the namespace itself wins over those below it. Raises `NotFound` or `Ambiguous`.
    """
    named = [one.key for one in memory.items(prefix=prefix, key=text)]
    here = [one for one in named if prefix and one.namespace == prefix]
    if not named:
        asked = [replace(one, namespace=(*prefix, *one.namespace)) for one in item_keys(text)]
        named = [one.key for one in memory.items(keys=asked)] if asked else []
    found = list(dict.fromkeys(here or named))
    if not found:
        raise NotFound(f"no item '{text}'", hint="`ckpt memory list --all` lists the items")
    if len(found) > 1:
        shown = ", ".join(shell.name(format_key(one)) for one in found[:_NAMED])
        more = len(found) - _NAMED
        raise Ambiguous(
            f"'{text}' matches {len(found)} items",
            hint=f"use one of {shown}" + (f" and {more} more" if more > 0 else ""),
        )
    return found[0]


def stored_item(memory: MemoryStore, key: ItemKey) -> Item:
    """Return an item with its value as stored. Raises `NotFound`."""
    for one in memory.items(keys=[key], values=True):
        return one
    raise NotFound(f"item '{format_key(key)}' no longer exists")


def read_item(memory: MemoryStore, key: ItemKey, *, redacted: bool) -> Read:
    """Return an item with its decoded value. Raises `NotFound`."""
    return _read(stored_item(memory, key), redacted=redacted)


def search_items(
    memory: MemoryStore,
    prefix: Namespace,
    find: Finder,
    watch: Callable[[Iterable[Item]], Iterable[Item]],
    *,
    redacted: bool,
) -> Iterator[MemoryHit | None]:
    """Yield matching lines of namespaces, keys and values, in order; None for unreadable values.

    Ends early if the pattern takes too long on too many lines.
    """
    for item in watch(memory.items(prefix=prefix, values=True)):
        if gave_up(find.stopped):
            return
        value = _read(item, redacted=False).value
        bare = without_values(item) if redacted else replace(item, value=None)
        for number, label in enumerate(item.key.namespace):
            yield from _hits(bare, "namespace", number, label, find)
        yield from _hits(bare, "key", None, item.key.key, find)
        for hit in _hits(bare, "value", None, value, find):
            if hit is not None and redacted:
                yield replace(hit, match=redact_match(hit.match))
            else:
                yield hit


def _hits(
    item: Item, place: Place, label: int | None, value: Value, find: Finder
) -> Iterator[MemoryHit | None]:
    for match in search(value, find):
        yield None if match is None else MemoryHit(item, place, label, match)


def _read(item: Item, *, redacted: bool) -> Read:
    assert item.value is not None  # noqa: S101
    value = decode(item.value)
    if redacted:
        return Read(without_values(item), redact(value))
    return Read(replace(item, value=None), value)


def _with_source(item: Item) -> Item:
    # Imported here, since plain listings do not need it.
    from ckpt_cli.core.memory.fact_problems import source_of

    return replace(item, source=source_of(item), value=None)


def without_values(item: Item) -> Item:
    """Return an item without its value, category and confidence."""
    return replace(item, value=None, category=None, confidence=None)
