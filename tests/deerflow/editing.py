"""Edit a memory.json repeatedly; each time the process is killed at another system call.

Prints for each run how the process ended, and whether the file is old, new, or neither.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from ckpt_backends.memory import Item
from ckpt_backends.open_for_writing import open_editable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url

KEY = "fact_a1b2c3d4"
STEPS = ("open", "fchown", "chmod", "fsync", "stat", "utime", "replace", "close", "unlink")


def die_at(number: int) -> None:
    """Kill this process before the n-th call."""
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


def edit_and_die(path: Path, item: Item, number: int) -> int:
    """Return the exit code of a process that edits the file; negative if it was killed."""
    child = os.fork()
    if child == 0:
        with open_editable_memory(parse_url(str(path))) as writable:
            die_at(number)
            writable.edit(item, {"category": "goal"})
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def found(path: Path, old: bytes) -> str:
    raw = path.read_bytes()
    if raw == old:
        return "old"
    before, after = json.loads(old), json.loads(raw)
    before["facts"][0]["category"] = "goal"
    before["lastUpdated"] = after["lastUpdated"]
    return "new" if after == before else "neither"


def main() -> None:
    path = Path(sys.argv[1])
    old = path.read_bytes()
    with open_memory(parse_url(str(path))) as memory:
        item = next(one for one in memory.items(values=True) if one.key.key == KEY)
    for number in count(1):
        path.write_bytes(old)
        code = edit_and_die(path, item, number)
        print(code, found(path, old))
        with open_memory(parse_url(str(path.parent))) as memory:
            assert len(list(memory.items())) == 4
        if code == 0:
            return


if __name__ == "__main__":
    main()
