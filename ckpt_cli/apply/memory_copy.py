"""Copy items of long-term memory to another store, and read them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ckpt_backends.errors import (
    CkptError,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    Unreadable,
    Unsupported,
    UsageError,
)
from ckpt_backends.memory.moving import digest_of
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, WritableMemoryStore
from ckpt_backends.open_for_writing import create_memory, open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.memory import without_values
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.writable import refuse_copy
from ckpt_cli.core.copying.items import CopiedItem
from ckpt_cli.core.copying.outcomes import CopyStep
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.operations.memory_parts import ItemsAdded, ItemsRemoved
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.memory_copy import ItemChoice, batches, is_equal, planned_items

_CREATE = "to make an empty store there, add --create"
_AT_ONCE = 200
Watch = Callable[[Iterable[CopiedItem], str], Iterable[CopiedItem]]
"""Shows progress over items with a label."""


@dataclass(frozen=True, slots=True)
class MemoryCopyTerms:
    """Between which stores items are copied."""

    source: StoreUrl
    target: StoreUrl
    create: bool = False


def plan_items(terms: MemoryCopyTerms, choice: ItemChoice, watch: Watch) -> Iterator[CopiedItem]:
    """Yield what would become of each item. Raises what opening the stores raises."""
    with _opened(open_memory(terms.source)) as source:
        try:
            target = open_memory(terms.target)
        except (UnknownLayout, StoreUnavailable) as error:
            if not terms.create:
                raise _with_hint(error) from None
            yield from watch(planned_items(choice, source, None), "reading")
            return
        with _opened(target):
            _check_sides(source, target)
            yield from watch(planned_items(choice, source, target), "comparing")


def copy_items(
    terms: MemoryCopyTerms, choice: ItemChoice, watch: Watch, recording: Recording
) -> Iterator[CopiedItem]:
    """Copy items; yield what became of each, in order. Raises what opening the stores raises.

    Raises `Unreadable` if an item is not the same in the target.
    """
    refuse_copy(terms.target)
    with _opened(open_memory(terms.source)) as source:
        if terms.create:
            create_memory(terms.target)
        with _opened_target(terms) as target:
            _check_sides(source, target)
            planned = list(watch(planned_items(choice, source, target), "comparing"))
            # In a file that is not in WAL mode, an open read would block the writer.
            target.refresh()
            with open_writable_memory(terms.target) as writable:
                copier = _ItemCopier(source, target, writable)
                todo = [one for one in planned if one.step in {CopyStep.COPY, CopyStep.REPLACE}]
                for some in _parts(todo):
                    _copy_recorded(copier, target, some, recording)
            target.refresh()
            for some in _parts(planned):
                _verify(target, some)
                yield from some


def _copy_recorded(
    copier: _ItemCopier, target: MemoryStore, some: Sequence[CopiedItem], recording: Recording
) -> None:
    """Copy some items, and record that."""
    replaces = any(one.step is CopyStep.REPLACE for one in some)
    recording.intend([OperationStep(None, ItemsAdded(tuple(one.key for one in some)), None)])
    try:
        copier.copy(some)
        target.refresh()
        keys = tuple(one.key for one in some if one.step is not CopyStep.SKIP)
        # What a replaced item held before is not kept.
        back = None if replaces else ItemsRemoved(without_values(target.items(keys=keys)))
        target.refresh()
    except BaseException:
        recording.unsure()
        raise
    recording.came_out({None: OperationStep(None, ItemsAdded(keys), back) if keys else None})


class _ItemCopier:
    """Copies planned items. Those that cannot be copied any more are marked as skipped."""

    def __init__(
        self, source: MemoryStore, target: MemoryStore, writable: WritableMemoryStore
    ) -> None:
        self._source = source
        self._target = target
        self._writable = writable

    def copy(self, planned: Sequence[CopiedItem]) -> None:
        """Copy some items, a few megabytes in one transaction."""
        by_key = {one.key: one for one in planned}
        left = dict(by_key)
        for batch in batches(self._source.items(keys=list(by_key), values=True)):
            fitted: list[Item] = []
            for item in batch:
                one = left.pop(item.key, None)
                if one is None:
                    continue  # a second one with the same key
                try:
                    fitted.append(self._target.fitted(item))
                except CannotHold as error:
                    _skip(one, error)
                    continue
                # The item may have changed since it was compared.
                one.digest, one.expires_at = digest_of(fitted[-1]), fitted[-1].expires_at
            self._remove([by_key[one.key] for one in fitted])
            self._add(fitted, by_key)
        for one in left.values():
            one.step, one.reason = CopyStep.SKIP, "it was removed from the source meanwhile"

    def _remove(self, planned: Sequence[CopiedItem]) -> None:
        keys = [one.key for one in planned if one.step is CopyStep.REPLACE]
        if keys:
            old = list(self._target.items(keys=keys))
            self._target.refresh()
            self._writable.remove(old)

    def _add(self, fitted: Sequence[Item], planned: Mapping[ItemKey, CopiedItem]) -> None:
        """Add items in one transaction; if another process added one, one by one."""
        if not fitted:
            return
        try:
            self._writable.receive(fitted)
        except StoreChanged as error:
            if len(fitted) == 1:
                _skip(planned[fitted[0].key], error)
                return
            for one in fitted:
                self._add([one], planned)


def _skip(one: CopiedItem, error: CkptError) -> None:
    one.step, one.reason = CopyStep.SKIP, error.message


def _verify(target: MemoryStore, planned: Sequence[CopiedItem]) -> None:
    """Read items back. Raises `Unreadable` if one is not what was sent."""
    wanted = {one.key: one for one in planned if one.step is not CopyStep.SKIP}
    found = {one.key: one for one in target.items(keys=list(wanted), values=True)}
    for key, one in wanted.items():
        there = found.get(key)
        if there is None and one.expires_at is not None and target.describe().removes_expired:
            continue  # it expired while it was copied
        if there is None or not is_equal(one, there):
            raise Unreadable(
                f"item '{format_key(key)}' is not the same in the target",
                hint="an agent may be using the target; run the command again to compare both",
            )
        one.is_verified = True


def _parts(items: Sequence[CopiedItem]) -> Iterator[Sequence[CopiedItem]]:
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


@contextmanager
def _opened(memory: MemoryStore) -> Iterator[MemoryStore]:
    with memory:
        info = memory.describe()
        if not info.is_store:
            raise Unsupported(
                f"items of '{info.url}' cannot be copied: it is not a Store of LangGraph",
                hint="`ckpt memory export` writes them as JSON",
            )
        yield memory


@contextmanager
def _opened_target(terms: MemoryCopyTerms) -> Iterator[MemoryStore]:
    try:
        target = open_memory(terms.target)
    except (UnknownLayout, StoreUnavailable) as error:
        raise _with_hint(error) from None
    with _opened(target):
        yield target


def _with_hint(error: CkptError) -> CkptError:
    error.hint = "; ".join(filter(None, (error.hint, _CREATE)))
    return error


def _check_sides(source: MemoryStore, target: MemoryStore) -> None:
    if source.describe().url == target.describe().url:
        raise UsageError("the source and the target are the same store")
