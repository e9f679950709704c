"""Conversations that nothing befell have no finding, in any era and at any checkpoint."""

import operator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from ckpt_backends.registry import open_store
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.queries.doctor.rows import Terms, conversation_findings, conversations, message_lists
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import copy_store, eras

LATER = datetime(2100, 1, 1, tzinfo=UTC)
"""Nothing is too young to be reported."""
EDITED = ("chat-edited", "tool-result-orphaned")
"""In this thread, an update removes a message with a call and leaves the result."""
ENDED = ("root-messages", "tool-call-unanswered")
"""The graph of this thread ends with a call, which is an info. Some eras do not have it."""
LISTS = {"lg-1.2.22": 200, "js-1.7.3": 100}
"""At least this many conversations are looked at."""


def look(path: Path) -> tuple[list[Finding], int]:
    """Return the findings at all checkpoints of a store, and the number of conversations."""
    found: list[Finding] = []
    looked = 0
    with open_store(str(path)) as store:
        for thread in store.threads():
            reader = ThreadReader(store, thread)
            for moment in reader.moments("", state=True):
                looked += len(conversations(message_lists(reader, moment)))
                found += conversation_findings(reader, moment, Terms(LATER, LATER))
    return found, looked


ERAS = [
    pytest.param(one, id=one.name, marks=() if one.name in LISTS else pytest.mark.engines)
    for one in eras()
]


@pytest.mark.in_ci("lg-1.2.22]")
@pytest.mark.parametrize("era", ERAS)
def test_clean_conversations_have_no_finding(era: Path, tmp_path: Path) -> None:
    found, looked = look(copy_store(era / "store.db", tmp_path))
    expected = {EDITED} if looked else set()
    assert {(one.thread_id, one.code) for one in found} - {ENDED} == expected
    assert looked >= LISTS.get(era.name, 0)


class SeparateResults(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    results: Annotated[list[AnyMessage], operator.add]


def test_results_may_be_in_a_channel_of_their_own(tmp_path: Path) -> None:
    call: Any = {"name": "look_up", "args": {}, "id": "call-1", "type": "tool_call"}
    messages = [HumanMessage("go"), AIMessage("", tool_calls=[call]), HumanMessage("and now?")]
    builder = StateGraph(SeparateResults)
    builder.add_node("agent", lambda _: {})
    builder.add_edge(START, "agent")
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph: Any = builder.compile(checkpointer=saver)
        for thread_id, results in (
            ("apart", [ToolMessage("found", tool_call_id="call-1")]),
            ("lost", [ToolMessage("found", tool_call_id="call-2")]),
        ):
            state = {"messages": messages, "results": results}
            config = {"configurable": {"thread_id": thread_id}}
            graph.update_state(config, state, as_node="agent")
    found, _ = look(path)
    assert [(one.thread_id, one.code, one.channel) for one in found] == [
        ("lost", "tool-call-unanswered", "messages")
    ]
