"""Resume threads with the library of an era: resume.py STORE SOURCE < jobs > outcomes.

Runs in that era's environment, which has neither `ckpt` nor pytest; SOURCE is the folder that holds
`ckpt_backends`. A job is `{thread, target, ours, theirs, configurable}`: both copies of a thread
are resumed, `ours` with what `ckpt` printed, `theirs` by the library's time travel to the target.
"""

import json
import re
import sqlite3
import sys
from contextlib import closing
from typing import Any

sys.path.insert(0, sys.argv[2])

from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.scenarios import truth
from ckpt_backends.testing.scenarios.catalog import SCENARIOS

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")


def without_ids(text: str) -> str:
    seen: dict[str, str] = {}
    return UUID.sub(lambda match: seen.setdefault(match[0], f"<id {len(seen)}>"), text)


def plain(value: Any) -> Any:
    return json.loads(without_ids(json.dumps(truth.encode(value), sort_keys=True)))


def state(graph: Any, configurable: dict[str, str]) -> Any:
    found = graph.get_state({"configurable": {"checkpoint_ns": "", **configurable}})
    return {"values": plain(found.values), "next": sorted(found.next)}


def outcome(graph: Any, configurable: dict[str, str]) -> Any:
    """Return how a resume ends, and the state of the thread afterwards."""
    try:
        graph.invoke(None, {"configurable": configurable})
        said = "done"
    except Exception as error:
        said = f"{type(error).__name__}: {without_ids(str(error))}"
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
