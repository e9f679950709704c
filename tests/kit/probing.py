"""Threads that stop, and what the official library makes of them in another graph."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from langgraph.types import Command

from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.core.compat import GraphFile, read_graphs
from ckpt_cli.data import probe
from ckpt_cli.queries.compat import JudgedThread, judged_threads
from tests.kit.agents.small import running

CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 40}


def document_of(graph: Any) -> dict[str, Any]:
    """What the probe says of a graph."""
    program: Any = probe
    told = program.Description()
    number = told.graph(graph.compile() if hasattr(graph, "compile") else graph)
    document = {"ckpt_graph": program.FORMAT, "graphs": {"graph": number}}
    document |= {"parts": told.parts, "schemas": told.schemas, "classes": told.classes}
    document["fingerprints"] = {"graph": told.fingerprint(number)}
    return document


def described(graph: Any) -> GraphFile:
    """The same, as `ckpt` reads it."""
    return read_graphs(json.dumps(document_of(graph)).encode(), "graph.json")


def stopped(path: Path, graph: Any, given: Any, answers: Sequence[str] = ()) -> Path:
    """Run a thread until it stops, and answer its first questions."""
    with running(path, graph) as agent, suppress(ValueError):
        agent.invoke(given, CONFIG, durability="sync")
        for one in answers:
            agent.invoke(Command(resume=one), CONFIG, durability="sync")
    return path


def resumed(path: Path, graph: Any) -> dict[str, Any]:
    """The state in which the official library ends a copy of a thread, with every answer `yes`."""
    copy = path.with_name("resumed.db")
    shutil.copyfile(path, copy)
    with running(copy, graph) as agent:
        return finished(agent)


def finished(agent: Any) -> dict[str, Any]:
    """Run a thread to its end, with every answer `yes`, and return its state."""
    for _ in range(8):
        state = agent.get_state(CONFIG)
        asked = [one for task in state.tasks if not task.result for one in task.interrupts]
        if asked:
            agent.invoke(Command(resume={one.id: "yes" for one in asked}), CONFIG)
        elif state.next:
            agent.invoke(None, CONFIG)
        else:
            break
    found: dict[str, Any] = agent.get_state(CONFIG).values
    return found


def judged(path: Path, new: Any, old: Any = None) -> JudgedThread:
    """What `ckpt` says of the thread in another graph."""
    before = None if old is None else described(old)
    with open_store(parse_url(str(path))) as store:
        (found,) = judged_threads(store, store.threads(), described(new), before)
    return found


def written(path: Path, graph: Any) -> Path:
    path.write_text(json.dumps(document_of(graph)))
    return path


def told_of(
    tried: Callable[[Random, Path], tuple[bool, str, object] | None],
    rounds: Iterable[Random],
    folder: Path,
) -> Counter[tuple[bool, str]]:
    """Count verdicts on random threads by whether these are harmed; fail if harm is called ok."""
    seen: Counter[tuple[bool, str]] = Counter()
    for number, dice in enumerate(rounds):
        found = tried(dice, folder / str(number))
        if found is not None:
            harmed, verdict, told = found
            assert not (harmed and verdict == "ok"), told
            seen[harmed, verdict] += 1
    return seen
