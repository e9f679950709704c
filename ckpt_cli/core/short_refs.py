"""Short refs: the ends of checkpoint ids, for people to read and type.

All ids of a thread begin with a time and so begin alike; their ends differ.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

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


class ShortRefs(Mapping[str, str]):
    """The shortest unique end of each id, at least four characters, found when it is asked for.

    The end gets longer while it could be read as another kind of ref, or while another id begins
    with it. An id that another id ends with is shown in full.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._ordered = sorted(ids)
        self._by_end = sorted([one[::-1] for one in ids])
        self._are_numbered = all(re.fullmatch(_COUNTED, one) for one in ids)
        self._found: dict[str, str] = {}

    def __getitem__(self, full: str) -> str:
        found = self._found.get(full)
        if found is None:
            found = self._found[full] = self._find(full)
        return found

    def _find(self, full: str) -> str:
        end, ends = full[::-1], self._by_end
        place = bisect_left(ends, end)
        if ends[place : place + 1] != [end]:
            raise KeyError(full)
        if self._are_numbered:
            return full
        # An id that is there twice has no end of its own.
        near = [*ends[max(place - 1, 0) : place], *ends[place + 1 : place + 2]]
        shared = max([_common(one, end) for one in near], default=0)
        return _readable(full, max(SHORTEST, shared + 1), self._ordered)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._ordered))

    def __len__(self) -> int:
        return len(set(self._ordered))


def short_refs(ids: Sequence[str]) -> Mapping[str, str]:
    """Return the short ref of each of these ids."""
    return ShortRefs(ids)


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
