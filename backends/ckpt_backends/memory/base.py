"""Base classes of long-term memory, with the methods that follow from a few abstract ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from ckpt_backends.base import Closing
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryInfo, Namespace, NamespaceSize


class BaseMemoryStore(Closing):
    """A `MemoryStore` that needs four queries."""

    @abstractmethod
    def describe(self) -> MemoryInfo: ...

    @abstractmethod
    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]: ...

    @abstractmethod
    def rows(self, key: ItemKey) -> Iterator[Row]: ...

    @abstractmethod
    def key_of(self, row: Row) -> ItemKey: ...

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        found = self.items(prefix=prefix)
        for namespace, group in groupby(found, key=lambda item: item.key.namespace):
            sizes = [item.size for item in group]
            yield NamespaceSize(namespace, len(sizes), sum(sizes))

    def refresh(self) -> None:
        """Nothing to do: each read sees the present state."""


class BaseWritableMemoryStore(Closing):
    """A `WritableMemoryStore` without a place where removed data may be left."""

    @abstractmethod
    def remove(self, items: Sequence[Item]) -> int: ...

    @abstractmethod
    def restore(self, rows: Iterable[Row]) -> Restored: ...

    def finish_removal(self) -> str:
        return ""
