"""What runs in a worker process of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import CkptError
from ckpt_cli.ending import ENDING, heed, leave
from ckpt_cli.threads.executor.work import Outcome, RangeDone, Work, failed, work_through

if TYPE_CHECKING:
    from ckpt_cli.threads.opening import Opening


def serve(
    connection: Connection[Any, Any], opening: Opening, work: Work[Any, Any], at_once: int
) -> None:
    """Work on the pieces that come through a connection, until it says that there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heed(leave)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    pieces: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_listen, args=(connection, pieces), daemon=True).start()
    do = _begun(opening, work, at_once)
    while (parts := pieces.get()) is not None:
        connection.send(do(parts))


def _listen(connection: Connection[Any, Any], pieces: SimpleQueue[Any]) -> None:
    """Take pieces at once: the main process must not wait while this one works.

    If the main process was killed, this one ends, too.
    """
    try:
        while (parts := connection.recv()) is not None:
            pieces.put(parts)
        pieces.put(None)
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _begun(opening: Opening, work: Work[Any, Any], at_once: int) -> Callable[[Any], Outcome]:
    try:
        # The main process already makes the same notes.
        do = work(opening.open(lambda _: None))
    except CkptError as error:
        told: Outcome = RangeDone([], (type(error), dict(vars(error))))
        return lambda _: told
    except Exception as error:
        broken = failed(error)
        return lambda _: broken
    return lambda parts: work_through(do, parts, at_once)
