"""Plans of what to remove: whole threads, or what a policy does not keep inside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from ckpt_cli.core.purge import Doomed
from ckpt_cli.core.retention import Item, Keep, choose
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.core.triggers import SENDS
from ckpt_cli.reading.heads import head_keys, read_heads, some_at_once
from ckpt_cli.reading.lessons import Lessons
from ckpt_cli.reading.thread import ThreadReader, moment_time, unreadable
from ckpt_cli.reading.threads import Selection, list_threads

_WAITS = {
    Status.INTERRUPTED: ("a question waits in it", "--include-interrupted"),
    Status.PENDING: ("something runs next in it", "--include-pending"),
    Status.UNKNOWN: ("what runs next cannot be told", "--include-pending"),
}
_AT_ONCE = 500
"""Threads whose sizes are asked for together."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which threads are looked at, and what of them goes."""

    selection: Selection = field(default_factory=Selection)
    older_than: datetime | None = None
    """Only threads whose last activity is before this."""
    protect: tuple[str, ...] = ()
    """Shell patterns of thread ids that are never touched."""
    keep: Keep = field(default_factory=Keep)
    """What stays inside a thread; if empty, threads go whole."""
    include_interrupted: bool = False
    include_pending: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, so that it would mean all threads."""
        return self.older_than is None and self.selection == Selection() and self.keep.is_empty

    @property
    def reads_heads(self) -> bool:
        """Whether it depends on what a thread waits for."""
        return self.keep.is_empty and not (self.include_interrupted and self.include_pending)


def plan_purge(
    store: Store,
    policy: Policy,
    now: datetime,
    watch: Callable[[Iterable[Thread]], Iterable[Thread]] = iter,
) -> Iterator[Doomed]:
    """What becomes of each thread that the policy speaks of, the newest first.

    Threads of which nothing would go are left out, but for those that a rule keeps.
    """
    lessons = Lessons(store)
    rows = list_threads(store, policy.selection, sizes=False, watch=watch)
    threads = (row.thread for row in rows)
    chosen = (thread for thread in threads if not _is_young(thread, policy))
    for some in some_at_once(chosen):
        waits = _waits(store, some, policy, lessons) if policy.reads_heads else {}
        found = [_plan_thread(store, thread, policy, now, lessons, waits) for thread in some]
        yield from _sized(store, [one for one in found if one is not None])


def _is_young(thread: Thread, policy: Policy) -> bool:
    if policy.older_than is None or thread.last_at is None:
        return False
    return thread.last_at >= policy.older_than


def _waits(
    store: Store, threads: Sequence[Thread], policy: Policy, lessons: Lessons
) -> dict[str, str]:
    """Threads that stay for what they wait for, or because that cannot be read; and why."""
    told = {one.thread_id: Status.EMPTY for one in threads}
    told |= {key.thread_id: Status.UNKNOWN for key in head_keys(threads)}
    try:
        told |= {one.key.thread_id: one.status for one in read_heads(store, threads, lessons)}
    except CkptError as error:
        return dict.fromkeys(told, error.message)
    waits = {}
    for thread_id, status in told.items():
        if status in _WAITS and not _included(status, policy):
            why, option = _WAITS[status]
            waits[thread_id] = f"{why}; {option} removes it too"
    return waits


def _plan_thread(
    store: Store,
    thread: Thread,
    policy: Policy,
    now: datetime,
    lessons: Lessons,
    waits: Mapping[str, str],
) -> Doomed | None:
    if any(fnmatchcase(thread.thread_id, pattern) for pattern in policy.protect):
        return _kept(thread, "protected")
    if policy.older_than is not None and thread.last_at is None:
        return _kept(thread, "its age cannot be told")
    if not policy.keep.is_empty:
        try:
            return plan_inside(ThreadReader(store, thread, lessons), policy.keep, now)
        except CkptError as error:
            return _kept(thread, error.message)
    if thread.thread_id in waits:
        return _kept(thread, waits[thread.thread_id])
    return _whole(thread, _reason(thread, policy))


def _included(status: Status, policy: Policy) -> bool:
    if status is Status.INTERRUPTED:
        return policy.include_interrupted
    return policy.include_pending


def _reason(thread: Thread, policy: Policy) -> str:
    if policy.older_than is not None and thread.last_at is not None:
        return f"last active {thread.last_at:%Y-%m-%d %H:%M} UTC"
    return "as selected"


def plan_named(store: Store, names: Iterable[str]) -> Iterator[Doomed]:
    """Remove these threads; one that is not there is kept, which says so.

    One that has no checkpoint goes too, if anything else of it was left over.
    """
    remaining = iter(names)
    while some := list(islice(remaining, _AT_ONCE)):
        yield from _sized(store, [_named(store, name) for name in some])


def _named(store: Store, name: str) -> Doomed:
    thread = store.thread(name)
    if thread is not None:
        return _whole(thread, "as named")
    if store.size(name) == ThreadSize(0, 0, 0):
        return Doomed("keep", "no such thread", 0, 0, Removal(name, None, 0, 0))
    return _whole(Thread(name, None, None, None, 0, 0), "as named: what was left over of it")


def _whole(thread: Thread, reason: str) -> Doomed:
    """A thread that goes with all that it has; its writes are not counted yet."""
    removal = Removal(thread.thread_id, thread.last_at, thread.checkpoints, 0)
    return Doomed("remove", reason, thread.checkpoints, 0, removal)


def _sized(store: Store, threads: Sequence[Doomed]) -> Iterator[Doomed]:
    """The same, with the sizes of those that go whole."""
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
    """Remove what a policy does not keep; None where it keeps everything."""
    facts = _Facts(reader)
    stays = choose(facts.items, keep, now)
    goes = [key for key in facts.sizes if key not in stays]
    if not goes:
        return None
    named = {blob for key in stays for blob in facts.blobs[key]}
    blobs = {blob: size for key in goes for blob, size in facts.blobs[key].items()}
    left = {blob: size for blob, size in blobs.items() if blob not in named}
    inside: dict[str, list[str]] = {}
    for ns, checkpoint_id in goes:
        inside.setdefault(ns, []).append(checkpoint_id)
    thread = reader.thread
    why = Counter(reasons[0] for reasons in stays.values())
    return Doomed(
        action="prune",
        reason="keeps " + ", ".join(f"{n} ({reason})" for reason, n in why.most_common()),
        checkpoints=len(goes),
        writes=sum(facts.writes[key] for key in goes),
        blobs=len(left),
        bytes=sum(facts.sizes[key] for key in goes) + sum(left.values()),
        removal=Removal(
            thread.thread_id,
            thread.last_at,
            thread.checkpoints,
            facts.writes.total(),
            Inside({ns: tuple(ids) for ns, ids in inside.items()}, tuple(left)),
        ),
        keeps={
            ns: {one: tuple(reasons) for (space, one), reasons in stays.items() if space == ns}
            for ns in reader.namespaces
        },
    )


def _kept(thread: Thread, why: str) -> Doomed:
    removal = Removal(thread.thread_id, thread.last_at, thread.checkpoints, 0)
    return Doomed("keep", why, 0, 0, removal)


class _Facts:
    """What the choice needs to know of a thread; of its values, only their sizes."""

    def __init__(self, reader: ThreadReader) -> None:
        self.items: list[Item] = []
        self.sizes: Counter[tuple[str, str]] = Counter()
        """Bytes of a checkpoint and its writes, without values that are kept apart."""
        self.writes: Counter[tuple[str, str]] = Counter()
        self.blobs: dict[tuple[str, str], dict[BlobKey, int]] = {}
        """The values kept apart that a checkpoint names, with their sizes."""
        sends, waiting = set(), set()
        for write in reader.store.writes(reader.thread_id):
            key = (write.key.checkpoint_ns, write.key.checkpoint_id)
            self.writes[key] += 1
            self.sizes[key] += write.size
            if not reader.is_bare:
                waiting.add(key)
            if write.channel == SENDS:
                sends.add(key)
        # Writes of checkpoints that are not there (yet) are no one's to remove.
        in_writes = dict(self.sizes)
        self.sizes.clear()
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
                self.sizes[key] = in_writes.get(key, 0) + _size(one)
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
    """Channels of which a part is stored with an ancestor only."""
    return frozenset(name for name, blob in (one.blobs or {}).items() if blob.inherited)


def _size(one: Checkpoint) -> int:
    return sum(len(part.data) for part in (one.body, one.metadata) if part is not None)


def named_blobs(ns: str, one: Checkpoint, body: Body) -> dict[BlobKey, int]:
    """The values that a checkpoint names where they are kept apart, with their sizes.

    Also those that stand for a channel without a value.
    """
    if one.blobs is None:
        return {}
    return {
        BlobKey(ns, channel, str(version)): one.blobs[channel].size if channel in one.blobs else 0
        for channel, version in body.versions.items()
    }


def root_of(one: Checkpoint) -> str | None:
    """The root checkpoint whose step called a subgraph; None where that is not stored."""
    parents = read_metadata(one).get("parents")
    root = parents.get("") if isinstance(parents, dict) else None
    return root if isinstance(root, str) else None
