"""Adds up the sizes of threads from single values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_backends.model import ThreadSize, Usage


class SummedSizes:
    """The sizes of some threads, added up from their rows."""

    def __init__(self, thread_ids: Sequence[str]) -> None:
        self._sums = {one: [0, 0, 0, 0] for one in thread_ids}

    def add(
        self, thread_id: str, size: int, *, checkpoints: int = 0, writes: int = 0, blobs: int = 0
    ) -> None:
        """Add rows of a thread, and their bytes. Rows of other threads do not count."""
        if (total := self._sums.get(thread_id)) is not None:
            total[0] += checkpoints
            total[1] += writes
            total[2] += size
            total[3] += blobs

    def of(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return [ThreadSize(*self._sums[one]) for one in thread_ids]


def summed(usage: Iterable[tuple[str, Usage]], thread_ids: Sequence[str]) -> list[ThreadSize]:
    """The sizes of these threads, added up from single values as `RedisLayout.usage` tells them."""
    sizes = SummedSizes(thread_ids)
    for checkpoint_id, one in usage:
        is_apart = not checkpoint_id
        sizes.add(
            one.thread_id,
            one.bytes,
            checkpoints=one.column == "metadata",
            writes=one.channel is not None and not is_apart,
            blobs=is_apart,
        )
    return sizes.of(thread_ids)
