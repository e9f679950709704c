"""Adds up the sizes of threads from single values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_backends.model import ThreadSize, Usage


def summed(usage: Iterable[tuple[str, Usage]], thread_ids: Sequence[str]) -> list[ThreadSize]:
    """The sizes of these threads, added up from single values as `RedisLayout.usage` tells them."""
    sums = {one: [0, 0, 0, 0] for one in thread_ids}
    for checkpoint_id, one in usage:
        if (total := sums.get(one.thread_id)) is not None:
            is_apart = not checkpoint_id
            total[0] += one.column == "metadata"
            total[1] += one.channel is not None and not is_apart
            total[2] += one.bytes
            total[3] += is_apart
    return [ThreadSize(*sums[one]) for one in thread_ids]
