"""Faults in the keys of one thread that all layouts on Redis can have: times to live.

A saver stores a checkpoint with several commands. So what looks wrong in a thread that is being
written is read a second time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import CHECKPOINT, ThreadKeys, quoted

_RECENT = timedelta(minutes=1)
_PAUSE_SECONDS = 1.0
"""Longer than a saver needs for the commands of one checkpoint."""
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


def lasting(
    known: ThreadKeys,
    find: Callable[[], ThreadKeys],
    faults: Callable[[ThreadKeys], Iterable[Fault]],
) -> Iterator[Fault]:
    """The faults in the keys of a thread, of which `known` may be old and `find` reads new ones.

    If the newest checkpoint is recent, the faults must also be found after a pause.
    """
    found = list(faults(known))
    for pause in (0.0, _PAUSE_SECONDS):
        if not found:
            return
        time.sleep(pause)
        current = find()
        # A fix may contain a time, which has changed meanwhile.
        again = {one._replace(fix=""): one for one in faults(current)}
        found = [again[key] for one in found if (key := one._replace(fix="")) in again]
        newest = max((own for _, own in current.places), default="")
        at = time_of(newest)
        if at is None or datetime.now(UTC) - at > _RECENT:
            break
    yield from found


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
