"""DeerFlow's memory, opened for writing. Each file is replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ckpt_backends.apps.deerflow.declaration import FILE
from ckpt_backends.apps.deerflow.memory import (
    NEWER,
    SECTIONS,
    MemoryDocument,
    MemoryFile,
    Replacement,
    Snapshot,
    base_of,
    changed_file,
    fact_of,
    key_of,
    memory_files,
    parsed,
    read,
    replace_or_remove,
    to_text,
)
from ckpt_backends.changes import Remaining, Remains
from ckpt_backends.errors import (
    CkptError,
    PartlyDone,
    Refused,
    StoreChanged,
    Unsupported,
    UsageError,
)
from ckpt_backends.files import locked, locked_by, remove_unfinished
from ckpt_backends.memory import Item, ItemKey, Namespace, WritableMemoryStore, check_unchanged
from ckpt_backends.model import Progress, silent
from ckpt_backends.overwriting import OldFiles, overwrite_left
from ckpt_backends.rows import Restored, Row
from ckpt_backends.url import StoreUrl

# Changes memory.json files: several of them are replaced together, each atomically.


class ChangedMemory:
    """A memory.json that is being changed."""

    def __init__(self, place: MemoryFile) -> None:
        self.before = read(place.path)
        self.document: MemoryDocument = parsed(place, self.before.raw)

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
        raise changed_file(document.place.path)
    return dict(document.named())[item.key]


def drop(changed: Mapping[Namespace, ChangedMemory], items: Collection[Item]) -> None:
    """Remove items from their files. Raises `StoreChanged` if one changed."""
    for item in items:
        if item.key.namespace[:-1] not in changed:
            raise _gone(item)
        current_value(changed, item)
    gone = {item.key for item in items}
    for one in changed.values():
        one.document.drop(gone)


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
            new = Replacement(file.before, file.text())
            stack.callback(new.drop)
            made.append(new)
        for new in made:
            new.check()
        before()
        placed: list[Replacement] = []
        try:
            for file, new in zip(opened, made, strict=True):
                if old is not None:
                    old.hold(file.before.path, f"'{file.before.path.name}'")
                new.put()
                placed.append(new)
        except CkptError:
            for new in placed:
                new.take_back()
            raise


def now() -> str:
    """The time now in DeerFlow's form."""
    return datetime.now(UTC).isoformat().removesuffix("+00:00") + "Z"


# Removes what DeerFlow keeps of a fact beside the fact itself.
#
#     memory.json.v1.bak                                 the memory.json before its facts became
#                                                        files
#     agents/AGENT/.metadata/fact-usage.json             {FACT: {accessCount, lastAccessedAt, ...}}
#     agents/AGENT/.metadata/eviction-audit.json         [{evicted: [{factId, ...}],
#                                                          shadow: {wouldEvict: [FACT]}}]
#
# Source: `clear_fact_metadata` and `_ensure_migration_backup` of `deermem/core/storage.py`.


_BACKUP, _METADATA = ".v1.bak", ".metadata"


def _usage_without(usage: dict[str, Any], ids: Collection[str]) -> dict[str, Any]:
    return {name: one for name, one in usage.items() if name not in ids}


def _audit_without(events: list[Any], ids: Collection[str]) -> list[Any]:
    for event in events:
        event["evicted"] = [one for one in event["evicted"] if one["factId"] not in ids]
        shadow = event.get("shadow")
        if shadow is not None:
            shadow["wouldEvict"] = [one for one in shadow["wouldEvict"] if one not in ids]
            evicted = {one["factId"] for one in event["evicted"]}
            shadow["disagrees"] = evicted != set(shadow["wouldEvict"])
    return [event for event in events if event["evicted"]]


def _memory_without(data: dict[str, Any], items: Collection[Item]) -> dict[str, Any]:
    """A memory.json without some facts, found by id or content, and without some sections."""
    keys = {one.key.key for one in items if one.key.namespace[-1] not in SECTIONS}
    contents = {_content(one) for one in items}
    if isinstance(data.get("facts"), list):
        data["facts"] = [
            fact
            for fact in data["facts"]
            if not isinstance(fact, dict)
            or (fact.get("id") not in keys and str(fact.get("content")).strip() not in contents)
        ]
    for item in items:
        *_, kind = item.key.namespace
        if kind in SECTIONS:
            data.get(kind, {}).pop(item.key.key, None)
    return data


def _content(item: Item) -> str | None:
    """The text of a fact; None for what is no fact that can be read."""
    if item.value is None or item.value.type != "json":
        return None
    value = json.loads(item.value.data)
    content = value.get("content") if isinstance(value, dict) else None
    return content.strip() if isinstance(content, str) else None


# Erases items of DeerFlow's memory in both of its versions, and what is left of them.
#
# In version 2.0, each fact is a Markdown file. DeerFlow changes the files of a user under a lock
# on `.memory.lock`, and raises the revision in memory.json after it has removed a fact; so does
# this module. A change that DeerFlow could not finish is in `.memory.journal.json`: it would
# bring a removed fact back, so nothing is erased then.


_LOCK, _JOURNAL, _RECOVERY = ".memory.lock", ".memory.journal.json", ".recovery"
_UNFINISHED = ("memory*.tmp", ".memory.json.*.tmp", ".*.md.*.tmp")
"""Files that a killed DeerFlow leaves in the folder of a memory.json, or of a fact."""
_LEFT = "unfinished files of DeerFlow (.tmp)"
_RUNNING = Remaining(
    "memory of a running DeerFlow",
    "a process that has read a fact may write it again; check the files after it has ended",
)


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
        self._old: OldFiles | None = None
        """The replaced files, if they are to be overwritten."""
        self._places: list[Remaining] = []
        self._folders: set[Path] = set()
        """Those of removed facts in Markdown."""

    def remove(self, items: Sequence[Item]) -> int:
        """Remove facts and sections. Each file is replaced atomically, one after the other."""
        if self._old is not None:
            self._erase(items, self._old)
        else:
            changed = self._opened(item.key for item in items)
            drop(changed, items)
            put(changed.values())
        return len({item.key for item in items})

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
        self._old = self._old or OldFiles()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        progress("overwrite old files")
        folders = sorted({*self._folders, *(one.path.parent for one in self._files)})
        for folder in folders:
            for pattern in _UNFINISHED:
                for left in folder.glob(pattern):
                    self._places += overwrite_left(left, _LEFT, unused=60)
        beside = (
            Remaining(f"'{name}'", why)
            for folder in {self._base, *folders}
            for name, why in _COPIES.items()
            if (folder / name).exists()
        )
        found = (self._old or OldFiles()).remains()
        places = (*self._places, *beside, _RUNNING, *found.places)
        return found._replace(places=tuple(dict.fromkeys(places)))

    def close(self) -> None:
        """Let go of replaced files. No other file stays open between two changes."""
        if self._old is not None:
            self._old.close()

    def _opened(self, keys: Iterable[ItemKey]) -> dict[Namespace, ChangedMemory]:
        """The files of some items, by owner. Raises `Unsupported`."""
        found: dict[Namespace, ChangedMemory] = {}
        there = {one.owner: one for one in self._files if not one.is_fact}
        for key in keys:
            owner = key.namespace[:-1]
            if owner in there and owner not in found:
                found[owner] = ChangedMemory(there[owner])
            if owner not in found or found[owner].document.is_newer:
                raise Unsupported(f"cannot change '{key.key}': {NEWER}", hint=_HINT)
        return found

    def _erase(self, items: Sequence[Item], old: OldFiles) -> None:
        """Remove items with all that DeerFlow keeps of them.

        Raises `StoreChanged`, `StoreUnavailable` and `Refused`; nothing is removed then.
        """
        by_key = {one.key: one for one in self._files if one.is_fact}
        facts = [_Fact(by_key[one.key], one) for one in items if one.key in by_key]
        others = [one for one in items if one.key not in by_key]
        places = {one.owner: one for one in self._files if not one.is_fact}
        for fact in facts:
            owner, memory = fact.place.owner[:-2], fact.user_folder / FILE
            if memory.exists():
                places.setdefault(owner, MemoryFile(memory, owner))
        owners = {one.place.owner[:-2] for one in facts}
        owners |= {one.key.namespace[:-1] for one in others}
        with ExitStack() as stack:
            for folder in sorted({one.user_folder for one in facts}):
                stack.enter_context(locked_by(folder / _LOCK))
                _check_finished(folder)
            changed = {owner: ChangedMemory(places[owner]) for owner in owners if owner in places}
            drop(changed, others)
            snapshots = [fact.read() for fact in facts]
            removed: list[Snapshot] = []

            def remove_facts() -> None:
                for one in snapshots:
                    replace_or_remove(one, None, old, "Markdown facts")
                    removed.append(one)

            try:
                put(changed.values(), old, before=remove_facts)
            except StoreChanged as error:
                if not removed:
                    raise
                raise PartlyDone(f"{len(removed)} facts were removed; {error}") from error
            self._forget(facts, others, places, old)
        self._folders |= {one.place.path.parent for one in facts}
        gone = {one.place for one in facts}
        self._files = [one for one in self._files if one not in gone]

    def _forget(
        self,
        facts: Collection[_Fact],
        others: Collection[Item],
        places: Mapping[Namespace, MemoryFile],
        old: OldFiles,
    ) -> None:
        """Remove what DeerFlow keeps of these items in other files."""
        for agent in sorted({one.agent_folder for one in facts}):
            own = [one.item for one in facts if one.agent_folder == agent]
            ids = {one.key.key for one in own}
            about = agent / _METADATA
            self._rewrite(about / "fact-usage.json", partial(_usage_without, ids=ids), old)
            self._rewrite(about / "eviction-audit.json", partial(_audit_without, ids=ids), old)
            for folder in (agent, agent.parent.parent):
                self._forget_in_backup(folder / FILE, own, old)
        for owner in sorted({one.key.namespace[:-1] for one in others}):
            own = [one for one in others if one.key.namespace[:-1] == owner]
            self._forget_in_backup(places[owner].path, own, old)

    def _forget_in_backup(self, memory: Path, items: Collection[Item], old: OldFiles) -> None:
        """Remove facts and sections from the backup of a memory.json, if there is one."""
        backup = memory.with_name(f"{memory.name}{_BACKUP}")
        self._rewrite(backup, partial(_memory_without, items=items), old)

    def _rewrite(self, path: Path, change: Callable[[Any], Any], old: OldFiles) -> None:
        """Change a JSON file, or remove it if nothing is left. One that is not JSON remains."""
        if not path.exists():
            return
        before = read(path)
        try:
            data = json.loads(before.raw)
            left = change(json.loads(before.raw))
        except (ValueError, RecursionError, AttributeError, LookupError, TypeError):
            why = "it is damaged, so it was not searched"
            self._places.append(Remaining(f"'{path.name}'", why))
            return
        if left != data:
            text = json.dumps(left, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
            label = f"'{path.name}'"
            replace_or_remove(before, text if left else None, old, label)


def _parsed(row: Row) -> Any:
    cell = row.cells.get("value")
    try:
        return json.loads(cell if isinstance(cell, bytes | str) else "")
    except ValueError:
        raise Unsupported("cannot restore: a row of the archive has no valid value") from None


@dataclass(frozen=True, slots=True)
class _Fact:
    """A fact in a Markdown file, `USER/agents/AGENT/facts/XX/FACT.md`."""

    place: MemoryFile
    item: Item

    @property
    def agent_folder(self) -> Path:
        return self.place.path.parents[2]

    @property
    def user_folder(self) -> Path:
        return self.place.path.parents[4]

    def read(self) -> Snapshot:
        """Read the file again. Raises `StoreChanged` if the fact is not as it was."""
        path = self.place.path
        if path.is_symlink():
            raise Unsupported(f"cannot erase '{self.item.key.key}': its file is a symbolic link")
        if not path.exists():
            raise _gone(self.item)
        found = read(path)
        now = fact_of(self.place, found.raw)
        check_unchanged(self.item, now)
        if self.item.value not in (None, now.value):
            raise changed_file(path)
        return found


def _gone(item: Item) -> StoreChanged:
    return StoreChanged(
        f"'{item.key.key}' no longer exists; nothing was removed", hint="run the command again"
    )


def _check_finished(folder: Path) -> None:
    if (folder / _JOURNAL).exists():
        raise Refused(
            f"cannot erase facts in '{folder}': DeerFlow has not finished a change there",
            hint="start DeerFlow and let it read this memory once, then run the command again",
        )


_COPIES = {
    _RECOVERY: "DeerFlow's copies of facts during a change; start DeerFlow, which removes it",
    ".retrieval": "DeerFlow's search index of facts; delete it, and DeerFlow makes it again",
    "threads": "files of threads; delete the threads in DeerFlow, too",
}
"""Folders of DeerFlow with other copies, by name."""
