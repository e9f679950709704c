"""Finds writes that a layout would return in another order than they are stored in.

Some layouts keep the order in which writes arrived. The others order them by task path, task id and
index. This matters for DeltaChannels only, whose values are rebuilt from the writes in this order.
"""

from __future__ import annotations

from ckpt_backends.model import CheckpointKey
from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, WritePart


class ArrivalOrder:
    """The writes of a thread in the order of arrival. Those of one checkpoint come together."""

    def __init__(self) -> None:
        self._key: CheckpointKey | None = None
        self._last: dict[str, WritePart] = {}
        """By channel, the last write of the current checkpoint."""
        self._moving: dict[tuple[str, str], set[str]] = {}
        """By namespace and checkpoint id, the channels whose writes would change places."""

    def add(self, part: WritePart) -> None:
        """Add the next write."""
        if part.key != self._key:
            self._key = part.key
            self._last.clear()
        last = self._last.get(part.channel)
        self._last[part.channel] = part
        if last is None or (last.task_id, last.idx) < (part.task_id, part.idx):
            return
        if last.value != part.value:
            at = part.key.checkpoint_ns, part.key.checkpoint_id
            self._moving.setdefault(at, set()).add(part.channel)

    def may_matter(self, part: CheckpointPart) -> bool:
        """Whether writes to the parent of a checkpoint would change places."""
        return (part.key.checkpoint_ns, part.parent or "") in self._moving

    def check(self, part: CheckpointPart, found: OpenBody) -> None:
        """Raise `CannotHold` if a value of a checkpoint must be rebuilt from such writes."""
        channels = self._moving.get((part.key.checkpoint_ns, part.parent or ""), set())
        for channel in sorted(channels - found.values.keys()):
            if found.version_of(channel) is not None:
                raise CannotHold(
                    f"parallel tasks wrote to channel '{channel}' at checkpoint '{part.parent}' in"
                    " an order that the target does not keep"
                )
