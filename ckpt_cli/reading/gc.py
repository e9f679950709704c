"""Plans that remove what belongs to nothing: values, writes and calls that were left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import Literal

from ckpt_backends.errors import CkptError
from ckpt_backends.ids import time_of
from ckpt_backends.model import BlobKey, Capability, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.removal import Inside, Removal
from ckpt_cli.core.purge import Doomed
from ckpt_cli.core.state import read_body
from ckpt_cli.reading.purge import named_blobs, root_of
from ckpt_cli.reading.thread import unreadable

Scope = Literal["blobs", "writes", "calls"]
SCOPES: tuple[Scope, ...] = ("blobs", "writes", "calls")


def plan_gc(store: Store, scopes: Iterable[Scope], before: datetime) -> Iterator[Doomed]:
    """Orphans of each thread that has some, also of those that have nothing else.

    `before` is when they must have been stored: savers do not commit in the order in which
    rows need each other. A value has no time of its own; the thread's last activity stands for it.
    """
    wanted = set(scopes)
    is_bare = Capability.BARE in store.describe().capabilities
    ids = (thread_id for thread_id, _ in groupby(store.usage(), lambda one: one.thread_id))
    for thread_id in ids:
        thread = store.thread(thread_id) or Thread(thread_id, None, None, None, 0, 0)
        try:
            found = _orphans(store, thread, wanted, before, is_bare=is_bare)
        except CkptError as error:
            removal = Removal(thread_id, thread.last_at, thread.checkpoints, 0)
            found = Doomed("keep", error.message, 0, 0, removal)
        if found is not None:
            yield found


def _orphans(
    store: Store, thread: Thread, wanted: set[Scope], before: datetime, *, is_bare: bool
) -> Doomed | None:
    keys_there = (one.key for one in store.checkpoints(thread.thread_id))
    there = {(key.checkpoint_ns, key.checkpoint_id) for key in keys_there}
    lost: Counter[tuple[str, str]] = Counter()
    """Writes of checkpoints that are not there."""
    of_all: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    times: dict[tuple[str, str], datetime | None] = {}
    """Of those writes, where the layout stores it."""
    for write in store.writes(thread.thread_id):
        key = (write.key.checkpoint_ns, write.key.checkpoint_id)
        of_all[key] += 1
        sizes[key] += write.size
        if key not in there:
            lost[key] += 1
            times[key] = write.at
    calls: dict[tuple[str, str], int] = {}
    if "calls" in wanted:
        calls = {key: size for key, size in _calls(store, thread, there) if _old(key[1], before)}
    keys = set(calls)
    if "writes" in wanted:
        keys |= {key for key in lost if _old(key[1], before, times[key])}
    blobs: dict[BlobKey, int] = {}
    if "blobs" in wanted and (thread.last_at is None or thread.last_at < before):
        blobs = _unnamed(store, thread, set(calls), is_bare=is_bare)
    if not keys and not blobs:
        return None
    inside: dict[str, list[str]] = {}
    for ns, checkpoint_id in sorted(keys):
        inside.setdefault(ns, []).append(checkpoint_id)
    writes = sum(of_all[key] for key in keys)
    parts = {"blobs": len(blobs), "writes": sum(lost[key] for key in keys), "calls": len(calls)}
    return Doomed(
        action="prune",
        reason="orphans: " + ", ".join(f"{n} {name}" for name, n in parts.items() if n),
        checkpoints=len(calls),
        writes=writes,
        blobs=len(blobs),
        bytes=sum(blobs.values()) + sum(sizes[key] for key in keys) + sum(calls.values()),
        removal=Removal(
            thread.thread_id,
            thread.last_at,
            thread.checkpoints,
            of_all.total(),
            Inside({ns: tuple(ids) for ns, ids in inside.items()}, tuple(blobs)),
        ),
    )


def _old(checkpoint_id: str, before: datetime, at: datetime | None = None) -> bool:
    at = at or time_of(checkpoint_id)
    return at is not None and at < before


def _calls(
    store: Store, thread: Thread, there: set[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], int]]:
    """Checkpoints of subgraph calls whose root checkpoint is not there, and their sizes."""
    for ns in store.namespaces(thread.thread_id):
        if ":" not in ns:
            continue
        for one in store.checkpoints(thread.thread_id, checkpoint_ns=ns, metadata=True):
            root = root_of(one)
            if root is not None and ("", root) not in there:
                size = 0 if one.metadata is None else len(one.metadata.data)
                yield (ns, one.key.checkpoint_id), size


def _unnamed(
    store: Store, thread: Thread, going: set[tuple[str, str]], *, is_bare: bool
) -> dict[BlobKey, int]:
    """Values that no checkpoint names, but for those that go."""
    stored = dict(store.blobs(thread.thread_id))
    if not stored:
        return {}
    for ns in store.namespaces(thread.thread_id):
        for one in store.checkpoints(thread.thread_id, checkpoint_ns=ns, body=True):
            body = read_body(one)
            if body.problem is not None and not is_bare:
                raise unreadable(f"checkpoint '{one.key.checkpoint_id}'", body.problem)
            if (ns, one.key.checkpoint_id) not in going:
                for key in named_blobs(ns, one, body):
                    stored.pop(key, None)
    return stored
