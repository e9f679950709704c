"""Plans the erasure of threads or of a person, place by place."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from ckpt_backends.app_sessions import AppSession
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
from ckpt_backends.errors import (
    CkptError,
    SeveralLayouts,
    StoreUnavailable,
    UnknownLayout,
    Unsupported,
    UsageError,
)
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, Namespace
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_sessions, open_store
from ckpt_backends.transfer.parts import CheckpointPart, ValuePart
from ckpt_backends.transfer.routes import languages_of, parts_of_rows
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.folders import history_file, old_history
from ckpt_cli.config.store_names import MemoryPlace
from ckpt_cli.core.erasure import (
    ErasedIds,
    ErasurePlace,
    ErasureScope,
    ErasureSubject,
    Mention,
    PlaceKind,
    memory_namespace,
    mention_pattern,
    names_erased,
    names_of,
    words_of,
)
from ckpt_cli.core.filters import Decision, Facts, Filter, FilterField, decision
from ckpt_cli.core.memory import format_key
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.core.search import compile_pattern
from ckpt_cli.core.values import format_path
from ckpt_cli.operations.log import (
    CANNOT_UNDO,
    OperationLog,
    history_entries,
    place_of,
    query_of,
    scrubbed,
    words_of_query,
)
from ckpt_cli.plans.purge import plan_named
from ckpt_cli.plans.saved_plan import item_fact, thread_fact
from ckpt_cli.queries.erased import (
    is_from_store,
    linked_folders,
    records_in,
    saved_plans,
    with_subfolders,
)
from ckpt_cli.queries.filters import EverMatching, checkpoint_facts, read_known
from ckpt_cli.queries.grep import GrepQuery, grep_threads
from ckpt_cli.queries.heads import Watch
from ckpt_cli.queries.memory import MemoryHit, search_items
from ckpt_cli.queries.threads import Selection, selected_threads
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening

DRY_RUN = "dry run"


@dataclass(frozen=True, slots=True)
class MemoryErasure:
    """The items of one memory that are erased."""

    url: StoreUrl
    layout: str
    items: Sequence[Item]
    """Without values."""
    warning: str = ""
    """Why the application should be stopped first; `''` if there is no reason."""


@dataclass(frozen=True, slots=True)
class ArchiveErasure:
    """One archive that is erased, or written anew without some rows."""

    path: Path
    bytes: int
    drops: frozenset[int] | None = None
    """The numbers of the rows that go, for an archive of memory; None if the file goes."""
    thread: tuple[str, str] | None = None
    """The archived thread and its store, as the header names them; None for an archive of memory,
    and for what a killed run left.
    """


@dataclass(frozen=True, slots=True)
class StateErasure:
    """What `ckpt` itself recorded about erased threads."""

    folder: str = ""
    """The folder of the log of operations."""
    lines: int = 0
    """Lines of the log of operations that name them."""
    bytes: int = 0
    operations: frozenset[str] = frozenset()
    """The operations whose steps are erased."""
    steps: Sequence[Path] = ()
    """The files with these steps."""
    history: Sequence[Path] = ()
    """The history of `ckpt sql`, if a query names them."""
    audited: int = 0
    """Lines of the audit file that name them; they stay."""

    @property
    def number(self) -> int:
        """Number of operations that name them, or that an earlier run had begun to erase."""
        return max(self.lines, len(self.steps))

    @property
    def is_empty(self) -> bool:
        """Whether nothing names them that could be erased."""
        return not (self.lines or self.steps or self.history)


@dataclass(slots=True)
class ErasurePlan:
    """All that an erasure removes."""

    url: StoreUrl
    store: str
    """The URL without secrets."""
    scope: ErasureScope
    threads: Sequence[PlannedRemoval] = ()
    memories: list[MemoryErasure] = field(default_factory=list)
    sessions: Sequence[AppSession] = ()
    archives: Sequence[ArchiveErasure] = ()
    folders: Sequence[Path] = ()
    """The folders that were looked through for archives and saved plans."""
    plan_files: Sequence[Path] = ()
    state: StateErasure = field(default_factory=StateErasure)
    unread: list[ErasurePlace] = field(default_factory=list)
    """Places that could not be read."""
    mentions: list[Mention] = field(default_factory=list)
    has_more_mentions: bool = False
    unsearched: int = 0
    """Number of values that could not be searched for mentions."""

    def missed(self, number: int) -> None:
        """Count values that could not be searched."""
        self.unsearched += number

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, and no earlier run has to be finished."""
        return not (self.found() or self.scope.earlier is not None)

    def places(self) -> list[ErasurePlace]:
        """Return the places as a dry run prints them: what was found, and what stays."""
        return [*self.found(), *self.unread]

    def found(self) -> list[ErasurePlace]:
        """Return the places with what was found in them."""
        found = [
            _place(
                self.store, "threads", len(self.threads), sum(one.bytes for one in self.threads)
            ),
            *(
                _place(str(one.url), "memory", len(one.items), sum(item.size for item in one.items))
                for one in self.memories
            ),
            _place(
                self.store, "sessions", len(self.sessions), sum(one.size for one in self.sessions)
            ),
            *_of_folders("archives", ((one.path, one.bytes) for one in self.archives)),
            *_of_folders("plans", ((one, file_size(one)) for one in self.plan_files)),
            _place(self.state.folder, "operations", self.state.number, self.state.bytes),
            *_of_folders("queries", ((one, file_size(one)) for one in self.state.history)),
        ]
        return [one for one in found if one.items]


def file_size(path: Path) -> int:
    """Return the size of a file; 0 if it is gone."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _place(store: str, kind: PlaceKind, items: int, size: int) -> ErasurePlace:
    return ErasurePlace(store, kind, items, size, "kept", DRY_RUN)


def _of_folders(kind: PlaceKind, files: Iterable[tuple[Path, int]]) -> list[ErasurePlace]:
    """Return one place for each folder: the names of archives hold ids of threads."""
    sums: dict[Path, tuple[int, int]] = {}
    for path, size in files:
        number, total = sums.get(path.parent, (0, 0))
        sums[path.parent] = number + 1, total + size
    return [_place(str(folder), kind, *one) for folder, one in sums.items()]


def plan_threads(store: Store, scope: ErasureScope, why: str) -> list[PlannedRemoval]:
    """Return the threads of a scope that have any row."""
    found = plan_named(store, dict.fromkeys(sorted(scope.threads), why))
    return [one for one in found if one.action == "remove"]


def plan_memory(url: StoreUrl, memory: MemoryStore, scope: ErasureScope) -> MemoryErasure:
    """Return the items that are the person's or came from an erased thread."""
    items: list[Item] = []
    needs_values = scope.has_threads
    if needs_values or scope.earlier is not None:
        items = [_bare(one) for one in memory.items(values=True) if scope.has_item(one)]
    else:
        for namespace in scope.namespaces:
            items += map(_bare, memory.items(prefix=namespace))
    info = memory.describe()
    return MemoryErasure(url, info.layout, items, info.needs_write)


def _bare(item: Item) -> Item:
    return replace(item, value=None)


def all_sessions(url: StoreUrl) -> Sequence[AppSession]:
    """Return the sessions of a store; none if applications store none in it.

    Raises `StoreUnavailable`.
    """
    try:
        with open_sessions(url) as sessions:
            return list(sessions.sessions())
    except (Unsupported, UnknownLayout):
        return []


def unread_place(store: str, kind: PlaceKind, error: CkptError) -> ErasurePlace:
    """Return the place for something that could not be read."""
    return ErasurePlace(store, kind, None, None, "kept", error.message, is_left=True)


def unknown_place(
    store: str, kind: PlaceKind, items: int | None, size: int | None, reason: str
) -> ErasurePlace:
    """Return the place for something that may be of the subject and was not looked at."""
    return ErasurePlace(store, kind, items, size, "kept", reason, is_left=True, is_unknown=True)


_HEAD = 16


def is_half_erased(path: Path) -> bool:
    """Return whether a file begins with zeros, as no file of `ckpt` does."""
    with suppress(OSError, CkptError), open_regular(path, follow=False) as file:
        return file.read(_HEAD) == bytes(_HEAD)
    return False


def left_over(old: Iterable[Path], new: Path) -> Iterator[Path]:
    """Yield old contents of files that were written anew; not what has another name in `new`."""
    there = set()
    with suppress(OSError):
        there = {one.stat().st_ino for one in new.iterdir() if one not in old}
    for path in old:
        with suppress(OSError):
            if path.lstat().st_ino not in there:
                yield path


def erasure_facts(plan: ErasurePlan, rows: Store) -> Iterator[dict[str, Any]]:
    """Yield what is erased, in digests; `rows` is the store as it is stored.

    What `ckpt` records about itself is left out: it changes with each command.
    """
    for thread in plan.threads:
        yield thread_fact(thread.thread_id, rows=rows)
    # In a file that is not in WAL mode, an open read would block the commit.
    rows.refresh()
    for one in plan.memories:
        with open_memory(one.url) as memory:
            for item in one.items:
                yield item_fact(memory, item.key)
    for session in plan.sessions:
        yield {"session": session.key, "updated_at": session.updated_at, "bytes": session.size}
    for archive in plan.archives:
        digest = sha256(archive.path.read_bytes()).hexdigest()
        yield {"archive": str(archive.path), "drops": sorted(archive.drops or ()), "sha256": digest}


MOST_MENTIONS = 1000
_MOST_IDS = 1000
"""Maximum number of thread ids that are looked for."""


def mentions_in_threads(
    store: Store,
    opening: Opening,
    threads: Iterable[Thread],
    scope: ErasureScope,
    missed: Callable[[int], None],
) -> Iterator[Mention]:
    """Yield the threads that are not erased and name the person or an erased thread.

    `missed` is told how many values of each thread could not be read.
    """
    pattern = mention_pattern([*scope.words, scope.word or ""], scope.threads, _MOST_IDS)
    if pattern is None:
        return
    url = store.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    left = [one for one in threads if not scope.has_thread(one.thread_id)]
    for one in left:
        if find(one.thread_id) is not None:
            yield Mention(url, "thread", one.thread_id, 1, "thread_id")
    wanted = GrepQuery(pattern, ignore_case=True)
    for searched in grep_threads(store, Executor(opening), left, wanted):
        missed(searched.unread + searched.stopped)
        if searched.hits:
            first = searched.hits[0]
            where = format_path((first.channel, *first.match.path))
            name = first.key.thread_id
            yield Mention(url, "thread", name, len(searched.hits), where)


def mentions_in_memory(
    memory: MemoryStore, scope: ErasureScope, erased: Collection[ItemKey]
) -> Iterator[Mention]:
    """Yield the items that are not erased and name the person or an erased thread."""
    pattern = mention_pattern([*scope.words, scope.word or ""], scope.threads, _MOST_IDS)
    if pattern is None:
        return
    url = memory.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    hits: list[MemoryHit] = []
    for hit in search_items(memory, (), find, iter, redacted=True):
        if hit is None or hit.item.key in erased:
            continue
        if hits and hits[0].item.key != hit.item.key:
            yield _of(url, hits)
            hits = []
        hits.append(hit)
    if hits:
        yield _of(url, hits)


def _of(url: str, hits: list[MemoryHit]) -> Mention:
    return Mention(url, "memory", format_key(hits[0].item.key), len(hits), hits[0].place)


def bounded(mentions: Iterable[Mention]) -> tuple[list[Mention], bool]:
    """Return the first mentions, and whether there are more."""
    found = list(islice(mentions, MOST_MENTIONS + 1))
    return found[:MOST_MENTIONS], len(found) > MOST_MENTIONS


_TEXTS = ("command", "reason", "cannot_undo", "ended")
"""The texts of an operation that a person wrote, or that quote an id."""


def plan_state(
    log: OperationLog, place: str, scope: ErasureScope, audit: Path | None
) -> StateErasure:
    """Return what names erased threads or the person; `place` is the digest of their store."""
    naming = StateNaming(place, scope)
    steps: list[Path] = []
    size = 0
    places = {one.op: one.place for one in log.newest_first()}
    for path in sorted([*log.folder.glob("steps/*.ndjson"), *log.folder.glob("running/*.ndjson")]):
        op, records = path.name.partition(".")[0], list(records_in(path))
        where = next((one["place"] for one in records[:1] if "place" in one), places.get(op))
        if is_half_erased(path) or any(naming.is_in_step(one, where) for one in records):
            steps.append(path)
            naming.operations.add(op)
            size += file_size(path)
    steps += left_over(sorted(log.folder.glob("old.log*.ndjson")), log.folder)
    lines = 0
    for line in log.lines():
        if naming.is_in(line):
            lines += 1
            size += len(line)
    audited = 0
    if audit is not None:
        with suppress(OSError, CkptError), open_regular(audit) as file:
            audited = sum(map(naming.is_in, file))
    operations = frozenset(naming.operations)
    return StateErasure(
        *(str(log.folder), lines, size, operations, steps, list(_history(scope))), audited=audited
    )


class StateNaming:
    """Finds lines that name an erased thread or the person.

    An operation on another store counts only if it names the person: a thread with the same id is
    another one there.
    """

    def __init__(self, place: str, scope: ErasureScope, operations: Collection[str] = ()) -> None:
        self._place = place
        self.scope = scope
        self._elsewhere = ErasureScope(scope.word, scope.words, scope.namespaces)
        self._pattern = scope.name_pattern
        self.operations: set[str] = set(operations)
        """Ids of operations whose steps name an erased thread."""

    def is_in_step(self, record: Any, place: str | None) -> bool:
        """Return whether a step of an operation on a store names anyone."""
        scope = self.scope if place == self._place else self._elsewhere
        if isinstance(record, dict) and "ckpt_operation" in record:
            return self._is_in_operation(record)
        return names_erased(record, scope, self._pattern)

    def is_in(self, line: bytes) -> bool:
        """Return whether a line of a log names anyone."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(record, dict) and self._is_in_operation(record)

    def turned(self, line: bytes) -> bytes:
        """Return a line without the ids."""
        if not self.is_in(line):
            return line
        is_ours = json.loads(line).get("place") == self._place
        scope = self.scope if is_ours else self._elsewhere

        def is_erased(text: str) -> bool:
            return scope.has_thread(text) or bool(self._pattern and self._pattern.search(text))

        record = scrubbed(json.loads(line), is_erased)
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"

    def _is_in_operation(self, record: Mapping[str, Any]) -> bool:
        threads = record.get("threads")
        texts = (
            [one for one in threads if isinstance(one, str)] if isinstance(threads, list) else []
        )
        if record.get("op") in self.operations and record.get("cannot_undo") != CANNOT_UNDO:
            return True
        if record.get("place") == self._place and any(map(self.scope.has_thread, texts)):
            return True
        texts += [one for one in map(record.get, _TEXTS) if isinstance(one, str)]
        return self._pattern is not None and any(map(self._pattern.search, texts))


def _history(scope: ErasureScope) -> Iterator[Path]:
    """Yield the history of `ckpt sql`, and what a killed erasure left of it, if it names anyone."""
    try:
        path = history_file()
    except UsageError:
        return
    for one in (old_history(path), path):
        with suppress(OSError, CkptError), open_regular(one, follow=False) as file:
            found = file.read()
            if without_queries(found, scope) != found:
                yield one


def without_queries(history: bytes, scope: ErasureScope) -> bytes:
    """Return a history without the queries that name an erased thread or the person."""
    pattern = scope.name_pattern

    def is_named(entry: bytes) -> bool:
        text = query_of(entry)
        return any(map(scope.has_thread, words_of_query(text))) or bool(
            pattern and pattern.search(text)
        )

    return b"".join(one for one in history_entries(history) if not is_named(one))


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

    def of_thread(asked: FilterField) -> Sequence[Value] | None:
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
    from ckpt_cli.core.erasure import names_erased

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


_CHOOSING = ("layout", "prefix", "write_prefix", "collection", "writes_collection")
"""URL parameters that choose one of the stores of a database."""


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """What is asked to be erased, and where to look."""

    threads: tuple[str, ...] = ()
    subject: ErasureSubject | None = None
    subject_field: str | None = None
    """The field of a thread that names the person, from the profile."""
    where: Filter | None = None
    match: str | None = None
    memory_patterns: tuple[str, ...] = ()
    """The namespaces of a person, such as `users/{subject}`."""
    memories: tuple[MemoryPlace, ...] = ()
    folders: tuple[Path, ...] = ()
    """Folders of archives that were named."""
    audit: Path | None = None
    earlier: ErasedIds | None = None
    """What an earlier run of the same request had found."""
    finds_mentions: bool = True

    @property
    def filter(self) -> Filter | None:
        """The filter that chooses threads; None if they are given by id or pattern only."""
        from ckpt_cli.core.filters import all_of

        found = [self.subject.filter] if self.subject is not None else []
        return all_of([*found, *([self.where] if self.where is not None else ())])

    @property
    def is_by_filter(self) -> bool:
        """Whether threads are chosen by what they are."""
        return self.filter is not None or self.match is not None

    def scope(self) -> ErasureScope:
        """Return what is known before anything was read."""
        subject = self.subject
        word = None if subject is None else subject.word
        words = set() if subject is None else words_of(subject.filter, self.subject_field)
        namespaces: tuple[Namespace, ...] = ()
        if subject is not None:
            names = names_of(subject, self.subject_field)
            patterns = self.memory_patterns
            namespaces = tuple(memory_namespace(one, name) for one in patterns for name in names)
        return ErasureScope(
            word, words, namespaces, set(self.threads), self.earlier, self.memory_patterns
        )


def plan_everything(
    store: Store, opening: Opening, request: ErasureRequest, now: datetime, watch: Watch
) -> ErasurePlan:
    """Return all that an erasure would remove. Raises what opening a named memory raises."""
    url = opening.url
    scope = request.scope()
    plan = ErasurePlan(url, store.describe().url, scope)
    if request.is_by_filter:
        matching, unread = matching_threads(store, request, now, watch)
        scope.threads |= matching
        if unread:
            reason = "they hold metadata or values that cannot be read, and may be of the subject"
            plan.unread.append(unknown_place(plan.store, "threads", unread, None, reason))
    sessions = _sessions(url, plan.unread)
    scope.threads.update(
        one.thread_id
        for one in sessions
        if one.thread_id is not None and scope.word is not None and one.user_id == scope.word
    )
    log = OperationLog.of_user()
    plan.folders = archive_folders(log, request.folders)
    with ExitStack() as stack:
        memories = list(_memories(request.memories, stack, plan.unread))
        _plan_archives(plan, request, memories, store)
        plan.threads = plan_threads(store, scope, "erased")
        plan.unread += _in_other_stores(opening, request, scope, now)
        for place, memory in memories:
            try:
                found = plan_memory(place, memory, scope)
            except CkptError as error:
                plan.unread.append(unread_place(str(place), "memory", error))
                continue
            if found.items:
                plan.memories.append(found)
            if request.subject is not None and not scope.namespaces:
                plan.unread += _not_looked_at(place, memory, found, why_not_looked_at(scope))
        plan.sessions = [one for one in sessions if scope.has_session(one)]
        plan.plan_files = list(plan_files(with_subfolders(plan.folders, request.folders), scope))
        plan.state = plan_state(log, place_of(url), scope, request.audit)
        if request.finds_mentions:
            _find_mentions(plan, store, opening, watch, [memory for _, memory in memories])
    return plan


def matching_threads(
    store: Store, request: ErasureRequest, now: datetime, watch: Watch = iter
) -> tuple[set[str], int]:
    """Return the ids of the threads that match, and the number of those that cannot be judged.

    Of a subject's threads, any checkpoint matches; of others, the head.
    """
    if request.subject is None:
        chosen = Selection(match=request.match, where=request.filter)
        return {one.thread_id for one in selected_threads(store, chosen, now, watch)}, 0
    ever = EverMatching(store, request.subject.filter, now)
    return ever.thread_ids(watch), ever.unread


def surviving_threads(
    store: Store, request: ErasureRequest, scope: ErasureScope, now: datetime
) -> set[str]:
    """Return the threads of an erasure that are stored after it, such as those that an agent has
    written since.
    """
    found = store.threads_with_rows(sorted(scope.threads))
    if request.subject is not None:
        found |= matching_threads(store, request, now)[0]
    return found


def _not_looked_at(
    url: StoreUrl, memory: MemoryStore, found: MemoryErasure, why: str
) -> Iterator[ErasurePlace]:
    """Yield the place of the items of which nothing tells whether they are the person's."""
    try:
        sizes = Counter({one.namespace: one.items for one in memory.namespaces()})
    except CkptError:  # It is a place that could not be read already.
        return
    sizes -= Counter(one.key.namespace for one in found.items)
    if sizes:
        yield unknown_place(str(url), "memory", sizes.total(), None, why)


def _in_other_stores(
    opening: Opening, request: ErasureRequest, scope: ErasureScope, now: datetime
) -> Iterator[ErasurePlace]:
    """Yield the other stores of the same database that have threads of the subject.

    A store that is one of several is named by parameters of the URL, such as `layout`.
    """
    url = opening.url
    for one in _other_stores(url):
        try:
            with opening._replace(url=one).open(lambda _: None) as other:
                found = other.threads_with_rows(sorted(scope.threads))
                if request.is_by_filter:
                    found |= matching_threads(other, request, now)[0]
        except CkptError as error:
            yield unread_place(str(one), "threads", error)
            continue
        if found:
            reason = "another store of the same database; erase them there too"
            yield ErasurePlace(str(one), "threads", len(found), None, "kept", reason, is_left=True)


def _other_stores(url: StoreUrl) -> Iterator[StoreUrl]:
    """Yield the stores from which the parameters of a URL choose one; none if it has the only."""
    if url.params.keys().isdisjoint(_CHOOSING):
        return
    bare = url.with_params({}, without=_CHOOSING)
    try:
        open_store(bare).close()
    except SeveralLayouts as several:
        for choice in several.choices:
            if any(url.params.get(name, value) != value for name, value in choice.items()):
                yield bare.with_params(choice)
    except CkptError:
        # It is read by its own parameters all the same, and only they name it.
        return


def _sessions(url: StoreUrl, unread: list[ErasurePlace]) -> Sequence[AppSession]:
    try:
        return all_sessions(url)
    except CkptError as error:
        unread.append(unread_place(str(url), "sessions", error))
        return []


def _memories(
    places: Iterable[MemoryPlace], stack: ExitStack, unread: list[ErasurePlace]
) -> Iterator[tuple[StoreUrl, MemoryStore]]:
    """Yield the memories that can be opened, each place once."""
    seen: set[str] = set()
    for one in places:
        if place_of(one.url) in seen:
            continue
        seen.add(place_of(one.url))
        try:
            memory = stack.enter_context(open_memory(one.url))
            for hidden in memory.hidden_rows():
                place = ErasurePlace(
                    str(one.url), "memory", None, None, "kept", hidden.reason, is_left=True
                )
                unread.append(place)
            yield one.url, memory
        except (Unsupported, UnknownLayout):
            if one.named:
                raise
        except CkptError as error:
            if one.named:
                raise
            unread.append(unread_place(str(one.url), "memory", error))


def _plan_archives(
    plan: ErasurePlan,
    request: ErasureRequest,
    memories: Sequence[tuple[StoreUrl, MemoryStore]],
    store: Store,
) -> None:
    for link in linked_folders(request.folders):
        reason = "a link to another folder, which was not looked through: name that folder, too"
        plan.unread.append(unknown_place(str(link), "archives", None, None, reason))
    keys_of = {memory.describe().layout: memory.key_of for _, memory in memories}
    search = ArchiveSearch(
        plan.url,
        plan.scope,
        _decide(request),
        of_person=request.subject is not None,
        named=[one.absolute() for one in request.folders],
        keys_of=keys_of,
        lineage=lambda thread_id: _lineage(store, thread_id),
    )
    search.look_in(with_subfolders(plan.folders, request.folders))
    plan.archives = search.found
    plan.unread += search.unread
    if request.finds_mentions:
        plan.mentions += search.mentions


def _lineage(store: Store, thread_id: str) -> set[str]:
    found = store.checkpoints(thread_id)
    pairs = ((one.key.checkpoint_id, one.parent_checkpoint_id) for one in found)
    return {name for pair in pairs for name in pair if name is not None}


def _decide(request: ErasureRequest) -> Decision | None:
    """Return what tells whether an archived thread is chosen; None if only ids choose."""
    if not request.is_by_filter:
        return None
    inner = None if request.filter is None else decision(request.filter)

    def decide(facts: Facts) -> bool | None:
        if request.match is not None:
            (thread_id,) = facts(FilterField("thread")) or ("",)
            if not fnmatchcase(str(thread_id), request.match):
                return False
        return True if inner is None else inner(facts)

    return decide


def _find_mentions(
    plan: ErasurePlan, store: Store, opening: Opening, watch: Watch, memories: Sequence[MemoryStore]
) -> None:
    def found() -> Iterator[Mention]:
        yield from of_archives
        threads = watch(store.threads())
        yield from mentions_in_threads(store, opening, threads, plan.scope, plan.missed)
        for memory in memories:
            yield from mentions_in_memory(memory, plan.scope, erased)

    of_archives = plan.mentions
    erased = {item.key for one in plan.memories for item in one.items}
    plan.mentions, plan.has_more_mentions = bounded(found())
