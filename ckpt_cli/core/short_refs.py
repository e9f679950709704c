"""Short refs: the ends of checkpoint ids, for people to read and type.

All ids of a thread begin with a time and so begin alike; their ends differ.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from ckpt_cli.core.times import looks_like_time

SHORTEST = 4
_COUNTED = r"[^0-9]{4,8}[0-9]{1,4}"
"""A numbered id such as `ckpt_007`; if all ids are numbered, they are shown in full."""
_TRIED = 64
"""Number of lengths that are tried before an id is shown in full."""
_OTHER_REF = (
    r"(?s)[0-9]{1,5}"  # could be read as a year or a step; longer numbers cannot
    r"|head|(?:step|tip):.*"
    r"|-.*"  # could be read as an option
    r"|.*~[0-9]*"  # could be read as parents of another ref
)


def short_refs(ids: Sequence[str]) -> dict[str, str]:
    """Return the shortest unique end of each id among `ids`, with at least four characters.

    The end gets longer while it could be read as another kind of ref, or while another id begins
    with it. An id that another id ends with is shown in full.
    """
    ordered = sorted(ids)
    if all(re.fullmatch(_COUNTED, one) for one in ids):
        return {one: one for one in ids}
    by_end = sorted(text[::-1] for text in ids)
    shared = [0, *(_common(left, right) for left, right in pairwise(by_end)), 0]
    return {
        end[::-1]: _readable(end[::-1], max(SHORTEST, before + 1, after + 1), ordered)
        for end, before, after in zip(by_end, shared, shared[1:], strict=False)
    }


def _common(left: str, right: str) -> int:
    """Return the length of the common prefix of two texts."""
    length = min(len(left), len(right))
    for place in range(length):
        if left[place] != right[place]:
            return place
    return length


def _readable(full: str, length: int, ordered: list[str]) -> str:
    for size in range(length, min(length + _TRIED, len(full))):
        ref = full[-size:]
        other = looks_like_time(ref) or re.fullmatch(_OTHER_REF, ref)
        if not other and not _begins_another(ref, full, ordered):
            return ref
    return full


def _begins_another(ref: str, full: str, ordered: list[str]) -> bool:
    place = bisect_left(ordered, ref)
    return any(other.startswith(ref) and other != full for other in ordered[place : place + 2])
