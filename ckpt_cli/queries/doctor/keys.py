"""Faults in the keys of one thread: no body and no value is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby

from ckpt_backends.model import Capability, Checkpoint
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.core.doctor.lineage import (
    WritesOfOne,
    ahead_finding,
    is_orphaned,
    lineage_findings,
    orphan_finding,
)
from ckpt_cli.queries.doctor.terms import Terms

_Missing = dict[str, dict[str, WritesOfOne]]
"""By namespace and id, the writes of checkpoints that are not stored."""


def key_findings(
    store: Store, thread_id: str, layout: Capability, terms: Terms, checked: Checked
) -> Iterator[Finding]:
    """Yield what is wrong with the keys of a thread, which may have writes only.

    `layout` is what the store describes. Counts the checkpoints and writes that it looks at.
    """
    spaces = {
        ns: list(group)
        for ns, group in groupby(store.checkpoints(thread_id), lambda one: one.key.checkpoint_ns)
    }
    if not terms.deep:  # the deep check counts them
        checked.checkpoints += sum(map(len, spaces.values()))
    yield from _ahead(spaces, terms)
    if Capability.HISTORY not in layout:
        # A shallow layout stores writes of more checkpoints than it keeps, and parents never.
        return
    missing, writes = _missing(store, thread_id, spaces)
    if not terms.deep:
        checked.writes += writes
    ids = {one.key.checkpoint_id for checkpoints in spaces.values() for one in checkpoints}
    for ns, checkpoints in spaces.items():
        yield from lineage_findings(checkpoints, missing.get(ns, {}), ids)
    if missing and not _expires(store, thread_id, spaces):
        for ns, lost in missing.items():
            head = next(iter(spaces.get(ns, ())), None)
            for checkpoint_id, of_one in lost.items():
                if is_orphaned(checkpoint_id, of_one, head, terms.before):
                    yield orphan_finding(thread_id, ns, checkpoint_id, of_one)


def _ahead(spaces: dict[str, list[Checkpoint]], terms: Terms) -> Iterator[Finding]:
    # A long check meets checkpoints that were stored after it began.
    now = max(terms.now, datetime.now(UTC))
    for checkpoints in spaces.values():
        found = ahead_finding(checkpoints[0], now, terms.now - terms.before)
        if found is not None:
            yield found


def _missing(
    store: Store, thread_id: str, spaces: dict[str, list[Checkpoint]]
) -> tuple[_Missing, int]:
    """Return the writes of checkpoints that are not stored, and the number of all writes."""
    stored = {
        (ns, one.key.checkpoint_id) for ns, checkpoints in spaces.items() for one in checkpoints
    }
    found: _Missing = {}
    number = 0
    for write in store.writes(thread_id):
        number += 1
        ns, checkpoint_id = write.key.checkpoint_ns, write.key.checkpoint_id
        if (ns, checkpoint_id) not in stored:
            lost = found.setdefault(ns, {}).setdefault(checkpoint_id, WritesOfOne())
            lost.add(write.task_id, write.at)
    return found, number


def _expires(store: Store, thread_id: str, spaces: dict[str, list[Checkpoint]]) -> bool:
    """Return whether the thread has a time to live: its writes may outlive their checkpoints."""
    if not store.keys_expire:
        return False
    for ns, checkpoints in spaces.items():
        head = checkpoints[0].key.checkpoint_id
        for one in store.expiries(thread_id, ns, [head]):
            if one.at is not None or one.writes_at is not None:
                return True
    return False
