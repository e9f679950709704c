"""An agent that was killed in the middle of its tools goes on after `plan_message_repair`.

The conformance suite repairs messages on each layout.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Timer
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.prebuilt.chat_agent_executor import _validate_chat_history
from langgraph.types import Command

from ckpt_backends.errors import NotFound, Refused
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.forking import CheckpointPlan
from ckpt_cli.plans.repair import CONTENT, plan_message_repair
from ckpt_cli.queries.doctor.rows import Terms, conversation_findings
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.calling import AGENTS, agent, check_pairs, config_of, hang
from tests.kit.cases import cases
from tests.kit.command import apply_change, ckpt, fork
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.opening import empty_store

KILLED = list(AGENTS)
SENT = ["create", "react2"]
"""The agents that run each tool in a task of its own."""
_SECONDS = 60
"""After this time, a process that hangs is killed, and the tests fail."""


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """A store with one thread for each kind of agent, all killed in the middle of their tools."""
    with empty_store(SqliteHarness, request, tmp_path_factory.mktemp("killed")) as harness:
        kill_agents(harness)
        yield harness


def kill_agents(harness: Harness) -> None:
    """Start an agent of each kind in a process of its own, and kill it."""
    with harness.saver():
        pass  # The tables are made before several connections use them.
    reading, writing = os.pipe()
    child = fork(partial(hang, harness, KILLED, writing))
    os.close(writing)
    end = time.monotonic() + _SECONDS
    watchdog = Timer(_SECONDS, os.kill, (child, signal.SIGKILL))
    watchdog.start()
    with open(reading) as told:
        lines = [told.readline() for _ in KILLED]
    agents = [AgentThread(harness, one) for one in KILLED]
    while not all(one.is_in_tools() for one in agents) and time.monotonic() < end:
        time.sleep(0.05)
    watchdog.cancel()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert lines == ["slow\n"] * len(KILLED)


@dataclass(frozen=True)
class AgentThread:
    """One thread and its agent."""

    harness: Harness
    thread_id: str

    @property
    def graph(self) -> Any:
        return agent(self.thread_id, self.harness.kept_saver)

    def send(self, text: str) -> Any:
        given = {"messages": [HumanMessage(text)]}
        return self.graph.invoke(given, config_of(self.thread_id))["messages"]

    def messages(self) -> Any:
        return self.graph.get_state(config_of(self.thread_id)).values["messages"]

    def is_in_tools(self) -> bool:
        """Return whether the calls are stored, and the quick tool's result if it has a task."""
        found = self.harness.kept_saver.get_tuple(config_of(self.thread_id))
        if found is None or found.metadata["step"] != 1:
            return False
        wrote = any(channel == "messages" for _, channel, _ in found.pending_writes)
        return wrote == (self.thread_id in SENT)

    @contextmanager
    def reader(self) -> Iterator[ThreadReader]:
        with open_store(self.harness.url) as store:
            yield ThreadReader(store, self.thread_id)

    def findings(self, grace: timedelta = timedelta()) -> list[Finding]:
        now = datetime.now(UTC)
        with self.reader() as reader:
            head = reader.moment("", str(reader.head("")), state=True)
            return list(conversation_findings(reader, head, Terms(now, now - grace)))

    def plan(self, content: str | None = None) -> CheckpointPlan:
        with self.reader() as reader:
            now = datetime.now(UTC)
            return plan_message_repair(
                reader, reader.store, None, now, content=content, force=False
            )

    def repair(self, content: str | None = None) -> CheckpointPlan:
        plan = self.plan(content)
        apply_change(self.harness.url, plan.change)
        return plan


@pytest.mark.parametrize("thread_id", KILLED)
def test_a_killed_agent_goes_on(store: Harness, thread_id: str) -> None:
    one = AgentThread(store, thread_id)
    # A resume would run the tools: nothing is broken yet.
    assert one.findings() == []
    with pytest.raises(Refused, match="has yet to be carried out"):
        one.plan()
    with pytest.raises(ValueError, match="INVALID_CHAT_HISTORY"):
        one.send("Hello?")
    assert [(found.code, found.channel) for found in one.findings()] == [
        ("tool-call-unanswered", "messages")
    ] * 2
    assert ["(call-1-quick)" in found.detail for found in one.findings()] == [True, False]
    before = store.rows(thread_id)
    sent = one.messages()

    plan = one.repair()
    assert (plan.action, plan.next) == ("repair", one.graph.get_state(config_of(thread_id)).next)
    assert list(plan.changes) == ["messages"]
    assert plan.mends[0] == "'messages': 2 results are added for calls without one"
    mended = one.messages()
    assert [message for message in mended if message in sent] == sent
    results = mended[2:4]
    assert all(isinstance(result, ToolMessage) for result in results)
    assert [result.tool_call_id for result in results] == ["call-1-quick", "call-1-slow"]
    assert {(result.status, result.content) for result in results} == {("error", CONTENT)}
    assert [result.name for result in results] == ["quick", "slow"]
    check_pairs(mended)
    _validate_chat_history(mended)
    assert one.findings() == []
    with pytest.raises(NotFound, match="nothing to repair"):
        one.plan()

    ckpt("-s", store.url, "undo", thread_id, "--yes", code=0)
    assert store.rows(thread_id) == before
    assert one.messages() == sent

    configurable = dict(one.repair("stopped").configurable or {})
    answered = one.graph.invoke(None, {"configurable": configurable})["messages"]
    assert [message.content for message in answered[2:4]] == ["stopped", "stopped"]
    check_pairs(one.send("use quick and slow"))
    check_pairs(one.messages())
    _validate_chat_history(one.messages())
    assert one.findings() == []


@cases("kind asks", ("create", "ask"), ("react1", "delegate"), ("react2", "ask"), ("delta", "ask"))
def test_a_call_that_waits_for_a_person_is_left_alone(store: Harness, kind: str, asks: str) -> None:
    one = AgentThread(store, f"{kind}-asks")
    one.send(f"use quick and {asks}")
    before = store.rows(one.thread_id)
    assert one.findings() == []
    with pytest.raises(Refused, match=f"'{asks}' waits for the answer"):
        one.plan()
    assert store.rows(one.thread_id) == before
    answered = one.graph.invoke(Command(resume="yes"), config_of(one.thread_id))["messages"]
    check_pairs(answered)
    assert "the person said yes" in [message.content for message in answered]
    with pytest.raises(NotFound, match="nothing to repair"):
        one.plan()


@cases("kind", "loop", "delta")
def test_results_without_a_call_are_removed(store: Harness, kind: str) -> None:
    one = AgentThread(store, f"{kind}-trimmed")
    one.send("use quick and slow")
    removed = {"messages": [RemoveMessage(id="ai-1")]}
    one.graph.update_state(config_of(one.thread_id), removed, as_node="model")
    before, sent = store.rows(one.thread_id), one.messages()
    assert [found.code for found in one.findings()] == ["tool-result-orphaned"] * 2
    with pytest.raises(ValueError, match="INVALID_CHAT_HISTORY"):
        check_pairs(sent)

    plan = one.repair()
    assert plan.mends[0] == "'messages': 2 results are removed: nothing before it makes the call"
    assert one.messages() == [sent[0], *sent[3:]]
    ckpt("-s", store.url, "undo", one.thread_id, "--yes", code=0)
    assert store.rows(one.thread_id) == before

    one.repair()
    check_pairs(one.send("use slow"))


def test_an_update_that_is_not_merged_yet_is_kept(store: Harness) -> None:
    one = AgentThread(store, "react1-updated")
    one.send("use ask")
    with pytest.raises(ValueError, match="INVALID_CHAT_HISTORY"):
        one.send("never mind")
    edit = 'messages=[{"role": "user", "content": "Hello?", "id": "human-3"}]'
    ckpt("-s", store.url, "fork", one.thread_id, "head", "--set", edit, "--yes", code=0)
    assert [found.code for found in one.findings()] == ["tool-call-unanswered"]
    one.repair()
    mended = one.messages()
    assert [message.type for message in mended] == ["human", "ai", "tool", "human", "human"]
    check_pairs(mended)
    check_pairs(one.graph.invoke(None, config_of(one.thread_id))["messages"])


_CALL: Any = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": ""}
_FORMS: dict[str, Any] = {
    "responses": {"content": [_CALL]},
    "custom": {"content": [{**_CALL, "type": "custom_tool_call", "input": "?"}]},
    "anthropic": {"content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
    "invalid": {
        "content": "",
        "invalid_tool_calls": [{"name": "look", "args": "{", "id": "c", "error": None}],
    },
    "function": {
        "content": "",
        "additional_kwargs": {"function_call": {"name": "look", "arguments": "{}"}},
    },
}


def test_a_call_in_the_form_of_any_provider_gets_its_result(store: Harness) -> None:
    for form, fields in _FORMS.items():
        one = AgentThread(store, f"loop-form-{form}")
        one.send("hello")
        sent = [AIMessage(**fields, id="calling"), HumanMessage("never mind", id="next")]
        one.graph.update_state(config_of(one.thread_id), {"messages": sent}, as_node="model")
    words = ("-s", store.url, "doctor", "--match", "loop-form-*", "-o", "json")
    found = ckpt(*words).json["findings"]
    assert [row["code"] for row in found] == ["tool-call-unanswered"] * len(_FORMS)
    ckpt("-s", store.url, "repair", "messages", "--match", "loop-form-*", "--yes", code=0)
    assert ckpt(*words).json["findings"] == []
    for form in _FORMS:
        calling, result, after = AgentThread(store, f"loop-form-{form}").messages()[-3:]
        assert (calling.id, after.id) == ("calling", "next")
        assert (result.name, getattr(result, "tool_call_id", "c")) == ("look", "c")
        assert result.type == ("function" if form == "function" else "tool")
        output = [{"type": "custom_tool_call_output", "output": CONTENT}]
        assert result.content == (output if form == "custom" else CONTENT)


def test_a_message_that_was_added_before_the_tools_ran_is_no_fault(store: Harness) -> None:
    one = AgentThread(store, "loop-paused")
    given = {"messages": [HumanMessage("use quick", id="human-1")]}
    one.graph.invoke(given, config_of(one.thread_id), interrupt_before=["tools"])
    edit = 'messages=[{"role": "user", "content": "Hello?", "id": "human-2"}]'
    ckpt("-s", store.url, "fork", one.thread_id, "head", "--set", edit, "--yes", code=0)
    assert [message.type for message in one.messages()] == ["human", "ai", "human"]
    assert one.findings() == []
    with pytest.raises(Refused, match="'quick' has yet to be carried out"):
        one.plan()


def test_a_call_that_only_the_application_may_answer_is_an_info(store: Harness) -> None:
    """It is mended for a thread that the user names, and left alone where many are repaired."""
    one = AgentThread(store, "loop-client")
    one.send("hello")
    called = AIMessage("", tool_calls=[{"name": "show_map", "args": {}, "id": "call-x"}])
    one.graph.update_state(config_of(one.thread_id), {"messages": [called]}, as_node="tools")
    one.graph.update_state(config_of(one.thread_id), None, as_node="__end__")
    (found,) = one.findings()
    assert (found.code, found.severity) == ("tool-call-unanswered", "info")
    assert "the last message calls 'show_map' (call-x)" in found.detail
    many = ckpt("-s", store.url, "repair", "messages", "--match", one.thread_id, "--yes")
    assert (many.code, one.messages()[-1].type) == (0, "ai"), many.err
    named = ckpt("-s", store.url, "repair", "messages", one.thread_id, "--yes", "--redact", code=0)
    assert "show_map" not in named.out + named.err
    result = one.messages()[-1]
    assert (result.type, result.tool_call_id, result.status) == ("tool", "call-x", "error")
    assert one.findings() == []
