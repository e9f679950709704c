"""Limits of memory and time for the whole program.

A server may answer without end, or announce a value of any size, and its driver believes it. These
limits keep that from taking the machine down. They hold for the program `ckpt` and the processes
that it starts, not for the Python interface.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from time import sleep

from ckpt_backends.errors import StoreUnavailable, UsageError

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
