"""Plan to copy items of long-term memory: what the target has of each, and what is missing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.memory.moving import digest_of
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, Namespace, near
from ckpt_backends.transfer.errors import CannotHold
from ckpt_cli.core.copying.items import CopiedItem
from ckpt_cli.core.copying.outcomes import CopyStep
from ckpt_cli.core.memory.item_filter import ItemFilter, format_key, is_expired

_ITEMS, _BYTES = 100, 8 << 20
"""Items, and bytes of their values, in memory at a time."""


@dataclass(frozen=True, slots=True)
class ItemChoice:
    """Which items are copied, and when."""

    prefix: Namespace
    wanted: ItemFilter
    now: datetime
    replace: bool

    def of(self, memory: MemoryStore, *, values: bool) -> Iterator[Item]:
        """Yield the chosen items of a store."""
        found = memory.items(prefix=self.prefix, values=values)
        return (one for one in found if self.wanted.fits(one, self.now))


def planned_items(
    choice: ItemChoice, source: MemoryStore, target: MemoryStore | None
) -> Iterator[CopiedItem]:
    """Yield what is to be done with each item. Without a target, all are new to it."""
    seen: dict[Hashable, ItemKey] = {}
    for batch in batches(choice.of(source, values=True)):
        if target is None:
            yield from (_new(one) for one in batch)
            continue
        there = {one.key: one for one in target.items(keys=[x.key for x in batch], values=True)}
        removes_expired = target.describe().removes_expired
        for one in batch:
            if removes_expired and is_expired(one, choice.now):
                yield CopiedItem(one.key, CopyStep.SKIP, has_expired=True)
                continue
            first = seen.setdefault(target.identity_of(one.key), one.key)
            if first != one.key:
                reason = f"the target cannot tell it from '{format_key(first)}'"
                yield CopiedItem(one.key, CopyStep.SKIP, reason=reason)
                continue
            yield _compared(one, target, there.get(one.key), replace=choice.replace)


def _new(one: Item) -> CopiedItem:
    return CopiedItem(one.key, CopyStep.COPY, one.size, len(one.vectors))


def _compared(one: Item, target: MemoryStore, found: Item | None, *, replace: bool) -> CopiedItem:
    made = _new(one)
    try:
        fitted = target.fitted(one)
    except CannotHold as error:
        made.step, made.reason = CopyStep.SKIP, error.message
        return made
    made.digest, made.expires_at = digest_of(fitted), fitted.expires_at
    if found is None:
        return made
    if is_equal(made, found):
        made.step = CopyStep.PRESENT
        return made
    made.step = CopyStep.REPLACE if replace else CopyStep.SKIP
    made.there = digest_of(found)
    made.is_different, made.reason = True, _difference(fitted, found)
    return made


def is_equal(planned: CopiedItem, found: Item) -> bool:
    """Return whether the target has an item as planned."""
    return digest_of(found) == planned.digest and near(found.expires_at, planned.expires_at)


def _difference(fitted: Item, found: Item) -> str:
    """Return how the item of the target differs."""
    if fitted.updated_at is not None and found.updated_at is not None:
        if found.updated_at > fitted.updated_at:
            return "the target has a newer one"
        if found.updated_at < fitted.updated_at:
            return "the target has an older one"
    if not near(fitted.expires_at, found.expires_at):
        return "the target has one that expires at another time"
    return "the target has another one"


def batches(items: Iterable[Item]) -> Iterator[Sequence[Item]]:
    """Yield items in lists of a few megabytes."""
    some: list[Item] = []
    size = 0
    for one in items:
        some.append(one)
        size += one.size
        if len(some) >= _ITEMS or size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
