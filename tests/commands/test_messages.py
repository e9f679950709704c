"""`messages` prints a conversation, and says where it last was if it is empty."""

import re
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.graph import MessagesState
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from tests.commands.words import refusals
from tests.kit.agents.small import chain, run
from tests.kit.command import FIXTURES, ckpt, copy_store


class Named(TypedDict, total=False):
    chat: Annotated[list[AnyMessage], add_messages]
    log: list[str]


@pytest.mark.parametrize(("schema", "channel"), [(MessagesState, "messages"), (Named, "chat")])
def test_an_emptied_conversation_names_the_last(schema: type, channel: str, path: Path) -> None:
    nodes = {
        "talk": lambda _: {channel: [AIMessage("x")]},
        "clear": lambda _: {channel: [RemoveMessage(id=REMOVE_ALL_MESSAGES)]},
        "rest": lambda _: None,
    }
    run(path, chain(schema, nodes), {channel: [("user", "hi")], "log": []})
    for words in ([], ["--stat"], ["--channel", channel]):
        answer = ckpt("-s", path, "messages", "t", *words)
        assert (answer.code, f"channel '{channel}' is empty here" in answer.err) == (0, True)
        assert "the 2 messages that it held before" in answer.err
        (line,) = re.findall(r"`ckpt (.*)`", answer.err)
        before = ckpt("-s", path, *line.split(), "-o", "json").json
        assert [one["content"] for one in before] == ["hi", "x"]
    assert ckpt("-s", path, "messages", "t", "-o", "json").json == []


test_wrong_words_are_refused = refusals(
    ("messages trip-to-kyoto --last 0", 2, "--last"),
    ("messages nobody", 3, "no thread 'nobody'"),
    ("messages nightly-report", 3, "no channel of this checkpoint holds messages"),
    ("messages trip-to-kyoto --channel gone", 3, "its channels: booking"),
    ("messages trip-to-kyoto --channel hotel", 3, "holds no messages"),
)


def test_a_call_has_its_result(tmp_path: Path) -> None:
    store = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    said = ckpt("-s", store, "messages", "chat", "-o", "json").json
    assert [one["index"] for one in said] == list(range(len(said)))
    results = [call["result"] for one in said for call in one["tool_calls"]]
    assert [(one["index"], one["content"]) for one in results[:2]] == [
        (3, "found 'Opening hours?'"),
        (7, "found 'And on Sunday? 日曜日は?'"),
    ]
