"""The time and step of a checkpoint, read from its id.

Savers make checkpoint ids as UUIDv6 with the step in the clock sequence, so ids sort by time.
LangGraph.js writes a variant nibble that is not RFC 9562 at step -1; only the version nibble
is checked.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UUID6 = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII
)
TICKS_TO_1970 = 0x01B21DD213814000
"""100 ns ticks between 1582-10-15, where UUID time begins, and 1970-01-01."""
_MOST = 1 << 60
"""Ticks that do not fit into an id."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_find = _UUID6.fullmatch


def ticks_of(checkpoint_id: str) -> int | None:
    """The id's time in 100 ns ticks since 1582-10-15, or None if it is not a UUIDv6."""
    found = _find(checkpoint_id)
    return None if found is None else int("".join(found.groups()), 16)


def time_of(checkpoint_id: str) -> datetime | None:
    """When the checkpoint was made, UTC, or None if its id contains no time."""
    ticks = ticks_of(checkpoint_id)
    if ticks is None:
        return None
    # By position, which takes half the time.
    return _EPOCH + timedelta(0, 0, (ticks - TICKS_TO_1970) // 10)


def ticks_at(moment: datetime) -> int:
    """A moment in 100 ns ticks since 1582-10-15."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 10 + TICKS_TO_1970


def make_id(ticks: int, step: int, node: int) -> str:
    """A checkpoint id in the form that savers use: a UUIDv6 with the step in its clock sequence.

    `node` is a random number of 48 bits.
    """
    sequence = 0x8000 | step & 0x3FFF
    return f"{_begin(ticks)}-{sequence:04x}-{node & (1 << 48) - 1:012x}"


def ids_between(since: datetime | None, until: datetime | None) -> tuple[str, str]:
    """The bounds of all ids with a time from `since` to `until`, both inclusive.

    Such an id is not less than the first bound, and less than the second. A bound is `''` if there
    is none.
    """
    first = 0 if since is None else ticks_at(since)
    end = 0 if until is None else ticks_at(until) + 10
    return _begin(first) if 0 < first < _MOST else "", _begin(end) if 0 < end < _MOST else ""


def _begin(ticks: int) -> str:
    """The characters of an id that hold its time."""
    return f"{ticks >> 28:08x}-{ticks >> 12 & 0xFFFF:04x}-6{ticks & 0xFFF:03x}"


def step_of(checkpoint_id: str) -> int | None:
    """The step in the id's clock sequence (14 bit, signed), or None if it is not a UUIDv6.

    It is one less than `metadata.step` on forks that `update_state(as_node="__copy__")` wrote.
    """
    if _find(checkpoint_id) is None:
        return None
    sequence = int(checkpoint_id[19:23], 16) & 0x3FFF
    return sequence - 0x4000 if sequence & 0x2000 else sequence
