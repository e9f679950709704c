"""Plan an erasure: find the threads, then all that was made from them or for the person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, Unsupported
from ckpt_backends.memory.protocol import MemoryStore, Namespace
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.erasure.digests import ErasedIds
from ckpt_cli.core.erasure.places import ErasurePlace, Mention
from ckpt_cli.core.erasure.scope import ErasureScope
from ckpt_cli.core.erasure.subject import ErasureSubject, memory_namespace, names_of, words_of
from ckpt_cli.core.filters.evaluate import Decision, Facts, decision
from ckpt_cli.core.filters.expressions import Field, Filter
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.place import place_of
from ckpt_cli.plans.erase import (
    ErasurePlan,
    MemoryErasure,
    all_sessions,
    plan_memory,
    plan_threads,
    unknown_place,
    unread_place,
)
from ckpt_cli.plans.erase_archives import (
    ArchiveSearch,
    archive_folders,
    plan_files,
    why_not_looked_at,
)
from ckpt_cli.plans.erase_mentions import bounded, mentions_in_memory, mentions_in_threads
from ckpt_cli.plans.erase_state import plan_state
from ckpt_cli.queries.archive_folders import linked_folders, with_subfolders
from ckpt_cli.queries.ever_matching import EverMatching
from ckpt_cli.queries.memory_location import MemoryPlace
from ckpt_cli.queries.selection import Watch, selected_threads
from ckpt_cli.queries.threads import Selection
from ckpt_cli.threads.opening import Opening

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
        from ckpt_cli.core.filters.expressions import all_of

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
    store: Store,
    opening: Opening,
    request: ErasureRequest,
    now: datetime,
    watch: Watch,
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
            (thread_id,) = facts(Field("thread")) or ("",)
            if not fnmatchcase(str(thread_id), request.match):
                return False
        return True if inner is None else inner(facts)

    return decide


def _find_mentions(
    plan: ErasurePlan,
    store: Store,
    opening: Opening,
    watch: Watch,
    memories: Sequence[MemoryStore],
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
