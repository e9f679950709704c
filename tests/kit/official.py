"""What LangGraph reads from a thread."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.testing.filling import quiet, run_scenarios
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios import truth
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


def fill(harness: Harness, only: frozenset[str] | None) -> Source:
    """Run scenarios on an empty store, and read their threads."""
    every = frozenset(SCENARIOS) if only is None else only
    with quiet():
        # Without "sync", LangGraph may change the set of a join before the saver stores it, so
        # that a version of its channel has two values.
        chosen = every - harness.failing_scenarios
        names = run_scenarios(harness, harness.kept_saver, chosen, durability="sync")
    return Source(harness, {name: what_is_read(harness, name) for name in names})


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
