"""Find the archives and plan files of `ckpt` that hold what is erased."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import SUFFIX, Header, bundles_in, check_bundle, read_header
from ckpt_backends.changes.rows import Row
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError, StoreUnavailable
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_backends.transfer.routes import languages_of, parts_of_rows
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.places import ErasurePlace, Mention
from ckpt_cli.core.erasure.scope import ErasureScope
from ckpt_cli.core.filters.evaluate import Decision
from ckpt_cli.core.filters.expressions import Field
from ckpt_cli.core.filters.lookup import values_at
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.plans.erase import ArchiveErasure, unread_place
from ckpt_cli.plans.half_erased import is_half_erased, left_over
from ckpt_cli.queries.archived_store import is_from_store

_SOURCE = r'"(?:thread_id|threadId|source)"\s*:\s*'
_PLAN = re.compile(rb'\{\s*"ckpt_(?:purge_)?plan"')
_LONGEST = 256 << 20

KeyOf = Callable[[Row], ItemKey]
"""Returns the item that an archived row is of."""


@dataclass(slots=True)
class ArchiveSearch:
    """Looks through the folders of archives. Adds archived threads of the person to the scope."""

    url: StoreUrl
    scope: ErasureScope
    decide: Decision | None
    """Tells which threads are the person's; None if they were named otherwise."""
    keys_of: Mapping[str, KeyOf]
    """By layout, how the rows of a memory are told apart."""
    found: list[ArchiveErasure] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    unread: list[ErasurePlace] = field(default_factory=list)

    def look_in(self, folders: Iterable[Path]) -> None:
        """Look through the archives of some folders."""
        for folder in folders:
            try:
                paths = bundles_in(folder)
            except StoreUnavailable as error:
                if folder.exists():
                    self.unread.append(unread_place(str(folder), "archives", error))
                continue
            old = sorted(folder.glob(f".*{SUFFIX}.old"))
            for path in left_over(old, folder):
                self.found.append(ArchiveErasure(path, path.stat().st_size))
            for path in paths:
                try:
                    self._look_at(path)
                except CkptError as error:
                    if is_half_erased(path):
                        self.found.append(ArchiveErasure(path, path.stat().st_size))
                    elif path.exists():
                        self.unread.append(unread_place(str(path), "archives", error))

    def _look_at(self, path: Path) -> None:
        size = path.stat().st_size
        looked: list[_Looked] = []

        def look(header: Header, rows: Iterator[Row]) -> Iterator[Row]:
            looked.append(one := _Looked(self, header))
            return one.through(rows)

        header = read_header(path)
        if header.thread_id is None or self.decide is not None or self.scope.words:
            check_bundle(path, look)
            (one,) = looked
        else:
            one = _Looked(self, header)
            one.look_at_id()
        if one.is_erased:
            self.found.append(ArchiveErasure(path, size))
            if one.header.thread_id is not None:
                self.scope.threads.add(one.header.thread_id)
        elif one.drops:
            drops = None if one.number == len(one.drops) else frozenset(one.drops)
            self.found.append(ArchiveErasure(path, size, drops))
        if one.why_mentioned and not one.is_erased:
            self.mentions.append(
                Mention(str(path.parent), "archive", path.name, one.hits or 1, one.why_mentioned)
            )


@dataclass(slots=True)
class _Looked:
    """What is seen in one archive while its rows pass through."""

    search: ArchiveSearch
    header: Header
    number: int = 0
    """Number of rows."""
    drops: list[int] = field(default_factory=list)
    hits: int = 0
    is_erased: bool = False
    why_mentioned: str = ""

    def through(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows, and find out what is in them."""
        if self.header.thread_id is None:
            yield from self._items(rows)
            return
        self.look_at_id()
        if self.is_erased:
            yield from rows
            return
        heads: dict[bool, list[Row]] = {}
        pattern = self.search.scope.name_pattern
        for row in rows:
            _keep_head(heads, row)
            if pattern is not None and any(pattern.search(text) for text in _texts(row)):
                self.hits += 1
            yield row
        if self.search.decide is not None and self._is_ours():
            with suppress(CkptError, ValueError, KeyError, TypeError):
                kept = [row for rows_of in heads.values() for row in rows_of]
                facts = _archived_facts(self.header, kept)
                self.is_erased = facts is not None and self.search.decide(facts) is True
        if self.hits and not self.is_erased and not self.why_mentioned:
            self.why_mentioned = "names the subject"

    def look_at_id(self) -> None:
        """Find out whether its thread is erased by its id."""
        if not self.search.scope.has_thread(self.header.thread_id):
            return
        if self._is_ours():
            self.is_erased = True
        else:
            self.why_mentioned = f"a thread with the same id of {self.header.store}"

    def _is_ours(self) -> bool:
        """Whether the archive was made from the store of this erasure."""
        return is_from_store(self.header.store, self.search.url)

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

    def _comes_from(self, text: str) -> bool:
        """Whether the text of an item names an erased thread as its source."""
        for found in re.finditer(_SOURCE + r'("(?:[^"\\]|\\.)*")', text):
            with suppress(ValueError):
                if self.search.scope.has_thread(json.loads(found[1])):
                    return True
        return False


def _keep_head(heads: dict[bool, list[Row]], row: Row) -> None:
    """Keep the newest checkpoint of the root namespace, or all if their keys are not in columns."""
    ns, key = row.cells.get("checkpoint_ns"), row.cells.get("checkpoint_id")
    if "checkpoint" not in row.table or "task_id" in row.cells:
        return
    if not (isinstance(ns, str) and isinstance(key, str)):
        heads.setdefault(False, []).append(row)
    elif not ns and key >= str((heads.get(True) or [row])[0].cells["checkpoint_id"]):
        heads[True] = [row]


def _texts(row: Row) -> Iterator[str]:
    for cell in row.cells.values():
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, bytes):
            yield cell.decode("utf-8", "replace")


def _archived_facts(
    header: Header, rows: Sequence[Row]
) -> Callable[[Field], Sequence[Value] | None] | None:
    """Return what a filter may ask about an archived thread; None if its head cannot be read."""
    if not languages_of(header.layout):
        return None
    parts = parts_of_rows(header.layout, rows)
    heads = [one for one in parts if isinstance(one, CheckpointPart) and not one.key.checkpoint_ns]
    if not heads:
        return None
    head = max(heads, key=lambda one: one.key.checkpoint_id)
    metadata = decode(head.metadata)
    if not isinstance(metadata, dict):
        return None
    known = {key: value for key, value in metadata.items() if isinstance(key, str)}

    def facts(asked: Field) -> Sequence[Value] | None:
        match asked.name:
            case "thread":
                return (header.thread_id,)
            case "metadata":
                return values_at(known, asked.path)
        return None

    return facts


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
    for folder in folders:
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            with suppress(OSError, CkptError):
                if not path.is_file() or path.stat().st_size > _LONGEST or not _is_plan(path):
                    continue
                if any(names_erased(record, scope, pattern) for record in records_in(path)):
                    yield path


def _is_plan(path: Path) -> bool:
    with open_regular(path, follow=False) as file:
        return _PLAN.match(file.read(64)) is not None


def records_in(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file with one on each line; damaged lines are left out."""
    with suppress(OSError, CkptError), open_regular(path, follow=False) as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                yield json.loads(line)


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
