"""Whether `langgraph dev` runs on a folder: a server that does overwrites what others write there.

The server takes no lock. It stores its own files every 10 seconds, and when it ends; of the
checkpoints, some releases (langgraph-runtime-inmem 0.36 is one) store them when it ends only. So
the time of its own files is what tells, everywhere; on Linux also a process whose working
folder is the one that holds `.langgraph_api`, since the server knows its files by that name only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

QUIET_SECONDS = 20
"""A server has stored its files again after this time, which is twice its pause."""
SERVERS_OWN = ".langgraph_ops.pckl"
"""Its threads with their last values, and its runs with their inputs."""
_FILES = (
    SERVERS_OWN,
    ".langgraph_retry_counter.pckl",
    "store.pckl",
    "store.vectors.pckl",
)
"""What the server stores with the checkpoints, and `ckpt` never does."""
_MODULES = ("langgraph_api", "langgraph_cli")


def running(folder: Path) -> str:
    """Why a server must be taken to run on the folder, in words; `''` if none does."""
    for pid, words in _processes():
        if _is_server(words) and _is_in(pid, folder):
            return f"process {pid} is its server"
    for name in _FILES:
        try:
            age = time.time() - (folder / name).stat().st_mtime
        except OSError:
            continue
        if age < QUIET_SECONDS:
            return f"its server wrote {name} less than {QUIET_SECONDS} seconds ago"
    return ""


def _processes() -> Iterator[tuple[str, list[str]]]:
    """The processes that Linux lets us see, with the words of their command lines."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        try:
            line = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        yield pid, os.fsdecode(line).split("\0")


def _is_server(words: list[str]) -> bool:
    """Whether a command line is that of `langgraph dev`, or of what it runs."""
    if any(word.startswith(_MODULES) for word in words):
        return True
    names = [os.path.basename(word) for word in words]
    return "langgraph" in names and "dev" in names[names.index("langgraph") :]


def _is_in(pid: str, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder.parent)
    except OSError:
        return False
