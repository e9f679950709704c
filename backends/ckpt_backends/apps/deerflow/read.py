"""DeerFlow's memory, opened for reading: facts and sections as items."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from ckpt_backends.apps.deerflow import replace_file
from ckpt_backends.apps.deerflow.markdown_facts import fact_of
from ckpt_backends.apps.deerflow.memory_files import FACTS, MemoryFile, base_of, memory_files
from ckpt_backends.apps.deerflow.memory_json import SECTIONS, MemoryDocument, parse
from ckpt_backends.changes.rows import Row, no_table
from ckpt_backends.errors import Refused, Unreadable
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryInfo, MemoryStore, Namespace, begins
from ckpt_backends.url import StoreUrl

LAYOUT = "deerflow"
_KINDS = [[kind] for kind in (FACTS, *SECTIONS)]
_KNOWN = {"1.0", "2.0"}
NEWER = "version 2.0 of DeerFlow's memory is read-only here"
TABLE = "memory"
"""Table of the rows in archives."""


class DeerFlowMemory(MemoryStore):
    """The memory files of a folder, or one of them."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._files = memory_files(url)
        self._kept: list[Item] | None = None

    def describe(self) -> MemoryInfo:
        """Facts about the memory. Reads the memory.json files, but no Markdown files."""
        whole = [document(place) for place in self._files if not place.is_fact]
        base = base_of(self._url)
        paths = (one.place.path.absolute() for one in whole)
        versions = {one.version for one in whole}
        is_newer = all(one.is_newer for one in whole)
        return MemoryInfo(
            layout=LAYOUT,
            url=str(self._url),
            engine=f"files of version {', '.join(sorted(versions)) or '2.0'}",
            tables=tuple(
                str(path.relative_to(base)) if path.is_relative_to(base) else path.name
                for path in paths
            ),
            changes=NEWER if is_newer else "",
            needs_write="a running DeerFlow may overwrite the change",
            notes=tuple(
                f"unknown version {one} of DeerFlow's memory" for one in sorted(versions - _KNOWN)
            ),
        )

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,  # noqa: ARG002
    ) -> Iterator[Item]:
        # Always include values: DeerFlow does not store when a user changed a fact, so later only
        # the value shows whether a fact has changed.
        wanted = None if keys is None else frozenset(keys)
        for item in self._items():
            found = item.key
            if (
                begins(found.namespace, prefix)
                and key in {None, found.key}
                and (wanted is None or found in wanted)
            ):
                yield item

    def rows(self, key: ItemKey) -> Iterator[Row]:
        for item in self.items(keys=[key], values=True):
            if item.value is not None:
                yield row_of(item.key, item.value.data)

    def key_of(self, row: Row) -> ItemKey:
        return key_of(row)

    def refresh(self) -> None:
        self._files = memory_files(self._url)
        self._kept = None

    def close(self) -> None:
        """Nothing to close."""

    def _items(self) -> list[Item]:
        if self._kept is None:
            found: list[Item] = []
            for place in self._files:
                if place.is_fact:
                    found.append(fact_of(place, replace_file.read(place.path).raw))
                else:
                    found += document(place).items()
            found.sort(key=lambda item: item.key)
            self._kept = found
        return self._kept


def document(place: MemoryFile) -> MemoryDocument:
    """Read and parse a memory.json. Raises `StoreUnavailable` and `Unreadable`."""
    return parsed(place, replace_file.read(place.path))


def parsed(place: MemoryFile, snapshot: replace_file.Snapshot) -> MemoryDocument:
    """Parse a memory.json that was read. Raises `Unreadable`."""
    try:
        return parse(place, snapshot.raw)
    except ValueError as error:
        raise Unreadable(
            f"cannot read '{place.path}' as DeerFlow's memory: {error}",
            hint="restore the file from a backup, or use the path of another file",
        ) from None


def key_of(row: Row) -> ItemKey:
    """The key of the item of an archived row. Raises `Refused`."""
    if row.table != TABLE:
        raise no_table(row.table)
    try:
        labels = json.loads(str(row.cells.get("namespace")))
    except (ValueError, RecursionError):
        labels = None
    key = row.cells.get("key")
    if (
        isinstance(key, str)
        and isinstance(labels, list)
        and all(isinstance(one, str) for one in labels)
        and labels[-1:] in _KINDS
    ):
        return ItemKey(tuple(labels), key)
    raise Refused(f"a row of '{row.table}' is not an item of DeerFlow's memory")


def row_of(key: ItemKey, value: bytes) -> Row:
    """An item as a row of an archive."""
    return Row(TABLE, {"namespace": json.dumps(key.namespace), "key": key.key, "value": value})
