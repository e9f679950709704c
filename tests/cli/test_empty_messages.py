"""`messages` says that a conversation is empty, and where it last was not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from typing_extensions import TypedDict

from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Usual(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


class Named(TypedDict, total=False):
    chat: Annotated[list[AnyMessage], add_messages]
    log: list[str]


def fill(path: Path, schema: type, channel: str) -> None:
    builder: Any = StateGraph(schema)
    builder.add_node("talk", lambda _: {channel: [AIMessage("x")]})
    builder.add_node("clear", lambda _: {channel: [RemoveMessage(id=REMOVE_ALL_MESSAGES)]})
    builder.add_node("rest", lambda _: None)
    builder.add_edge(START, "talk").add_edge("talk", "clear").add_edge("clear", "rest")
    builder.add_edge("rest", END)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        builder.compile(checkpointer=saver).invoke({channel: [("user", "hi")], "log": []}, CONFIG)


@pytest.mark.parametrize(("schema", "channel"), [(Usual, "messages"), (Named, "chat")])
def test_an_emptied_conversation_names_the_last_one(
    schema: type, channel: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    fill(path, schema, channel)
    for words in ([], ["--stat"], ["--channel", channel]):
        answer = ckpt("-s", path, "messages", "t", *words)
        assert answer.code == 0
        assert f"channel '{channel}' is empty here" in answer.err
        assert "the 2 messages that it held before" in answer.err
        (line,) = re.findall(r"`ckpt (.*)`", answer.err)
        before = ckpt("-s", path, *line.split(), "-o", "json").json
        assert [one["content"] for one in before] == ["hi", "x"]
    assert ckpt("-s", path, "messages", "t", "-o", "json").json == []
