"""Resume threads with the library of an era: resume.py STORE MAKE < jobs > outcomes.

Runs in that era's environment, which has neither `ckpt` nor pytest; MAKE is the folder of the
scenarios. A job is `{thread, target, ours, theirs, configurable}`: both copies of the thread are
resumed, `ours` with what `ckpt` printed, `theirs` by the library's time travel to the target.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from contextlib import closing
from typing import Any

sys.path.insert(0, sys.argv[2])

import truth  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite import SqliteSaver
from scenarios import SCENARIOS  # type: ignore[import-not-found]

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")


def nameless(text: str) -> str:
    """Return a text in which generated ids are replaced by numbers in order of appearance."""
    seen: dict[str, str] = {}
    return UUID.sub(lambda match: seen.setdefault(match[0], f"<id {len(seen)}>"), text)


def plain(value: Any) -> Any:
    return json.loads(nameless(json.dumps(truth.encode(value), sort_keys=True)))


def state(graph: Any, configurable: dict[str, str]) -> Any:
    found = graph.get_state({"configurable": {"checkpoint_ns": "", **configurable}})
    return {"values": plain(found.values), "next": sorted(found.next)}


def outcome(graph: Any, configurable: dict[str, str]) -> Any:
    """Return how a resume ends, and the state of the thread afterwards."""
    try:
        graph.invoke(None, {"configurable": configurable})
        said = "done"
    except Exception as error:
        said = f"{type(error).__name__}: {nameless(str(error))}"
    return [said, state(graph, {"thread_id": configurable["thread_id"]})]


def main() -> None:
    for job in json.load(sys.stdin):
        target = {"checkpoint_ns": "", "checkpoint_id": job["target"]}
        with closing(sqlite3.connect(sys.argv[1], check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            build = SCENARIOS[job["thread"]].build
            graph = build(saver)
            states = [
                state(graph, {"thread_id": job["ours"]}),
                state(graph, {"thread_id": job["thread"], **target}),
            ]
            ended = [
                outcome(build(saver), job["configurable"]),
                outcome(build(saver), {"thread_id": job["theirs"], **target}),
            ]
        print(json.dumps({**job, "states": states, "ended": ended}))


if __name__ == "__main__":
    main()
