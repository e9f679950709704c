"""DeerFlow's memory, opened for writing. Each file is replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_backends.apps.deerflow.memory_changes import ChangedMemory, current_value, now, put
from ckpt_backends.apps.deerflow.memory_files import base_of, memory_files
from ckpt_backends.apps.deerflow.memory_json import SECTIONS
from ckpt_backends.apps.deerflow.read import NEWER, key_of
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import StoreChanged, Unsupported, UsageError
from ckpt_backends.memory.protocol import Item, ItemKey, Namespace, WritableMemoryStore
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.apps.deerflow.erasing import DeerFlowErasure

_HINT = "change it in DeerFlow, in its settings or by its API"


class WritableDeerFlowMemory(WritableMemoryStore):
    """The memory.json files of a folder, or one of them."""

    def __init__(self, url: StoreUrl) -> None:
        if "copy" in url.params:
            raise UsageError(
                "cannot write: a private copy (--copy) is read-only", hint="leave out --copy"
            )
        self._files = memory_files(url)
        self._base = base_of(url)
        self._erasure: DeerFlowErasure | None = None

    def remove(self, items: Sequence[Item]) -> int:
        """Remove facts and sections. Each file is replaced atomically, one after the other."""
        if self._erasure is not None:
            gone_files = self._erasure.remove(self._files, items)
            self._files = [one for one in self._files if one not in gone_files]
            return len(items)
        changed = self._opened(item.key for item in items)
        for item in items:
            current_value(changed, item)
        gone = {item.key for item in items}
        for file in changed.values():
            file.document.drop(gone)
        put(changed.values())
        return len(gone)

    def edit(self, item: Item, fields: Mapping[str, Any]) -> None:
        """Set fields of a fact or a section; other fields keep their values."""
        changed = self._opened([item.key])
        value = current_value(changed, item)
        if not isinstance(value, dict):
            raise Unsupported(f"cannot edit '{item.key.key}': it has no fields")
        value.update(fields)
        if item.key.namespace[-1] in SECTIONS:
            value["updatedAt"] = now()
        put(changed.values())

    def restore(self, rows: Iterable[Row]) -> Restored:
        """Restore facts and sections; they are appended at the end."""
        named = [(key_of(row), _parsed(row)) for row in rows]
        changed = self._opened(key for key, _ in named)
        added = 0
        for key, value in named:
            document = changed[key.namespace[:-1]].document
            there = dict(document.named())
            if key not in there:
                document.add(key, value)
                added += 1
            elif there[key] != value:
                raise StoreChanged(f"'{key.key}' exists with other contents")
        if added:
            put(changed.values())
        return Restored(added, len(named) - added)

    def begin_erasure(self) -> None:
        """Allow to remove Markdown facts, and hold replaced files, to overwrite them."""
        from ckpt_backends.apps.deerflow.erasing import DeerFlowErasure

        self._erasure = self._erasure or DeerFlowErasure()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        self.begin_erasure()
        assert self._erasure is not None  # noqa: S101
        progress("overwrite old files")
        return self._erasure.remains(self._files, self._base)

    def close(self) -> None:
        """Let go of replaced files. No other file stays open between two changes."""
        if self._erasure is not None:
            self._erasure.old.close()

    def _opened(self, keys: Iterable[ItemKey]) -> dict[Namespace, ChangedMemory]:
        """The files of some items, by owner. Raises `Unsupported`."""
        found: dict[Namespace, ChangedMemory] = {}
        there = {one.owner: one for one in self._files if not one.is_fact}
        for key in keys:
            owner = key.namespace[:-1]
            if owner in found:
                continue
            place = there.get(owner)
            file = None if place is None else ChangedMemory(place)
            if file is None or file.document.is_newer:
                raise Unsupported(f"cannot change '{key.key}': {NEWER}", hint=_HINT)
            found[owner] = file
        return found


def _parsed(row: Row) -> Any:
    cell = row.cells.get("value")
    try:
        return json.loads(cell if isinstance(cell, bytes | str) else "")
    except ValueError:
        raise Unsupported("cannot restore: a row of the archive has no valid value") from None
