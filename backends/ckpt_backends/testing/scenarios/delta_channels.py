"""Threads of graphs with DeltaChannels."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage, RemoveMessage

from ckpt_backends.testing.scenarios import channel_graphs, compat
from ckpt_backends.testing.scenarios.running import ScenarioRun, scenario

# DeltaChannel


def both(words: list[str], **more: Any) -> dict[str, Any]:
    """The same input for the delta channels and for the plain ones."""
    messages = [HumanMessage(word, id=f"human-{word}") for word in words]
    return {
        **{"messages": messages, "messages_plain": messages},
        **{"items": words, "items_plain": words},
        **more,
    }


def delta_turns(run: ScenarioRun, **options: Any) -> None:
    for turn in ("one", "two", "three", "four"):
        run.invoke(both([turn]), **options)


@scenario("delta-often", channel_graphs.delta_often, needs=compat.DeltaChannel)
def delta_often(run: ScenarioRun) -> None:
    delta_turns(run)


@scenario("delta-rarely", channel_graphs.delta_rarely, needs=compat.DeltaChannel)
def delta_rarely(run: ScenarioRun) -> None:
    delta_turns(run)


@scenario("delta-reset", channel_graphs.delta_rarely, needs=compat.DeltaChannel)
def delta_reset(run: ScenarioRun) -> None:
    run.invoke(both(["one"]))
    run.invoke(both(["two"], reset=True))
    run.invoke(both(["three"]))


@scenario("delta-removed", channel_graphs.delta_rarely, needs=compat.DeltaChannel)
def delta_removed(run: ScenarioRun) -> None:
    run.invoke(both(["one", "two"]))
    removed = [RemoveMessage(id="human-one")]
    replaced = [HumanMessage("TWO", id="human-two")]
    run.update({"messages": removed, "messages_plain": removed}, as_node="close")
    run.update({"messages": replaced, "messages_plain": replaced}, as_node="close")


def delta_fork(run: ScenarioRun) -> None:
    run.invoke(both(["one"]))
    run.invoke(both(["two"]))
    run.invoke(None, run.at_step(1))
    fork = run.update(both(["edited"]), as_node="reply", at=run.at_step(5))
    run.invoke(None, fork)


for _name, _graph in (
    ("often", channel_graphs.delta_often),
    ("rarely", channel_graphs.delta_rarely),
):
    scenario(f"delta-fork-{_name}", _graph, needs=compat.DeltaChannel, name=f"delta-fork-{_name}")(
        delta_fork
    )


@scenario("delta-exit", channel_graphs.delta_often, needs=compat.DeltaChannel)
def delta_exit(run: ScenarioRun) -> None:
    delta_turns(run, durability="exit")


@scenario("delta-exit-rarely", channel_graphs.delta_rarely, needs=compat.DeltaChannel)
def delta_exit_rarely(run: ScenarioRun) -> None:
    delta_turns(run, durability="exit")


@scenario("delta-stopped", channel_graphs.delta_rarely, needs=compat.DeltaChannel)
def delta_stopped(run: ScenarioRun) -> None:
    run.invoke(both(["one"]))
    run.invoke(both(["two"]), interrupt_before=["close"])
