"""Find the archives and plan files of `ckpt` that hold what is erased."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import (
    SUFFIX,
    Bundle,
    Header,
    bundles_in,
    check_bundle,
    read_header,
)
from ckpt_backends.changes.rows import Row
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, StoreUnavailable
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.transfer.parts import CheckpointPart, ValuePart
from ckpt_backends.transfer.routes import languages_of, parts_of_rows
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.places import ErasurePlace, Mention
from ckpt_cli.core.erasure.scope import ErasureScope
from ckpt_cli.core.filters.evaluate import Decision, Facts
from ckpt_cli.core.filters.expressions import Field
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.plans.erase import ArchiveErasure, unknown_place, unread_place
from ckpt_cli.plans.half_erased import is_half_erased, left_over
from ckpt_cli.queries.archive_folders import is_from_store, records_in, saved_plans
from ckpt_cli.queries.ever_matching import checkpoint_facts, read_known

_SOURCE = r'"(?:thread_id|threadId|source)"\s*:\s*'
_UNSURE = "ckpt cannot tell whether it is of the subject: name its thread to erase it"
_NO_PATTERN = "ckpt cannot tell which are of the subject: add --memory-namespace 'users/{user}'"
_NO_NAME = (
    "ckpt cannot tell which are of the subject: it compares nothing with a name by `=` or `in`,"
    " which --memory-namespace needs"
)

KeyOf = Callable[[Row], ItemKey]
"""Returns the item that an archived row is of."""


def why_not_looked_at(scope: ErasureScope) -> str:
    """Return why nothing tells which items of a memory are the person's."""
    return _NO_NAME if scope.memory_patterns else _NO_PATTERN


@dataclass(slots=True)
class ArchiveSearch:
    """Looks through the folders of archives. Adds archived threads of the person to the scope."""

    url: StoreUrl
    scope: ErasureScope
    decide: Decision | None
    """Tells which threads are the person's; None if they were named otherwise."""
    of_person: bool
    """Whether any checkpoint of a thread decides, and not only the newest one."""
    named: Collection[Path]
    """The folders that were named. The person's archives of other stores in them are erased, too.
    """
    keys_of: Mapping[str, KeyOf]
    """By layout, how the rows of a memory are told apart."""
    lineage: Callable[[str], set[str]]
    """Returns the ids of a thread's checkpoints in the store, and of their parents. The id of the
    thread may have been given to another one since.
    """
    found: list[ArchiveErasure] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    unread: list[ErasurePlace] = field(default_factory=list)

    def look_in(self, folders: Iterable[Path]) -> None:
        """Look through the archives of some folders: of threads first, then of items."""
        of_threads: dict[Path, Header] = {}
        of_items: dict[Path, Header] = {}
        for folder in folders:
            for path, header in self._headers(folder):
                (of_items if header.thread_id is None else of_threads).setdefault(path, header)
        threads = self._looked(of_threads)
        self._add_threads(list(threads.values()))
        for one in threads.values():
            # It may be of a thread that was found in an archive that was read later.
            one.look_at_id()
        for path, one in {**threads, **self._looked(of_items)}.items():
            self._conclude(path, one)

    def _headers(self, folder: Path) -> Iterator[tuple[Path, Header]]:
        """Yield the archives of a folder; what cannot be read becomes a place that is left."""
        try:
            paths = bundles_in(folder)
        except StoreUnavailable as error:
            if folder.exists():
                self.unread.append(unread_place(str(folder), "archives", error))
            return
        old = sorted(folder.glob(f".*{SUFFIX}.old"))
        for path in left_over(old, folder):
            self.found.append(ArchiveErasure(path, path.stat().st_size))
        for path in paths:
            try:
                yield path, read_header(path)
            except CkptError as error:
                self._failed(path, error)

    def _failed(self, path: Path, error: CkptError) -> None:
        if is_half_erased(path):
            self.found.append(ArchiveErasure(path, path.stat().st_size))
        elif path.exists():
            self.unread.append(unread_place(str(path), "archives", error))

    def _looked(self, found: Mapping[Path, Header]) -> dict[Path, _Looked]:
        """Return what is seen in some archives; those that cannot be read become places."""
        looked: dict[Path, _Looked] = {}
        for path, header in found.items():
            is_named = any(path.parent.is_relative_to(one) for one in self.named)
            one = _Looked(self, header, is_named)
            try:
                one.read(path)
            except CkptError as error:
                self._failed(path, error)
            else:
                looked[path] = one
        return looked

    def _add_threads(self, looked: Sequence[_Looked]) -> None:
        """Add the threads of archives that match, unless the store has another one of this id."""
        ours = [one for one in looked if one.is_ours]
        for thread_id in sorted({one.thread_id for one in ours if one.is_matched}):
            same = [one for one in ours if one.thread_id == thread_id]
            known = {name for one in same if one.is_matched for name in one.lineage}
            # A thread that was purged again and again is in a chain of archives.
            while more := [one for one in same if one.lineage & known and one.lineage - known]:
                known = known.union(*(one.lineage for one in more))
            stored = self.lineage(thread_id)
            if not stored or stored & known:
                self.scope.threads.add(thread_id)

    def _conclude(self, path: Path, one: _Looked) -> None:
        size = path.stat().st_size
        if one.is_erased:
            thread = one.thread_id, one.header.store
            self.found.append(ArchiveErasure(path, size, thread=thread))
        elif one.drops:
            drops = None if one.number == len(one.drops) else frozenset(one.drops)
            self.found.append(ArchiveErasure(path, size, drops))
        if one.is_unsure and not one.is_erased:
            reason = _UNSURE if one.thread_id else why_not_looked_at(self.scope)
            self.unread.append(unknown_place(str(path), "archives", 1, size, reason))
        if one.why_mentioned and not one.is_erased:
            self.mentions.append(
                Mention(str(path.parent), "archive", path.name, one.hits or 1, one.why_mentioned)
            )


@dataclass(slots=True)
class _Looked:
    """What is seen in one archive while its rows pass through."""

    search: ArchiveSearch
    header: Header
    is_named: bool
    """Whether it is in a folder that was named."""
    number: int = 0
    """Number of rows."""
    drops: list[int] = field(default_factory=list)
    hits: int = 0
    is_erased: bool = False
    is_matched: bool = False
    """Whether its own checkpoints match."""
    is_unsure: bool = False
    """Whether it does not tell all that was asked."""
    why_mentioned: str = ""
    lineage: set[str] = field(default_factory=set)
    """The ids of its checkpoints, and of their parents."""

    @property
    def thread_id(self) -> str:
        """The thread; `''` for items of long-term memory."""
        return self.header.thread_id or ""

    @property
    def is_ours(self) -> bool:
        """Whether the archive was made from the store of this erasure."""
        return is_from_store(self.header.store, self.search.url)

    def read(self, path: Path) -> None:
        """Read as much of it as is asked. Raises what `check_bundle` raises."""
        search = self.search
        if self.header.thread_id is not None and search.decide is None and not search.scope.words:
            self.look_at_id()
            return
        bundle = check_bundle(path, lambda _, rows: self.through(rows))
        if self.header.thread_id is not None and not self.is_erased:
            self._decide(bundle)

    def through(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows, and find out what is in them."""
        if self.header.thread_id is None:
            yield from self._items(rows)
            return
        self.look_at_id()
        if self.is_erased:
            yield from rows
            return
        pattern = self.search.scope.name_pattern
        for row in rows:
            if pattern is not None and any(pattern.search(text) for text in _texts(row)):
                self.hits += 1
            yield row
        if self.hits and not self.why_mentioned:
            self.why_mentioned = "names the subject"

    def _decide(self, bundle: Bundle) -> None:
        """Find out whether its thread matches, from its checkpoints."""
        search, decide = self.search, self.search.decide
        if decide is None or not (self.is_ours or (search.of_person and self.is_named)):
            return
        answers: set[bool | None] = set()
        try:
            answers = {decide(one) for one in self._facts(bundle)}
        except (CkptError, ValueError, KeyError, TypeError):
            answers.add(None)
        self.is_matched = self.is_erased = True in answers
        self.is_unsure = search.of_person and not self.is_matched and None in answers

    def _facts(self, bundle: Bundle) -> Iterator[Facts]:
        """Yield what a filter may ask about every checkpoint, or about the newest of the root."""
        if not languages_of(self.header.layout):
            raise ValueError(self.header.layout)
        are_apart = False
        head: CheckpointPart | None = None
        for part in parts_of_rows(self.header.layout, bundle.rows()):
            are_apart |= isinstance(part, ValuePart)
            if not isinstance(part, CheckpointPart):
                continue
            key = part.key
            self.lineage |= {key.checkpoint_id, *([part.parent] if part.parent else ())}
            if self.search.of_person:
                yield _facts_of(part, are_apart=are_apart)
            elif not key.checkpoint_ns and (
                head is None or key.checkpoint_id > head.key.checkpoint_id
            ):
                head = part
        if head is not None:
            yield _facts_of(head, are_apart=are_apart)

    def look_at_id(self) -> None:
        """Find out whether its thread is erased by its id."""
        if self.is_erased or not self.search.scope.has_thread(self.header.thread_id):
            return
        if self.is_ours:
            self.is_erased = True
        else:
            self.why_mentioned = f"a thread with the same id of {self.header.store}"

    def _items(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Find the rows of items that go."""
        scope, key_of = self.search.scope, self.search.keys_of.get(self.header.layout)
        pattern = scope.name_pattern
        for number, row in enumerate(rows):
            self.number += 1
            goes = False
            if key_of is not None:
                with suppress(CkptError):
                    key = key_of(row)
                    goes = scope.has_namespace(key.namespace) or bool(
                        scope.earlier and scope.earlier.has_item(key)
                    )
            if goes or any(self._comes_from(text) for text in _texts(row)):
                self.drops.append(number)
            elif pattern is not None and any(pattern.search(text) for text in _texts(row)):
                self.hits += 1
                self.why_mentioned = "names the subject"
            yield row
        is_known = key_of is not None and scope.namespaces
        self.is_unsure = self.search.of_person and not is_known and len(self.drops) < self.number

    def _comes_from(self, text: str) -> bool:
        """Whether the text of an item names an erased thread as its source."""
        for found in re.finditer(_SOURCE + r'("(?:[^"\\]|\\.)*")', text):
            with suppress(ValueError):
                if self.search.scope.has_thread(json.loads(found[1])):
                    return True
        return False


def _texts(row: Row) -> Iterator[str]:
    for cell in row.cells.values():
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, bytes):
            yield cell.decode("utf-8", "replace")


def _facts_of(part: CheckpointPart, *, are_apart: bool) -> Facts:
    """Return the facts of a checkpoint; its values are known only if its body holds them."""
    body = None if are_apart else decode_checkpoint(part.body)
    values = body.get("channel_values") if isinstance(body, dict) else None
    held: dict[str, Value] | None = None
    if isinstance(values, dict):
        held = {key: value for key, value in values.items() if isinstance(key, str)}

    def of_thread(asked: Field) -> Sequence[Value] | None:
        return (part.key.thread_id,) if asked.name == "thread" else None

    return checkpoint_facts(read_known(part.metadata), held, of_thread)


def archive_folders(log: OperationLog, named: Iterable[Path]) -> list[Path]:
    """Return the named folders and those that the steps of operations know."""
    found = dict.fromkeys(Path(one).absolute() for one in named)
    for path in sorted([*log.folder.glob("steps/*.ndjson"), *log.folder.glob("running/*.ndjson")]):
        for record in records_in(path):
            found |= dict.fromkeys(Path(one).parent.absolute() for one in _bundles(record))
    return list(found)


def plan_files(folders: Iterable[Path], scope: ErasureScope) -> Iterator[Path]:
    """Yield the saved plans in some folders that name an erased thread or the person."""
    from ckpt_cli.core.erasure.scope import names_erased

    pattern = scope.name_pattern
    for path in saved_plans(folders):
        if any(names_erased(record, scope, pattern) for record in records_in(path)):
            yield path


def _bundles(record: Any) -> Iterator[str]:
    """Yield the paths of archives in a step."""
    todo = [record]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            if isinstance(path := one.get("bundle"), str):
                yield path
            todo += one.values()
        elif isinstance(one, list):
            todo += one
