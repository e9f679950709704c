"""Plans the removal of threads, of checkpoints inside them, and of orphaned rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ckpt_backends.changes import Inside, Removal
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque
from ckpt_backends.errors import CkptError, StoreChanged
from ckpt_backends.files import writing
from ckpt_backends.model import BlobKey, Capability, Status, Thread, ThreadSize, in_chunks, time_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import is_in_call
from ckpt_cli.core.retention import (
    NOT_FOUND,
    PROTECTED,
    PlannedRemoval,
    PurgeSums,
    RetentionCandidate,
    RetentionRules,
    choose_kept,
    from_plan_line,
    record_in_line,
    removal_record,
    to_plan_line,
    why_protected,
)
from ckpt_cli.core.state import SENDS, caller_of, named_blobs, read_body
from ckpt_cli.plans import saved_plan
from ckpt_cli.queries.heads import Watch
from ckpt_cli.queries.threads import Selection, selected_threads
from ckpt_cli.reading.thread import (
    ThreadReader,
    TriggerInference,
    check_names_values,
    conditions_of_heads,
    head_keys,
    moment_time,
    sizes_of_blobs,
    unreadable,
)

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_AT_ONCE, _MOST = 200, 2000
"""Number of threads that are always looked up together, and of those that are at most."""
_CHECKPOINTS = 40_000
"""A larger group ends after this number of checkpoints."""
_COMPARED = 500
"""Number of threads that are compared with their plan at once."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which threads are considered, and what is removed from them."""

    selection: Selection = field(default_factory=Selection)
    older_than: datetime | None = None
    """Only threads with their last activity before this."""
    protect: tuple[str, ...] = ()
    """Shell patterns of thread ids that are never touched."""
    keep: RetentionRules = field(default_factory=RetentionRules)
    """What is kept inside a thread; if empty, threads are removed whole."""
    included: frozenset[Status] = frozenset()
    """The conditions in which threads are removed despite the protection."""

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given, so that it would select all threads."""
        return self.older_than is None and self.selection == Selection() and self.keep.is_empty

    @property
    def reads_heads(self) -> bool:
        """Whether it depends on the status of a thread."""
        return self.keep.is_empty and not PROTECTED.keys() <= self.included


def plan_purge(
    store: Store, policy: Policy, now: datetime, watch: Watch = iter
) -> Iterator[PlannedRemoval]:
    """Yield the plan for each thread that the policy selects, newest first.

    A thread from which nothing is removed is left out, unless a rule keeps it.
    """
    inference = TriggerInference(store)
    threads = selected_threads(store, policy.selection, now, watch)
    chosen = (thread for thread in threads if not _is_young(thread, policy))
    for some in _groups(chosen):
        held = _held(store, some, policy, inference) if policy.reads_heads else {}
        found = (_plan_thread(store, thread, policy, now, inference, held) for thread in some)
        yield from _sized(store, [one for one in found if one is not None])


def _groups(threads: Iterable[Thread]) -> Iterator[list[Thread]]:
    """Yield threads in groups that are looked up together: the more, the fewer scans of a store
    without an index. At most so many that their keys fit into memory.
    """
    some: list[Thread] = []
    checkpoints = 0
    for thread in threads:
        some.append(thread)
        checkpoints += thread.checkpoints
        if len(some) == _MOST or (len(some) >= _AT_ONCE and checkpoints >= _CHECKPOINTS):
            yield some
            some, checkpoints = [], 0
    if some:
        yield some


def _is_young(thread: Thread, policy: Policy) -> bool:
    if policy.older_than is None or thread.last_at is None:
        return False
    return thread.last_at >= policy.older_than


class _Held(NamedTuple):
    """What the conditions of a thread mean for its removal."""

    kept: str = ""
    """Why the thread is kept; `''` if it may be removed."""
    removed: str = ""
    """The conditions that an option lets it be removed in."""


def _held(
    store: Store, threads: Sequence[Thread], policy: Policy, inference: TriggerInference
) -> dict[str, _Held]:
    """Return what the conditions of each thread mean; an unreadable thread is kept."""
    told: dict[str, tuple[Status, ...]] = {one.thread_id: (Status.EMPTY,) for one in threads}
    told |= {key.thread_id: (Status.UNKNOWN,) for key in head_keys(threads)}
    try:
        told |= conditions_of_heads(store, threads, inference)
    except CkptError as error:
        if len(threads) > _AT_ONCE:
            parts = (_held(store, one, policy, inference) for one in in_chunks(threads))
            return {name: held for part in parts for name, held in part.items()}
        return dict.fromkeys(told, _Held(error.message))
    meanings = {
        conditions: _Held(
            why_protected(conditions, policy.included),
            ", ".join(one for one in conditions if one in policy.included),
        )
        for conditions in set(told.values())
    }
    return {name: meanings[conditions] for name, conditions in told.items()}


class _Whole(NamedTuple):
    """A thread that is removed whole; its rows are not counted yet."""

    thread: Thread
    reason: str


def _plan_thread(
    store: Store,
    thread: Thread,
    policy: Policy,
    now: datetime,
    inference: TriggerInference,
    held: Mapping[str, _Held],
) -> PlannedRemoval | _Whole | None:
    if any(fnmatchcase(thread.thread_id, pattern) for pattern in policy.protect):
        return kept(thread, "matches --protect")
    if policy.older_than is not None and thread.last_at is None:
        return kept(thread, "its age is unknown")
    if not policy.keep.is_empty:
        try:
            return plan_inside(ThreadReader(store, thread, inference), policy.keep, now)
        except CkptError as error:
            return kept(thread, error.message)
    conditions = held.get(thread.thread_id, _Held())
    if conditions.kept:
        return kept(thread, conditions.kept)
    reasons = (conditions.removed, _reason(thread, policy, now))
    return _Whole(thread, "; ".join(filter(None, reasons)))


def _reason(thread: Thread, policy: Policy, now: datetime) -> str:
    if policy.older_than is not None and thread.last_at is not None:
        # Plans are carried out elsewhere and later: no time of a zone.
        idle = (now - thread.last_at).total_seconds()
        unit, seconds = next(((u, s) for u, s in _UNITS if idle >= s), _UNITS[-1])
        return f"idle for {int(idle // seconds)}{unit}"
    wanted = policy.selection
    options = {"--match": wanted.match, "--where": wanted.where, "--status": wanted.status}
    return f"matches {' and '.join(name for name, value in options.items() if value)}"


def plan_named(store: Store, names: Mapping[str, str]) -> Iterator[PlannedRemoval]:
    """Plan to remove these threads, given with the reason; a missing one is `NOT_FOUND`.

    A thread without checkpoints is removed if other rows of it are left.
    """
    for some in in_chunks(names, _AT_ONCE):
        yield from _sized(store, [_named(store, name, names[name]) for name in some])


def _named(store: Store, name: str, reason: str) -> PlannedRemoval | _Whole:
    thread = store.thread(name)
    if thread is not None:
        return _Whole(thread, reason)
    if not store.threads_with_rows([name]):
        return kept(Thread(name, None, None, None, 0, 0), NOT_FOUND)
    return _Whole(Thread(name, None, None, None, 0, 0), f"{reason}; rows without checkpoints")


def _sized(store: Store, threads: Sequence[PlannedRemoval | _Whole]) -> Iterator[PlannedRemoval]:
    """Yield the plans; rows of the threads that are removed whole are counted."""
    sizes = iter(store.sizes([one.thread.thread_id for one in threads if isinstance(one, _Whole)]))
    for one in threads:
        if isinstance(one, PlannedRemoval):
            yield one
            continue
        (thread, reason), size = one, next(sizes)
        number = thread.checkpoints
        removal = Removal(thread.thread_id, thread.last_at, number, size.writes)
        yield PlannedRemoval("remove", reason, number, size.writes, removal, size.blobs, size.bytes)


def plan_inside(reader: ThreadReader, keep: RetentionRules, now: datetime) -> PlannedRemoval | None:
    """Plan to remove the checkpoints that a policy does not keep; None if it keeps all of them."""
    facts = _Facts(reader)
    stays = choose_kept(facts.items, keep, now)
    goes = [key for key in facts.blobs if key not in stays]
    if not goes:
        return None
    named = {blob for key in stays for blob in facts.blobs[key]}
    left = {blob for key in goes for blob in facts.blobs[key]} - named
    thread = reader.thread
    stored = sizes_of_blobs(reader.store, thread.thread_id, left) if left else {}
    why = Counter(reasons[0] for reasons in stays.values())
    reason = f"keeps {len(stays)} of {len(facts.items)}: {_listed(why)}"
    return replace(
        pruned(reader.store, thread, goes, stored, facts.writes, reason),
        keeps={
            ns: {one: tuple(reasons) for (space, one), reasons in stays.items() if space == ns}
            for ns in reader.namespaces
        },
    )


def pruned(
    store: Store,
    thread: Thread,
    keys: Sequence[tuple[str, str]],
    blobs: Mapping[BlobKey, tuple[int, int]],
    writes: int,
    reason: str,
) -> PlannedRemoval:
    """Return the plan to remove checkpoints and separately stored values (rows, bytes) of a thread.

    `writes` is the number of all writes of the thread.
    """
    inside: dict[str, list[str]] = {}
    for ns, checkpoint_id in keys:
        inside.setdefault(ns, []).append(checkpoint_id)
    size = sum_of(store, thread.thread_id, keys)
    return PlannedRemoval(
        action="prune",
        reason=reason,
        checkpoints=size.checkpoints,
        writes=size.writes,
        blobs=sum(rows for rows, _ in blobs.values()),
        bytes=size.bytes + sum(taken for _, taken in blobs.values()),
        removal=Removal(
            thread.thread_id,
            thread.last_at,
            thread.checkpoints,
            writes,
            Inside({ns: tuple(ids) for ns, ids in inside.items()}, tuple(blobs)),
        ),
    )


def _listed(why: Counter[str]) -> str:
    """Reasons for which checkpoints are kept, with the number of each if there are several."""
    if len(why) == 1:
        return next(iter(why))
    return ", ".join(f"{reason} ({n})" for reason, n in why.most_common())


def sum_of(store: Store, thread_id: str, keys: Collection[tuple[str, str]]) -> ThreadSize:
    """Return the size of some checkpoints with their writes, as the store counts it.

    Writes count even if their checkpoint is missing.
    """
    wanted = set(keys)
    checkpoints = writes = size = 0
    for key, one in store.checkpoint_sizes(thread_id):
        if (key.checkpoint_ns, key.checkpoint_id) in wanted:
            checkpoints += one.checkpoints
            writes += one.writes
            size += one.bytes
    return ThreadSize(checkpoints, writes, size)


def kept(thread: Thread, why: str) -> PlannedRemoval:
    """Return the plan to keep a thread, with the reason."""
    removal = Removal(thread.thread_id, thread.last_at, thread.checkpoints, 0)
    return PlannedRemoval("keep", why, 0, 0, removal)


class _Facts:
    """The facts about a thread that decide what is kept; reads no channel values."""

    def __init__(self, reader: ThreadReader) -> None:
        self.items: list[RetentionCandidate] = []
        self.writes = 0
        """Number of writes of the thread."""
        self.blobs: dict[tuple[str, str], set[BlobKey]] = {}
        """The separately stored values that each checkpoint refers to."""
        sends, waiting = set(), set()
        for write in reader.writes():
            key = (write.key.checkpoint_ns, write.key.checkpoint_id)
            self.writes += 1
            if not reader.is_values_only:
                waiting.add(key)
            if write.channel == SENDS:
                sends.add(key)
        for ns in reader.namespaces:
            delta = reader.delta_channels(ns)
            known = reader.parentage(ns)
            for one in reader.checkpoints(ns, body=True, metadata=True):
                key = (ns, one.key.checkpoint_id)
                body, metadata = read_body(one), decode(one.metadata) if one.metadata else None
                if not reader.is_values_only:
                    check_names_values(one.key, body)
                    if isinstance(metadata, Opaque):
                        raise unreadable(f"checkpoint '{one.key.checkpoint_id}'", metadata)
                self.blobs[key] = named_blobs(one, body)
                self.items.append(
                    RetentionCandidate(
                        *key,
                        parent=one.parent_checkpoint_id,
                        at=one.at or moment_time(one.key.checkpoint_id, body),
                        root=caller_of(one) if ns else None,
                        unfinished=key in waiting and not known.children(one.key.checkpoint_id),
                        needs_sends=body.v < 4 and (ns, one.parent_checkpoint_id) in sends,
                        missing=frozenset(delta & (body.versions.keys() - body.values.keys())),
                        stored=frozenset(delta & body.values.keys()),
                        inherited=frozenset(
                            name for name, blob in (one.blobs or {}).items() if blob.inherited
                        ),
                    )
                )


class Scope(StrEnum):
    """A kind of orphaned rows."""

    BLOBS = "blobs"
    """Values that no checkpoint names."""
    WRITES = "writes"
    """Writes of checkpoints that do not exist."""
    CALLS = "calls"
    """Checkpoints of subgraph calls without their root checkpoint."""
    ALL = "all"


def plan_gc(store: Store, scopes: Iterable[Scope], before: datetime) -> Iterator[PlannedRemoval]:
    """Yield the orphaned rows of each thread, including threads that have no other rows.

    Rows stored after `before` are kept, because savers may commit a row before the row that refers
    to it. A value has no time; the time of its thread's last activity is used instead.
    """
    given = set(scopes)
    wanted = set(Scope) if Scope.ALL in given else given
    ids = (thread_id for thread_id, _ in groupby(store.usage(), lambda one: one.thread_id))
    for thread_id in ids:
        found = plan_thread_gc(store, thread_id, wanted, before)
        if found is not None:
            yield found


def plan_thread_gc(
    store: Store, thread_id: str, wanted: set[Scope], before: datetime
) -> PlannedRemoval | None:
    """Return what is orphaned in one thread, or why it is kept; None if nothing is."""
    thread = store.thread(thread_id) or Thread(thread_id, None, None, None, 0, 0)
    try:
        return _orphans(store, thread, wanted, before)
    except CkptError as error:
        return kept(thread, error.message)


def _orphans(
    store: Store, thread: Thread, wanted: set[Scope], before: datetime
) -> PlannedRemoval | None:
    name = thread.thread_id
    there = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in store.checkpoints(name)}
    lost: dict[tuple[str, str], datetime | None] = {}
    """Missing checkpoints that have writes, with the time of the newest if times are stored."""
    number = 0
    for write in store.writes(name):
        number += 1
        key = (write.key.checkpoint_ns, write.key.checkpoint_id)
        if key not in there:
            lost[key] = max(filter(None, (lost.get(key), write.at)), default=None)
    calls: set[tuple[str, str]] = set()
    if Scope.CALLS in wanted:
        calls = {key for key in _calls(store, thread, there) if _old(key[1], before)}
    orphaned: set[tuple[str, str]] = set()
    if Scope.WRITES in wanted:
        orphaned = {key for key, at in lost.items() if _old(key[1], before, at)}
    blobs: dict[BlobKey, tuple[int, int]] = {}
    if Scope.BLOBS in wanted and (thread.last_at is None or thread.last_at < before):
        blobs = _unnamed(store, thread, calls)
    keys = calls | orphaned
    if not keys and not blobs:
        return None
    parts = {
        "blobs": sum(rows for rows, _ in blobs.values()),
        "writes": sum_of(store, name, orphaned).writes if orphaned else 0,
        "calls": len(calls),
    }
    reason = "orphans: " + ", ".join(f"{n} {what}" for what, n in parts.items() if n)
    return pruned(store, thread, sorted(keys), blobs, number, reason)


def _old(checkpoint_id: str, before: datetime, at: datetime | None = None) -> bool:
    at = at or time_of(checkpoint_id)
    return at is not None and at < before


def _calls(store: Store, thread: Thread, there: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the checkpoints of subgraph calls with a root checkpoint that does not exist."""
    lost = list(_without_root(store, thread, there))
    if not lost:
        return
    # The first releases for Redis store a checkpoint under another id than its own.
    roots = store.checkpoints(thread.thread_id, checkpoint_ns="", body=True)
    stored = {read_body(one).own_id for one in roots}
    yield from (key for key, root in lost if root not in stored)


def _without_root(
    store: Store, thread: Thread, there: set[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield checkpoints of calls whose root checkpoint has no row, each with the root's id."""
    for ns in store.namespaces(thread.thread_id):
        if not is_in_call(ns):
            continue
        for one in store.checkpoints(thread.thread_id, checkpoint_ns=ns, metadata=True):
            root = caller_of(one)
            if root is not None and ("", root) not in there:
                yield (ns, one.key.checkpoint_id), root


def _unnamed(
    store: Store, thread: Thread, going: set[tuple[str, str]]
) -> dict[BlobKey, tuple[int, int]]:
    """Return the values that no remaining checkpoint refers to, with their rows and bytes."""
    stored = sizes_of_blobs(store, thread.thread_id)
    if not stored:
        return {}
    needs_bodies = Capability.VALUES_ONLY not in store.capabilities
    for ns in store.namespaces(thread.thread_id):
        for one in store.checkpoints(thread.thread_id, checkpoint_ns=ns, body=True):
            body = read_body(one)
            if needs_bodies:
                check_names_values(one.key, body)
            if (ns, one.key.checkpoint_id) not in going:
                for key in named_blobs(one, body):
                    stored.pop(key, None)
    return stored


# Saved plans that remove threads: one line of JSON per thread, for review.
#
# Deleting a line keeps its thread. A plan that is carried out is copied first: what is shown,
# asked and removed is read from the private copy.


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan on disk; its threads are read one by one, as often as needed."""

    saved: saved_plan.SavedPlan
    sums: PurgeSums
    """What will be removed."""
    kept: Sequence[tuple[str, str]]
    """The threads that a rule keeps, with the reason."""
    is_own: bool = False
    """Whether this run wrote it."""

    @property
    def going(self) -> int:
        """Number of threads that will be removed or pruned."""
        return self.sums.threads

    def threads(self) -> Iterator[PlannedRemoval]:
        """Yield the threads that will be removed or pruned. Raises `UsageError` at a damaged
        line.
        """
        found = _threads(self.saved, is_own=self.is_own)
        return (one for one in found if one.action != "keep")

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the `removal_record` of each of these threads."""
        if not self.is_own:
            return map(removal_record, self.threads())
        # What this run wrote is not checked again.
        found = (record_in_line(one) for _, one in self.saved.lines())
        return (one for one in found if one["action"] != "keep")


def removal_header(layout: str, now: datetime, action: str = "purge") -> saved_plan.PlanHeader:
    """Return the header of a plan that only this run carries out."""
    return saved_plan.PlanHeader(action, "removal", saved_plan.NO_STORE, layout, now)


def write_plan(
    path: Path, header: saved_plan.PlanHeader, threads: Iterable[PlannedRemoval]
) -> PlanFile:
    """Write a plan file, which appears only when it is complete.

    Raises `UsageError` if it cannot be written.
    """
    counted = _Count()
    try:
        with writing(path) as file:
            file.write(saved_plan.line_of(saved_plan.header_record(header)))
            for one in map(counted.see, threads):
                file.write(saved_plan.line_of(to_plan_line(one)))
    except OSError as error:
        raise saved_plan.unusable("write", path, error) from error
    return PlanFile(
        saved_plan.SavedPlan(path, path, header), counted.sums, counted.kept, is_own=True
    )


def counted_plan(saved: saved_plan.SavedPlan) -> PlanFile:
    """Read all threads of a plan of a removal once. Raises `UsageError` at a damaged line."""
    counted = _Count()
    for one in _threads(saved):
        counted.see(one)
    return PlanFile(saved, counted.sums, counted.kept)


def check_unmoved(store: Store, planned: Iterable[PlannedRemoval]) -> None:
    """Raise `StoreChanged` if a thread of a plan has changed or is gone."""
    for some in in_chunks(planned, _COMPARED):
        sizes = store.sizes([one.thread_id for one in some])
        for one, size in zip(some, sizes, strict=True):
            thread = store.thread(one.thread_id) or Thread(one.thread_id, None, None, None, 0, 0)
            why = one.removal.reason_to_skip(thread.last_at, thread.checkpoints, size.writes)
            if why:
                raise StoreChanged(
                    f"thread '{one.thread_id}' {why}, so nothing was removed",
                    hint="make a new plan with --plan-out",
                )
    store.refresh()


class _Count:
    """Counts the threads of a plan while they pass through."""

    def __init__(self) -> None:
        self.sums = PurgeSums()
        self.kept: list[tuple[str, str]] = []

    def see(self, one: PlannedRemoval) -> PlannedRemoval:
        if one.action == "keep":
            self.kept.append((one.thread_id, one.reason))
        else:
            self.sums.add(one)
        return one


def _threads(saved: saved_plan.SavedPlan, *, is_own: bool = False) -> Iterator[PlannedRemoval]:
    for number, (text, record) in enumerate(saved.lines(), 2):
        try:
            yield from_plan_line(record, text.rstrip() if is_own else "")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise saved_plan.damaged(saved.path, f"line {number} is damaged") from error
