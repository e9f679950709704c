"""The change that takes another change back, computed before that one is applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ckpt_backends.changes.change import Change, NewBlob
from ckpt_backends.model import Capability, Checkpoint, CheckpointKey, Write
from ckpt_backends.protocol import Store

_MOST_REMOVED = 1000
_MOST_BYTES = 64 << 20
"""A change that removes more than this removes a whole copy, which can be made again instead."""


def reversal_of(change: Change, rows: Store) -> Change | None:
    """Return the change that takes a change back; None if it cannot hold what is removed.

    `rows` is the store before the change, without decryption or redaction. The heads of the result
    are those that a removal leaves; the present ones are filled in when it is applied.
    """
    removed = change.removed or {}
    if removed and _cannot_be_held(change, rows):
        return None
    heads = _remaining(change, rows) if removed else {}
    checkpoints, writes = _content_of(change.thread_id, removed, rows)
    return Change(
        change.thread_id,
        heads,
        checkpoints=tuple(checkpoints),
        writes=tuple(writes),
        blobs=tuple(_blobs_of(change, checkpoints, heads, rows)),
        removed=dict(_added(change, rows)) or None,
        removed_blobs=tuple((one.checkpoint_ns, one.channel, one.version) for one in change.blobs),
    )


def _cannot_be_held(change: Change, rows: Store) -> bool:
    if Capability.VALUES_ONLY in rows.capabilities:
        return True  # what is read of its checkpoints is not what is stored
    if len(change.removed or {}) > _MOST_REMOVED:
        return True
    return rows.size(change.thread_id).bytes > _MOST_BYTES and not _remaining(change, rows)


def _remaining(change: Change, rows: Store) -> dict[str, str]:
    """Return the heads that a removal leaves; none if it removes a whole thread."""
    heads: dict[str, str] = {}
    for one in rows.checkpoints(change.thread_id):
        if one.key not in (change.removed or {}):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
    return heads


def _added(change: Change, rows: Store) -> Counter[CheckpointKey]:
    """Return the checkpoints that a change adds, with their numbers of writes."""
    found = Counter({one.key: 0 for one in change.checkpoints})
    for write in change.writes:
        found[write.key] += 1
    for copied in change.copies_of_writes:
        found[copied.target] += len(copied.tasks)
    if not change.copies:
        return found
    source = change.copies[0].source.thread_id
    stored = Counter(write.key for write in rows.writes(source))
    for copy in change.copies:
        key = CheckpointKey(change.thread_id, copy.source.checkpoint_ns, copy.source.checkpoint_id)
        found[key] += stored[copy.source] if copy.writes is None else len(copy.writes)
    return found


def _content_of(
    thread_id: str, removed: Mapping[CheckpointKey, int], rows: Store
) -> tuple[list[Checkpoint], list[Write]]:
    if not removed:
        return [], []
    ids = [key.checkpoint_id for key in removed]
    found = rows.checkpoints(thread_id, checkpoint_ids=ids, body=True, metadata=True)
    checkpoints = [one for one in found if one.key in removed]
    # A checkpoint is added before its children.
    checkpoints.sort(key=lambda one: one.key.checkpoint_id)
    writes = rows.writes(thread_id, checkpoint_ids=ids, values=True)
    return checkpoints, [one for one in writes if one.key in removed]


def _blobs_of(
    change: Change, removed: list[Checkpoint], heads: Mapping[str, str], rows: Store
) -> Iterator[NewBlob]:
    """Yield the values that a change removes or replaces, as they are stored.

    Without any remaining head, these are all values of the thread.
    """
    wanted = set(change.removed_blobs)
    if removed and not heads:
        wanted.update(*map(_named, removed))
    channels = {channel for _, channel, _ in wanted}
    if not wanted:
        return
    keys = [one.key for one in removed]
    found = (
        rows.checkpoints_at(keys, body=True, values=channels)
        if keys
        else rows.checkpoints(change.thread_id, body=True, values=channels)
    )
    for one in found:
        for place in _named(one) & wanted:
            blob = (one.blobs or {}).get(place[1])
            if blob is not None and blob.value is not None:
                wanted.discard(place)
                yield NewBlob(*place, blob.value)
        if not wanted:
            return


def _named(one: Checkpoint) -> set[tuple[str, str, str]]:
    """Return the values that a checkpoint names, each as (namespace, channel, version)."""
    from ckpt_cli.core.state import read_body

    return {
        (one.key.checkpoint_ns, channel, str(version))
        for channel, version in read_body(one).versions.items()
    }
