"""KaFlow's layout: what its own saver stores and reads, and what `ckpt` says of it."""

import pickle
from collections.abc import Iterator
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages

from ckpt_backends.changes import Change
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, TypedBytes
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.url import parse_url
from tests.engines.commands import COMMANDS
from tests.kit.command import ckpt
from tests.kit.savers.kaflow import MongoDBCheckpointer, thread_list
from tests.kit.servers import Server, mongodb_database

pytestmark = pytest.mark.engines

ANNA = "anna@example.com_7f0c_4"
BEN = "ben@example.com_11aa_4_b"
PLAIN = "no user"
OWN = {"trip": ANNA, "from": "Hello", "items": "n"}
READING = [[OWN.get(one, one) for one in words] for words in COMMANDS]


class State(TypedDict):
    """What the agent of these tests knows."""

    messages: Annotated[list[Any], add_messages]
    n: Annotated[list[str], add]


def graph(saver: Any) -> Any:
    def a(state: State) -> Any:
        call = {"name": "look", "args": {"q": "x"}, "id": "call-1"}
        return {"messages": [AIMessage("looking", tool_calls=[call])], "n": ["a"]}

    def b(state: State) -> Any:
        return {"messages": [ToolMessage("found", tool_call_id="call-1")], "n": ["b"]}

    builder = StateGraph(State)
    builder.add_node("a", a)
    builder.add_node("b", b)
    builder.add_edge("__start__", "a")
    builder.add_edge("a", "b")
    return builder.compile(checkpointer=saver)


def config(thread_id: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}


def talk(saver: Any, thread_id: str, *words: str) -> None:
    for word in words:
        graph(saver).invoke({"messages": [HumanMessage(word)], "n": ["in"]}, config(thread_id))


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
    lost = [one.checkpoint["id"] for one in saver.list(config(ANNA)) if one.parent_config is None]
    assert begins == lost
    assert len(begins) == 2
    assert "And again" in ckpt("-s", url, "diff", f"{ANNA}@{begins[0]}", "head").out


def test_every_command_runs_and_changes_nothing(place: Place) -> None:
    url, saver = place
    before = list(saver.collection.find().sort("_id", 1)), saver.collection.index_information()
    for words in READING:
        answer = ckpt("-s", url, *words)
        assert answer.code == 0, (words, answer.err)
        assert (
            "questions, errors and results of tasks are unknown" in answer.err or "stores" in words
        )
    after = list(saver.collection.find().sort("_id", 1)), saver.collection.index_information()
    assert after == before


def test_threads_by_user_with_first_message_and_counts_as_kaflow_lists_them(place: Place) -> None:
    url, saver = place
    for user in (None, "anna@example.com", "ben@example.com", "nobody"):
        words = ["threads", "list", "--first-message", "-o", "json"]
        words += ["--user", user] if user else []
        rows = ckpt("-s", url, *words).json
        got = [
            {
                "thread_id": row["thread_id"],
                "username": row.get("user"),
                "checkpoints": row["checkpoints"],
                "first_message": row["first_message"],
            }
            for row in rows
        ]
        assert got == thread_list(saver, user)
    pages = [
        ckpt("-s", url, "threads", "list", "-n", "2", "--page", page, "-o", "json").json
        for page in ("1", "2", "3")
    ]
    assert [len(page) for page in pages] == [2, 1, 0]
    assert [row["thread_id"] for page in pages for row in page] == [PLAIN, BEN, ANNA]


def test_messages_and_history_by_checkpoint(place: Place) -> None:
    url, saver = place
    rows = ckpt("-s", url, "history", ANNA, "--messages", "-o", "json").json
    for row, stored in zip(rows, saver.list(config(ANNA)), strict=True):
        values = stored.checkpoint["channel_values"]
        # Before the first step, the messages are those of the input.
        messages = values.get("messages") or values["__start__"]["messages"]
        assert [one["content"] for one in row["messages"]] == [one.content for one in messages]
    flat = ckpt("-s", url, "messages", ANNA, "-o", "json").json
    assert flat == rows[0]["messages"]
    assert len({one["id"] for one in flat}) == len(flat) == 6


def test_the_head_is_the_newest_in_time_not_the_greatest_id(place: Place) -> None:
    url, saver = place
    oldest = saver.collection.find_one({"thread_id": BEN}, sort=[("created_at", 1)])
    newest = saver.collection.find_one({"thread_id": BEN}, sort=[("created_at", -1)])
    saver.collection.update_one(
        {"_id": oldest["_id"]}, {"$set": {"created_at": newest["updated_at"].replace(year=2100)}}
    )
    head = saver.get_tuple(config(BEN))
    assert head is not None
    shown = ckpt("-s", url, "show", BEN, "-o", "json").json
    assert shown["checkpoint_id"] == head.checkpoint["id"] == oldest["checkpoint_id"]
    listed = ckpt("-s", url, "threads", "list", "-o", "json").json
    assert (listed[0]["thread_id"], listed[0]["head"]) == (BEN, oldest["checkpoint_id"])


def test_a_fork_is_listed_and_resumed_by_the_saver_and_undone(place: Place) -> None:
    url, saver = place
    before = list(saver.collection.find().sort("_id", 1))
    rows = ckpt("-s", url, "history", ANNA, "-o", "json").json
    target = next(row for row in rows if row["next"] == ["b"])
    answer = ckpt("-s", url, "rollback", ANNA, target["checkpoint_id"], "--yes", "-o", "json")
    assert answer.code == 0, answer.err
    made = answer.json
    newest = saver.get_tuple(config(ANNA))
    assert newest is not None
    assert newest.checkpoint["id"] == made["checkpoint_id"]
    assert newest.metadata["source"] == "fork"
    was = pickle.loads(
        next(one for one in before if one["checkpoint_id"] == target["checkpoint_id"])[
            "checkpoint_data"
        ]
    )
    assert newest.checkpoint == {
        **was,
        "id": newest.checkpoint["id"],
        "ts": newest.checkpoint["ts"],
    }
    assert next(saver.list(config(ANNA))).checkpoint["id"] == made["checkpoint_id"]
    assert graph(saver).get_state(config(ANNA)).next == ("b",)
    undone = ckpt("-s", url, "undo", ANNA, "--yes")
    assert undone.code == 0, undone.err
    assert list(saver.collection.find().sort("_id", 1)) == before
    ckpt("-s", url, "rollback", ANNA, target["checkpoint_id"], "--yes")
    ended = graph(saver).invoke(None, config(ANNA))
    assert ended["n"][-1] == "b"
    assert ckpt("-s", url, "show", ANNA, "-o", "json").json["values"]["n"] == ended["n"]
    kept = list(saver.collection.find({"_id": {"$in": [one["_id"] for one in before]}}))
    assert sorted(kept, key=lambda one: str(one["_id"])) == before


def test_of_a_thread_that_is_deleted_nothing_is_listed(place: Place) -> None:
    """Nor of its fork, by its saver or in its list; threads of a similar name go on."""
    url, saver = place
    near = f"{ANNA}0"
    talk(saver, near, "Near", "Again")
    assert ckpt("-s", url, "rollback", ANNA, "~2", "--yes").code == 0
    kept = [one for one in thread_list(saver) if one["thread_id"] != ANNA]
    assert ckpt("-s", url, "threads", "delete", ANNA, "--yes").code == 0
    assert saver.get_tuple(config(ANNA)) is None
    assert list(saver.list(config(ANNA))) == []
    assert thread_list(saver) == kept
    assert len(kept) == 3
    before = graph(saver).get_state(config(near)).values
    assert ckpt("-s", url, "purge", "--keep-last", "2", "--yes").code == 0
    assert {one["checkpoints"] for one in thread_list(saver)} == {2}
    assert graph(saver).get_state(config(near)).values == before
    talk(saver, near, "Still there")
    assert graph(saver).get_state(config(near)).values["n"] == [*before["n"], "in", "a", "b"]


def test_a_fork_of_an_earlier_checkpoint_is_listed_and_resumed_in_a_thread_of_its_own(
    place: Place,
) -> None:
    url, saver = place
    rows = ckpt("-s", url, "history", ANNA, "-o", "json").json
    target = next(row for row in rows if row["next"] == ["b"])["checkpoint_id"]
    was = graph(saver).get_state(config(ANNA, checkpoint_id=target)).values
    answer = ckpt("-s", url, "copy", ANNA, "--at", target, "--as", "copy", "--yes", "-o", "json")
    assert answer.code == 0, answer.err
    assert "copy" in {one["thread_id"] for one in thread_list(saver)}
    state = graph(saver).get_state(config("copy"))
    assert (state.values, state.next) == (was, ("b",))
    assert graph(saver).invoke(None, config("copy"))["n"] == [*was["n"], "b"]
    assert ckpt("-s", url, "history", ANNA, "-o", "json").json == rows
    assert ckpt("-s", url, "show", "copy", "-o", "json").json["values"]["n"] == [*was["n"], "b"]


@pytest.mark.parametrize(
    ("words", "reason", "hint"),
    [
        (["fork", ANNA, "head", "--set", 'n=["x"]'], "is pickled", "update_state"),
        (["fork", ANNA, "head", "--replace", 'n=["x"]'], "is pickled", "update_state"),
        (["repair", "values", ANNA], "stores no writes from which values could be rebuilt", ""),
    ],
    ids=str,
)
def test_what_the_layout_cannot_hold_is_refused(
    place: Place, words: list[str], reason: str, hint: str
) -> None:
    url, saver = place
    before = list(saver.collection.find().sort("_id", 1))
    answer = ckpt("-s", url, *words, "--yes")
    assert (answer.code, answer.out) == (4, "")
    assert reason in answer.err.partition("hint: ")[0]
    assert hint in answer.err.partition("hint: ")[2]
    assert list(saver.collection.find().sort("_id", 1)) == before


def test_writes_cannot_be_added(place: Place) -> None:
    url, saver = place
    key = CheckpointKey(ANNA, "", "x")
    write = Record.write(key, NULL_TASK_ID, "", 0, "n", TypedBytes("msgpack", b"\x01"))
    before = list(saver.collection.find().sort("_id", 1))
    with open_writable(parse_url(url)) as store, pytest.raises(Unsupported, match="no writes"):
        store.apply(Change(ANNA, {}, writes=(write,)))
    assert list(saver.collection.find().sort("_id", 1)) == before


class Bomb:
    """Runs a command when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        import os

        return os.system, (f"touch {self.mark}",)


def test_a_pickle_that_runs_code_is_only_shown(place: Place, tmp_path: Path) -> None:
    url, saver = place
    mark = tmp_path / "ran"
    body = {"v": 4, "id": "x", "ts": "", "channel_values": {"bomb": Bomb(mark)}}
    saver.collection.update_many(
        {"thread_id": PLAIN}, {"$set": {"checkpoint_data": pickle.dumps(body)}}
    )
    for words in [*READING, ["show", PLAIN], ["grep", "touch"], ["history", PLAIN]]:
        ckpt("-s", url, *words)
    assert "system" in ckpt("-s", url, "show", PLAIN, "-o", "json").out
    ckpt("-s", url, "rollback", PLAIN, "~1", "--yes")
    assert not mark.exists()
