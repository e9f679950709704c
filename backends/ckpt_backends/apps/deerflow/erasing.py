"""Erases items of DeerFlow's memory in both of its versions, and what is left of them.

In version 2.0, each fact is a Markdown file. DeerFlow changes the files of a user under a lock on
`.memory.lock`, and raises the revision in memory.json after it has removed a fact; so does this
module. A change that DeerFlow could not finish is in `.memory.journal.json`: it would bring a
removed fact back, so nothing is erased then.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends.apps.deerflow import replace_file
from ckpt_backends.apps.deerflow.declaration import FILE
from ckpt_backends.apps.deerflow.fact_copies import forget_in_backup, forget_metadata
from ckpt_backends.apps.deerflow.markdown_facts import fact_of
from ckpt_backends.apps.deerflow.memory_changes import ChangedMemory, current_value, put
from ckpt_backends.apps.deerflow.memory_files import FACTS, MemoryFile
from ckpt_backends.changes.remains import Remaining, Remains
from ckpt_backends.errors import PartlyDone, Refused, StoreChanged, Unsupported, reason_of
from ckpt_backends.files.folder_lock import locked_by
from ckpt_backends.files.overwriting import OldFiles, overwrite_and_remove
from ckpt_backends.memory.protocol import Item, ItemKey, Namespace, check_unchanged

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
