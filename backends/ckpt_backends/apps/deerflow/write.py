"""DeerFlow's memory, opened for writing. Each file is replaced atomically."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ckpt_backends.apps.deerflow import memory as replace_file
from ckpt_backends.apps.deerflow.declaration import FILE
from ckpt_backends.apps.deerflow.memory import (
    FACTS,
    NEWER,
    SECTIONS,
    MemoryDocument,
    MemoryFile,
    base_of,
    fact_of,
    key_of,
    memory_files,
    parsed,
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
    reason_of,
)
from ckpt_backends.files import locked, locked_by, remove_unfinished
from ckpt_backends.memory import Item, ItemKey, Namespace, WritableMemoryStore, check_unchanged
from ckpt_backends.model import Progress, silent
from ckpt_backends.overwriting import OldFiles, overwrite_and_remove
from ckpt_backends.rows import Restored, Row
from ckpt_backends.url import StoreUrl

# Changes memory.json files: several of them are replaced together, each atomically.


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


# Removes what DeerFlow keeps of a fact beside the fact itself.
#
#     memory.json.v1.bak                                 the memory.json before its facts became
#                                                        files
#     agents/AGENT/.metadata/fact-usage.json             {FACT: {accessCount, lastAccessedAt, ...}}
#     agents/AGENT/.metadata/eviction-audit.json         [{evicted: [{factId, ...}],
#                                                          shadow: {wouldEvict: [FACT]}}]
#
# Source: `clear_fact_metadata` and `_ensure_migration_backup` of `deermem/core/storage.py`.


BACKUP, METADATA = ".v1.bak", ".metadata"


def forget_metadata(agent: Path, ids: Collection[str], old: OldFiles) -> Iterator[Remaining]:
    """Remove the ids of facts from the files about them in the folder of an agent."""
    folder = agent / METADATA
    yield from _rewritten(folder / "fact-usage.json", lambda data: _usage_without(data, ids), old)
    yield from _rewritten(
        folder / "eviction-audit.json", lambda data: _audit_without(data, ids), old
    )


def forget_in_backup(memory: Path, items: Collection[Item], old: OldFiles) -> Iterator[Remaining]:
    """Remove facts and sections from the backup of a memory.json, if there is one."""
    backup = memory.with_name(f"{memory.name}{BACKUP}")
    yield from _rewritten(backup, lambda data: _memory_without(data, items), old)


def _rewritten(path: Path, change: Callable[[Any], Any], old: OldFiles) -> Iterator[Remaining]:
    """Change a JSON file, or remove it if nothing is left. One that is not JSON remains."""
    if not path.exists():
        return
    before = replace_file.read(path)
    try:
        data = json.loads(before.raw)
        left = change(json.loads(before.raw))
    except (ValueError, RecursionError, AttributeError, LookupError, TypeError):
        yield Remaining(f"'{path.name}'", "it is damaged, so it was not searched")
        return
    if left != data:
        text = json.dumps(left, ensure_ascii=False, indent=2).encode("utf-8", "surrogatepass")
        replace_file.replace_or_remove(before, text if left else None, old, f"'{path.name}'")


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
_WRITING_SECONDS = 60.0
"""A younger file of these may still be written."""
_RUNNING = Remaining(
    "memory of a running DeerFlow",
    "a process that has read a fact may write it again; check the files after it has ended",
)


class DeerFlowErasure:
    """An erasure in the files of a folder. The replaced files are overwritten at its end."""

    def __init__(self) -> None:
        self.old = OldFiles()
        self._places: list[Remaining] = []
        self._folders: set[Path] = set()
        """Those of removed facts."""

    def remove(self, files: Sequence[MemoryFile], items: Sequence[Item]) -> list[MemoryFile]:
        """Remove items with all that DeerFlow keeps of them. Returns the files of facts that are
        gone.

        Raises `StoreChanged`, `StoreUnavailable` and `Refused`; nothing is removed then.
        """
        by_key = {_key_of(one): one for one in files if one.is_fact}
        facts = [_Fact(by_key[one.key], one) for one in items if one.key in by_key]
        others = [one for one in items if one.key not in by_key]
        places = {one.owner: one for one in files if not one.is_fact}
        for fact in facts:
            owner, memory = fact.place.owner[:-2], fact.user_folder / FILE
            if memory.exists():
                places.setdefault(owner, MemoryFile(memory, owner))
        with ExitStack() as stack:
            for folder in sorted({one.user_folder for one in facts}):
                stack.enter_context(locked_by(folder / _LOCK))
                _check_finished(folder)
            changed = self._changed(places, facts, others)
            read = [fact.read() for fact in facts]
            removed: list[replace_file.Snapshot] = []
            try:
                put(changed, self.old, before=lambda: removed.extend(self._remove(read)))
            except StoreChanged as error:
                if not removed:
                    raise
                raise PartlyDone(f"{len(removed)} facts were removed; {error}") from error
            self._forget(facts, others, places)
        self._folders |= {one.place.path.parent for one in facts}
        return [one.place for one in facts]

    def _changed(
        self,
        places: dict[Namespace, MemoryFile],
        facts: Collection[_Fact],
        others: Collection[Item],
    ) -> list[ChangedMemory]:
        """The memory.json files with their new contents."""
        found: dict[Namespace, ChangedMemory] = {}
        owners = {one.place.owner[:-2] for one in facts}
        for owner in {*owners, *(one.key.namespace[:-1] for one in others)}:
            if owner in places:
                found[owner] = ChangedMemory(places[owner])
        for item in others:
            if item.key.namespace[:-1] not in found:
                raise _gone(item)
            current_value(found, item)
        for one in found.values():
            one.document.drop({item.key for item in others})
        return list(found.values())

    def _remove(self, read: Iterable[replace_file.Snapshot]) -> Iterator[replace_file.Snapshot]:
        for one in read:
            replace_file.replace_or_remove(one, None, self.old, "Markdown facts")
            yield one

    def _forget(
        self,
        facts: Collection[_Fact],
        others: Collection[Item],
        places: dict[Namespace, MemoryFile],
    ) -> None:
        """Remove what DeerFlow keeps of these items in other files."""
        for agent in sorted({one.agent_folder for one in facts}):
            own = [one.item for one in facts if one.agent_folder == agent]
            ids = {one.key.key for one in own}
            self._places += forget_metadata(agent, ids, self.old)
            for folder in (agent, agent.parent.parent):
                self._places += forget_in_backup(folder / FILE, own, self.old)
        for owner in sorted({one.key.namespace[:-1] for one in others}):
            own = [one for one in others if one.key.namespace[:-1] == owner]
            self._places += forget_in_backup(places[owner].path, own, self.old)

    def remains(self, files: Sequence[MemoryFile], base: Path) -> Remains:
        """Overwrite replaced and unfinished files. Names what else may hold the items."""
        folders = sorted({*self._folders, *(one.path.parent for one in files)})
        for folder in folders:
            for pattern in _UNFINISHED:
                for left in folder.glob(pattern):
                    self._places += _removed(left)
        found = self.old.remains()
        places = (*self._places, *_beside(base, folders), _RUNNING, *found.places)
        return found._replace(places=tuple(dict.fromkeys(places)))


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

    def read(self) -> replace_file.Snapshot:
        """Read the file again. Raises `StoreChanged` if the fact is not as it was."""
        path = self.place.path
        if path.is_symlink():
            raise Unsupported(f"cannot erase '{self.item.key.key}': its file is a symbolic link")
        if not path.exists():
            raise _gone(self.item)
        found = replace_file.read(path)
        now = fact_of(self.place, found.raw)
        check_unchanged(self.item, now)
        if self.item.value not in (None, now.value):
            raise replace_file.changed(path)
        return found


def _key_of(place: MemoryFile) -> ItemKey:
    return ItemKey((*place.owner, FACTS), place.path.stem)


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


def _removed(left: Path) -> tuple[Remaining, ...]:
    """Overwrite and remove a file that a killed DeerFlow left."""
    place = "unfinished files of DeerFlow (.tmp)"
    try:
        if time.time() - left.lstat().st_mtime < _WRITING_SECONDS:
            return (Remaining(place, "they may be in use", is_reachable=True),)
        return overwrite_and_remove(left, place)
    except FileNotFoundError:
        return ()
    except OSError as error:
        reason = reason_of(error)
        return (Remaining(place, reason, is_reachable=True),)


def _beside(base: Path, folders: Sequence[Path]) -> Iterator[Remaining]:
    """Folders of DeerFlow with other copies, if they exist."""
    for folder in {base, *folders}:
        if (folder / _RECOVERY).exists():
            reason = "DeerFlow's copies of facts during a change; start DeerFlow, which removes it"
            yield Remaining(f"'{_RECOVERY}'", reason)
        if (folder / ".retrieval").exists():
            reason = "DeerFlow's search index of facts; delete it, and DeerFlow makes it again"
            yield Remaining("'.retrieval'", reason)
        if (folder / "threads").exists():
            reason = "files of threads; delete the threads in DeerFlow, too"
            yield Remaining("'threads'", reason)
