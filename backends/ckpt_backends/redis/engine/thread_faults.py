"""Faults in the keys of one thread that all layouts on Redis can have: times to live.

A saver stores a checkpoint with several commands. So what looks wrong in a thread that is being
written is read a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import NamedTuple

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection, in_parts
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, ThreadKeys, quoted

_RECENT = timedelta(minutes=1)
_PAUSE_SECONDS = 1.0
"""Longer than a saver needs for the commands of one checkpoint."""
_FOUND_AT_ONCE = 50
"""Number of threads whose keys are read together."""
_STAYS = -1
"""The answer of PTTL for a key without an expiry."""


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """A key of a thread."""

    name: bytes
    kind: str
    checkpoint_ns: str
    checkpoint_id: str | None = None
    """None for a key that belongs to a whole namespace, or to several checkpoints."""


class FirstLook(NamedTuple):
    """The faults in the keys of a thread, as they were once."""

    at: float
    """When the keys were read, by `time.monotonic`."""
    faults: Sequence[Fault]


def lasting(
    first: Mapping[str, FirstLook],
    find: Callable[[Collection[str]], Mapping[str, ThreadKeys]],
    faults: Callable[[str, ThreadKeys], Iterable[Fault]],
) -> dict[str, list[Fault]]:
    """The faults in the keys of some threads that are still there when `find` reads them again.

    If the newest checkpoint of a thread is recent, they must also be there some time after the
    first look. Waits once for all threads.
    """
    left = {one: list(look.faults) for one, look in first.items()}
    recent = _still(left, find, faults)
    if recent:
        seen = max(first[one].at for one in recent)
        sleep(max(0.0, _PAUSE_SECONDS - (monotonic() - seen)))
        again = {one: left[one] for one in recent}
        _still(again, find, faults)
        left |= again
    return left


def _still(
    left: dict[str, list[Fault]],
    find: Callable[[Collection[str]], Mapping[str, ThreadKeys]],
    faults: Callable[[str, ThreadKeys], Iterable[Fault]],
) -> list[str]:
    """Leave only the faults that are still there; return the threads with some that are recent."""
    odd = [one for one, found in left.items() if found]
    recent = []
    for some in in_parts(odd, _FOUND_AT_ONCE):
        for thread_id, current in find(some).items():
            # A fix may contain a time, which has changed meanwhile.
            again = {one._replace(fix=""): one for one in faults(thread_id, current)}
            before = (one._replace(fix="") for one in left[thread_id])
            left[thread_id] = [again[one] for one in before if one in again]
            if left[thread_id] and _is_recent(current):
                recent.append(thread_id)
    return recent


def _is_recent(keys: ThreadKeys) -> bool:
    at = time_of(max((own for _, own in keys.places), default=""))
    return at is None or datetime.now(UTC) - at <= _RECENT


def keys_of_checkpoints(found: ThreadKeys) -> Iterator[ThreadKey]:
    """The keys of the checkpoints of a thread, and those of their writes."""
    spaces = {own: ns for ns, own in found.places}
    for (ns, own), one in found.places.items():
        yield ThreadKey(one.name, CHECKPOINT, ns, own)
    for write in found.writes:
        if (own := write.checkpoint_id) in spaces:
            yield ThreadKey(write.name, "writes", spaces[own], own)


def expiry_faults(
    connection: RedisConnection, thread_id: str, keys: Sequence[ThreadKey]
) -> Iterator[Fault]:
    """`ttl-partial`, if some of these keys expire and others do not."""
    left = list(connection.ask_all(("PTTL", one.name) for one in keys))
    expiring = [one for one, ms in zip(keys, left, strict=True) if ms is not None and ms >= 0]
    staying = [one for one, ms in zip(keys, left, strict=True) if ms == _STAYS]
    if not expiring or not staying:
        return
    fewer = min(staying, expiring, key=len)
    places = {(one.checkpoint_ns, one.checkpoint_id) for one in fewer}
    ns, own = places.pop() if len(places) == 1 else (None, None)
    total = len(expiring) + len(staying)
    counted = sorted(Counter(one.kind for one in fewer).items())
    kinds = ", ".join(f"{number} {kind}" for kind, number in counted)
    do = "does" if len(fewer) == 1 else "do"
    what = f"{do} not expire" if fewer is staying else "expires" if do == "does" else "expire"
    fix = ""
    if len(fewer) == 1:
        seconds = max(int(ms) for ms in left if ms is not None) // 1000
        fix = f"EXPIRE {{}} {seconds}" if fewer is staying else "PERSIST {}"
        fix = fix.format(quoted(fewer[0].name))
    detail = f"{len(fewer)} of {total} keys {what}: {kinds}"
    yield Fault("ttl-partial", detail, thread_id, ns, own, fix=fix)
