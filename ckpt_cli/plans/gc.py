"""Plans that remove orphaned rows: values, writes and subgraph calls that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.errors import CkptError
from ckpt_backends.model import BlobKey, Capability, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.retention.purge_plan import PlannedRemoval
from ckpt_cli.core.state import read_body
from ckpt_cli.plans.purge import kept, pruned, sum_of
from ckpt_cli.queries.references import named_blobs, root_of, sizes_of_blobs
from ckpt_cli.threads.checkpoint import check_names_values


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
    """Missing checkpoints that have writes, with the time of the writes if it is stored."""
    number = 0
    for write in store.writes(name):
        number += 1
        key = (write.key.checkpoint_ns, write.key.checkpoint_id)
        if key not in there:
            lost[key] = write.at
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
        if ":" not in ns:
            continue
        for one in store.checkpoints(thread.thread_id, checkpoint_ns=ns, metadata=True):
            root = root_of(one)
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
                for key in named_blobs(ns, one, body):
                    stored.pop(key, None)
    return stored
