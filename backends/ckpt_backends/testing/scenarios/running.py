"""A scenario: a graph, and the calls that are made on one thread of it.

A scenario is skipped with a LangGraph whose library cannot do it (`needs`).
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ckpt_backends.testing.scenarios import compat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

START_ITEMS = {"items": ["in"]}
AGAIN = {"items": ["again"]}
SECOND_RUN = {"items": ["second run"]}


@dataclass
class ScenarioRun:
    """One thread of one graph, with the calls that a scenario makes."""

    graph: Any
    config: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    """What every call is given, unless it says otherwise."""

    def invoke(self, value: Any, config: dict[str, Any] | None = None, **options: Any) -> Any:
        return self.graph.invoke(value, config or self.config, **{**self.options, **options})

    def fail(self, value: Any, **options: Any) -> None:
        """A call that must end in the node's own exception."""
        try:
            self.invoke(value, **options)
        except Exception:
            return
        raise AssertionError(f"{self.config} should have failed")

    def resume(self, answer: Any) -> Any:
        return self.invoke(compat.Command(resume=answer))

    def update(self, values: Any, as_node: str | None = None, at: Any = None) -> dict[str, Any]:
        return self.graph.update_state(at or self.config, values, as_node=as_node)

    def state(self) -> Any:
        return self.graph.get_state(self.config)

    def at_step(self, step: int) -> dict[str, Any]:
        """The config of the newest checkpoint with that step."""
        history = self.graph.get_state_history(self.config)
        return next(s.config for s in history if s.metadata["step"] == step)

    def answer_first(self, answer: Any) -> None:
        """Answer one of several waiting questions: the first by node name."""
        waiting = [t for t in sorted(self.state().tasks, key=task_order) if t.interrupts]
        first = waiting[0].interrupts[0]
        identity = getattr(first, "id", None) or waiting[0].id
        self.invoke(compat.Command(resume={identity: answer}))


def task_order(task: Any) -> tuple[str, str]:
    return task.name, str(task.path)


@dataclass(frozen=True)
class Scenario:
    thread_id: str
    name: str
    build: Callable[[Any], Any]
    drive: Callable[[ScenarioRun], Any]
    config: dict[str, Any] = field(default_factory=dict)
    inner: dict[str, Callable[[Any], Any]] = field(default_factory=dict)  # by node

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.drive)

    def thread_config(self) -> dict[str, Any]:
        extra = self.config.get("configurable", {})
        return {**self.config, "configurable": {"thread_id": self.thread_id, **extra}}


SCENARIOS: dict[str, Scenario] = {}
SKIPPED: dict[str, str] = {}


def scenario(
    thread_id: str,
    build: Callable[[Any], Any],
    *,
    needs: Any = True,
    name: str | None = None,
    config: dict[str, Any] | None = None,
    inner: dict[str, Callable[[Any], Any]] | None = None,
) -> Callable[[Callable[[ScenarioRun], Any]], Callable[[ScenarioRun], Any]]:
    def register(drive: Callable[[ScenarioRun], Any]) -> Callable[[ScenarioRun], Any]:
        label = name or thread_id
        if needs:
            SCENARIOS[thread_id] = Scenario(
                thread_id, label, build, drive, config or {}, inner or {}
            )
        else:
            SKIPPED[thread_id] = label
        return drive

    return register


# What a run may do in place of a call with an input.


def resume(answer: Any) -> Callable[[ScenarioRun], Any]:
    return lambda run: run.resume(answer)


def update(values: Any, as_node: str | None = None) -> Callable[[ScenarioRun], Any]:
    return lambda run: run.update(values, as_node)


def travel(step: int) -> Callable[[ScenarioRun], Any]:
    """Go on from the newest checkpoint with that step."""
    return lambda run: run.invoke(None, run.at_step(step))


def fork(step: int, values: Any, as_node: str | None = None) -> Callable[[ScenarioRun], Any]:
    """Change the newest checkpoint with that step, and go on from there."""
    return lambda run: run.invoke(None, run.update(values, as_node, run.at_step(step)))


def turns(
    thread_id: str,
    build: Callable[[Any], Any],
    *inputs: Any,
    fails: bool = False,
    call: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> None:
    """Add a scenario of one call for each input, with the arguments `call`; it may have to fail."""

    def drive(run: ScenarioRun) -> None:
        for one in inputs:
            if callable(one):
                one(run)
            else:
                (run.fail if fails else run.invoke)(one, **call)

    scenario(thread_id, build, **options)(drive)
