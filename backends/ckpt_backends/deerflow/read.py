"""DeerFlow's memory, opened for reading: facts and sections as items."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import groupby

from ckpt_backends.closing import Closing
from ckpt_backends.deerflow import files
from ckpt_backends.deerflow.document import Document, parse
from ckpt_backends.deerflow.markdown import fact_of
from ckpt_backends.deerflow.places import Place, base_of, places
from ckpt_backends.errors import Unreadable
from ckpt_backends.memory import Item, ItemKey, MemoryInfo, Namespace, NamespaceSize, begins
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl

ENGINE = "files"
NEWER = "DeerFlow alone writes this layout, by a protocol of its own"
TABLE = "memory"
"""Of the rows that archives hold."""


class DeerFlowMemory(Closing):
    """The memory files of a folder, or one of them."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._places = places(url)
        self._kept: list[Item] | None = None

    def describe(self) -> MemoryInfo:
        """What it is; reads the memory.json files, and no Markdown."""
        whole = [document(place) for place in self._places if not place.is_fact]
        newer = [one for one in whole if one.is_newer]
        generations = {"deerflow-2" if one.is_newer else "deerflow-1" for one in whole}
        if len(whole) < len(self._places):
            generations.add("deerflow-2")
        base = base_of(self._url)
        tables = {
            str(path.relative_to(base)) if path.is_relative_to(base) else path.name
            for path in (one.path.absolute() for one in self._places if not one.is_fact)
        }
        return MemoryInfo(
            layout="+".join(sorted(generations)),
            url=str(self._url),
            engine=ENGINE,
            tables=tuple(sorted(tables)),
            changes=NEWER if generations == {"deerflow-2"} else "",
            needs_write="the application that owns this file may be about to write it, too",
            notes=tuple(
                f"version {one.version} of '{one.place.path.name}' is not known here"
                for one in newer
                if one.version != "2.0"
            ),
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        found = self.items(prefix=prefix)
        for namespace, group in groupby(found, key=lambda item: item.key.namespace):
            sizes = [item.size for item in group]
            yield NamespaceSize(namespace, len(sizes), sum(sizes))

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        wanted = None if keys is None else frozenset(keys)
        for item in self._items():
            found = item.key
            if (
                begins(found.namespace, prefix)
                and key in {None, found.key}
                and (wanted is None or found in wanted)
            ):
                yield item if values else replace(item, value=None)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        for item in self.items(keys=[key], values=True):
            if item.value is not None:
                yield row_of(item.key, item.value.data)

    def refresh(self) -> None:
        self._places = places(self._url)
        self._kept = None

    def close(self) -> None:
        """Holds no connection."""

    def _items(self) -> list[Item]:
        if self._kept is None:
            found: list[Item] = []
            for place in self._places:
                if place.is_fact:
                    found.append(fact_of(place, files.read(place.path).raw))
                else:
                    found += document(place).items()
            found.sort(key=lambda item: item.key)
            self._kept = found
        return self._kept


def document(place: Place) -> Document:
    """A memory.json. Raises `StoreUnavailable` and `Unreadable`."""
    return parsed(place, files.read(place.path))


def parsed(place: Place, snapshot: files.Snapshot) -> Document:
    """A memory.json that was read. Raises `Unreadable`."""
    try:
        return parse(place, snapshot.raw)
    except ValueError as error:
        raise Unreadable(
            f"'{place.path}' is no memory of DeerFlow: {error}",
            hint="name another file, such as that of one user",
        ) from None


def row_of(key: ItemKey, value: bytes) -> Row:
    """An item as a row of an archive."""
    return Row(TABLE, {"namespace": json.dumps(key.namespace), "key": key.key, "value": value})
