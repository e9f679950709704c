"""Let signals stop a long change between two of its parts, so that no part is left half done."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def collected_signals() -> Iterator[list[int]]:
    """Collect SIGINT, SIGTERM and SIGHUP instead of acting on them."""
    caught: list[int] = []
    keep: Callable[..., None] = lambda number, frame: caught.append(number)  # noqa: E731, ARG005
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    heeded = [one for one in ending if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, keep) for one in heeded}
    try:
        yield caught
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
