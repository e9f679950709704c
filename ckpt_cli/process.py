"""What the process as a whole may use, and how it ends.

A server may answer without end, or announce a value of any size, and its driver believes it. Limits
keep that from taking the machine down. They hold for the program `ckpt` and the processes that it
starts, not for the Python interface. At SIGTERM and SIGHUP, everything is closed and removed as at
Ctrl-C.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from ckpt_backends.errors import PartlyDone, StoreUnavailable, UsageError, reason_of

MEMORY, TIME = "CKPT_MEMORY_LIMIT", "CKPT_TIME_LIMIT"
NO_LIMIT = "none"
_LEAST = 2 << 30
"""Bytes that are allowed by default on any machine: DuckDB and a value with its copies fit in."""
_SIZE = re.compile(r"([1-9]\d{0,8})([KMGT])(?:i?B)?", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_GRACE = 5.0
"""Seconds in which the program may clean up after its time is over."""


def set_limits(environment: Mapping[str, str]) -> None:
    """Limit the memory and the time of this process. Raises `UsageError` for a malformed limit.

    By default, the memory is limited to half of the machine's, at least 2 GiB, and the time is not.
    """
    memory, time = environment.get(MEMORY), environment.get(TIME)
    if time and time != NO_LIMIT and _SECONDS.fullmatch(time) is None:
        raise UsageError(f"invalid {TIME} '{time}'", hint=f"write seconds, or '{NO_LIMIT}'")
    if memory != NO_LIMIT:
        _limit_memory(_bytes_of(memory) if memory else _half_of_machine())
    if time and time != NO_LIMIT:
        threading.Thread(target=_end_after, args=(int(time),), daemon=True).start()
    threading.excepthook = _thread_failed


def out_of_memory() -> StoreUnavailable:
    """The error to print where Python or a driver could not allocate."""
    return StoreUnavailable(
        "out of memory: the answer needs more than this process may use",
        hint=f"read fewer threads, or allow more, such as {MEMORY}=16G ('{NO_LIMIT}': no limit)",
    )


def _bytes_of(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError(f"invalid {MEMORY} '{text}'", hint=f"write 4G, 800M or '{NO_LIMIT}'")
    return int(found[1]) << 10 * (1 + "KMGT".index(found[2].upper()))


def _half_of_machine() -> int:
    if sys.platform != "linux":
        return 0
    return max(_LEAST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


def _limit_memory(most: int) -> None:
    """Limit what the process may write to. Only Linux keeps such a limit.

    Address space (RLIMIT_AS) says little: DuckDB reserves a gigabyte and uses a tenth of it.
    """
    if sys.platform != "linux":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = [one for one in (most, soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(allowed), hard))


def _end_after(seconds: int) -> None:
    """End the program as SIGTERM does; if a driver does not return, without cleaning up."""
    import signal
    from time import sleep

    from ckpt_cli import diagnostics

    sleep(seconds)
    diagnostics.report(
        StoreUnavailable(f"not finished after {seconds} s", hint=f"{TIME} sets this limit"),
        as_json=False,
    )
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Print nothing, unless asked: drivers have threads, and the main one gets an error, too."""
    if "--debug" in sys.argv and failed.exc_value is not None:
        from ckpt_cli import diagnostics

        diagnostics.traceback(failed.exc_value)


# Ends an answer, and the process at SIGTERM and SIGHUP.
#
# At a signal, everything is closed and removed as at Ctrl-C.


ENDING = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end a process after it has cleaned up."""


class ReaderGone(Exception):
    """The reader of stdout closed it. Not an `OSError`, as reading may raise."""


class Ended(SystemExit):
    """A signal told this process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def restored(*numbers: int) -> Iterator[None]:
    """Restore the handlers of these signals at the end, whatever was installed meanwhile."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def heed(act: Callable[[int, FrameType | None], None]) -> None:
    """Call `act` at these signals, except those that the parent process made us ignore."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, act)


def unwind(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Raise `Ended`. Later signals are ignored, because the process is ending already."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    raise Ended(number)


def leave(number: int, frame: FrameType | None = None) -> None:  # noqa: ARG001
    """Remove temporary folders, and end as if the signal had not been caught."""
    if temporary := sys.modules.get("ckpt_backends.files.temporary_folder"):
        temporary.remove_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def flush() -> None:
    """Write the rest of the answer. Raises `PartlyDone` if it cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python would try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise PartlyDone(f"cannot write the answer: {reason_of(error)}") from error
