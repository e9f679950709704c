"""Short refs: the ends of checkpoint ids that people read and type.

Ids of one thread begin alike, since they begin with their time; their ends differ.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from ckpt_cli.core.times import looks_like_time

SHORTEST = 4
_COUNTED = re.compile(r"\D{4,8}\d{1,4}", re.ASCII | re.DOTALL)
"""A numbered id such as `ckpt_007`; if all ids are numbered, they are shown whole."""
_TRIED = 64
"""Lengths that are tried before an id is shown whole."""
_OTHER_REF = re.compile(
    r"\d{1,5}"  # a year, a step; a longer number is taken for neither
    r"|head|(?:step|tip):.*"
    r"|-.*"  # an option
    r"|.*~\d*",  # parents of another ref
    re.ASCII | re.DOTALL,
)


def short_refs(ids: Sequence[str]) -> dict[str, str]:
    """The shortest end of each id that is unique among `ids`, of at least four characters.

    It gets longer while it could be read as another kind of ref, or while another id begins with
    it. An id that another one ends with is left whole.
    """
    ordered = sorted(ids)
    if all(map(_COUNTED.fullmatch, ids)):
        return {one: one for one in ids}
    by_end = sorted(text[::-1] for text in ids)
    shared = [0, *(_common(left, right) for left, right in pairwise(by_end)), 0]
    return {
        end[::-1]: _readable(end[::-1], max(SHORTEST, before + 1, after + 1), ordered)
        for end, before, after in zip(by_end, shared, shared[1:], strict=False)
    }


def _common(left: str, right: str) -> int:
    """The length of the common prefix of two texts."""
    length = min(len(left), len(right))
    for place in range(length):
        if left[place] != right[place]:
            return place
    return length


def _readable(full: str, length: int, ordered: list[str]) -> str:
    for size in range(length, min(length + _TRIED, len(full))):
        ref = full[-size:]
        other = looks_like_time(ref) or _OTHER_REF.fullmatch(ref)
        if not other and not _begins_another(ref, full, ordered):
            return ref
    return full


def _begins_another(ref: str, full: str, ordered: list[str]) -> bool:
    place = bisect_left(ordered, ref)
    return any(other.startswith(ref) and other != full for other in ordered[place : place + 2])
