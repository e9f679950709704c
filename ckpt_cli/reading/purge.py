"""Plans that remove whole threads, or the checkpoints inside them that a policy does not keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque
from ckpt_backends.errors import CkptError
from ckpt_backends.model import BlobKey, Checkpoint, Status, Thread, ThreadSize
from ckpt_backends.protocol import Store
from ckpt_backends.removal import Inside, Removal
from ckpt_cli.core.purge import NOT_FOUND, Doomed
from ckpt_cli.core.retention import PROTECTED, Item, Keep, choose, why_kept
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.core.triggers import SENDS
from ckpt_cli.reading.heads import head_keys, read_heads, some_at_once
from ckpt_cli.reading.lessons import Lessons
from ckpt_cli.reading.thread import ThreadReader, moment_time, unreadable
from ckpt_cli.reading.threads import Selection, list_threads

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_AT_ONCE = 500
"""The number of threads whose sizes are read together."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which threads are considered, and what of them is removed."""

    selection: Selection = field(default_factory=Selection)
    older_than: datetime | None = None
    """Only threads whose last activity is before this."""
    protect: tuple[str, ...] = ()
    """Shell patterns of thread ids that are never touched."""
    keep: Keep = field(default_factory=Keep)
    """What is kept inside a thread; if empty, threads are removed whole."""
    include_interrupted: bool = False
    include_pending: bool = False
    include_error: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it selects nothing, so that it would mean all threads."""
        return self.older_than is None and self.selection == Selection() and self.keep.is_empty

    @property
    def included(self) -> frozenset[Status]:
        """The conditions in which threads are removed too."""
        found: set[Status] = set()
        found |= {Status.INTERRUPTED} if self.include_interrupted else set()
        found |= {Status.PENDING, Status.UNKNOWN} if self.include_pending else set()
        found |= {Status.ERROR} if self.include_error else set()
        return frozenset(found)

    @property
    def reads_heads(self) -> bool:
        """Whether it depends on the status of a thread."""
        return self.keep.is_empty and not PROTECTED.keys() <= self.included


def plan_purge(
    store: Store,
    policy: Policy,
    now: datetime,
    watch: Callable[[Iterable[Thread]], Iterable[Thread]] = iter,
) -> Iterator[Doomed]:
    """The plan for each thread that the policy selects, newest first.

    Threads of which nothing is removed are left out, except for those that a rule keeps.
    """
    lessons = Lessons(store)
    rows = list_threads(store, policy.selection, sizes=False, watch=watch)
    threads = (row.thread for row in rows)
    chosen = (thread for thread in threads if not _is_young(thread, policy))
    for some in some_at_once(chosen):
        held = _held(store, some, policy, lessons) if policy.reads_heads else {}
        found = [_plan_thread(store, thread, policy, now, lessons, held) for thread in some]
        yield from _sized(store, [one for one in found if one is not None])


def _is_young(thread: Thread, policy: Policy) -> bool:
    if policy.older_than is None or thread.last_at is None:
        return False
    return thread.last_at >= policy.older_than


def _held(
    store: Store, threads: Sequence[Thread], policy: Policy, lessons: Lessons
) -> dict[str, str]:
    """The threads that are kept for their status, or because it cannot be read; and why."""
    told: dict[str, tuple[Status, ...]] = {one.thread_id: (Status.EMPTY,) for one in threads}
    told |= {key.thread_id: (Status.UNKNOWN,) for key in head_keys(threads)}
    try:
        told |= {one.key.thread_id: one.conditions for one in read_heads(store, threads, lessons)}
    except CkptError as error:
        return dict.fromkeys(told, error.message)
    reasons = {name: why_kept(conditions, policy.included) for name, conditions in told.items()}
    return {name: why for name, why in reasons.items() if why}


def _plan_thread(
    store: Store,
    thread: Thread,
    policy: Policy,
    now: datetime,
    lessons: Lessons,
    held: Mapping[str, str],
) -> Doomed | None:
    if any(fnmatchcase(thread.thread_id, pattern) for pattern in policy.protect):
        return _kept(thread, "protected")
    if policy.older_than is not None and thread.last_at is None:
        return _kept(thread, "its age is unknown")
    if not policy.keep.is_empty:
        try:
            return plan_inside(ThreadReader(store, thread, lessons), policy.keep, now)
        except CkptError as error:
            return _kept(thread, error.message)
    if thread.thread_id in held:
        return _kept(thread, held[thread.thread_id])
    return _whole(thread, _reason(thread, policy, now))


def _reason(thread: Thread, policy: Policy, now: datetime) -> str:
    if policy.older_than is None or thread.last_at is None:
        return "selected"
    # Plans are carried out elsewhere and later: no time of a zone.
    idle = (now - thread.last_at).total_seconds()
    unit, seconds = next(((u, s) for u, s in _UNITS if idle >= s), _UNITS[-1])
    return f"idle for {int(idle // seconds)}{unit}"


def plan_named(store: Store, names: Iterable[str]) -> Iterator[Doomed]:
    """Remove these threads; the plan keeps a thread that does not exist, as `NOT_FOUND`.

    A thread without checkpoints is removed if other rows of it are left.
    """
    remaining = iter(names)
    while some := list(islice(remaining, _AT_ONCE)):
        yield from _sized(store, [_named(store, name) for name in some])


def _named(store: Store, name: str) -> Doomed:
    thread = store.thread(name)
    if thread is not None:
        return _whole(thread, "named")
    if store.size(name) == ThreadSize(0, 0, 0):
        return Doomed("keep", NOT_FOUND, 0, 0, Removal(name, None, 0, 0))
    return _whole(Thread(name, None, None, None, 0, 0), "named: rows without checkpoints")


def _whole(thread: Thread, reason: str) -> Doomed:
    """A thread that is removed whole; its writes are not counted yet."""
    removal = Removal(thread.thread_id, thread.last_at, thread.checkpoints, 0)
    return Doomed("remove", reason, thread.checkpoints, 0, removal)


def _sized(store: Store, threads: Sequence[Doomed]) -> Iterator[Doomed]:
    """The same, with the sizes of threads that are removed whole."""
    whole = [one.thread_id for one in threads if one.action == "remove"]
    sizes = dict(zip(whole, store.sizes(whole), strict=True))
    for one in threads:
        size = sizes.get(one.thread_id)
        if size is None:
            yield one
        else:
            removal = replace(one.removal, writes=size.writes)
            yield replace(
                one, writes=size.writes, blobs=size.blobs, bytes=size.bytes, removal=removal
            )


def plan_inside(reader: ThreadReader, keep: Keep, now: datetime) -> Doomed | None:
    """Remove the checkpoints that a policy does not keep; None where it keeps all."""
    facts = _Facts(reader)
    stays = choose(facts.items, keep, now)
    goes = [key for key in facts.blobs if key not in stays]
    if not goes:
        return None
    named = {blob for key in stays for blob in facts.blobs[key]}
    left = {blob for key in goes for blob in facts.blobs[key]} - named
    inside: dict[str, list[str]] = {}
    for ns, checkpoint_id in goes:
        inside.setdefault(ns, []).append(checkpoint_id)
    thread = reader.thread
    stored = sizes_of_blobs(reader.store, thread.thread_id, left) if left else {}
    size = sum_of(reader.store, thread.thread_id, goes)
    why = Counter(reasons[0] for reasons in stays.values())
    return Doomed(
        action="prune",
        reason="keeps " + ", ".join(f"{n} ({reason})" for reason, n in why.most_common()),
        checkpoints=size.checkpoints,
        writes=size.writes,
        blobs=sum(number for number, _ in stored.values()),
        bytes=size.bytes + sum(taken for _, taken in stored.values()),
        removal=Removal(
            thread.thread_id,
            thread.last_at,
            thread.checkpoints,
            facts.writes,
            Inside({ns: tuple(ids) for ns, ids in inside.items()}, tuple(stored)),
        ),
        keeps={
            ns: {one: tuple(reasons) for (space, one), reasons in stays.items() if space == ns}
            for ns in reader.namespaces
        },
    )


def sum_of(store: Store, thread_id: str, keys: Collection[tuple[str, str]]) -> ThreadSize:
    """The size of some checkpoints of a thread with their writes, as the store counts it.

    Writes count also where their checkpoint is missing.
    """
    wanted = set(keys)
    checkpoints = writes = size = 0
    for key, one in store.checkpoint_sizes(thread_id):
        if (key.checkpoint_ns, key.checkpoint_id) in wanted:
            checkpoints += one.checkpoints
            writes += one.writes
            size += one.bytes
    return ThreadSize(checkpoints, writes, size)


def sizes_of_blobs(
    store: Store, thread_id: str, keys: Collection[BlobKey] | None = None
) -> dict[BlobKey, tuple[int, int]]:
    """The rows and bytes of values stored apart: of those that exist among some keys, or of all."""
    found: dict[BlobKey, tuple[int, int]] = {}
    for key, size in store.blobs(thread_id):
        if keys is None or key in keys:
            number, taken = found.get(key, (0, 0))
            found[key] = number + 1, taken + size
    return found


def _kept(thread: Thread, why: str) -> Doomed:
    removal = Removal(thread.thread_id, thread.last_at, thread.checkpoints, 0)
    return Doomed("keep", why, 0, 0, removal)


class _Facts:
    """What the choice needs to know of a thread; no channel value is read for it."""

    def __init__(self, reader: ThreadReader) -> None:
        self.items: list[Item] = []
        self.writes = 0
        """The number of writes of the thread."""
        self.blobs: dict[tuple[str, str], set[BlobKey]] = {}
        """The values stored apart that each checkpoint names."""
        sends, waiting = set(), set()
        for write in reader.store.writes(reader.thread_id):
            key = (write.key.checkpoint_ns, write.key.checkpoint_id)
            self.writes += 1
            if not reader.is_bare:
                waiting.add(key)
            if write.channel == SENDS:
                sends.add(key)
        for ns in reader.namespaces:
            delta = reader.delta_channels(ns)
            followed = {one.parent_checkpoint_id for one in reader.index(ns)}
            for one in reader.store.checkpoints(
                reader.thread_id, checkpoint_ns=ns, body=True, metadata=True
            ):
                key = (ns, one.key.checkpoint_id)
                body, metadata = read_body(one), decode(one.metadata) if one.metadata else None
                for part in (body.problem, metadata):
                    if isinstance(part, Opaque) and not reader.is_bare:
                        raise unreadable(f"checkpoint '{one.key.checkpoint_id}'", part)
                self.blobs[key] = named_blobs(ns, one, body)
                self.items.append(
                    Item(
                        *key,
                        parent=one.parent_checkpoint_id,
                        at=one.at or moment_time(one.key.checkpoint_id, body),
                        root=root_of(one) if ns else None,
                        unfinished=key in waiting and one.key.checkpoint_id not in followed,
                        needs_sends=body.v < 4 and (ns, one.parent_checkpoint_id) in sends,
                        missing=frozenset(delta & (body.versions.keys() - body.values.keys())),
                        stored=frozenset(delta & body.values.keys()),
                        inherited=_inherited(one),
                    )
                )


def _inherited(one: Checkpoint) -> frozenset[str]:
    """Channels of which a part is stored only with an ancestor."""
    return frozenset(name for name, blob in (one.blobs or {}).items() if blob.inherited)


def named_blobs(ns: str, one: Checkpoint, body: Body) -> set[BlobKey]:
    """The values that a checkpoint names, where values are stored apart.

    A named value need not be stored: a channel may have none, or small ones stand in the body.
    """
    if one.blobs is None:
        return set()
    return {BlobKey(ns, channel, str(version)) for channel, version in body.versions.items()}


def root_of(one: Checkpoint) -> str | None:
    """The root checkpoint whose step called a subgraph; None where that is not stored."""
    parents = read_metadata(one).get("parents")
    root = parents.get("") if isinstance(parents, dict) else None
    return root if isinstance(root, str) else None
