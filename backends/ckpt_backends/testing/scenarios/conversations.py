"""Threads with messages, `update_state`, time travel, functions and durability."""

from __future__ import annotations

from collections.abc import Callable

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage

from ckpt_backends.testing.scenarios import channel_graphs, compat, graphs
from ckpt_backends.testing.scenarios.running import START_ITEMS, ScenarioRun, scenario

# Chat


@scenario("chat", graphs.chat)
def chat(run: ScenarioRun) -> None:
    system = SystemMessage("You answer briefly.", id="system")
    run.invoke({"messages": [system, HumanMessage("Opening hours?", id="human-1")]})
    run.invoke({"messages": [HumanMessage("And on Sunday? 日曜日は?", id="human-2")]})
    run.invoke({"messages": [("user", "Danke 👋")]})


@scenario("chat-edited", graphs.chat)
def chat_edited(run: ScenarioRun) -> None:
    run.invoke({"messages": [HumanMessage("Teh price?", id="human-1")]})
    run.update({"messages": [HumanMessage("The price?", id="human-1")]})
    run.update({"messages": [RemoveMessage(id="ai-1")]})
    run.update({"messages": [AIMessage("It is free.", id="ai-edited")]}, as_node="model")


@scenario("root-list", channel_graphs.root_list)
def root_list(run: ScenarioRun) -> None:
    run.invoke(["in"])
    run.invoke(["again"])


@scenario("root-messages", channel_graphs.root_messages)
def root_messages(run: ScenarioRun) -> None:
    run.invoke([HumanMessage("Hello", id="human-1")])


# update_state and time travel


@scenario("update-fresh", graphs.linear)
def update_fresh(run: ScenarioRun) -> None:
    run.update({"items": ["set by hand"]}, as_node="read")


@scenario("update-mid", graphs.breakpoint_before)
def update_mid(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.update({"items": ["edited"], "note": "checked"}, as_node="read")


@scenario("update-finished", graphs.linear)
def update_finished(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.update({"items": ["edited"]}, as_node="think")


@scenario("update-asking", graphs.ask_alone)
def update_asking(run: ScenarioRun) -> None:
    """update_state answers in the node's place."""
    run.invoke(START_ITEMS)
    run.update({"items": ["decided by hand"]}, as_node="ask")


@scenario("fork-invoke", graphs.linear)
def fork_invoke(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(None, run.at_step(1))


@scenario("fork-update", graphs.linear)
def fork_update(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    fork = run.update({"items": ["other way"]}, at=run.at_step(1))
    run.invoke(None, fork)


@scenario("fork-update-open", graphs.linear)
def fork_update_open(run: ScenarioRun) -> None:
    """Two forks of one checkpoint, neither continued."""
    run.invoke(START_ITEMS)
    target = run.at_step(1)
    run.update({"items": ["second way"]}, at=target)
    run.update({"items": ["third way"]}, at=target)


@scenario("fork-copy", graphs.linear, needs=compat.HAS_COPY)
def fork_copy(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    fork = run.update(None, as_node="__copy__", at=run.at_step(1))
    run.invoke(None, fork)


@scenario("fork-asking", graphs.ask_alone, needs=compat.interrupt)
def fork_asking(run: ScenarioRun) -> None:
    """Answered, then asked again from the same point and answered otherwise."""
    run.invoke(START_ITEMS)
    question = run.state().config
    run.resume("first answer")
    run.invoke(None, question)
    run.resume("other answer")


@scenario("fork-chat", graphs.chat)
def fork_chat(run: ScenarioRun) -> None:
    run.invoke({"messages": [HumanMessage("How far is it?", id="human-1")]})
    edited = HumanMessage("How long does it take?", id="human-1")
    fork = run.update({"messages": [edited]}, at=run.at_step(0))
    run.invoke(None, fork)


@scenario("fork-subgraph", graphs.subgraph)
def fork_subgraph(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(None, run.at_step(1))


# The functional API


@scenario("functional", channel_graphs.functional, needs=compat.entrypoint)
def functional(run: ScenarioRun) -> None:
    run.invoke(3)
    run.invoke(4)


@scenario("functional-asking", channel_graphs.functional_asking, needs=compat.entrypoint)
def functional_asking(run: ScenarioRun) -> None:
    run.invoke("tea")


@scenario("functional-answered", channel_graphs.functional_asking, needs=compat.entrypoint)
def functional_answered(run: ScenarioRun) -> None:
    run.invoke("tea")
    run.resume("approved")


# Durability, sync and async


def durable(mode: str) -> Callable[[ScenarioRun], None]:
    def drive(run: ScenarioRun) -> None:
        run.invoke(START_ITEMS, durability=mode)
        run.invoke({"items": ["second run"]}, durability=mode)

    return drive


for _mode in ("sync", "async", "exit"):
    scenario(
        f"durability-{_mode}",
        graphs.fanout,
        needs=compat.HAS_DURABILITY,
        name=f"durability-{_mode}",
    )(durable(_mode))


@scenario("durability-exit-asking", graphs.subgraph_asking, needs=compat.HAS_DURABILITY)
def durability_exit_asking(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS, durability="exit")


@scenario("durability-exit-error", graphs.failing_parallel, needs=compat.HAS_DURABILITY)
def durability_exit_error(run: ScenarioRun) -> None:
    run.fail(START_ITEMS, durability="exit")


@scenario("async-linear", graphs.linear)
async def async_linear(run: ScenarioRun) -> None:
    await run.graph.ainvoke(START_ITEMS, run.config)


@scenario("async-join", graphs.join)
async def async_join(run: ScenarioRun) -> None:
    await run.graph.ainvoke(START_ITEMS, run.config)


@scenario("async-asking", graphs.subgraph_asking)
async def async_asking(run: ScenarioRun) -> None:
    await run.graph.ainvoke(START_ITEMS, run.config)
