"""Edits a memory.json in a process of its own, and kills that at one of its system calls."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

STEPS = ("open", "fchown", "chmod", "fsync", "stat", "utime", "replace", "close", "unlink")


def die_at(number: int) -> None:
    """Kill this process before the call of that number, or after the last write."""
    seen = 0

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)

        return instead

    for name in STEPS:
        setattr(os, name, watched(getattr(os, name)))


def main() -> None:
    path, number = sys.argv[1], int(sys.argv[2])
    from ckpt_backends.registry import open_editable_memory, open_memory
    from ckpt_backends.url import parse_url

    url = parse_url(path)
    with open_memory(url) as memory:
        item = next(one for one in memory.items(values=True) if one.key.key == "fact_a1b2c3d4")
    with open_editable_memory(url) as writable:
        die_at(number)
        writable.edit(item, {"category": "goal"})


if __name__ == "__main__":
    main()
