"""Find DeltaChannels that cannot be rebuilt, and missing parents that were not pruned."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ckpt_backends.model import Capability
from ckpt_cli.core.doctor.ancestors import known_versions, new_versions
from ckpt_cli.core.doctor.delta_anchor import (
    supersteps,
    without_past,
    without_snapshot,
    without_writes,
)
from ckpt_cli.core.doctor.delta_chains import DeltaChains
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.state import Version
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.thread import ThreadReader


class MissingParents:
    """Looks at each checkpoint of a thread, namespace by namespace, oldest first."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._ns: str | None = None
        self._chains = DeltaChains()
        self._ids: Collection[str] = ()
        self._older: set[tuple[str, Version]] = set()
        """What the older checkpoints of the namespace wrote."""
        # The saver of a layout that is only read may have lost checkpoints itself.
        self._proves = Capability.ADDING in reader.capabilities

    def at(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield what a checkpoint lacks because its parent, or an ancestor, is missing."""
        yield from self._missing(seen)
        self._older.update(new_versions(seen.moment.body))

    def _missing(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        if not self._reader.has_history or seen.is_young:
            return
        checkpoint, body = seen.moment.checkpoint, seen.moment.body
        ns = checkpoint.key.checkpoint_ns
        if ns != self._ns:
            self._ns, self._chains, self._older = ns, DeltaChains(), set()
            self._ids = {one.key.checkpoint_id for one in self._reader.index(ns)}
        parent_id = checkpoint.parent_checkpoint_id
        is_cut = parent_id is not None and parent_id not in self._ids
        unset = body.versions.keys() - body.values.keys()
        if parent_id is None or is_cut:
            unset &= self._reader.delta_channels(ns)
        if is_cut:
            # Without a step since the snapshot, or since the channel was empty, nothing is lost.
            metadata = seen.moment.metadata
            unset = {one for one in unset if supersteps(metadata, one) != 0}
        own = checkpoint.key.checkpoint_id
        unwritten: Collection[str] = ()
        if seen.parent is not None:
            written = {one.channel for one in seen.parent.writes}
            unwritten = without_writes(seen.moment.metadata, seen.parent.metadata, written)
        lost = self._chains.lost_at(
            own, parent_id, unset, is_cut=is_cut or parent_id is None, unwritten=unwritten
        )
        for channel in sorted(lost):
            if channel in unwritten:
                text = f"its step wrote to '{channel}', and none of these writes is stored"
            elif is_cut and parent_id is not None:
                text = without_snapshot(channel, parent_id)
            else:
                text = without_past(channel, own, own)
            yield seen.finding("delta-unanchored", text, channel)
        if is_cut and self._proves and self._has_older_ancestor(seen):
            text = f"its parent {parent_id} is not stored, although an older ancestor is"
            yield seen.finding("parent-missing", text)

    def _has_older_ancestor(self, seen: SeenCheckpoint) -> bool:
        """Return whether an ancestor is stored: a prune removes the oldest checkpoints first.

        A stateful subgraph keeps one checkpoint for each root checkpoint that is kept.
        """
        ns = seen.moment.key.checkpoint_ns
        if ns and ":" not in ns:
            return False
        return not self._older.isdisjoint(known_versions(seen.moment.body))
