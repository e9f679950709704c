"""What LangGraph reads from a thread, and what becomes of it when it goes on."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langgraph.types import Command

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.official import RecordingRun, config_of, ending, memory, outcome
from ckpt_backends.testing.scenarios import building, truth
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.reading import read_truth

TELLING = frozenset(
    {"chat", "interrupt-nested", "interrupt-parallel", "fanout-send", "subgraph"}
    | {"subgraph-stateful", "delta-rarely", "delta-often", "error-parallel", "fork-update"}
    | {"functional-asking", "with-metadata", "two\nlines", "100%", 'o\'brien "x"'}
    | {"zoo-pydantic", "zoo-sets", "zoo-nested"}
)
"""Scenarios with all that can go wrong on the way: messages, waiting questions, parallel writes,
subgraphs with and without memory, DeltaChannels, forks, odd ids, and types of their own."""
MOST_TELLING = frozenset(
    {"chat", "interrupt-nested", "fanout-send", "subgraph-stateful", "delta-often"}
    | {"error-parallel", "two\nlines", "zoo-pydantic", "zoo-sets"}
)
"""Those of them that are run on each engine."""
PLAIN = frozenset(name for name in SCENARIOS if name.startswith("zoo-"))
"""Threads that differ only in what is stored, not in what runs."""


@dataclass(frozen=True)
class Source:
    """A store that its official saver filled, and what the library makes of it."""

    harness: Harness
    read: Mapping[str, Any]
    """What the library reads from each thread."""
    inputs: Mapping[str, Any]
    """The first input of each thread."""
    resumed: Mapping[str, Any]
    """What becomes of each thread when it goes on."""


def fill(harness: Harness, only: frozenset[str] | None) -> Source:
    """Run scenarios on an empty store, and read their threads."""
    names = [
        name
        for name, one in SCENARIOS.items()
        if not one.is_async
        and name not in harness.skipped_scenarios | harness.failing_scenarios
        and (only is None or name in only)
    ]
    inputs: dict[str, Any] = {}
    with quiet():
        for name in names:
            inputs[name] = _run(harness, name, name)
    read = {name: what_is_read(harness, name) for name in names}
    resumed = {name: _resumed_twin(harness, name, inputs[name]) for name in names}
    return Source(harness, read, inputs, resumed)


def _run(harness: Harness, name: str, thread_id: str) -> Any:
    """Run a scenario on a thread. Return its first input."""
    one = SCENARIOS[name]
    config = one.thread_config()
    config["configurable"] = {**config["configurable"], "thread_id": thread_id}
    # Without "sync", LangGraph may change the set of a join before the saver stores it, so that a
    # version of its channel has two values.
    options = {"durability": "sync", **harness.run_options}
    run = RecordingRun(one.build(harness.kept_saver), config, options)
    one.drive(run)
    return getattr(run, "first_input", None)


def what_is_read(harness: Harness, name: str) -> Any:
    """Read a thread by the official library: its history, its head, and its pending writes."""
    scenario = SCENARIOS[name]
    with quiet():
        saver = harness.corrected_saver(harness.kept_saver)
        rows = list(saver.list({"configurable": {"thread_id": name}}))
        namespaces = sorted({one.config["configurable"]["checkpoint_ns"] for one in rows})
        graph = scenario.build(saver)
        found = read_truth(graph, scenario, namespaces)
        state = graph.get_state({"configurable": {"thread_id": name}}, subgraphs=True)
        found["head"] = {
            **truth.encode_snapshot(state),
            "asked": [truth.encode_interrupt(one) for one in state.interrupts],
        }
        found["stored"] = {
            _place(one): {
                "parent": _place(one.parent_config) if one.parent_config else None,
                "metadata": truth.encode(one.metadata),
                "versions": truth.encode(one.checkpoint["channel_versions"]),
                "seen": truth.encode(one.checkpoint["versions_seen"]),
                "ts": one.checkpoint["ts"],
                "writes": sorted(
                    json.dumps(truth.encode(list(write)), sort_keys=True)
                    for write in one.pending_writes or ()
                ),
            }
            for one in rows
        }
    return json.loads(json.dumps(found, sort_keys=True))


def _place(one: Any) -> str:
    names = (one if isinstance(one, dict) else one.config)["configurable"]
    return f"{names['checkpoint_ns']} {names['checkpoint_id']}"


def what_follows(harness: Harness, name: str, thread_id: str, first_input: Any) -> Any:
    """Answer the questions of a thread, or let it go on, and start another turn."""
    settle, building.settle = building.settle, lambda: None
    try:
        with quiet():
            saver = harness.corrected_saver(harness.kept_saver)
            graph = SCENARIOS[name].build(saver)
            config = config_of(thread_id)
            waiting = graph.get_state(config).interrupts
            answers = {one.id: f"answer to {one.value}" for one in waiting}
            given: Any = Command(resume=answers) if answers else None
            found = [outcome(graph, given, config), ending(graph, thread_id)]
            if first_input is not None and name not in PLAIN:
                found += [outcome(graph, first_input, config), ending(graph, thread_id)]
            return [*found, memory(saver, thread_id)]
    finally:
        building.settle = settle


def _resumed_twin(harness: Harness, name: str, first_input: Any) -> Any:
    """Let another thread go on that is the same, and remove it."""
    twin = f"resumed-{name}"
    # Some copies lose the paths of tasks, which order the writes of a DeltaChannel.
    if harness.has_history and not name.startswith("delta"):
        harness.copy(name, twin)
    else:
        with quiet():
            _run(harness, name, twin)
    try:
        found = json.dumps(what_follows(harness, name, twin, first_input))
        # Some inputs contain the id of their thread.
        return json.loads(found.replace(json.dumps(twin)[1:-1], json.dumps(name)[1:-1]))
    finally:
        harness.forget(twin)


_VERSION = re.compile(r'"(\d{32})\.\d[\d.]*(?:e-\d+)?"')
"""A version of a channel that a saver counts as a text."""


def difference(ours: Any, theirs: Any, where: str, *, exact: bool = False) -> str:
    """Return where two values differ first; unless `exact`, versions are numbers."""
    one, other = (json.dumps(value, sort_keys=True, default=repr) for value in (ours, theirs))
    if not exact:
        one, other = (_VERSION.sub(lambda found: str(int(found[1])), text) for text in (one, other))
    if one == other:
        return ""
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start, end = max(at - 200, 0), at + 300
    return f"{where}: {one[start:end]} is not {other[start:end]}"
