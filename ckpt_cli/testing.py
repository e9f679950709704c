"""Run what a thread recorded again, as a test (`docs/tests.md`).

`ckpt export THREAD --as pytest` writes a test file, and a JSON file beside it with what the thread
recorded. The test file needs the application's graph, LangGraph, and this module alone: it imports
nothing else of `ckpt`, opens no store and uses no network.

    from ckpt_cli.testing import ThreadRecording

    RECORDING = ThreadRecording(__file__, graph="app.graph:build")


    def test_agent_step_1() -> None:
        ran = RECORDING.node("agent, step 1")
        assert ran.writes == ran.recorded.writes
        assert ran.next == ["tools"]

While a test runs, LangChain's chat models and tools answer what they answered then, whichever
objects the graph holds.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import decimal
import enum
import importlib
import importlib.util
import inspect
import ipaddress
import json
import math
import os
import pathlib
import re
import socket
import sys
import typing
import unittest
import uuid
import zoneinfo
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel import NodeBuilder, Pregel
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send

__all__ = ["NotRecorded", "Ran", "RanThread", "Recorded", "RecordedThread", "ThreadRecording"]

FORMAT = 1
"""Of the JSON files that this module reads: the value of their key `ckpt_test`."""
NOTES = "CKPT_TEST_NOTES"
"""Environment variable: a file to which each test adds what it asked the models."""
KEYS = (
    *("ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "COHERE_API_KEY", "DEEPSEEK_API_KEY"),
    *("FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY"),
    *("OPENAI_API_KEY", "OPENROUTER_API_KEY", "PERPLEXITY_API_KEY", "TAVILY_API_KEY"),
    *("TOGETHER_API_KEY", "XAI_API_KEY"),
)
"""Environment variables that get a placeholder if they are not set, so that models can be made."""
_TRACING = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2")
_MOST_STEPS = 1000


class NotRecorded(AssertionError):
    """The graph asked a model or a tool for what the thread does not tell."""


class UsedNetwork(OSError):
    """The graph tried to reach a server, which a test must not."""


@dataclasses.dataclass(frozen=True)
class Recorded:
    """What a task did when the thread was recorded, in plain JSON values."""

    writes: Any
    """Channel to value; a list of these if a task wrote to one channel several times."""
    next: list[Any] | None
    """The nodes that it chose: names, joins, and `{"node", "arg"}` for a Send; None if unknown."""
    question: Any = None
    """The last question that it asked a person; None if it asked none."""


@dataclasses.dataclass(frozen=True)
class Ran(Recorded):
    """What the same task did now. Ids and times that differ are given as they were recorded."""

    recorded: Recorded = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class RecordedThread:
    """What a thread did when it was recorded, in plain JSON values."""

    steps: list[str] | None
    """The nodes of each step of the root graph, `a, b` if they ran together; None if unknown."""
    state: Any
    """Channel to value, at the end."""
    questions: list[Any]
    """The questions that wait for an answer at the end."""


@dataclasses.dataclass(frozen=True)
class RanThread(RecordedThread):
    """What the same thread did now."""

    recorded: RecordedThread = dataclasses.field(kw_only=True)


class ThreadRecording:
    """A recorded thread, and the graph that runs it again."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any],
        graph: Any,
        *,
        context: Any = None,
        config: Mapping[str, Any] | None = None,
        store: BaseStore | None = None,
        types: Sequence[type] = (),
        network: bool = False,
    ) -> None:
        """`source` is the test file, its JSON file, or the content of the latter.

        `graph` is a compiled graph, a builder, a function that returns one, or its place as
        `package.module:name` or `path/file.py:name`, which is imported with the first test.
        `context` and `config` are given to each run; `config` is merged over what the thread's
        metadata tells. `store` is the long-term memory of the graph, by default an empty one.
        `types` are classes in the state that neither its schema nor the graph's modules name.
        `network` lets the nodes reach servers.
        """
        self._source: pathlib.Path | Mapping[str, Any] = (
            source if isinstance(source, Mapping) else pathlib.Path(source).with_suffix(".json")
        )
        self._place = graph
        self._context, self._config, self._store = context, config or {}, store
        self._types, self._network = types, network
        self._graph: Pregel[Any, Any, Any, Any] | None = None
        self._data: dict[str, Any] = {}
        self._tasks: dict[str, dict[str, Any]] = {}
        self._values = _Values({}, {})

    def node(self, name: str) -> Ran:
        """Run one recorded task again: its node, in the state that it was given.

        Returns what it wrote, and which nodes it chose. Raises `NotRecorded`, what the node raises,
        and AssertionError if the graph lacks the node or a channel.
        """
        with self._prepared() as graph:
            task = self._tasks[name]
            answers = self._answers([task], name)
            with answers.given(network=self._network):
                return _both_ways(lambda way: _TaskRun(self, graph, task).run(way), answers)

    def thread(self) -> RanThread:
        """Run the whole thread again, from its inputs and people's answers."""
        with self._prepared() as graph:
            inner = {name for one in self._data["tasks"] for name in one.get("inside", ())}
            outer = [one for one in self._data["tasks"] if one["name"] not in inner]
            answers = self._answers(outer, "thread")
            with answers.given(network=self._network):
                return _both_ways(lambda way: _ThreadRun(self, graph).run(way), answers)

    @contextmanager
    def _prepared(self) -> Iterator[Pregel[Any, Any, Any, Any]]:
        """Read the file and import the graph once, with placeholders for what is secret."""
        missing = {name: "placeholder" for name in KEYS if name not in os.environ}
        before = {name: os.environ.get(name) for name in (*missing, *_TRACING)}
        os.environ.update(missing | dict.fromkeys(_TRACING, "false"))
        try:
            if self._graph is None:
                data = self._source
                if isinstance(data, pathlib.Path):
                    data = json.loads(data.read_text("utf-8"))
                if data.get("ckpt_test") != FORMAT:
                    raise ValueError(f"the recording is not of format {FORMAT}: update ckpt")
                graph = _found(self._place)
                self._values = _Values(_known_types(self._types), data["messages"])
                self._data, self._graph = dict(data), graph
                self._tasks = {one["name"]: one for one in data["tasks"]}
            yield self._graph
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def _placed(
        self, graph: Pregel[Any, Any, Any, Any], saver: InMemorySaver
    ) -> Pregel[Any, Any, Any, Any]:
        """Return a graph that stores its thread in memory alone."""
        store = self._store
        if store is None and graph.store is not None:
            store = InMemoryStore()
        return graph.copy({"checkpointer": saver, "store": store, "cache": None})

    def _run_config(self) -> dict[str, Any]:
        told = self._values.load(self._data.get("metadata", {}))
        own = {"configurable": {}, "metadata": {}, **self._config}
        configurable = {**told, **own["configurable"], "thread_id": self._data["thread"]}
        return {**own, "configurable": configurable, "metadata": {**told, **own["metadata"]}}

    def _inside(self, task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the tasks that a task called, innermost first, then itself."""
        for name in task.get("inside", ()):
            yield from self._inside(self._tasks[name])
        yield dict(task)

    def _answers(self, tasks: Iterable[Mapping[str, Any]], name: str) -> _Answers:
        file = self._source.name if isinstance(self._source, pathlib.Path) else ""
        found = _Answers(file, name)
        for task in tasks:
            for one in self._inside(task):
                found.add(one, self._values)
        found.order = [plain(one) for one in self._values.messages()]
        if "asked" in self._data:
            found.asked = self._data["asked"].get(name)
            found.asked = None if found.asked is None else self._values.load(found.asked)
        return found


_Found = typing.TypeVar("_Found")


class _Way(typing.NamedTuple):
    """How a graph is called: by `invoke`, or by `ainvoke`."""

    invoke: Callable[..., Any]


def _call(graph: Pregel[Any, Any, Any, Any], *args: Any, **options: Any) -> Any:
    return graph.invoke(*args, **options)


def _acall(graph: Pregel[Any, Any, Any, Any], *args: Any, **options: Any) -> Any:
    return asyncio.run(graph.ainvoke(*args, **options))


def _both_ways(run: Callable[[_Way], _Found], answers: _Answers) -> _Found:
    """Run a graph; once more by `ainvoke` if one of its nodes is async only."""
    try:
        found = run(_Way(_call))
    except (TypeError, NotImplementedError) as error:
        if not _is_async_only(error):
            answers.check()
            raise
        answers.rewind()
        found = run(_Way(_acall))
    except Exception:
        answers.check()
        raise
    answers.check()
    answers.note()
    return found


def _is_async_only(error: Exception) -> bool:
    text = str(error)
    return "No synchronous function provided" in text or (
        isinstance(error, NotImplementedError) and "async" in text
    )


class _TaskRun:
    """One run of one node, on a thread in memory that has the recorded state."""

    def __init__(
        self, recording: ThreadRecording, graph: Pregel[Any, Any, Any, Any], task: Mapping[str, Any]
    ) -> None:
        self._values = recording._values
        self._task = task
        self._step = max(task.get("step", _BEFORE), _BEFORE)
        self._config: Any = recording._run_config()
        self._context = recording._context
        self._saver = InMemorySaver()
        self._graph = recording._placed(_part(graph, task.get("graph", "")), self._saver)

    def run(self, way: _Way) -> Ran:
        node, task = self._task["node"], self._task
        if node not in self._graph.nodes:
            raise AssertionError(f"the graph has no node '{node}'; it has {_names(self._graph)}")
        self._saver.storage.clear()
        self._saver.writes.clear()
        self._seed()
        graph, given = self._graph, self._values.load(task.get("input"))
        if "sent" in task:
            given = Command(goto=Send(node, self._values.load(task["sent"])))
        elif "input" not in task:
            graph, given = self._leading_to(node), True
        options = {"durability": "sync", "context": self._context}
        options["interrupt_after"] = [*self._graph.nodes]
        found = way.invoke(graph, given, self._config, **options)
        asked: Any = None
        answers = _PeopleAnswers(task.get("asks", ()), self._values)
        for _ in range(_MOST_STEPS):
            if questions := _questions(found):
                asked = questions
                if not (resume := answers.to(questions)):
                    break
                given = Command(resume=resume)
            elif "writes" in task and self._stopped(graph):
                given = None  # at a breakpoint in a subgraph
            else:
                break
            found = way.invoke(graph, given, self._config, **options)
        return self._ran(asked)

    def _leading_to(self, node: str) -> Pregel[Any, Any, Any, Any]:
        """Return the graph with one more node, which an input triggers, and which leads to the
        node: so it runs in the middle of a run, in the state that is stored.
        """
        lead = NodeBuilder().subscribe_only(_LEAD).do(lambda _: True)
        lead.write_to(**{f"branch:to:{node}": lambda _: None})
        return self._graph.copy(
            {
                "nodes": {**self._graph.nodes, _LEAD: lead.build()},
                "channels": {**self._graph.channels, _LEAD: EphemeralValue(bool)},
                "input_channels": _LEAD,
            }
        )

    def _stopped(self, graph: Pregel[Any, Any, Any, Any]) -> bool:
        """Return whether the task has not ended, and waits for no answer."""
        state = graph.get_state(self._config)
        return bool(state.next) and (state.metadata or {}).get("step") == self._step - 1

    def _ran(self, asked: Any) -> Ran:
        task, loaded = self._task, self._values.load
        writes, chosen = self._written()
        known = loaded(task["asks"][-1]["question"]) if _is_known(task.get("asks")) else None
        recorded = Recorded(
            _spelled_writes(loaded(task["writes"])) if "writes" in task else None,
            [plain(loaded(one)) for one in task["next"]] if "next" in task else None,
            plain(known),
        )
        question = plain(asked[-1].value) if asked and known is not None else None
        return Ran(
            like(_spelled_writes(writes), recorded.writes) if "writes" in task else None,
            _sorted_like(chosen, recorded.next),
            like(question, recorded.question),
            recorded=recorded,
        )

    def _seed(self) -> None:
        """Store the recorded state, and that of stateful subgraphs, at which nothing is next."""
        values = self._values.load(self._task.get("state", {}))
        if unknown := [name for name in values if name not in self._graph.channels]:
            raise AssertionError(f"the graph has no channel {', '.join(map(repr, unknown))}")
        # A Send comes at once, an input behind it, any other node behind what leads to it.
        step = self._step - (1 if "sent" in self._task else 2 if "input" in self._task else _BEFORE)
        for namespace, state in self._task.get("memory", {}).items():
            _store(self._saver, self._config, namespace, self._values.load(state), step)
        _store(self._saver, self._config, "", values, step)

    def _written(self) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return what the node wrote, and which nodes it chose to run next."""
        place: Any = {"configurable": {**self._config["configurable"], "checkpoint_ns": ""}}
        found = self._saver.list(place, filter={"step": self._step - 1})
        stored = next(iter(found), None)
        writes: list[dict[str, Any]] = [{}]
        chosen: list[Any] = []
        for task_id, channel, value in (stored.pending_writes or ()) if stored else ():
            if not task_id.strip("0-") or channel in _CONTROL:
                continue  # of the caller, or what happened to the task
            if channel == _SENDS:
                chosen.append({"node": value.node, "arg": plain(value.arg)})
            elif channel.startswith("branch:to:"):
                chosen.append(channel.removeprefix("branch:to:"))
            elif channel.startswith("join:"):
                chosen.append(channel)
            else:
                if channel in writes[-1]:
                    writes.append({})
                writes[-1][channel] = value
        return writes, chosen


def _store(
    saver: InMemorySaver, config: Any, namespace: str, values: dict[str, Any], step: int
) -> None:
    """Store a state as a checkpoint at which nothing is next."""
    version: Any = saver.get_next_version(None, None)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, version)
    place: Any = {"configurable": {**config["configurable"], "checkpoint_ns": namespace}}
    metadata: Any = {"source": "loop", "step": step, "parents": {}}
    saver.put(place, checkpoint, metadata, checkpoint["channel_versions"])


_SENDS = "__pregel_tasks"
_EDGES = ("branch:", "join:", "start:", _SENDS, "__start__")
_LEAD = "ckpt"
"""Name of the node, and of the channel, that lead to the node in question."""
_BEFORE = 3
"""The step of the state that is stored lies so much before that of the task."""
_CONTROL = frozenset(
    (
        *("__interrupt__", "__resume__", "__error__", "__error_source_node__", "__no_writes__"),
        "__return__",
    )
)
"""Channels that tell what happened to a task, and the results of `@task` calls."""


def _is_known(asks: Sequence[Mapping[str, Any]] | None) -> bool:
    return bool(asks) and "question" in (asks or ({},))[-1]


def _spelled_writes(writes: Any) -> Any:
    """Return writes as plain values: one object if no channel comes twice."""
    found = [{name: plain(one) for name, one in some.items()} for some in _listed(writes)]
    return found[0] if len(found) == 1 else found


def _listed(writes: Any) -> list[dict[str, Any]]:
    return writes if isinstance(writes, list) else [writes]


def _sorted_like(chosen: list[Any], recorded: list[Any] | None) -> list[Any]:
    """Return what was chosen in the order of the recording: that of parallel nodes says nothing."""
    if recorded is None:
        return chosen
    rest, found = [*chosen], []
    for one in recorded:
        alike = next((other for other in rest if like(other, one) == one), None)
        if alike is not None:
            rest.remove(alike)
            found.append(one)
    return [*found, *rest]


class _PeopleAnswers:
    """The answers that people gave to the questions of a task, or of a thread."""

    def __init__(self, asks: Iterable[Mapping[str, Any]], values: _Values) -> None:
        self._left = [one for one in asks if "answer" in one]
        self._values = values

    def to(self, questions: Iterable[Any]) -> dict[str, Any]:
        """Return interrupt id to answer, for the questions that were answered."""
        found = {}
        for one in questions:
            asked = plain(one.value)
            known = next(
                (ask for ask in self._left if self._question(ask) == asked),
                next((ask for ask in self._left if "question" not in ask), None),
            )
            if known is None:
                known = next((ask for ask in self._left if self._alike(ask, asked)), None)
            if known is not None:
                self._left.remove(known)
                found[one.id] = self._values.load(known["answer"])
        return found

    def _question(self, ask: Mapping[str, Any]) -> Any:
        return plain(self._values.load(ask["question"])) if "question" in ask else _Nothing

    def _alike(self, ask: Mapping[str, Any], asked: Any) -> bool:
        known = self._question(ask)
        return bool(like(asked, known) == known)


class _Nothing:
    """Equal to no value."""


def _questions(found: Any) -> list[Any]:
    return list(found.get("__interrupt__", ())) if isinstance(found, dict) else []


class _ThreadRun:
    """One run of all of a thread, on a saver in memory."""

    def __init__(self, recording: ThreadRecording, graph: Pregel[Any, Any, Any, Any]) -> None:
        self._values = recording._values
        self._data = recording._data["test"]
        self._config: Any = recording._run_config()
        self._context = recording._context
        self._saver = InMemorySaver()
        self._graph = recording._placed(graph, self._saver)

    def run(self, way: _Way) -> RanThread:
        self._saver.storage.clear()
        self._saver.writes.clear()
        loaded, done = self._values.load, 0
        if "before" in self._data:
            _store(self._saver, self._config, "", loaded(self._data["before"]), 0)
        recorded = RecordedThread(
            self._data.get("steps"),
            {name: plain(one) for name, one in loaded(self._data["state"]).items()},
            [plain(loaded(one)) for one in self._data.get("questions", ())],
        )
        for turn in self._data["turns"]:
            done += turn["steps"]
            is_last = turn is self._data["turns"][-1]
            self._turn(turn, done, way, is_last=is_last)
        asked = [plain(one.value) for one in self._graph.get_state(self._config).interrupts]
        ran, steps = self._state(recorded.state), self._steps()
        if self._data.get("failed") and recorded.steps is not None:
            # What failed may pass now: then the thread goes on where it ended.
            is_further = len(steps) > len(recorded.steps)
            ran = recorded.state if is_further else ran
            steps = steps[: len(recorded.steps)]
        return RanThread(
            steps if recorded.steps is not None else None,
            like(ran, recorded.state),
            _sorted_like(asked, recorded.questions),
            recorded=recorded,
        )

    def _turn(self, turn: Mapping[str, Any], done: int, way: _Way, *, is_last: bool) -> None:
        """Give one input, and people's answers, until all of the turn's steps ran."""
        options = {"durability": "sync", "context": self._context}
        given: Any = self._values.load(turn["input"])
        answers = _PeopleAnswers(turn.get("asks", ()), self._values)
        failures = turn.get("failures", 0)
        for _ in range(_MOST_STEPS):
            try:
                if is_last and self._data.get("stopped"):
                    options["interrupt_before"] = self._data["stopped"]
                way.invoke(self._graph, given, self._config, **options)
            except Exception:
                failures -= 1
                if failures < 0 and not (is_last and self._data.get("failed")):
                    raise
                if failures < 0:
                    return
                given = None  # it passed when it was run again
                continue
            state = self._graph.get_state(self._config)
            if state.interrupts and (resume := answers.to(state.interrupts)):
                given = Command(resume=resume)
            elif not state.interrupts and state.next and len(self._steps()) < done:
                given = None  # behind a breakpoint
            else:
                return

    def _state(self, recorded: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state at the newest checkpoint, without what is empty and not recorded."""
        if unknown := [name for name in recorded if name not in self._graph.channels]:
            raise AssertionError(f"the graph has no channel {', '.join(map(repr, unknown))}")
        stored = self._saver.get_tuple(self._config)
        found = dict(stored.checkpoint["channel_values"]) if stored else {}
        newest = next(iter(self._graph.get_state_history(self._config, limit=1)), None)
        if newest is not None and isinstance(newest.values, dict):
            # Those of a DeltaChannel are not stored with each checkpoint.
            found |= {key: one for key, one in newest.values.items() if key in self._graph.channels}
        told = {name: plain(one) for name, one in found.items() if not name.startswith(_EDGES)}
        return {name: one for name, one in told.items() if name in recorded or one not in _EMPTY}

    def _steps(self) -> list[str]:
        """Return the nodes of each step that ended, oldest first."""
        states = [*self._graph.get_state_history(self._config)][::-1]
        return [
            ", ".join(sorted(before.next))
            for before, after in pairwise(states)
            if (after.metadata or {}).get("source") == "loop" and before.next != ("__start__",)
        ]


# What the models and the tools answered.


class _Answer(typing.NamedTuple):
    """One answer of a model."""

    message: AIMessage
    node: str
    before: Any
    """The last message of the state that its task was given, in plain form; None if there is
    none."""
    texts: frozenset[str]
    """What else its task was given, if that was sent to it: which of parallel tasks it is."""


class _Answers:
    """What models and tools answered in some tasks, and what they are asked now."""

    def __init__(self, file: str, name: str) -> None:
        self._name = file, name
        self._models: list[_Answer] = []
        self._tools: dict[str, list[ToolMessage]] = {}
        self._calls: dict[str, list[Mapping[str, Any]]] = {}
        self._real: set[str] = set()
        self.order: list[Any] = []
        """All messages of the thread, in the order in which they came."""
        self.asked: list[Any] | None = None
        """What the models were asked when the test was checked; None if it was not noted."""
        self._now: list[list[Any]] = []
        self._used: set[int] = set()
        self._problems: list[Exception] = []

    def add(self, task: Mapping[str, Any], values: _Values) -> None:
        """Add what a task tells: new messages in its writes are answers."""
        given = [values.load(task[key]) for key in ("state", "sent", "input") if key in task]
        wrote = values.load([task.get("writes", {}), task.get("next", [])])
        old = [one for value in given for one in _messages_in(value)]
        known = {one.id for one in old} | {one.message.id for one in self._models}
        same = [plain(one) for one in old]
        for one in (*old, *_messages_in(wrote)):
            for call in getattr(one, "tool_calls", ()):
                self._calls.setdefault(call["id"] or "", []).append(call)
        last = same[-1] if same else None
        sent = frozenset(_leaves(task.get("sent", task.get("input"))))
        for one in _messages_in(values.load(task.get("answers", []))):
            if isinstance(one, AIMessage):  # which a person added
                self._models.append(_Answer(one, task["node"], last, sent))
        for one in _messages_in(wrote):
            spelled = plain(one)
            if (one.id in known) if one.id else (spelled in same):
                continue
            known.add(one.id)
            same.append(spelled)
            if isinstance(one, AIMessage):
                self._models.append(_Answer(one, task["node"], last, sent))
            elif isinstance(one, ToolMessage):
                self._tools.setdefault(one.tool_call_id, []).append(one)
        self._real |= {*task.get("calls", ())}

    def rewind(self) -> None:
        """Begin again."""
        self._now, self._used, self._problems = [], set(), []

    def check(self) -> None:
        """Raise the first problem, which the graph may have caught."""
        if self._problems:
            raise self._problems[0]

    def note(self) -> None:
        """Add what the models were asked to the file of `ckpt export --check`."""
        if path := os.environ.get(NOTES):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps([*self._name, self._now]) + "\n")

    def fail(self, error: Exception) -> Exception:
        """Remember a problem: the graph may catch the error."""
        self._problems.append(error)
        return error

    def answer(self, prompt: Sequence[BaseMessage], node: str) -> AIMessage:
        """Return what a model answered to this prompt, in this node."""
        asked = [plain(one) for one in prompt]
        self._compare(asked)
        self._now.append(asked)

        spoken = json.dumps(asked, ensure_ascii=False)

        def rank(number: int) -> tuple[bool, bool, int, int]:
            one = self._models[number]
            is_other = one.before is not None and one.before not in asked
            said = sum(text in spoken for text in one.texts)
            return one.node != node, is_other, -said, number

        left = [number for number in range(len(self._models)) if number not in self._used]
        if not left:
            text = f"'{node}' asks a model once more than recorded; prompt: {asked[-1:]}"
            raise self.fail(NotRecorded(text))
        chosen = min(left, key=rank)
        self._used.add(chosen)
        return self._models[chosen].message.model_copy(deep=True)

    def _compare(self, asked: list[Any]) -> None:
        """Raise `NotRecorded` if a prompt is not the noted one, or turns the messages around."""
        if self.asked is not None:
            noted = [[plain(message) for message in prompt] for prompt in self.asked]
            if not any(like(asked, prompt) == prompt for prompt in noted):
                place = len(self._now)
                expected = noted[place] if place < len(noted) else None
                text = f"a model is asked something else:\n{asked}\nit was asked:\n{expected}"
                raise self.fail(NotRecorded(text))
            return
        left = iter(self.order)
        for one in asked:
            if one in self.order and not any(other == one for other in left):
                text = f"a model is asked in another order: {one} comes too late"
                raise self.fail(NotRecorded(text))

    def result(self, tool: BaseTool, given: Any, call_id: str | None) -> Any:
        """Return the recorded result of a call; `_Nothing` if the tool has to be called."""
        by_name = call_id is None
        if call_id is None:
            call_id = next(
                (
                    one
                    for one, calls in self._calls.items()
                    if one in self._tools and any(_is_call(tool, given, call) for call in calls)
                ),
                None,
            )
        results = self._tools.get(call_id or "")
        if call_id is None or results is None or call_id in self._real or _returns_command(tool):
            return _Nothing
        calls = self._calls.get(call_id, [])
        if calls and not any(_is_call(tool, given, call) for call in calls):
            told = f"{calls[0]['name']} is called with {calls[0]['args']}"
            text = f"tool {tool.name}, which takes {[*tool.args]}, is called with {given}; {told}"
            raise self.fail(NotRecorded(f"{text} in the recording"))
        result = results.pop(0) if len(results) > 1 else results[0]
        return result.content if by_name else result.model_copy(deep=True)

    @contextmanager
    def given(self, *, network: bool) -> Iterator[None]:
        """Let all chat models and tools of LangChain give these answers."""
        offline = _replaced(socket, {}) if network else _offline(self)
        models, tools = _replaced(BaseChatModel, _models_of(self)), _tools_of(self)
        with models, _replaced(BaseTool, tools), offline:
            yield


class RecordedModel(BaseChatModel):
    """Answers what a recorded thread tells; it stands in for each chat model of a graph."""

    answers: Any

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 - LangChain gives it
        run_manager: Any = None,
        **_: Any,
    ) -> ChatResult:
        metadata = getattr(run_manager, "metadata", None) or {}
        message = self.answers.answer(messages, str(metadata.get("langgraph_node", "")))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _models_of(answers: _Answers) -> dict[str, Any]:
    """Return the methods of chat models that give recorded answers, callbacks included."""
    recorded = RecordedModel(answers=answers)
    generate, agenerate = BaseChatModel.generate, BaseChatModel.agenerate
    invoke, ainvoke = BaseChatModel.invoke, BaseChatModel.ainvoke

    def stream(_: BaseChatModel, *args: Any, **options: Any) -> Iterator[AIMessageChunk]:
        yield _chunk(invoke(recorded, *args, **options))

    async def astream(_: BaseChatModel, *args: Any, **options: Any) -> AsyncIterator[Any]:
        yield _chunk(await ainvoke(recorded, *args, **options))

    return {
        "generate": lambda _, *args, **options: generate(recorded, *args, **options),
        "agenerate": lambda _, *args, **options: agenerate(recorded, *args, **options),
        "stream": stream,
        "astream": astream,
    }


def _chunk(message: AIMessage) -> AIMessageChunk:
    calls = [
        tool_call_chunk(name=one["name"], args=json.dumps(one["args"]), id=one["id"], index=number)
        for number, one in enumerate(message.tool_calls)
    ]
    fields = message.model_dump(exclude={"type", "tool_calls", "invalid_tool_calls"})
    return AIMessageChunk(**fields, tool_call_chunks=calls)


def _tools_of(answers: _Answers) -> dict[str, Any]:
    """Return the methods of tools that give recorded results."""
    own, aown = BaseTool.run, BaseTool.arun

    def run(tool: BaseTool, given: Any, *args: Any, **options: Any) -> Any:
        found = answers.result(tool, given, options.get("tool_call_id"))
        return own(tool, given, *args, **options) if found is _Nothing else found

    async def arun(tool: BaseTool, given: Any, *args: Any, **options: Any) -> Any:
        found = answers.result(tool, given, options.get("tool_call_id"))
        return await aown(tool, given, *args, **options) if found is _Nothing else found

    return {"run": run, "arun": arun}


def _is_call(tool: BaseTool, given: Any, call: Mapping[str, Any]) -> bool:
    """Return whether a tool is given the arguments of a call, but for what LangGraph injects."""
    args = call["args"]
    if call["name"] != tool.name:
        return False
    if not isinstance(given, dict):
        return [given] == [*args.values()]
    asked = {name for name in given if name in tool.args}
    takes = tool.args or args
    needed = {name for name, told in tool.args.items() if "default" not in told}
    return asked | needed <= args.keys() <= takes.keys() and all(
        name in given and plain(given[name]) == plain(value) for name, value in args.items()
    )


def _returns_command(tool: BaseTool) -> bool:
    """Return whether a tool returns a Command, of which its recorded message tells a part only."""
    for function in (getattr(tool, "func", None), getattr(tool, "coroutine", None)):
        told = getattr(function, "__annotations__", {}).get("return")
        if told is not None and "Command" in str(told):
            return True
    return False


@contextmanager
def _replaced(owner: Any, names: Mapping[str, Any]) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in names}
    for name, one in names.items():
        setattr(owner, name, one)
    try:
        yield
    finally:
        for name, one in before.items():
            setattr(owner, name, one)


@contextmanager
def _offline(answers: _Answers) -> Iterator[None]:
    """Refuse to reach other machines."""
    connect, resolve = socket.socket.connect, socket.getaddrinfo

    def checked(host: Any) -> None:
        name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
        if name != "localhost" and not name.startswith("127.") and name != "::1":
            raise answers.fail(UsedNetwork(f"the graph uses the network: {name}"))

    def guarded(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple):
            checked(address[0])
        return connect(self, address)

    def resolved(host: Any, *args: Any, **options: Any) -> Any:
        checked(host)
        return resolve(host, *args, **options)

    with (
        _replaced(socket.socket, {"connect": guarded}),
        _replaced(socket, {"getaddrinfo": resolved}),
    ):
        yield


def _leaves(form: Any) -> Iterator[str]:
    """Yield the texts and numbers of a form, as JSON has them inside a text."""
    if isinstance(form, dict):
        for one in form.values():
            yield from _leaves(one)
    elif isinstance(form, list):
        for one in form:
            yield from _leaves(one)
    elif isinstance(form, str | int | float) and not isinstance(form, bool):
        yield json.dumps(form, ensure_ascii=False).strip('"')


def _messages_in(value: Any) -> Iterator[BaseMessage]:
    """Yield the messages in a value, in order."""
    if isinstance(value, BaseMessage):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _messages_in(one)
    elif isinstance(value, list | tuple | set | deque):
        for one in value:
            yield from _messages_in(one)
    elif isinstance(value, Send):
        yield from _messages_in(value.arg)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from _messages_in(_fields(value))
    elif hasattr(value, "model_fields_set"):
        yield from _messages_in(dict(value))


# Values: from the JSON file, and as plain JSON to compare.


class _Values:
    """Turns the values of a JSON file into objects."""

    def __init__(self, types: Mapping[str, Any], messages: Mapping[str, Any]) -> None:
        self._types = types
        self._spelled = messages
        self._made: dict[str, BaseMessage] = {}

    def messages(self) -> Iterator[BaseMessage]:
        """Yield the messages of the file in their order."""
        return map(self._message, self._spelled)

    def load(self, form: Any) -> Any:
        """Return the value of a form. Messages and objects are new ones each time."""
        if isinstance(form, list):
            return [self.load(one) for one in form]
        if not isinstance(form, dict):
            return form
        if len(form) == 1:
            ((mark, told),) = form.items()
            if mark == "$message":
                return self._message(told).model_copy(deep=True)
            if mark == "$messages":
                return [self._message(name).model_copy(deep=True) for name in told.split()]
            if mark in _MARKS:
                return _MARKS[mark](self.load(told))
            if mark == "$map":
                return {_hashable(self.load(key)): self.load(one) for key, one in told}
        if "$type" in form:
            return self._object(form)
        return {_unescaped(key): self.load(one) for key, one in form.items()}

    def _message(self, name: str) -> BaseMessage:
        if name not in self._made:
            form = self.load(self._spelled[name])
            (self._made[name],) = messages_from_dict([{"type": form.pop("type"), "data": form}])
        return self._made[name]

    def _object(self, form: Mapping[str, Any]) -> Any:
        name = form["$type"]
        made = _STANDARD.get(name) or self._types.get(name)
        if made is None:
            raise AssertionError(
                f"the recording has an object of {name}, which neither the schemas nor the modules"
                " of the graph know; give it to ThreadRecording(types=[...])"
            )
        if "$args" in form:
            return made(*self.load(form["$args"]))
        if "$value" in form:
            return made(self.load(form["$value"]))
        fields = {_unescaped(key): self.load(one) for key, one in form.items() if key != "$type"}
        try:
            return made(**fields)
        except ValueError:
            if hasattr(made, "model_construct"):  # as LangGraph's own serializer does
                return made.model_construct(**fields)
            raise


def _unescaped(key: str) -> str:
    return key[1:] if key.startswith("$") else key


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _number(digits: str) -> int:
    return int(digits, 0)


_MARKS: dict[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$set": set,
    "$tuple": tuple,
    "$datetime": datetime.datetime.fromisoformat,
    "$float": lambda name: {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[name],
    "$int": _number,
    "$str": lambda text: base64.b64decode(text).decode("utf-8", "surrogatepass"),
}
_STANDARD: dict[str, Callable[..., Any]] = {
    "builtins.bytearray": bytearray,
    "builtins.frozenset": lambda *items: frozenset(items),
    "collections.deque": lambda *items: deque(items),
    "datetime.date": datetime.date,
    "datetime.time": datetime.time,
    "datetime.timedelta": datetime.timedelta,
    "datetime.timezone": datetime.timezone,
    "decimal.Decimal": decimal.Decimal,
    "ipaddress.IPv4Address": ipaddress.IPv4Address,
    "ipaddress.IPv6Address": ipaddress.IPv6Address,
    "langgraph.types.Command": Command,
    "langgraph.types.Send": Send,
    "pathlib.Path": pathlib.Path,
    "pathlib.PosixPath": pathlib.Path,
    "pathlib._local.PosixPath": pathlib.Path,
    "pathlib.PurePosixPath": pathlib.PurePosixPath,
    "numpy.ndarray": lambda **fields: _array(fields),
    "re.compile": re.compile,
    "uuid.UUID": uuid.UUID,
    "zoneinfo.ZoneInfo": zoneinfo.ZoneInfo,
}
"""Types of Python and of LangGraph, by the names that a store has for them."""


def _array(fields: dict[str, Any]) -> Any:
    """Return an array; a recording has none if the application does not use NumPy."""
    numpy = importlib.import_module("numpy")
    array = numpy.array(fields["data"], dtype=fields["dtype"], order=fields["order"])
    return array.reshape(fields["shape"])


def plain(value: Any) -> Any:
    """Return a value as plain JSON, to compare it. Messages have no ids and no empty fields."""
    match value:
        case enum.Enum():
            return {"$type": type(value).__name__, "value": plain(value.value)}
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case BaseMessage():
            form = message_to_dict(value)
            fields = {key: one for key, one in form["data"].items() if key not in ("id", "type")}
            return {"type": form["type"], **_told(plain(fields))}
        case Send():
            return {"node": value.node, "arg": plain(value.arg)}
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple() | deque():
            return [plain(one) for one in value]
        case set() | frozenset():
            return {"$set": sorted((plain(one) for one in value), key=repr)}
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime.datetime():
            return {"$datetime": value.isoformat()}
    if hasattr(value, "model_dump"):
        return {"$type": type(value).__name__, **plain(value.model_dump())}
    if dataclasses.is_dataclass(value):
        return {"$type": type(value).__name__, **plain(_fields(value))}
    return {"$type": type(value).__name__, "value": str(value)}


def _fields(value: Any) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}


_EMPTY: tuple[Any, ...] = (None, [], {}, False, 0, "")


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields of a message that tell nothing."""
    return {key: one for key, one in fields.items() if key == "content" or one not in _EMPTY}


_ID = re.compile(r"(?=.*\d)[\w:.-]*[0-9a-zA-Z]{8,}[\w:.-]*")
_WHOLE_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_ID_KEY = re.compile(r"(?:.*_)?u?u?ids?", re.IGNORECASE)
_TIME_KEY = re.compile(
    r"(?:.*_)?(?:ts|time|timestamp|date|at|on|now|created|updated|modified)", re.IGNORECASE
)


def like(value: Any, recorded: Any, key: str = "") -> Any:
    """Return a plain value, with the recorded ids and times in place of those that differ."""
    if type(value) is not type(recorded):
        return value
    if isinstance(value, dict):
        return {
            name: like(one, recorded[name], name) if name in recorded else one
            for name, one in value.items()
        }
    if isinstance(value, list):
        if len(value) != len(recorded):
            both = zip(value, recorded, strict=False)
            shared = [like(one, other, key) for one, other in both]
            return [*shared, *value[len(shared) :]]
        return [like(one, other, key) for one, other in zip(value, recorded, strict=True)]
    if value != recorded and _may_differ(value, recorded, key):
        return recorded
    return value


def _may_differ(value: Any, recorded: Any, key: str) -> bool:
    """Return whether both are ids, or both are times."""
    if isinstance(value, str):
        both = value, recorded
        return (
            all(map(_WHOLE_ID.fullmatch, both))
            or (_ID_KEY.fullmatch(key) is not None and all(map(_ID.fullmatch, both)))
            or all(map(_is_time, both))
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = all(1e9 < one < 1e10 or 1e12 < one < 1e13 for one in (value, recorded))
        return seconds and _TIME_KEY.fullmatch(key) is not None
    return False


def _is_time(text: str) -> bool:
    if len(text) < 16 or len(text) > 40:
        return False
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# The graph of the application, and its types.


def _found(source: Any) -> Pregel[Any, Any, Any, Any]:
    """Return a compiled graph: of a place, a builder, or a function that makes one."""
    found = _imported(source) if isinstance(source, str) else source
    for _ in range(3):
        if isinstance(found, Pregel):
            return found
        if hasattr(found, "compile"):
            found = found.compile()
        elif callable(found):
            found = found(*map(_argument, _needed(found)))
            if inspect.isawaitable(found):
                found = asyncio.run(_awaited(found))
        else:
            break
    raise TypeError(f"{source!r} is no graph, no builder and no function that returns one")


def _imported(place: str) -> Any:
    where, _, name = place.rpartition(":")
    if where.endswith(".py"):
        path = pathlib.Path(where).resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot import {where}")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(where)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that a function needs to be called with."""
    return [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]


def _argument(name: str) -> Any:
    if "saver" in name or "checkpoint" in name:
        return InMemorySaver()
    return InMemoryStore() if "store" in name else {}


async def _awaited(found: Any) -> Any:
    return await found


def _part(graph: Pregel[Any, Any, Any, Any], path: str) -> Pregel[Any, Any, Any, Any]:
    """Return a subgraph by the names of the nodes that call it, `outer|inner`."""
    if not path:
        return graph
    for name, found in graph.get_subgraphs(recurse=True):
        if name == path and isinstance(found, Pregel):
            return found
    raise unittest.SkipTest(
        f"a function calls the subgraph of {path.replace('|', ' > ')}, and LangGraph does not find"
        " it; the test of that node runs it"
    )


def _names(graph: Pregel[Any, Any, Any, Any]) -> str:
    return ", ".join(repr(name) for name in graph.nodes if name != "__start__")


def _known_types(types: Iterable[type]) -> dict[str, Any]:
    """Return the classes that a recording may hold, by `module.Class`.

    These are classes of data: models of Pydantic, dataclasses, named tuples and enums, in the
    modules that are imported by now, the graph's among them. None is imported for its name.
    """
    found: dict[str, Any] = {}
    for module in [*sys.modules.values()]:
        for one in [*getattr(module, "__dict__", {}).values()]:
            if isinstance(one, type) and one.__module__ and _is_data(one):
                found.setdefault(f"{one.__module__}.{one.__qualname__}", one)
                found.setdefault(f"{one.__module__}.{one.__name__}", one)
    for one in types:
        found[f"{one.__module__}.{one.__name__}"] = one
    return found


def _is_data(one: type) -> bool:
    return (
        dataclasses.is_dataclass(one)
        or hasattr(one, "model_construct")
        or issubclass(one, enum.Enum)
        or (issubclass(one, tuple) and hasattr(one, "_fields"))
    )
