"""Threads of plain graphs: control flow, questions, subgraphs, errors."""

from __future__ import annotations

from ckpt_backends.testing.scenarios import channel_graphs, compat, graphs
from ckpt_backends.testing.scenarios.running import START_ITEMS, ScenarioRun, scenario

# Control flow


@scenario("linear", graphs.linear)
def linear(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("loop", graphs.loop)
def loop(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("conditional", graphs.conditional)
def conditional(run: ScenarioRun) -> None:
    run.invoke({"items": ["in"], "note": "left"})
    run.invoke({"items": ["again"], "note": "both"})


@scenario("fanout-send", graphs.fanout)
def fanout_send(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("fanout-join", graphs.join)
def fanout_join(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke({"items": ["second run"]})


@scenario("defer", graphs.defer, needs=compat.HAS_DEFER)
def defer(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke({"items": ["second run"]})


@scenario("quiet-node", graphs.quiet)
def quiet_node(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("odd-names", graphs.odd_names)
def odd_names(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke({"items": ["again"]})


@scenario("odd-names-stopped", graphs.odd_names)
def odd_names_stopped(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS, interrupt_before=["x+y z"])


@scenario("reducers", channel_graphs.reducers)
def reducers(run: ScenarioRun) -> None:
    seed = {"total": 5, "facts": {"seed": True}, "labels": {"seed"}, "longest": "seed"}
    run.invoke({**seed, "best": 0, "worst": 9})
    run.invoke({**seed, "best": 7, "worst": -7})


@scenario("command-goto", graphs.goto, needs=compat.Command)
def command_goto(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("command-input", graphs.goto, needs=compat.Command)
def command_input(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(compat.Command(goto="right", update={"items": ["from outside"]}))


@scenario("cached", graphs.cached, needs=compat.HAS_CACHE)
def cached(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke({"items": ["hit"]})


# Breakpoints and questions


@scenario("breakpoint-before", graphs.breakpoint_before)
def breakpoint_before(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("breakpoint-after", graphs.breakpoint_after)
def breakpoint_after(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("breakpoint-passed", graphs.breakpoint_before)
def breakpoint_passed(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(None)


@scenario("interrupt-alone", graphs.ask_alone)
def interrupt_alone(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("interrupt-parallel", graphs.ask_parallel)
def interrupt_parallel(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("interrupt-one-answered", graphs.ask_parallel, needs=compat.interrupt)
def interrupt_one_answered(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.answer_first("yes to A")


@scenario("interrupt-second", graphs.ask_twice, needs=compat.interrupt)
def interrupt_second(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.resume("first answer")


@scenario("interrupt-answered", graphs.ask_alone, needs=compat.interrupt)
def interrupt_answered(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.resume({"approved": True, "by": "Zoë"})


@scenario("interrupt-twice-answered", graphs.ask_twice, needs=compat.interrupt)
def interrupt_twice_answered(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.resume("first answer")
    run.resume("second answer")


@scenario("interrupt-abandoned", graphs.ask_alone)
def interrupt_abandoned(run: ScenarioRun) -> None:
    """A question that was never answered: a new input starts over."""
    run.invoke(START_ITEMS)
    run.invoke({"items": ["never mind"]})


@scenario("interrupt-sends", graphs.fanout_asking)
def interrupt_sends(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    if compat.interrupt:
        run.answer_first("yes to one")


@scenario("interrupt-subgraph", graphs.subgraph_asking)
def interrupt_subgraph(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("interrupt-nested", graphs.subgraph_nested)
def interrupt_nested(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario("interrupt-nested-answered", graphs.subgraph_nested, needs=compat.interrupt)
def interrupt_nested_answered(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.resume("to the core")


# Subgraphs


@scenario("subgraph", graphs.subgraph)
def subgraph(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke({"items": ["second run"]})


@scenario("breakpoint-subgraph", graphs.subgraph_stopping, inner={"child": graphs.child_stopping})
def breakpoint_subgraph(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


@scenario(
    "breakpoint-subgraph-passed", graphs.subgraph_stopping, inner={"child": graphs.child_stopping}
)
def breakpoint_subgraph_passed(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(None)


@scenario("subgraph-error", graphs.subgraph_failing)
def subgraph_error(run: ScenarioRun) -> None:
    run.fail(START_ITEMS)


@scenario("subgraph-stateful", graphs.subgraph_stateful, needs=compat.HAS_STATEFUL_SUBGRAPH)
def subgraph_stateful(run: ScenarioRun) -> None:
    for turn in ("one", "two", "three"):
        run.invoke({"items": [turn]})


@scenario(
    "subgraph-stateful-node", graphs.subgraph_stateful_node, needs=compat.HAS_STATEFUL_SUBGRAPH
)
def subgraph_stateful_node(run: ScenarioRun) -> None:
    for turn in ("one", "two", "three"):
        run.invoke({"items": [turn]})


@scenario("subgraph-twice", graphs.subgraph_twice)
def subgraph_twice(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)


# Errors


@scenario("error", graphs.failing)
def error(run: ScenarioRun) -> None:
    run.fail(START_ITEMS)


@scenario("error-parallel", graphs.failing_parallel)
def error_parallel(run: ScenarioRun) -> None:
    run.fail(START_ITEMS)


@scenario("error-retried", graphs.failing_once)
def error_retried(run: ScenarioRun) -> None:
    run.fail(START_ITEMS)
    run.invoke(None)


@scenario("error-handled", graphs.failing_handled, needs=compat.HAS_ERROR_HANDLER)
def error_handled(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
