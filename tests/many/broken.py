"""Threads that failed in several ways in one store, and how commands tell of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kit.agents.many import add_copies, sqlite_agent
from tests.kit.command import ROOT, CommandResult

DONE = "done-0"
FAILED = ("raise-0", "raise-1", "inside-0", "beside-0")
KILLED = ("die-0", "die-1")
BROKEN = "status in (error, pending)"
LAST_GOOD = ("rollback", "--where", BROKEN, "--last-good")
STUCK = "status in (error, interrupted)"
RETRY = ("copy", "--where", STUCK, "--at", "head", "--as", "{thread}-retry")


def fill(path: Path) -> None:
    """Fill a store by the official graph; all but one of the threads that are done are copies."""
    with sqlite_agent(path) as agent:
        for thread_id in (DONE, *FAILED, "ask-0", "ask-1"):
            kind = thread_id.partition("-")[0]
            agent.run(thread_id, "plain" if kind == "done" else kind)
    command = [sys.executable, "-m", "tests.kit.agents.many", str(path), *KILLED]
    subprocess.run(command, check=True, cwd=ROOT)
    add_copies(path, DONE, ["done-1", "done-2"])


def by_thread(answer: CommandResult) -> dict[str, dict[str, Any]]:
    return {one["thread_id"]: one for one in map(json.loads, answer.out.splitlines())}


def states(answer: CommandResult) -> dict[str, str]:
    return {name: one["state"] for name, one in by_thread(answer).items()}


def resumed(path: Path, lines: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Resume threads as an application does; return what each of them has done."""
    with sqlite_agent(path, is_mended=True) as agent:
        return {
            name: agent.graph.invoke(one["input"], {"configurable": one["configurable"]})["log"]
            for name, one in lines.items()
        }


def log_of(path: Path, thread_id: str) -> list[str]:
    with sqlite_agent(path) as agent:
        found = agent.graph.get_state({"configurable": {"thread_id": thread_id}})
    return list(found.values["log"])
