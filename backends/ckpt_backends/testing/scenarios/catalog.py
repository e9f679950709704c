"""All scenarios, in the order in which they are run."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import zoo_types
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage

from ckpt_backends.testing.scenarios import channel_graphs, compat, graphs
from ckpt_backends.testing.scenarios.running import (
    AGAIN,
    SCENARIOS,
    SECOND_RUN,
    SKIPPED,
    START_ITEMS,
    ScenarioRun,
    fork,
    resume,
    scenario,
    travel,
    turns,
    update,
)

__all__ = ["SCENARIOS", "SKIPPED"]

# Control flow

LEFT, BOTH = {"items": ["in"], "note": "left"}, {"items": ["again"], "note": "both"}
SEED = {"total": 5, "facts": {"seed": True}, "labels": {"seed"}, "longest": "seed"}
turns("linear", graphs.linear, START_ITEMS)
turns("loop", graphs.loop, START_ITEMS)
turns("conditional", graphs.conditional, LEFT, BOTH)
turns("fanout-send", graphs.fanout, START_ITEMS)
turns("fanout-join", graphs.join, START_ITEMS, SECOND_RUN)
turns("defer", graphs.defer, START_ITEMS, SECOND_RUN, needs=compat.HAS_DEFER)
turns("quiet-node", graphs.quiet, START_ITEMS)
turns("odd-names", graphs.odd_names, START_ITEMS, AGAIN)
STOPPED = {"interrupt_before": ["x+y z"]}
turns("odd-names-stopped", graphs.odd_names, START_ITEMS, call=STOPPED)
LOW, HIGH = {**SEED, "best": 0, "worst": 9}, {**SEED, "best": 7, "worst": -7}
turns("reducers", channel_graphs.reducers, LOW, HIGH)
turns("command-goto", graphs.goto, START_ITEMS, needs=compat.Command)


@scenario("command-input", graphs.goto, needs=compat.Command)
def command_input(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.invoke(compat.Command(goto="right", update={"items": ["from outside"]}))


turns("cached", graphs.cached, START_ITEMS, {"items": ["hit"]}, needs=compat.HAS_CACHE)

# Breakpoints and questions

turns("breakpoint-before", graphs.breakpoint_before, START_ITEMS)
turns("breakpoint-after", graphs.breakpoint_after, START_ITEMS)
turns("breakpoint-passed", graphs.breakpoint_before, START_ITEMS, None)
turns("interrupt-alone", graphs.ask_alone, START_ITEMS)
turns("interrupt-parallel", graphs.ask_parallel, START_ITEMS)


@scenario("interrupt-one-answered", graphs.ask_parallel, needs=compat.interrupt)
def interrupt_one_answered(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    run.answer_first("yes to A")


ASKS = {"needs": compat.interrupt}
FIRST, BY_ZOE = resume("first answer"), resume({"approved": True, "by": "Zoë"})
turns("interrupt-second", graphs.ask_twice, START_ITEMS, FIRST, **ASKS)
turns("interrupt-answered", graphs.ask_alone, START_ITEMS, BY_ZOE, **ASKS)
TWICE = [START_ITEMS, FIRST, resume("second answer")]
turns("interrupt-twice-answered", graphs.ask_twice, *TWICE, **ASKS)
# A question that was never answered: a new input starts over.
turns("interrupt-abandoned", graphs.ask_alone, START_ITEMS, {"items": ["never mind"]})


@scenario("interrupt-sends", graphs.fanout_asking)
def interrupt_sends(run: ScenarioRun) -> None:
    run.invoke(START_ITEMS)
    if compat.interrupt:
        run.answer_first("yes to one")


turns("interrupt-subgraph", graphs.subgraph_asking, START_ITEMS)
turns("interrupt-nested", graphs.subgraph_nested, START_ITEMS)
CORE = resume("to the core")
turns("interrupt-nested-answered", graphs.subgraph_nested, START_ITEMS, CORE, **ASKS)

# Subgraphs

THREE = [{"items": [turn]} for turn in ("one", "two", "three")]
CHILD = {"child": graphs.child_stopping}
turns("subgraph", graphs.subgraph, START_ITEMS, SECOND_RUN)
turns("breakpoint-subgraph", graphs.subgraph_stopping, START_ITEMS, inner=CHILD)
turns("breakpoint-subgraph-passed", graphs.subgraph_stopping, START_ITEMS, None, inner=CHILD)
turns("subgraph-error", graphs.subgraph_failing, START_ITEMS, fails=True)
for _name, _graph in (
    ("subgraph-stateful", graphs.subgraph_stateful),
    ("subgraph-stateful-node", graphs.subgraph_stateful_node),
):
    turns(_name, _graph, *THREE, needs=compat.HAS_STATEFUL_SUBGRAPH)
turns("subgraph-twice", graphs.subgraph_twice, START_ITEMS)

# Errors

turns("error", graphs.failing, START_ITEMS, fails=True)
turns("error-parallel", graphs.failing_parallel, START_ITEMS, fails=True)


@scenario("error-retried", graphs.failing_once)
def error_retried(run: ScenarioRun) -> None:
    run.fail(START_ITEMS)
    run.invoke(None)


turns("error-handled", graphs.failing_handled, START_ITEMS, needs=compat.HAS_ERROR_HANDLER)

# Chat


@scenario("chat", graphs.chat)
def chat(run: ScenarioRun) -> None:
    system = SystemMessage("You answer briefly.", id="system")
    run.invoke({"messages": [system, HumanMessage("Opening hours?", id="human-1")]})
    run.invoke({"messages": [HumanMessage("And on Sunday? 日曜日は?", id="human-2")]})
    run.invoke({"messages": [("user", "Danke 👋")]})


turns(
    "chat-edited",
    graphs.chat,
    {"messages": [HumanMessage("Teh price?", id="human-1")]},
    update({"messages": [HumanMessage("The price?", id="human-1")]}),
    update({"messages": [RemoveMessage(id="ai-1")]}),
    update({"messages": [AIMessage("It is free.", id="ai-edited")]}, "model"),
)
turns("root-list", channel_graphs.root_list, ["in"], ["again"])
turns("root-messages", channel_graphs.root_messages, [HumanMessage("Hello", id="human-1")])


# update_state and time travel

turns("update-fresh", graphs.linear, update({"items": ["set by hand"]}, "read"))
CHECKED = update({"items": ["edited"], "note": "checked"}, "read")
turns("update-mid", graphs.breakpoint_before, START_ITEMS, CHECKED)
turns("update-finished", graphs.linear, START_ITEMS, update({"items": ["edited"]}, "think"))
# update_state answers in the node's place.
DECIDED = update({"items": ["decided by hand"]}, "ask")
turns("update-asking", graphs.ask_alone, START_ITEMS, DECIDED)
turns("fork-invoke", graphs.linear, START_ITEMS, travel(1))
turns("fork-update", graphs.linear, START_ITEMS, fork(1, {"items": ["other way"]}))


@scenario("fork-update-open", graphs.linear)
def fork_update_open(run: ScenarioRun) -> None:
    """Two forks of one checkpoint, neither continued."""
    run.invoke(START_ITEMS)
    target = run.at_step(1)
    run.update({"items": ["second way"]}, at=target)
    run.update({"items": ["third way"]}, at=target)


COPY = fork(1, None, "__copy__")
turns("fork-copy", graphs.linear, START_ITEMS, COPY, needs=compat.HAS_COPY)


@scenario("fork-asking", graphs.ask_alone, needs=compat.interrupt)
def fork_asking(run: ScenarioRun) -> None:
    """Answered, then asked again from the same point and answered otherwise."""
    run.invoke(START_ITEMS)
    question = run.state().config
    run.resume("first answer")
    run.invoke(None, question)
    run.resume("other answer")


FAR = {"messages": [HumanMessage("How far is it?", id="human-1")]}
LONG = {"messages": [HumanMessage("How long does it take?", id="human-1")]}
turns("fork-chat", graphs.chat, FAR, fork(0, LONG))
turns("fork-subgraph", graphs.subgraph, START_ITEMS, travel(1))

# The functional API

turns("functional", channel_graphs.functional, 3, 4, needs=compat.entrypoint)
turns("functional-asking", channel_graphs.functional_asking, "tea", needs=compat.entrypoint)
TEA = ["tea", resume("approved")]
turns("functional-answered", channel_graphs.functional_asking, *TEA, needs=compat.entrypoint)

# Durability, sync and async

DURABLE = {"needs": compat.HAS_DURABILITY}
for _mode in ("sync", "async", "exit"):
    _call = {"durability": _mode}
    turns(f"durability-{_mode}", graphs.fanout, START_ITEMS, SECOND_RUN, call=_call, **DURABLE)
EXIT = {"durability": "exit"}
turns("durability-exit-asking", graphs.subgraph_asking, START_ITEMS, call=EXIT, **DURABLE)
turns(
    "durability-exit-error", graphs.failing_parallel, START_ITEMS, fails=True, call=EXIT, **DURABLE
)


async def once(run: ScenarioRun) -> None:
    await run.graph.ainvoke(START_ITEMS, run.config)


scenario("async-linear", graphs.linear)(once)
scenario("async-join", graphs.join)(once)
scenario("async-asking", graphs.subgraph_asking)(once)

# DeltaChannels


def both(words: list[str], **more: Any) -> dict[str, Any]:
    """The same input for the delta channels and for the plain ones."""
    messages = [HumanMessage(word, id=f"human-{word}") for word in words]
    return {
        **{"messages": messages, "messages_plain": messages},
        **{"items": words, "items_plain": words},
        **more,
    }


ONE, TWO, THREE, FOUR = (both([turn]) for turn in ("one", "two", "three", "four"))
DELTA = {"needs": compat.DeltaChannel}
turns("delta-often", channel_graphs.delta_often, ONE, TWO, THREE, FOUR, **DELTA)
turns("delta-rarely", channel_graphs.delta_rarely, ONE, TWO, THREE, FOUR, **DELTA)
RESET = both(["two"], reset=True)
turns("delta-reset", channel_graphs.delta_rarely, ONE, RESET, THREE, **DELTA)


REMOVED, REPLACED = (
    update({"messages": messages, "messages_plain": messages}, "close")
    for messages in ([RemoveMessage(id="human-one")], [HumanMessage("TWO", id="human-two")])
)
EDITS = [both(["one", "two"]), REMOVED, REPLACED]
turns("delta-removed", channel_graphs.delta_rarely, *EDITS, **DELTA)
FORKED = [ONE, TWO, travel(1), fork(5, both(["edited"]), "reply")]
turns("delta-fork-often", channel_graphs.delta_often, *FORKED, **DELTA)
turns("delta-fork-rarely", channel_graphs.delta_rarely, *FORKED, **DELTA)
turns("delta-exit", channel_graphs.delta_often, ONE, TWO, THREE, FOUR, call=EXIT, **DELTA)
turns("delta-exit-rarely", channel_graphs.delta_rarely, ONE, TWO, THREE, FOUR, call=EXIT, **DELTA)


@scenario("delta-stopped", channel_graphs.delta_rarely, **DELTA)
def delta_stopped(run: ScenarioRun) -> None:
    run.invoke(ONE)
    run.invoke(TWO, interrupt_before=["close"])


# Metadata and hostile thread ids

USER_RUN: dict[str, Any] = {
    "metadata": {"user_id": "user-17", "plan": "pro", "attempt": 2, "score": 0.5, "beta": True},
    "tags": ["nightly", "eu"],
    "run_name": "support run",
    "configurable": {"tenant": "acme"},
}


turns("with-metadata", graphs.linear, START_ITEMS, config=USER_RUN)
turns("with-metadata-subgraph", graphs.subgraph, START_ITEMS, config=USER_RUN)
HOSTILE_IDS = [
    *("alice@example.com", 'o\'brien "x"', "two\nlines", "100%", "-dash", "*?[", "会话-四十二"),
    *("linear@head", "__\x1b[31mred\t<b>[bold]", "rtl \u202eevil\u202c", " padded ", "4711"),
]
for _id in HOSTILE_IDS:
    turns(_id, graphs.linear, {"items": [f"in {_id}"]}, name="hostile-id")


# The types zoo


def keep_each(values: list[Any]) -> Callable[[ScenarioRun], None]:
    def drive(run: ScenarioRun) -> None:
        for value in values:
            run.invoke({"value": value})

    return drive


def zoo(thread_id: str, *values: Any, needs: Any = True) -> None:
    scenario(thread_id, channel_graphs.holder, needs=needs)(keep_each(list(values)))


def aware(hours: float) -> timezone:
    return timezone(timedelta(hours=hours))


Unserializable = zoo_types.Unserializable
"""A class that no serializer of LangGraph can store but by pickle."""
ORDER = zoo_types.Order(
    number=7, items=[zoo_types.Item(sku="A-1", price=19.5, color=zoo_types.Color.BLUE)]
)
CUSTOMER = zoo_types.Customer("Ana", zoo_types.Address("Rúa 1", "Vigo"), ["vip", "eu"])

zoo("zoo-pydantic", ORDER, {"nested": [ORDER, {"deeper": ORDER}]})
zoo("zoo-dataclass", CUSTOMER, [CUSTOMER, None])
zoo("zoo-enum", zoo_types.Color.RED, {"level": zoo_types.Level.HIGH})
zoo("zoo-namedtuple", zoo_types.Point(1, -2))
zoo(
    "zoo-times",
    datetime(2026, 4, 7, 10, 30, 15, 123456),
    datetime(2026, 4, 7, 10, 30, tzinfo=UTC),
    [datetime(2026, 4, 7, 10, 30, tzinfo=aware(5.5)), date(2026, 2, 28)],
    [timedelta(days=-1, seconds=5, microseconds=7), aware(-3)],
)
zoo("zoo-time", time(23, 59, 58, 7), time(1, 2, tzinfo=UTC))
zoo("zoo-uuid-decimal", UUID(int=2**100 + 7), Decimal("12.340"), Decimal("-0E+3"))
zoo("zoo-sets", {"b", "a", "c"}, frozenset({3, 1, 2}), deque([1, "two", None], maxlen=5), set())
zoo(
    "zoo-path-regex",
    Path("/var/log/a b.txt"),
    Path("relative/x"),
    re.compile(r"^a+\s", re.IGNORECASE | re.MULTILINE),
    ip_address("192.0.2.1"),
)
zoo("zoo-bytes", b"\x00\xff raw", bytearray(b"mutable\x00"), {"blob": b"", "list": [b"x"]})
zoo("zoo-floats", math.nan, [math.inf, -math.inf], {"zero": -0.0, "one": 1.0, "tiny": 5e-324})
zoo("zoo-ints", 2**60, [-(2**63), 2**64 - 1, 2**53, 2**53 + 1], 0, True)
zoo(
    "zoo-text", "你好，世界 🌏👩‍👩‍👧", "", "tab\tnewline\nnul\x00 esc\x1b[31m", None, "e\u0301 vs é"
)
zoo(
    "zoo-dollar",
    {"$type": "not.a.Type", "$$x": 1, "plain": {"$bytes": "aGk="}},
    {"lc": 3, "type": "constructor"},
)
zoo("zoo-nested", {"a": [{"b": [{"c": [[], {}, [None]]}]}], "": "empty key"}, [], {})
zoo("zoo-keys", {1: "one", 2: {"x": (1, 2)}}, {True: "yes", None: "none"}, needs=compat.NON_STR)
zoo("zoo-large", "long text " * 300, list(range(200)))


def arrays() -> list[Any]:
    import numpy

    return [
        numpy.array([1, 2, 3], dtype="int64"),
        numpy.array([0.5, numpy.nan, numpy.inf], dtype="float32"),
        numpy.arange(6, dtype="float64").reshape(2, 3),
        numpy.asfortranarray(numpy.arange(6, dtype="int32").reshape(2, 3)),
        {"mask": numpy.array([True, False, True])},
    ]


if compat.HAS_NUMPY:
    zoo("zoo-numpy", *arrays())
else:
    SKIPPED["zoo-numpy"] = "zoo-numpy"
