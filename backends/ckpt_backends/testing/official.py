"""What LangGraph's own library reads from a thread: the truth that `ckpt` is compared with."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios import building, truth
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun

_SETTLE = building.settle
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")


class RecordingRun(ScenarioRun):
    """A run that remembers its first input."""

    def invoke(self, value: Any, config: Any = None, **options: Any) -> Any:
        if isinstance(value, dict | list) and not hasattr(self, "first_input"):
            self.first_input = value
        return super().invoke(value, config, **options)


@dataclass(frozen=True)
class ScenarioThread:
    """A thread as a scenario left it, and how to continue it."""

    thread_id: str
    build: Callable[[Any], Any]
    first_input: Any = None
    config: dict[str, Any] = field(default_factory=dict)

    def graph(self, saver: Any) -> Any:
        return self.build(saver)


def drive(saver: Any, scenario: Any) -> ScenarioThread:
    """Run a scenario on a store."""
    vars(building)["settle"] = _SETTLE
    # In the background, LangGraph may save a join as the next step has filled it. Then `get_state`
    # names its node as next, and a resume does not run it.
    run = RecordingRun(scenario.build(saver), scenario.thread_config(), {"durability": "sync"})
    scenario.drive(run)
    # Two writers meet only while a store is being filled.
    vars(building)["settle"] = lambda: None
    return ScenarioThread(scenario.thread_id, scenario.build, getattr(run, "first_input", None))


@dataclass(frozen=True)
class ScenarioStore:
    """A store in which each scenario is run when its thread is first requested."""

    harness: Harness
    known: dict[str, ScenarioThread] = field(default_factory=dict)

    @property
    def saver(self) -> Any:
        return self.harness.kept_saver

    def thread(self, name: str) -> ScenarioThread:
        if name not in self.known:
            # If a saver could not store the whole thread, the stored part is tested.
            with suppress(*([Exception] if name in self.harness.failing_scenarios else [])):
                self.known[name] = drive(self.saver, SCENARIOS[name])
        return self.known[name]

    def ids(self, name: str) -> list[str]:
        """Return the checkpoints of a thread's root namespace, newest first."""
        self.thread(name)
        return stored_ids(self.saver, name)


def config_of(thread_id: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    found = {"thread_id": thread_id, "checkpoint_ns": ""}
    if checkpoint_id is not None:
        found["checkpoint_id"] = checkpoint_id
    return {"configurable": found}


def stored_ids(saver: Any, thread_id: str, checkpoint_ns: str = "") -> list[str]:
    """Return the checkpoints of a namespace, newest first."""
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}}
    return [row.config["configurable"]["checkpoint_id"] for row in saver.list(config)]


def state(graph: Any, config: dict[str, Any]) -> Any:
    """Return values and next nodes of a checkpoint, by its config."""
    found = graph.get_state(config)
    return {"values": plain(found.values), "next": sorted(found.next)}


def outcome(graph: Any, given: Any, config: dict[str, Any]) -> Any:
    """Return the result of a call: its answer, or the error that it raises."""
    try:
        found = plain(graph.invoke(given, config, durability="sync"))
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {without_ids(str(error))}"}
    if isinstance(found, dict) and "__interrupt__" in found:
        # Questions of parallel tasks come in the order in which they were raised.
        asked = [json.dumps(one["value"]) for one in found["__interrupt__"]]
        found = {**found, "__interrupt__": sorted(asked)}
    return found


def ending(graph: Any, thread_id: str) -> Any:
    """Return the state of a thread's head: values, next nodes, and the errors and questions of
    tasks.
    """
    found = graph.get_state(config_of(thread_id), subgraphs=True)

    def told(task: Any) -> list[Any]:
        asked = [plain(one.value) for one in task.interrupts]
        return [task.name, without_ids(str(task.error)), *asked]

    return {
        "values": plain(found.values),
        "next": sorted(found.next),
        "tasks": sorted(json.dumps(told(task)) for task in found.tasks),
    }


def memory(saver: Any, thread_id: str) -> Any:
    """Return the newest values of subgraphs with their own memory."""
    config = {"configurable": {"thread_id": thread_id}}
    namespaces = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(config)}
    found = {}
    for namespace in sorted(namespaces):
        if namespace and ":" not in namespace:
            at = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}
            values = saver.get_tuple(at).checkpoint["channel_values"]
            found[namespace] = plain({k: v for k, v in values.items() if ":" not in k})
    return found


def plain(value: Any) -> Any:
    """Return a value in JSON, in which generated ids are replaced by numbers in order of
    appearance.
    """
    return json.loads(without_ids(json.dumps(truth.encode(value), sort_keys=True)))


def without_ids(text: str) -> str:
    seen: dict[str, str] = {}
    return _UUID.sub(lambda match: seen.setdefault(match[0], f"<id {len(seen)}>"), text)
