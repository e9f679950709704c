"""Changes memory.json files: several of them are replaced together, each atomically."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

from ckpt_backends.apps.deerflow import replace_file
from ckpt_backends.apps.deerflow.memory_files import MemoryFile
from ckpt_backends.apps.deerflow.memory_json import MemoryDocument, to_text
from ckpt_backends.apps.deerflow.read import parsed
from ckpt_backends.errors import CkptError
from ckpt_backends.files.atomic_write import remove_unfinished
from ckpt_backends.files.folder_lock import locked
from ckpt_backends.files.overwriting import OldFiles
from ckpt_backends.memory.protocol import Item, Namespace, check_unchanged


class ChangedMemory:
    """A memory.json that is being changed."""

    def __init__(self, place: MemoryFile) -> None:
        self.before = replace_file.read(place.path)
        self.document: MemoryDocument = parsed(place, self.before)

    def text(self) -> bytes:
        """The new text, with the same white space at the end as the old text."""
        data = self.document.data
        if "lastUpdated" in data:
            data["lastUpdated"] = now()
        if self.document.is_newer and isinstance(data.get("revision"), int):
            # DeerFlow reads facts again if this number or the time of the file has changed.
            data["revision"] += 1
        raw = self.before.raw
        return to_text(data) + raw[len(raw.rstrip()) :]


def current_value(changed: Mapping[Namespace, ChangedMemory], item: Item) -> Any:
    """The value of an item in the file. Raises `StoreChanged` if it changed."""
    document = changed[item.key.namespace[:-1]].document
    now = next((one for one in document.items() if one.key == item.key), None)
    check_unchanged(item, now)
    if now is None or item.value not in (None, now.value):
        raise replace_file.changed(document.place.path)
    return dict(document.named())[item.key]


def put(
    changed: Iterable[ChangedMemory],
    old: OldFiles | None = None,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Write all new files, check that no old one changed, then replace them.

    `old` holds the replaced files, to overwrite them. `before` is called after the check.
    """
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
        before()
        placed: list[replace_file.Replacement] = []
        try:
            for file, new in zip(opened, made, strict=True):
                if old is not None:
                    old.hold(file.before.path)
                new.put()
                placed.append(new)
        except CkptError:
            for new in placed:
                new.take_back()
            raise


def now() -> str:
    """The time now in DeerFlow's form."""
    return datetime.now(UTC).isoformat().removesuffix("+00:00") + "Z"
