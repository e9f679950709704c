"""KaFlow's and kagent's layouts: what their savers store and read, and what `ckpt` says of it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import MessagesState

from ckpt_backends.changes import Change
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, TypedBytes
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.library import graph_of
from ckpt_backends.url import parse_url
from tests.engines.answers import succeeds
from tests.kit.agents.small import chain
from tests.kit.agents.steps import config_of
from tests.kit.command import ckpt
from tests.kit.harness.kaflow import MongoDBCheckpointer, thread_list
from tests.kit.harness.kagent import USER, made, saver_on
from tests.kit.servers import Server, mongodb_database, postgres_database

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
        answer = ckpt("-s", url, *words, "--yes", code=4, out="")
        assert reason in answer.err.partition("hint: ")[0]
        assert hint in answer.err.partition("hint: ")[2]
    key = CheckpointKey(ANNA, "", "x")
    write = Record.write(key, NULL_TASK_ID, "", 0, "messages", TypedBytes("msgpack", b"\x01"))
    with open_writable(parse_url(url)) as store, pytest.raises(Unsupported, match="no writes"):
        store.apply(Change(ANNA, {}, writes=(write,)))
    assert list(saver.collection.find().sort("_id", 1)) == before


# kagent: whose threads there are, what is softly deleted, and what else is in there


@pytest.fixture
def url(postgres_server: Server) -> Iterator[str]:
    with postgres_database(postgres_server) as database:
        yield made(database)


def run(url: str, thread_id: str, user: str = "", *, asks: bool = False) -> None:
    config = config_of(thread_id, **({"user_id": user} if user else {}))
    with saver_on(url) as saver:
        graph_of(saver, asks=asks).invoke({"items": ["in"]}, config)


def rows(url: str, query: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode(), values)
        return found.fetchall() if found.description else []


def users(url: str, thread_id: str) -> set[str]:
    tables = ("lg_checkpoint", "lg_checkpoint_write")
    query = " UNION ".join(f"SELECT user_id FROM {one} WHERE thread_id = %s" for one in tables)
    return {user for (user,) in rows(url, query, thread_id, thread_id)}


def listed(url: str, *words: str) -> dict[str, str]:
    """The threads that `ckpt` lists, with their users."""
    found = ckpt("-s", url, "threads", "list", *words, "-o", "json").json
    return {one["thread_id"]: one.get("user") for one in found}


def test_threads_have_their_users(url: str) -> None:
    run(url, "anna's", "anna")
    run(url, "nobody's")
    assert listed(url) == {"anna's": "anna", "nobody's": USER}
    anna = f"{url}?user_id=anna"
    assert "?user_id=anna" in ckpt("-s", anna, "stores", "-o", "json").json[0]["url"]
    assert listed(anna) == listed(url, "--user", "anna") == {"anna's": "anna"}
    assert listed(f"{url}?user_id=nobody") == {}


def test_new_rows_are_of_the_threads_user(url: str) -> None:
    run(url, "asking", "anna", asks=True)
    for words in (["fork", "asking", "--at", "~1"], ["copy", "asking", "--as", "copied"]):
        succeeds(url, *words, "--yes")
    assert [users(url, one) for one in ("asking", "copied")] == [{"anna"}] * 2
    assert not rows(url, "SELECT 1 FROM lg_checkpoint WHERE created_at IS NULL OR version <> 4")


def test_copies_get_the_named_user_and_archives_keep_theirs(url: str, tmp_path: Path) -> None:
    run(url, "one", "anna")
    file, ben = tmp_path / "copy.db", f"{url}?user_id=ben"
    ckpt("-s", url, "copy", "--all", "--to", file, "--create", "--yes", code=0)
    succeeds(url, "threads", "delete", "one", "--archive", tmp_path / "archive", "--yes")
    for target, user in ((ben, "ben"), (url, USER)):
        ckpt("-s", file, "copy", "--all", "--to", target, "--yes", code=0)
        assert users(url, "one") == {user}
        rows(url, "TRUNCATE lg_checkpoint, lg_checkpoint_write")
    refused = ckpt("-s", ben, "import", tmp_path / "archive", "--yes")
    assert refused.code != 0
    assert "user 'anna'" in refused.err
    ckpt("-s", url, "import", tmp_path / "archive", "--yes", code=0)
    assert users(url, "one") == {"anna"}


def test_what_is_softly_deleted_is_gone_and_goes_with_its_thread(url: str) -> None:
    run(url, "gone")
    run(url, "kept")
    with saver_on(url) as saver:
        for thread_id in ("gone", "kept"):
            saver.delete_thread(thread_id)
    run(url, "kept")
    assert listed(url) == {"kept": USER}
    ckpt("-s", url, "show", "gone", code=3)
    with saver_on(url) as saver, closing(open_store(url)) as store:
        own = [one.checkpoint["id"] for one in saver.list(config_of("kept"))]
        assert [one.key.checkpoint_id for one in store.checkpoints("kept")] == own
        assert {row.cells["deleted_at"] for row in store.rows("kept")} == {None}
    ckpt("-s", url, "doctor", "--deep", code=0)
    ckpt("-s", url, "threads", "delete", "kept", "--yes", code=0)
    assert users(url, "kept") == set()
    assert users(url, "gone") == {USER}


def test_two_tasks_that_wrote_the_same_number_are_refused(url: str, tmp_path: Path) -> None:
    file, config = tmp_path / "one.db", config_of("one")
    with SqliteSaver.from_conn_string(str(file)) as saver:
        graph_of(saver).invoke({"items": ["in"]}, config)
        head = saver.get_tuple(config)
        assert head is not None
        for task in "ab":
            saver.put_writes(head.config, [("items", task)], task)
    refused = ckpt("-s", file, "copy", "--all", "--to", url, "--yes")
    assert refused.code != 0
    assert "two tasks wrote number 0" in refused.err + refused.out
    assert users(url, "one") == set()
