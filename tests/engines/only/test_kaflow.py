"""KaFlow's layout: what its own saver stores and reads, and what `ckpt` says of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState

from ckpt_backends.changes import Change
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, TypedBytes
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.url import parse_url
from tests.kit.agents.small import chain
from tests.kit.agents.steps import config_of
from tests.kit.command import ckpt
from tests.kit.harness.kaflow import MongoDBCheckpointer, thread_list
from tests.kit.servers import Server, mongodb_database

pytestmark = pytest.mark.engines

ANNA = "anna@example.com_7f0c_4"
BEN = "ben@example.com_11aa_4_b"
PLAIN = "no user"


def talk(saver: Any, thread_id: str, *words: str) -> None:
    steps = {
        "a": lambda _: {"messages": [AIMessage("looking")]},
        "b": lambda _: {"messages": [AIMessage("found")]},
    }
    graph = chain(MessagesState, steps).compile(checkpointer=saver)
    for word in words:
        graph.invoke({"messages": [HumanMessage(word)]}, config_of(thread_id))


@pytest.fixture
def place(mongodb_server: Server) -> Iterator[tuple[str, MongoDBCheckpointer]]:
    with mongodb_database(mongodb_server) as url:
        saver = MongoDBCheckpointer(url, url.rpartition("/")[2])
        talk(saver, ANNA, "Hello there", "And again")
        talk(saver, BEN, "Ben here")
        talk(saver, PLAIN, "Nobody")
        yield url, saver
        saver.client.close()


Place = tuple[str, MongoDBCheckpointer]


def test_later_runs_begin_where_the_one_before_ended(place: Place) -> None:
    url, saver = place
    rows = ckpt("-s", url, "history", ANNA, "-o", "json").json
    ids = [row["checkpoint_id"] for row in rows]
    assert [row["parent_checkpoint_id"] for row in rows] == [*ids[1:], None]
    begins = [row["checkpoint_id"] for row in rows if row.get("begins_run")]
    lost = [
        one.checkpoint["id"] for one in saver.list(config_of(ANNA)) if one.parent_config is None
    ]
    assert begins == lost
    assert len(begins) == 2
    noted = ckpt("-s", url, "history", ANNA, "--messages", "-o", "json")
    assert "questions, errors and results of tasks are unknown" in noted.err
    said = [[one["content"] for one in row["messages"]] for row in noted.json]
    # Before the first step, the messages are those of the input.
    assert (said[-1], len(said[0])) == (["Hello there"], 6)
    assert "And again" in ckpt("-s", url, "diff", f"{ANNA}@{begins[0]}", "head").out


def test_threads_by_user_with_first_message_and_counts_as_kaflow_lists_them(place: Place) -> None:
    url, saver = place
    for user in (None, "anna@example.com", "ben@example.com", "nobody"):
        words = ["threads", "list", "--first-message", "-o", "json"]
        words += ["--user", user] if user else []
        rows = ckpt("-s", url, *words).json
        same = ("thread_id", "checkpoints", "first_message")
        got = [{"username": row.get("user"), **{one: row[one] for one in same}} for row in rows]
        assert got == thread_list(saver, user)


def test_the_head_is_the_newest_in_time_not_the_greatest_id(place: Place) -> None:
    url, saver = place
    oldest = saver.collection.find_one({"thread_id": BEN}, sort=[("created_at", 1)])
    newest = saver.collection.find_one({"thread_id": BEN}, sort=[("created_at", -1)])
    saver.collection.update_one(
        {"_id": oldest["_id"]}, {"$set": {"created_at": newest["updated_at"].replace(year=2100)}}
    )
    head = saver.get_tuple(config_of(BEN))
    assert head is not None
    shown = ckpt("-s", url, "show", BEN, "-o", "json").json
    assert shown["checkpoint_id"] == head.checkpoint["id"] == oldest["checkpoint_id"]
    listed = ckpt("-s", url, "threads", "list", "-o", "json").json
    assert (listed[0]["thread_id"], listed[0]["head"]) == (BEN, oldest["checkpoint_id"])
    made = ckpt("-s", url, "rollback", BEN, "~1", "--yes", "-o", "json").json
    assert next(saver.list(config_of(BEN))).checkpoint["id"] == made["checkpoint_id"]


def test_what_the_layout_cannot_hold_is_refused(place: Place) -> None:
    url, saver = place
    before = list(saver.collection.find().sort("_id", 1))
    for words, reason, hint in (
        (["fork", ANNA, "head", "--set", "messages=[]"], "is pickled", "update_state"),
        (["fork", ANNA, "head", "--replace", "messages=[]"], "is pickled", "update_state"),
        (["repair", "values", ANNA], "stores no writes from which values could be rebuilt", ""),
    ):
        answer = ckpt("-s", url, *words, "--yes")
        assert (answer.code, answer.out) == (4, "")
        assert reason in answer.err.partition("hint: ")[0]
        assert hint in answer.err.partition("hint: ")[2]
    key = CheckpointKey(ANNA, "", "x")
    write = Record.write(key, NULL_TASK_ID, "", 0, "messages", TypedBytes("msgpack", b"\x01"))
    with open_writable(parse_url(url)) as store, pytest.raises(Unsupported, match="no writes"):
        store.apply(Change(ANNA, {}, writes=(write,)))
    assert list(saver.collection.find().sort("_id", 1)) == before
