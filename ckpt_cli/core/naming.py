"""Ids for new checkpoints of a thread with numbered checkpoint ids."""

from __future__ import annotations

import re
from collections.abc import Collection

from ckpt_backends.ids import ticks_of

_NUMBERED = re.compile(r"(?P<begin>.*?)(?P<number>\d+)", re.ASCII | re.DOTALL)


def next_name(ids: Collection[str]) -> str | None:
    """Return the next of numbered ids such as `ckpt_007`; None if the ids are not numbered."""
    if any(ticks_of(one) is not None for one in ids):
        return None
    found = [_NUMBERED.fullmatch(one) for one in ids]
    begins = {one["begin"] if one else None for one in found}
    numbers = [one["number"] for one in found if one]
    if len(begins) != 1 or len(numbers) != len(ids):
        return None
    (begin,) = begins
    width = max(map(len, numbers)) if any(one.startswith("0") for one in numbers) else 0
    return f"{begin}{max(map(int, numbers)) + 1:0{width}}"
