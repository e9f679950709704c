"""Follow DeltaChannels from each checkpoint to its children, to find those that cannot be rebuilt.

The value of a DeltaChannel is its last snapshot and all writes since. If a checkpoint between them
was deleted, its writes are lost.
"""

from __future__ import annotations

from collections.abc import Collection


class DeltaChains:
    """The DeltaChannels of one namespace. Checkpoints are told parents first."""

    def __init__(self) -> None:
        self._lost: dict[str, frozenset[str]] = {}
        """By checkpoint, the channels that cannot be rebuilt; left out if there are none."""

    def lost_at(
        self,
        checkpoint_id: str,
        parent_id: str | None,
        unset: Collection[str],
        *,
        is_cut: bool,
        unwritten: Collection[str] = (),
    ) -> frozenset[str]:
        """Return the DeltaChannels that can be rebuilt at the parent, but not at this checkpoint.

        `unset` are its DeltaChannels with a version and without a stored value. `is_cut` means that
        it has no parent, or one that is not stored. `unwritten` are channels of which the writes
        of the step before it are lost.
        """
        before = self._lost.get(parent_id or "", frozenset())
        lost = frozenset(unset) if is_cut else before.union(unwritten).intersection(unset)
        if lost:
            self._lost[checkpoint_id] = lost
        return lost - before
