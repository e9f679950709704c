"""Plans the erasure of threads or of a person, place by place, and verifies it later."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from ckpt_backends import errors
from ckpt_backends.app_sessions import AppSession
from ckpt_backends.archive import SUFFIX, Bundle, Header, bundles_in, check_bundle, read_header
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.values import Value
from ckpt_backends.files import open_regular
from ckpt_backends.memory import Item, ItemKey, MemoryStore, Namespace
from ckpt_backends.model import Kind, Record, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_sessions, open_store
from ckpt_backends.rows import Row
from ckpt_backends.transfer.copying import languages_of, records_of_rows
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.config.machine import history_file, old_history
from ckpt_cli.config.store_names import MemoryPlace
from ckpt_cli.core.erasure import (
    CANNOT_UNDO,
    Erased,
    ErasedIds,
    ErasurePlace,
    ErasureReceipt,
    ErasureScope,
    ErasureSubject,
    Mention,
    PlaceKind,
    has_item,
    is_named_in,
    left_place,
    memory_namespace,
    named_queries,
    names_of,
    scrubbed,
    unknown_place,
    words_of,
)
from ckpt_cli.core.filters import Decision, Facts, Filter, FilterField, all_of, decision
from ckpt_cli.core.memory import format_key
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.core.search import compile_pattern
from ckpt_cli.core.values import format_path
from ckpt_cli.operations.log import OperationLog, json_of, place_of
from ckpt_cli.plans.purge import plan_named
from ckpt_cli.plans.saved_plan import item_fact, thread_fact
from ckpt_cli.queries.filters import EverMatching, checkpoint_facts, read_known
from ckpt_cli.queries.grep import GrepQuery, grep_threads
from ckpt_cli.queries.heads import Watch
from ckpt_cli.queries.memory import MemoryHit, search_items
from ckpt_cli.queries.threads import Selection, selected_threads
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening

DRY_RUN = "dry run"
_LONGEST = 256 << 20
_IN_OTHERS = "another store of the same database; erase them there too"

AnyRow = TypeVar("AnyRow", PlannedRemoval, Item, AppSession)


@dataclass(frozen=True, slots=True)
class FoundRows(Generic[AnyRow]):
    """What is erased in one store: threads, items of long-term memory, or sessions."""

    kind: PlaceKind
    url: StoreUrl
    store: str
    """Its name in the answer."""
    rows: Sequence[AnyRow]
    size: Callable[[AnyRow], int]
    """Returns the bytes of a row."""

    @property
    def bytes(self) -> int:
        return sum(map(self.size, self.rows))


class FoundFile(NamedTuple):
    """A file that is erased, or written anew without some of what it holds."""

    kind: PlaceKind
    """Archives, plans, or queries: the history of `ckpt sql`."""
    path: Path
    bytes: int
    drops: frozenset[int] | None = None
    """The numbers of the rows that go, for an archive of memory; None if the file goes."""
    thread: tuple[str, str] | None = None
    """The archived thread and its store, as the header names them; None for an archive of memory,
    and for what a killed run left.
    """


def by_folder(files: Iterable[FoundFile]) -> Mapping[tuple[PlaceKind, Path], list[FoundFile]]:
    """Return files by what they are and their folder: the names of archives hold ids of
    threads.
    """
    found: dict[tuple[PlaceKind, Path], list[FoundFile]] = {}
    for one in files:
        found.setdefault((one.kind, one.path.parent), []).append(one)
    return found


class FoundOperations(NamedTuple):
    """What the log of operations has about erased threads."""

    folder: str = ""
    lines: int = 0
    """Lines of the log that name them."""
    bytes: int = 0
    operations: frozenset[str] = frozenset()
    """The operations whose steps are erased."""
    steps: Sequence[Path] = ()
    """The files with these steps."""
    audited: int = 0
    """Lines of the audit file that name them; they stay."""

    @property
    def number(self) -> int:
        """Number of operations that name them, or that an earlier run had begun to erase."""
        return max(self.lines, len(self.steps))


_NO_OPERATIONS = FoundOperations()


@dataclass(slots=True)
class ErasurePlan:
    """All that an erasure removes."""

    url: StoreUrl
    store: str
    """The URL without secrets."""
    scope: ErasureScope
    threads: FoundRows[PlannedRemoval]
    sessions: FoundRows[AppSession]
    memories: list[FoundRows[Item]] = field(default_factory=list)
    """The items, without values."""
    warnings: list[str] = field(default_factory=list)
    """Why an application should be stopped first."""
    archives: list[FoundFile] = field(default_factory=list)
    folders: Sequence[Path] = ()
    """The folders that were looked through for archives and saved plans."""
    plan_files: Sequence[FoundFile] = ()
    operations: FoundOperations = _NO_OPERATIONS
    queries: Sequence[FoundFile] = ()
    unread: list[ErasurePlace] = field(default_factory=list)
    """Places that could not be read."""
    mentions: list[Mention] = field(default_factory=list)
    has_more_mentions: bool = False
    unsearched: int = 0
    """Number of values that could not be searched for mentions."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, and no earlier run has to be finished."""
        return not (self.found() or self.scope.earlier is not None)

    def found(self) -> list[ErasurePlace]:
        """Return the places with what was found in them, as a dry run prints them."""
        rows: Iterable[FoundRows[Any]] = (self.threads, *self.memories, self.sessions)
        operations = self.operations
        found = [
            *((one.kind, one.store, len(one.rows), one.bytes) for one in rows),
            *_sums([*self.archives, *self.plan_files]),
            ("operations", operations.folder, operations.number, operations.bytes),
            *_sums(self.queries),
        ]
        return [
            ErasurePlace(where, kind, n, size, "kept", DRY_RUN)
            for kind, where, n, size in found
            if n
        ]


def _sums(files: Iterable[FoundFile]) -> Iterator[tuple[PlaceKind, str, int, int]]:
    for (kind, folder), some in by_folder(files).items():
        yield kind, str(folder), len(some), sum(one.bytes for one in some)


def _file(kind: PlaceKind, path: Path) -> FoundFile:
    """Return a file that goes; its size is 0 if it is gone."""
    size = 0
    with suppress(OSError):
        size = path.stat().st_size
    return FoundFile(kind, path, size)


def is_half_erased(path: Path) -> bool:
    """Return whether a file begins with zeros, as no file of `ckpt` does."""
    with suppress(OSError, errors.CkptError), open_regular(path, follow=False) as file:
        return file.read(16) == bytes(16)
    return False


def _left_over(old: Iterable[Path], new: Path) -> Iterator[Path]:
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
    for thread in plan.threads.rows:
        yield thread_fact(thread.thread_id, rows=rows)
    # In a file that is not in WAL mode, an open read would block the commit.
    rows.refresh()
    for one in plan.memories:
        with open_memory(one.url) as memory:
            for item in one.rows:
                yield item_fact(memory, item.key)
    for session in plan.sessions.rows:
        yield {"session": session.key, "updated_at": session.updated_at, "bytes": session.size}
    for archive in plan.archives:
        digest = sha256(archive.path.read_bytes()).hexdigest()
        yield {"archive": str(archive.path), "drops": sorted(archive.drops or ()), "sha256": digest}


# What is asked to be erased, and the search for it.

_CHOOSING = ("layout", "prefix", "write_prefix", "collection", "writes_collection")
"""URL parameters that choose one of the stores of a database."""
_NO_PATTERN = "ckpt cannot tell which are of the subject: add --memory-namespace 'users/{user}'"
_NO_NAME = (
    "ckpt cannot tell which are of the subject: it compares nothing with a name by `=` or `in`,"
    " which --memory-namespace needs"
)


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
        subject = None if self.subject is None else self.subject.filter
        return all_of([one for one in (subject, self.where) if one is not None])

    @property
    def is_by_filter(self) -> bool:
        """Whether threads are chosen by what they are."""
        return self.filter is not None or self.match is not None

    def decide(self) -> Decision | None:
        """Return what tells whether an archived thread is chosen; None if only ids choose."""
        if not self.is_by_filter:
            return None
        inner = None if self.filter is None else decision(self.filter)

        def decide(facts: Facts) -> bool | None:
            if self.match is not None:
                (thread_id,) = facts(FilterField("thread")) or ("",)
                if not fnmatchcase(str(thread_id), self.match):
                    return False
            return True if inner is None else inner(facts)

        return decide

    def scope(self) -> ErasureScope:
        """Return what is known before anything was read."""
        word, words, namespaces = None, set[str](), tuple[Namespace, ...]()
        if self.subject is not None:
            word, words = self.subject.word, words_of(self.subject.filter, self.subject_field)
            names = names_of(self.subject, self.subject_field)
            patterns = self.memory_patterns
            namespaces = tuple(memory_namespace(one, name) for one in patterns for name in names)
        return ErasureScope(
            word, words, namespaces, set(self.threads), self.earlier, self.memory_patterns
        )


def plan_everything(
    store: Store, opening: Opening, request: ErasureRequest, now: datetime, watch: Watch
) -> ErasurePlan:
    """Return all that an erasure would remove. Raises what opening a named memory raises."""
    url, name, scope = opening.url, store.describe().url, request.scope()
    threads = FoundRows("threads", url, name, list[PlannedRemoval](), lambda one: one.bytes)
    sessions = FoundRows("sessions", url, name, list[AppSession](), lambda one: one.size)
    plan = ErasurePlan(url, name, scope, threads, sessions)
    if request.is_by_filter:
        matching, unread = _matching(store, request, now, watch)
        scope.threads |= matching
        if unread:
            reason = "they hold metadata or values that cannot be read, and may be of the subject"
            plan.unread.append(unknown_place(name, "threads", unread, None, reason))
    stored = _sessions(plan)
    scope.threads.update(
        one.thread_id
        for one in stored
        if one.thread_id is not None and scope.word is not None and one.user_id == scope.word
    )
    log = OperationLog.of_user()
    plan.folders = _archive_folders(log, request.folders)
    with ExitStack() as stack:
        memories = list(_memories(request.memories, stack, plan.unread))
        ArchiveSearch(plan, request, store, [memory for _, memory in memories]).look()
        found = plan_named(store, dict.fromkeys(sorted(scope.threads), "erased"))
        plan.threads = replace(threads, rows=[one for one in found if one.action == "remove"])
        plan.unread += _in_other_stores(opening, request, scope, now)
        for place, memory in memories:
            _plan_memory(plan, place, memory, looks_at_all=request.subject is None)
        plan.sessions = replace(sessions, rows=list(filter(scope.has_session, stored)))
        folders = _with_subfolders(plan.folders, request.folders)
        plan.plan_files = [_file("plans", one) for one in _named_plans(folders, scope)]
        plan.operations = _plan_operations(log, place_of(url), scope, request.audit)
        plan.queries = [_file("queries", one) for one in _named_history(scope)]
        if request.finds_mentions:
            _find_mentions(plan, store, opening, watch, [memory for _, memory in memories])
        else:
            plan.mentions = []
    return plan


def _matching(
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
        found |= _matching(store, request, now)[0]
    return found


def _sessions(plan: ErasurePlan) -> Sequence[AppSession]:
    """Return the sessions of the store; none if applications store none in it."""
    try:
        with open_sessions(plan.url) as sessions:
            return list(sessions.sessions())
    except (errors.Unsupported, errors.UnknownLayout):
        pass
    except errors.CkptError as error:
        plan.unread.append(left_place(str(plan.url), "sessions", None, None, error.message))
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
                unread.append(left_place(str(one.url), "memory", None, None, hidden.reason))
            yield one.url, memory
        except (errors.Unsupported, errors.UnknownLayout):
            if one.named:
                raise
        except errors.CkptError as error:
            if one.named:
                raise
            unread.append(left_place(str(one.url), "memory", None, None, error.message))


def _plan_memory(
    plan: ErasurePlan, url: StoreUrl, memory: MemoryStore, *, looks_at_all: bool
) -> None:
    """Find the items that are the person's or came from an erased thread.

    Unless it `looks_at_all`, items of which nothing tells whose they are become a place.
    """
    scope = plan.scope
    try:
        if scope.has_threads or scope.earlier is not None:
            found = [one for one in memory.items(values=True) if has_item(scope, one)]
        else:
            found = [one for prefix in scope.namespaces for one in memory.items(prefix=prefix)]
        items = [replace(one, value=None) for one in found]
        warning = memory.describe().needs_write
    except errors.CkptError as error:
        plan.unread.append(left_place(str(url), "memory", None, None, error.message))
        return
    if items:
        plan.memories.append(FoundRows("memory", url, str(url), items, lambda one: one.size))
        plan.warnings += [f"'{url}': {warning}"] if warning else []
    if looks_at_all or scope.namespaces:
        return
    with suppress(errors.CkptError):  # It is a place that could not be read already.
        sizes = Counter({one.namespace: one.items for one in memory.namespaces()})
        sizes -= Counter(one.key.namespace for one in items)
        if sizes:
            why = why_not_looked_at(scope)
            plan.unread.append(unknown_place(str(url), "memory", sizes.total(), None, why))


def why_not_looked_at(scope: ErasureScope) -> str:
    """Return why nothing tells which items of a memory are the person's."""
    return _NO_NAME if scope.memory_patterns else _NO_PATTERN


def _in_other_stores(
    opening: Opening, request: ErasureRequest, scope: ErasureScope, now: datetime
) -> Iterator[ErasurePlace]:
    """Yield the other stores of the same database that have threads of the subject.

    A store that is one of several is named by parameters of the URL, such as `layout`.
    """
    for one in _other_stores(opening.url):
        try:
            with opening._replace(url=one).open(lambda _: None) as other:
                found = other.threads_with_rows(sorted(scope.threads))
                if request.is_by_filter:
                    found |= _matching(other, request, now)[0]
        except errors.CkptError as error:
            yield left_place(str(one), "threads", None, None, error.message)
            continue
        if found:
            yield left_place(str(one), "threads", len(found), None, _IN_OTHERS)


def _other_stores(url: StoreUrl) -> Iterator[StoreUrl]:
    """Yield the stores from which the parameters of a URL choose one; none if it has the only."""
    if url.params.keys().isdisjoint(_CHOOSING):
        return
    bare = url.with_params({}, without=_CHOOSING)
    try:
        open_store(bare).close()
    except errors.SeveralLayouts as several:
        for choice in several.choices:
            if any(url.params.get(name, value) != value for name, value in choice.items()):
                yield bare.with_params(choice)
    except errors.CkptError:
        # It is read by its own parameters all the same, and only they name it.
        return


# What is left and names the person or an erased thread.

MOST_MENTIONS = 1000
_MOST_IDS = 1000
"""Maximum number of thread ids that are looked for."""


def _find_mentions(
    plan: ErasurePlan, store: Store, opening: Opening, watch: Watch, memories: Sequence[MemoryStore]
) -> None:
    """Look through what is left, after the archives; at most `MOST_MENTIONS` are kept."""
    of_archives, pattern = plan.mentions, plan.scope.mention_pattern(_MOST_IDS)

    def found() -> Iterator[Mention]:
        yield from of_archives
        threads = watch(store.threads())
        if pattern is None:
            return
        yield from _mentions_in_threads(plan, store, opening, threads, pattern)
        for memory in memories:
            yield from _mentions_in_memory(memory, pattern, erased)

    erased = {item.key for one in plan.memories for item in one.rows}
    mentions = list(islice(found(), MOST_MENTIONS + 1))
    plan.mentions, plan.has_more_mentions = mentions[:MOST_MENTIONS], len(mentions) > MOST_MENTIONS


def _mentions_in_threads(
    plan: ErasurePlan, store: Store, opening: Opening, threads: Iterable[Thread], pattern: str
) -> Iterator[Mention]:
    """Yield the threads that are not erased and name the person or an erased thread."""
    url = store.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    left = [one for one in threads if not plan.scope.has_thread(one.thread_id)]
    for one in left:
        if find(one.thread_id) is not None:
            yield Mention(url, "thread", one.thread_id, 1, "thread_id")
    wanted = GrepQuery(pattern, ignore_case=True)
    for searched in grep_threads(store, Executor(opening), left, wanted):
        plan.unsearched += searched.unread + searched.stopped
        if searched.hits:
            first = searched.hits[0]
            where = format_path((first.channel, *first.match.path))
            yield Mention(url, "thread", first.key.thread_id, len(searched.hits), where)


def _mentions_in_memory(
    memory: MemoryStore, pattern: str, erased: Collection[ItemKey]
) -> Iterator[Mention]:
    """Yield the items that are not erased and name the person or an erased thread."""
    url = memory.describe().url
    find = compile_pattern(pattern, fixed=False, ignore_case=True)
    found = search_items(memory, (), find, iter, redacted=True)
    kept: Iterator[MemoryHit] = (one for one in found if one is not None)
    for key, hits in groupby(kept, lambda one: one.item.key):
        if key not in erased:
            first, *more = hits
            yield Mention(url, "memory", format_key(key), 1 + len(more), first.place)


# What `ckpt` itself recorded: the log of operations, saved plans, the history of `ckpt sql`.

_TEXTS = ("command", "reason", "cannot_undo", "ended")
"""The texts of an operation that a person wrote, or that quote an id."""
_PLAN = re.compile(rb'\{\s*"ckpt_(?:purge_)?plan"')


def _step_files(log: OperationLog) -> list[Path]:
    return sorted([*log.folder.glob("steps/*.ndjson"), *log.folder.glob("running/*.ndjson")])


def _plan_operations(
    log: OperationLog, place: str, scope: ErasureScope, audit: Path | None
) -> FoundOperations:
    """Return what names erased threads or the person; `place` is the digest of their store."""
    naming = LogNaming(place, scope)
    steps: list[Path] = []
    size = 0
    places = {one.op: one.place for one in log.newest_first()}
    for path in _step_files(log):
        op, records = path.name.partition(".")[0], list(_records_in(path))
        where = next((one["place"] for one in records[:1] if "place" in one), places.get(op))
        if is_half_erased(path) or any(naming.is_in_step(one, where) for one in records):
            steps.append(path)
            naming.operations.add(op)
            size += _file("operations", path).bytes
    steps += _left_over(sorted(log.folder.glob("old.log*.ndjson")), log.folder)
    named = [line for line in log.lines() if naming.is_in(line)]
    audited = 0
    if audit is not None:
        with suppress(OSError, errors.CkptError), open_regular(audit) as file:
            audited = sum(map(naming.is_in, file))
    size += sum(map(len, named))
    operations = frozenset(naming.operations)
    return FoundOperations(str(log.folder), len(named), size, operations, steps, audited)


class LogNaming:
    """Finds lines of the log of operations that name an erased thread or the person.

    An operation on another store counts only if it names the person: a thread with the same id is
    another one there.
    """

    def __init__(self, place: str, scope: ErasureScope, operations: Collection[str] = ()) -> None:
        self._place = place
        self._scope = scope
        self.operations: set[str] = set(operations)
        """Ids of operations whose steps name an erased thread."""

    def is_in_step(self, record: Any, place: str | None) -> bool:
        """Return whether a step of an operation on a store names anyone."""
        if isinstance(record, dict) and "ckpt_operation" in record:
            return self._is_in_operation(record)
        return is_named_in(self._scope_at(place), record)

    def is_in(self, line: bytes) -> bool:
        """Return whether a line of a log names anyone."""
        record = json_of(line)
        return isinstance(record, dict) and self._is_in_operation(record)

    def turned(self, line: bytes) -> bytes:
        """Return a line without the ids."""
        if not self.is_in(line):
            return line
        record = json.loads(line)
        scope = self._scope_at(record.get("place"))
        without = scrubbed(record, lambda text: scope.has_thread(text) or scope.has_name(text))
        return json.dumps(without, separators=(",", ":")).encode() + b"\n"

    def _scope_at(self, place: object) -> ErasureScope:
        return self._scope if place == self._place else self._scope.elsewhere

    def _is_in_operation(self, record: Mapping[str, Any]) -> bool:
        if record.get("op") in self.operations and record.get("cannot_undo") != CANNOT_UNDO:
            return True
        return _is_in_operation(record, self._place, self._scope)


def _is_in_operation(record: Mapping[str, Any], place: str, erased: Erased) -> bool:
    """Return whether an operation was on an erased thread of a store, or names the person."""
    threads = record.get("threads")
    ids = [one for one in threads if isinstance(one, str)] if isinstance(threads, list) else []
    if record.get("place") == place and any(map(erased.has_thread, ids)):
        return True
    texts = [one for one in map(record.get, _TEXTS) if isinstance(one, str)]
    return any(map(erased.has_name, (*ids, *texts)))


def _records_in(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file with one on each line; damaged lines are left out."""
    with suppress(OSError, errors.CkptError), open_regular(path, follow=False) as file:
        yield from (one for one in map(json_of, file) if one is not None)


def _histories() -> Sequence[Path]:
    """Return the history of `ckpt sql`, and what a killed erasure left of it.

    Raises `UsageError`.
    """
    path = history_file()
    return old_history(path), path


def _named_history(scope: ErasureScope) -> Iterator[Path]:
    with suppress(errors.UsageError):
        for path in _histories():
            with suppress(OSError, errors.CkptError), open_regular(path, follow=False) as file:
                if named_queries(file.read(), scope):
                    yield path


def _named_plans(folders: Iterable[Path], erased: Erased) -> Iterator[Path]:
    """Yield the saved plans in some folders that name an erased thread or the person."""
    for folder in folders:
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            with suppress(OSError, errors.CkptError):
                if not path.is_file() or path.stat().st_size > _LONGEST:
                    continue
                with open_regular(path, follow=False) as file:
                    is_plan = _PLAN.match(file.read(64)) is not None
                if is_plan and any(is_named_in(erased, one) for one in _records_in(path)):
                    yield path


# Archives.

_SOURCE = re.compile(r'"(?:thread_id|threadId|source)"\s*:\s*("(?:[^"\\]|\\.)*")')
_UNSURE = "ckpt cannot tell whether it is of the subject: name its thread to erase it"
_LINK = "a link to another folder, which was not looked through: name that folder, too"
_SUBJECT = "names the subject"


def _archive_folders(log: OperationLog, named: Iterable[Path]) -> list[Path]:
    """Return the named folders and those that the steps of operations know."""
    found = dict.fromkeys(one.absolute() for one in named)
    for path in _step_files(log):
        for record in _records_in(path):
            found |= dict.fromkeys(Path(one).parent.absolute() for one in _bundles(record))
    return list(found)


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


def _with_subfolders(folders: Iterable[Path], named: Iterable[Path]) -> list[Path]:
    """Return these folders, and all below those that were named, also what cannot be listed.

    Links to other folders are not followed.
    """
    found = dict.fromkeys(folders)

    def unlisted(error: OSError) -> None:
        found.setdefault(Path(error.filename))

    for one in named:
        for below, _, _ in os.walk(one.absolute(), onerror=unlisted):
            found.setdefault(Path(below))
    return list(found)


def _is_from_store(written: str, url: StoreUrl) -> bool:
    """Return whether the header of an archive, such as `agent.db`, names this store.

    A relative path was relative to a folder that is not known, so any end of the path will do.
    """
    if written == str(url):
        return True
    with suppress(errors.UsageError):
        named = parse_url(written)
        if place_of(named) == place_of(url):
            return True
        path = os.path.realpath(url.path)
        return (
            named.scheme == url.scheme
            and written == named.path
            and not os.path.isabs(written)
            and path.endswith(f"/{os.path.normpath(written)}")
        )
    return False


class ArchiveSearch:
    """Looks through the folders of archives. Adds archived threads of the person to the scope."""

    def __init__(
        self,
        plan: ErasurePlan,
        request: ErasureRequest,
        store: Store,
        memories: Iterable[MemoryStore],
    ) -> None:
        """Archives of other stores are erased only in folders that the request names."""
        self.plan = plan
        self.scope = plan.scope
        self.decide = request.decide()
        self.named = [one.absolute() for one in request.folders]
        self.of_person = request.subject is not None
        """Whether any checkpoint of a thread decides, and not only the newest one."""
        self.keys_of = {one.describe().layout: one.key_of for one in memories}
        """By layout, how the rows of a memory are told apart."""
        self._store = store

    def look(self) -> None:
        """Look through all archives: those of threads first, then those of items."""
        for folder in self.named:
            for below, names, _ in os.walk(folder):
                links = (Path(below, one) for one in names if os.path.islink(f"{below}/{one}"))
                self.plan.unread += [
                    unknown_place(str(one), "archives", None, None, _LINK) for one in links
                ]
        of_threads: dict[Path, Header] = {}
        of_items: dict[Path, Header] = {}
        for folder in _with_subfolders(self.plan.folders, self.named):
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
        except errors.StoreUnavailable as error:
            if folder.exists():
                self._unread(folder, error)
            return
        old = sorted(folder.glob(f".*{SUFFIX}.old"))
        self.plan.archives += [_file("archives", one) for one in _left_over(old, folder)]
        for path in paths:
            try:
                yield path, read_header(path)
            except errors.CkptError as error:
                self._failed(path, error)

    def _failed(self, path: Path, error: errors.CkptError) -> None:
        if is_half_erased(path):
            self.plan.archives.append(_file("archives", path))
        elif path.exists():
            self._unread(path, error)

    def _unread(self, path: Path, error: errors.CkptError) -> None:
        self.plan.unread.append(left_place(str(path), "archives", None, None, error.message))

    def _looked(self, found: Mapping[Path, Header]) -> dict[Path, _Looked]:
        """Return what is seen in some archives; those that cannot be read become places."""
        looked: dict[Path, _Looked] = {}
        for path, header in found.items():
            is_named = any(path.parent.is_relative_to(one) for one in self.named)
            one = _Looked(self, header, is_named)
            try:
                one.read(path)
            except errors.CkptError as error:
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
            stored = set[str | None]()
            for one in self._store.checkpoints(thread_id):
                stored |= {one.key.checkpoint_id, one.parent_checkpoint_id}
            if not stored or stored & known:
                self.scope.threads.add(thread_id)

    def _conclude(self, path: Path, one: _Looked) -> None:
        """Add what becomes of an archive to the plan."""
        file = _file("archives", path)
        if one.is_erased:
            self.plan.archives.append(file._replace(thread=(one.thread_id, one.header.store)))
            return
        if one.drops:
            drops = None if one.number == len(one.drops) else frozenset(one.drops)
            self.plan.archives.append(file._replace(drops=drops))
        if one.is_unsure:
            why = _UNSURE if one.thread_id else why_not_looked_at(self.scope)
            self.plan.unread.append(unknown_place(str(path), "archives", 1, file.bytes, why))
        if one.why_mentioned:
            hits = one.hits or 1
            mention = Mention(str(path.parent), "archive", path.name, hits, one.why_mentioned)
            self.plan.mentions.append(mention)


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
    """The ids of its checkpoints, and of their parents. The id of the thread may have been given
    to another one since.
    """

    @property
    def thread_id(self) -> str:
        """The thread; `''` for items of long-term memory."""
        return self.header.thread_id or ""

    @property
    def is_ours(self) -> bool:
        """Whether the archive was made from the store of this erasure."""
        return _is_from_store(self.header.store, self.search.plan.url)

    def read(self, path: Path) -> None:
        """Read as much of it as is asked. Raises what `check_bundle` raises."""
        if self.header.thread_id is None:
            check_bundle(path, lambda _, rows: self._items(rows))
            return
        self.look_at_id()
        if self.search.decide is not None or self.search.scope.words:
            bundle = check_bundle(path, lambda _, rows: self._thread(rows))
            if not self.is_erased:
                self._decide(bundle)

    def _thread(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield the rows of a thread, and find out whether they name the subject."""
        for row in rows:
            if not self.is_erased and any(map(self.search.scope.has_name, _texts(row))):
                self.hits += 1
            yield row
        if self.hits and not self.why_mentioned:
            self.why_mentioned = _SUBJECT

    def _decide(self, bundle: Bundle) -> None:
        """Find out whether its thread matches, from its checkpoints."""
        search, decide = self.search, self.search.decide
        if decide is None or not (self.is_ours or (search.of_person and self.is_named)):
            return
        answers: set[bool | None] = set()
        try:
            answers = set(map(decide, self._facts(bundle)))
        except (errors.CkptError, ValueError, KeyError, TypeError):
            answers.add(None)
        self.is_matched = self.is_erased = True in answers
        self.is_unsure = search.of_person and not self.is_matched and None in answers

    def _facts(self, bundle: Bundle) -> Iterator[Facts]:
        """Yield what a filter may ask about every checkpoint, or about the newest of the root."""
        if not languages_of(self.header.layout):
            raise ValueError(self.header.layout)
        are_apart = False
        head: Record | None = None
        for record in records_of_rows(self.header.layout, bundle.rows()):
            are_apart |= record.kind is Kind.VALUE
            if record.kind is not Kind.CHECKPOINT:
                continue
            key = record.key
            self.lineage |= {key.checkpoint_id, *([record.parent] if record.parent else ())}
            if self.search.of_person:
                yield _facts_of(record, are_apart=are_apart)
            elif not key.checkpoint_ns and (
                head is None or key.checkpoint_id > head.key.checkpoint_id
            ):
                head = record
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
        """Yield the rows of items, and find those that go."""
        scope, key_of = self.search.scope, self.search.keys_of.get(self.header.layout)
        for number, row in enumerate(rows):
            self.number += 1
            goes = False
            if key_of is not None:
                with suppress(errors.CkptError):
                    goes = scope.has_item(key_of(row))
            if goes or any(map(self._comes_from, _texts(row))):
                self.drops.append(number)
            elif any(map(scope.has_name, _texts(row))):
                self.hits += 1
                self.why_mentioned = _SUBJECT
            yield row
        is_known = key_of is not None and scope.namespaces
        self.is_unsure = self.search.of_person and not is_known and len(self.drops) < self.number

    def _comes_from(self, text: str) -> bool:
        """Whether the text of an item names an erased thread as its source."""
        for found in _SOURCE.finditer(text):
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


def _facts_of(record: Record, *, are_apart: bool) -> Facts:
    """Return the facts of a checkpoint; its values are known only if its body holds them."""
    body = None if are_apart else decode_checkpoint(record.value)
    values = body.get("channel_values") if isinstance(body, dict) else None
    held: dict[str, Value] | None = None
    if isinstance(values, dict):
        held = {key: value for key, value in values.items() if isinstance(key, str)}

    def of_thread(asked: FilterField) -> Sequence[Value] | None:
        return (record.key.thread_id,) if asked.name == "thread" else None

    return checkpoint_facts(read_known(record.metadata), held, of_thread)


# The verification of a receipt: the same places are searched with its digests.


def verified_places(
    receipt: ErasureReceipt,
    url: StoreUrl,
    opened: Callable[[], Store],
    memories: Collection[StoreUrl],
    folders: Collection[Path],
) -> Iterator[ErasurePlace]:
    """Yield each place with the number of things that are back; `kept` if there are any."""
    ids = receipt.ids
    yield from _checked(str(url), "threads", lambda: _threads_back(ids, opened()))
    if ids.digests["session"] or ids.digests["thread"]:
        sessions = partial(_sessions_back, ids, url)
        yield from _checked(str(url), "sessions", sessions, may_lack=True)
    keys_of: dict[str, Callable[[Row], ItemKey]] = {}
    for one in memories:
        yield from _checked(str(one), "memory", partial(_items_back, ids, one), may_lack=True)
        with suppress(errors.CkptError), open_memory(one) as memory:
            keys_of[memory.describe().layout] = memory.key_of
    if not set(receipt.memories) <= set(map(place_of, memories)):
        why = "another memory was erased, too; name it with --memory"
        yield ErasurePlace("memory", "memory", None, None, "unreachable", why)
    for hidden in receipt.unnamed_folders(map(str, folders)):
        why = "the receipt does not tell its name; name it with --archives"
        yield ErasurePlace(hidden, "archives", None, None, "unreachable", why)
    for folder in folders:
        archives = partial(_archives_back, receipt, url, keys_of, folder)
        yield from _checked(str(folder), "archives", archives)
        yield from _checked(str(folder), "plans", partial(_plans_back, ids, folder))
    yield from _checked("ckpt", "operations", lambda: _operations_back(receipt))
    yield from _checked("ckpt", "queries", lambda: _queries_back(ids))
    yield from receipt.unknown


def _checked(
    store: str, kind: PlaceKind, count: Callable[[], int], *, may_lack: bool = False
) -> Iterator[ErasurePlace]:
    """Yield a place with what is back in it; none if the store `may_lack` things of this kind."""
    try:
        number = count()
    except errors.CkptError as error:
        if not (may_lack and isinstance(error, errors.UnknownLayout | errors.Unsupported)):
            yield ErasurePlace(store, kind, None, None, "unreachable", error.message)
    else:
        found = ErasurePlace(store, kind, number, None, "erased")
        yield replace(found, state="kept", reason="it is back") if number else found


def _threads_back(ids: ErasedIds, store: Store) -> int:
    """Count the threads with any row, also without checkpoints."""
    found = (thread_id for thread_id, _ in groupby(store.usage(), lambda one: one.thread_id))
    return sum(map(ids.has_thread, found))


def _sessions_back(ids: ErasedIds, url: StoreUrl) -> int:
    with open_sessions(url) as sessions:
        return sum(map(ids.has_session, sessions.sessions()))


def _items_back(ids: ErasedIds, url: StoreUrl) -> int:
    with open_memory(url) as memory:
        return sum(has_item(ids, one) for one in memory.items(values=True))


def _archives_back(
    receipt: ErasureReceipt,
    url: StoreUrl,
    keys_of: Mapping[str, Callable[[Row], ItemKey]],
    folder: Path,
) -> int:
    """Count the archives below a folder that hold an erased thread or item."""
    if not folder.exists():
        return 0
    ids, number = receipt.ids, 0
    for path in chain.from_iterable(map(bundles_in, _with_subfolders([], [folder]))):
        header = read_header(path)
        if header.thread_id is not None:
            is_ours = _is_from_store(header.store, url) and ids.has_thread(header.thread_id)
            number += is_ours or ids.has("archive", header.thread_id, header.store)
        elif (key_of := keys_of.get(header.layout)) is not None:
            number += any(ids.has_item(key_of(row)) for row in check_bundle(path).rows())
    return number


def _plans_back(ids: ErasedIds, folder: Path) -> int:
    return sum(1 for _ in _named_plans(_with_subfolders([], [folder]), ids))


def _operations_back(receipt: ErasureReceipt) -> int:
    """Count the operations that name an erased thread of this store, or the subject."""
    records = map(json_of, OperationLog.of_user().lines())
    found = (one for one in records if isinstance(one, dict))
    return sum(_is_in_operation(one, receipt.place, receipt.ids) for one in found)


def _queries_back(ids: ErasedIds) -> int:
    """Count the queries in the history of `ckpt sql`, and in what a killed erasure left of it."""
    number = 0
    for path in _histories():
        with suppress(FileNotFoundError), open_regular(path, follow=False) as file:
            number += len(named_queries(file.read(), ids))
    return number
