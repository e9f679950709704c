"""Threads with a past that nobody wrote down: random calls, and `ckpt` between them."""

import random
from contextlib import suppress
from typing import Any

from langgraph.types import Command

from ckpt_backends.testing.official import ScenarioStore, ScenarioThread, config_of, stored_ids
from ckpt_backends.testing.scenarios import catalog, channel_graphs, graphs
from tests.kit.command import ckpt


def words(text: str) -> dict[str, Any]:
    return {"items": [text]}


def both(text: str) -> dict[str, Any]:
    return catalog.both([text])


GRAPHS: dict[str, tuple[Any, Any]] = {
    "fanout": (graphs.fanout, words),
    "fanout_asking": (graphs.fanout_asking, words),
    "join": (graphs.join, words),
    "ask_twice": (graphs.ask_twice, words),
    "subgraph_nested": (graphs.subgraph_nested, words),
    "goto": (graphs.goto, words),
    "delta_often": (channel_graphs.delta_often, both),
    "delta_rarely": (channel_graphs.delta_rarely, both),
}


GENERATED = [("fanout_asking", 1), ("delta_rarely", 1)]
"""A graph and a seed that are always tried. A night tries others."""


def other(filled: ScenarioStore, dice: random.Random) -> ScenarioThread:
    return generate(filled, dice.choice([*GRAPHS]), dice.getrandbits(32))


def generate(filled: ScenarioStore, name: str, seed: int) -> ScenarioThread:
    """A thread of random turns, answers, updates, time travels and rollbacks."""
    build, make = GRAPHS[name]
    dice, thread_id = random.Random(f"{name} {seed}"), f"generated {name} {seed}"
    graph, saver = build(filled.saver), filled.saver
    here = config_of(thread_id)
    graph.invoke(make("first"), here, durability=dice.choice(["sync", "exit"]))
    for turn in range(4):
        there = config_of(thread_id, dice.choice(stored_ids(saver, thread_id)))
        action = dice.choice(["turn", "answer", "update", "travel", "rollback", "go on"])
        # Some of these calls are wrong for where the thread stands, as people's are.
        with suppress(Exception):
            if action == "turn":
                graph.invoke(make(f"turn {turn}"), here, durability=dice.choice(["sync", "exit"]))
            elif action == "answer":
                given = {one.id: f"answer {turn}" for one in graph.get_state(here).interrupts[:1]}
                graph.invoke(Command(resume=given, update=make(f"with {turn}")), here)
            elif action == "update":
                graph.update_state(dice.choice([here, there]), make(f"update {turn}"))
            elif action == "travel":
                graph.invoke(None, there, durability="sync")
            elif action == "rollback":
                target = there["configurable"]["checkpoint_id"]
                ckpt("-s", filled.harness.url, "rollback", thread_id, target, "--yes")
            else:
                graph.invoke(None, here, durability="sync")
    return ScenarioThread(thread_id, build, make("further"))
