"""Ids for new checkpoints of a thread with numbered checkpoint ids."""

from __future__ import annotations

from collections.abc import Collection
from string import digits

from ckpt_backends.checkpoint_ids import ticks_of

_LONGEST = 18
"""Digits of a number; longer ones may be too long for Python to convert."""


def next_name(ids: Collection[str]) -> str | None:
    """Return the next of numbered ids such as `ckpt_007`; None if the ids are not numbered."""
    if any(ticks_of(one) is not None for one in ids):
        return None
    begins = {one.rstrip(digits) for one in ids}
    numbers = [one[len(one.rstrip(digits)) :] for one in ids]
    if len(begins) != 1 or not all(0 < len(one) <= _LONGEST for one in numbers):
        return None
    (begin,) = begins
    width = max(map(len, numbers)) if any(one.startswith("0") for one in numbers) else 0
    return f"{begin}{max(map(int, numbers)) + 1:0{width}}"
