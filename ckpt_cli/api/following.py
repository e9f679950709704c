"""Follow a store while it moves, also over lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.filters import filter_of
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.queries.store_tail import Movement, StoreTail
from ckpt_cli.render.store_tail import movement_record
from ckpt_cli.threads.live_store import LiveStore, is_passing

_SHARE = 5
"""At most one in so many seconds is spent on looking."""
_LONGEST_PAUSE = 30.0
_SCAN_INTERVAL = 60.0
"""Seconds between two looks, if each reads a whole table."""


def follow_store(
    store: Store,
    around: Surroundings,
    lines: int,
    match: str | None,
    where: str | Iterable[str] | None,
    interval: float | None,
    wait: Callable[[float], None],
    *,
    all_ns: bool,
) -> Iterator[Answer[Movement]]:
    """Yield the last checkpoints, then what happens; the arguments are those of `StoreHandle.tail`.

    A lost connection is noted once, and opened again.
    """
    tail = StoreTail(match, filter_of(around, where), all_ns=all_ns)
    if interval is None:
        interval = _interval(store, around)
    live = LiveStore(lambda: around.open_other(around.names.store_url), store)
    failures = 0
    found, is_first = tail.last(store, lines), True
    try:
        while True:
            began = time.monotonic()
            try:
                for one in found:
                    yield Answer(one, movement_record)
                live.store.refresh()
                if failures:
                    around.note("connected again")
                failures = 0
            except StoreUnavailable as error:
                if is_first or not is_passing(error):
                    raise
                if not failures:
                    text = around.names.without_values(error.message)
                    around.note(f"the connection is lost; trying again: {text}")
                failures += 1
                live.drop()
            took = time.monotonic() - began
            pause = interval * 2 ** min(failures, 10)
            wait(max(interval, min(pause, _LONGEST_PAUSE), took * (_SHARE - 1)))
            found, is_first = _new(tail, live), False
    finally:
        live.drop()


def _new(tail: StoreTail, live: LiveStore[Store]) -> Iterator[Movement]:
    # A function of its own, so that an error of opening is raised by the first `next`.
    yield from tail.new(live.store)


def _interval(store: Store, around: Surroundings) -> float:
    if not store.lists_by_scan:
        return 1.0
    around.note(
        f"each look reads a whole table, every {_SCAN_INTERVAL:.0f} s; --interval changes that"
    )
    return _SCAN_INTERVAL
