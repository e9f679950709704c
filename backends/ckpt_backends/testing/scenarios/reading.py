"""What the installed LangGraph reads from one thread, in the form of `truth.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_backends.testing.scenarios import compat, truth

if TYPE_CHECKING:
    from ckpt_backends.testing.scenarios.running import Scenario


def history(graph: Any, scenario: Scenario, namespace: str) -> Any:
    config = {"configurable": {"thread_id": scenario.thread_id, "checkpoint_ns": namespace}}
    try:
        return [truth.encode_snapshot(s) for s in graph.get_state_history(config)]
    except Exception as error:
        return {"error": repr(error)}


def read_truth(graph: Any, scenario: Scenario, names: list[str]) -> dict[str, Any]:
    """What the era's own library says of one thread."""
    found: dict[str, Any] = {"scenario": scenario.name, "waiting": None}
    try:
        found["waiting_own"] = waiting(graph, scenario)
    except Exception as error:
        found.update({"waiting_own": None, "waiting_own_error": repr(error)})
    found["history"] = {
        name: history(reader(graph, scenario, name), scenario, name) for name in names
    }
    return found


def reader(graph: Any, scenario: Scenario, namespace: str) -> Any:
    """The graph to read a namespace with: 0.2.14 does not look for the subgraph itself."""
    if not namespace or compat.FINDS_SUBGRAPHS:
        return graph
    node = namespace.split("|")[-1].split(":")[0]
    return scenario.inner[node](graph.checkpointer)


def waiting(graph: Any, scenario: Scenario) -> list[str]:
    config = {"configurable": {"thread_id": scenario.thread_id}}
    return sorted(graph.get_state(config).next)
