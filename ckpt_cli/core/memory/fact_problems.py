"""Find problems in facts: duplicates, and facts from threads that no longer exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.memory.protocol import Item, ItemKey, Source
from ckpt_cli.core.memory.fact_origin import named_source


def content_of(value: Value) -> str | None:
    """Return the text of a fact; None if the value is not a fact."""
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str) else None


def text_of(item: Item) -> str:
    """Return the text of an item: the text of a fact, or else all texts in its value."""
    value = None if item.value is None else decode(item.value)
    content = content_of(value)
    if content is not None:
        return content
    return "\n".join(_texts(value))


def source_of(item: Item) -> Source | None:
    """Return the source of an item: from its layout, or else from a thread named in its value."""
    if item.source is not None or item.value is None:
        return item.source
    return named_source(decode(item.value))


def same_as(content: str | None) -> str | None:
    """Return the text that DeerFlow compares facts by: without case and surrounding whitespace."""
    return (content or "").strip().casefold() or None


def duplicates(items: Iterable[Item]) -> dict[ItemKey, ItemKey]:
    """Return the facts that repeat an older fact of their namespace, each with that older fact.

    `items` must include their values and be sorted by key.
    """
    groups: dict[tuple[tuple[str, ...], str], list[Item]] = {}
    for item in items:
        said = None if item.value is None else same_as(content_of(decode(item.value)))
        if said is not None:
            groups.setdefault((item.key.namespace, said), []).append(item)
    found: dict[ItemKey, ItemKey] = {}
    for group in groups.values():
        first = min(group, key=_age)
        found |= {one.key: first.key for one in group if one is not first}
    return found


def orphans(items: Iterable[Item], is_there: Callable[[str], bool]) -> set[ItemKey]:
    """Return the facts from threads that no longer exist."""
    known: dict[str, bool] = {}
    found: set[ItemKey] = set()
    for item in items:
        source = source_of(item)
        thread_id = None if source is None else source.thread_id
        if thread_id is None:
            continue
        if thread_id not in known:
            known[thread_id] = is_there(thread_id)
        if not known[thread_id]:
            found.add(item.key)
    return found


def marks(
    items: Sequence[Item], *, twice: bool, is_there: Callable[[str], bool] | None
) -> dict[ItemKey, dict[str, Any]]:
    """Return the problems of items by key: `duplicate_of` another fact, or `orphan`.

    `items` are as in `duplicates`. Looks for orphans only if `is_there` is given.
    """
    found: dict[ItemKey, dict[str, Any]] = {}
    if twice:
        for key, first in duplicates(items).items():
            found.setdefault(key, {})["duplicate_of"] = first.key
    if is_there is not None:
        for key in orphans(items, is_there):
            found.setdefault(key, {})["orphan"] = True
    return found


def _texts(value: Value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _age(item: Item) -> tuple[bool, float, str]:
    at = item.created_at
    return at is None, 0.0 if at is None else at.timestamp(), item.key.key
