"""Detects whether `langgraph dev` is running on a folder. It would overwrite every change.

The server takes no lock. It writes its files every 10 seconds and when it stops. Some releases,
such as langgraph-runtime-inmem 0.36, write the checkpoint files only when the server stops. So the
server counts as running if its other files changed recently. On Linux it also counts as running if
a `langgraph` process has the parent of `.langgraph_api` as its working folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

QUIET_SECONDS = 20
"""A running server writes its files at least once in this time: twice its interval."""
SERVERS_OWN = ".langgraph_ops.pckl"
"""The server's threads with their last values, and its runs with their inputs."""
SERVERS_MEMORY = ("store.pckl", "store.vectors.pckl")
SERVERS_FILES = (SERVERS_OWN, ".langgraph_retry_counter.pckl", *SERVERS_MEMORY)
"""Files that the server writes and `ckpt` never writes."""
JAVASCRIPT_FILES = (".langgraphjs_ops.json", ".langgraphjs_api.store.json")
"""Files that the server of LangGraph.js writes three seconds after a change."""
_MODULES = ("langgraph_api", "langgraph_cli")
_PACKAGES = ("@langchain/langgraph-api/", "@langchain/langgraph-cli/")


def running(folder: Path, files: Iterable[str] = SERVERS_FILES) -> str:
    """Why a server probably runs on the folder; `''` if none does. `files` are those of its own."""
    for pid, words in _processes():
        if _is_server(words) and _is_in(pid, folder):
            return f"process {pid} is its server"
    for name in files:
        try:
            age = time.time() - (folder / name).stat().st_mtime
        except OSError:
            continue
        if age < QUIET_SECONDS:
            return f"its server wrote {name} less than {QUIET_SECONDS} seconds ago"
    return ""


def _processes() -> Iterator[tuple[str, list[str]]]:
    """On Linux, the visible processes: (process id, arguments of the command line)."""
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
    """Whether a command line is that of `langgraph dev` or of a process that it starts."""
    if any(word.startswith(_MODULES) or any(one in word for one in _PACKAGES) for word in words):
        return True
    names = [os.path.basename(word) for word in words]
    return "langgraph" in names and "dev" in names[names.index("langgraph") :]


def _is_in(pid: str, folder: Path) -> bool:
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder.parent)
    except OSError:
        return False
