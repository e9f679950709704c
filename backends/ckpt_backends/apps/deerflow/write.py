"""DeerFlow's memory, opened for writing. Each file is replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from ckpt_backends.apps.deerflow import replace_file
from ckpt_backends.apps.deerflow.memory_files import MemoryFile, memory_files
from ckpt_backends.apps.deerflow.memory_json import SECTIONS, MemoryDocument, to_text
from ckpt_backends.apps.deerflow.read import NEWER, key_of, parsed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import CkptError, StoreChanged, Unsupported, UsageError
from ckpt_backends.files.atomic_write import remove_unfinished
from ckpt_backends.files.folder_lock import locked
from ckpt_backends.memory.protocol import (
    Item,
    ItemKey,
    Namespace,
    WritableMemoryStore,
    check_unchanged,
)
from ckpt_backends.url import StoreUrl

_HINT = "change it in DeerFlow, in its settings or by its API"


class WritableDeerFlowMemory(WritableMemoryStore):
    """The memory.json files of a folder, or one of them."""

    def __init__(self, url: StoreUrl) -> None:
        if "copy" in url.params:
            raise UsageError(
                "cannot write: a private copy (--copy) is read-only", hint="leave out --copy"
            )
        self._files = memory_files(url)

    def remove(self, items: Sequence[Item]) -> int:
        """Remove facts and sections. Each file is replaced atomically, one after the other."""
        changed = self._opened(item.key for item in items)
        for item in items:
            _value(changed, item)
        gone = {item.key for item in items}
        for file in changed.values():
            file.document.drop(gone)
        _put(changed.values())
        return len(gone)

    def edit(self, item: Item, fields: Mapping[str, Any]) -> None:
        """Set fields of a fact or a section; other fields keep their values."""
        changed = self._opened([item.key])
        value = _value(changed, item)
        if not isinstance(value, dict):
            raise Unsupported(f"cannot edit '{item.key.key}': it has no fields")
        value.update(fields)
        if item.key.namespace[-1] in SECTIONS:
            value["updatedAt"] = _now()
        _put(changed.values())

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
            _put(changed.values())
        return Restored(added, len(named) - added)

    def close(self) -> None:
        """Nothing to close."""

    def _opened(self, keys: Iterable[ItemKey]) -> dict[Namespace, _File]:
        """The files of some items, by owner. Raises `Unsupported`."""
        found: dict[Namespace, _File] = {}
        there = {one.owner: one for one in self._files if not one.is_fact}
        for key in keys:
            owner = key.namespace[:-1]
            if owner in found:
                continue
            place = there.get(owner)
            file = None if place is None else _File(place)
            if file is None or file.document.is_newer:
                raise Unsupported(f"cannot change '{key.key}': {NEWER}", hint=_HINT)
            found[owner] = file
        return found


class _File:
    """A memory.json that is being changed."""

    def __init__(self, place: MemoryFile) -> None:
        self.before = replace_file.read(place.path)
        self.document: MemoryDocument = parsed(place, self.before)

    def text(self) -> bytes:
        """The new text, with the same white space at the end as the old text."""
        data = self.document.data
        if "lastUpdated" in data:
            data["lastUpdated"] = _now()
        raw = self.before.raw
        return to_text(data) + raw[len(raw.rstrip()) :]


def _value(changed: Mapping[Namespace, _File], item: Item) -> Any:
    """The value of an item in the file. Raises `StoreChanged` if it changed."""
    document = changed[item.key.namespace[:-1]].document
    now = next((one for one in document.items() if one.key == item.key), None)
    check_unchanged(item, now)
    if now is None or item.value not in (None, now.value):
        raise replace_file.changed(document.place.path)
    return dict(document.named())[item.key]


def _put(changed: Iterable[_File]) -> None:
    """Write all new files, check that no old one changed, then replace them."""
    opened = list(changed)
    with ExitStack() as stack:
        for folder in sorted({file.before.path.parent for file in opened}):
            stack.enter_context(locked(folder))
        made = []
        for file in opened:
            path = file.before.path
            remove_unfinished(path.parent, path.name.__eq__)
            new = replace_file.Replacement(file.before, file.text())
            stack.callback(new.drop)
            made.append(new)
        for new in made:
            new.check()
        placed: list[replace_file.Replacement] = []
        try:
            for new in made:
                new.put()
                placed.append(new)
        except CkptError:
            for new in placed:
                new.take_back()
            raise


def _parsed(row: Row) -> Any:
    cell = row.cells.get("value")
    try:
        return json.loads(cell if isinstance(cell, bytes | str) else "")
    except ValueError:
        raise Unsupported("cannot restore: a row of the archive has no valid value") from None


def _now() -> str:
    """The time now in DeerFlow's form."""
    return datetime.now(UTC).isoformat().removesuffix("+00:00") + "Z"
