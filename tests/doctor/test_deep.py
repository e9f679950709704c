"""Each fault planted into a store of the official saver is found, at its row and nowhere else;
values that a server lost are named, channels that are empty by their nature are not."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import bson
import psycopg
import pymongo
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END

from ckpt_backends.testing.scenarios import channel_graphs
from tests.doctor.asking import KEY, findings, sweep_url
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.opening import empty_store
from tests.kit.planting.apart import execute
from tests.kit.planting.planters import PLANTERS, SqlPlanter
from tests.kit.planting.steps import SERDE, THREAD, Rows, make_store, talk
from tests.kit.stores import restore_javascript_documents, restore_rows

CONFIG: Any = {"configurable": {"thread_id": THREAD}}


CLOSED = EncryptedSerializer.from_pycryptodome_aes(key=KEY)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deep") / "store.db"
    make_store(path)
    return path


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encrypted") / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = CLOSED
        talk(saver)
    return path


@contextmanager
def rows_of(path: Path) -> Iterator[Rows]:
    with closing(sqlite3.connect(path)) as db, db:
        yield Rows(db)


def at(rows: Rows, step: int, sql: str, *values: Any) -> None:
    """Run a statement with the checkpoint of a step as its last parameter."""
    done = rows.db.execute(f"{sql} WHERE checkpoint_id = ?", [*values, rows.ids()[step]])
    assert done.rowcount == 1


def test_the_command_prints_the_row_and_how_much_was_checked(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        rows.body(8, lambda values: values.update(mood="secret"))
        wrong = rows.ids()[8]
    command = ("-s", path, "doctor", "--deep", "-o", "json")
    young = ckpt(*command, "--strict")
    assert (young.code, young.json["findings"]) == (0, [])  # a write may still be stored
    assert ckpt(*command, "--grace", "0s").code == 0  # a saver can load it
    answer = ckpt(*command, "--grace", "0s", "--strict", code=1)
    assert "secret" not in answer.out
    (one,) = [one for one in answer.json["findings"] if one["code"] == "state-mismatch"]
    assert (one["checkpoint_id"], one["channel"]) == (wrong, "mood")
    counted = answer.json["checked"]
    assert (counted["checkpoints"], counted["writes"]) == (15, 57)
    assert counted["values"] > 0
    ckpt("-s", clean, "doctor", "--deep", "--strict", "--grace", "0s", code=0)


def test_a_hole_in_the_middle_is_a_warning_for_a_deep_check(clean: Path, tmp_path: Path) -> None:
    path = copy_store(clean, tmp_path)
    with rows_of(path) as rows:
        rows.db.execute("DELETE FROM writes WHERE checkpoint_id = ?", [rows.ids()[6]])
        at(rows, 6, "DELETE FROM checkpoints")
    for words, severity in (([], "info"), (["--deep", "--grace", "0s"], "warning")):
        told = [(one["code"], one["severity"]) for one in findings(path, *words)]
        assert told == [("parent-missing", severity)]


def test_messages_of_a_delta_channel_that_an_update_lost_are_found(tmp_path: Path) -> None:
    """LangGraph issue 8653: an update takes the channel for empty, and stores a snapshot of it."""
    path = tmp_path / "store.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        built = channel_graphs.delta_rarely(saver)
        for word in ("one", "two"):
            human = [HumanMessage(word, id=word)]
            built.invoke({"messages": human, "messages_plain": human}, CONFIG, durability="sync")
        built.update_state(CONFIG, None, as_node=END)
    assert sweep_url(path) == ([], {})
    with rows_of(path) as rows:
        last = max(rows.ids())
        rows.body(last, lambda values: values.update(messages=_DeltaSnapshot([])))
        head = rows.ids()[last]
    found, _ = sweep_url(path)
    assert [(one.code, one.checkpoint_id, one.channel, one.detail) for one in found] == [
        ("messages-emptied", head, "messages", "4 messages before, none after")
    ]


def test_a_plain_checkpoint_of_an_encrypted_thread_is_seen(encrypted: Path, tmp_path: Path) -> None:
    path = copy_store(encrypted, tmp_path)
    with rows_of(path) as rows:
        own = rows.ids()[5]
        query = "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?"
        ((data,),) = rows.db.execute(query, [own])
        plain = SERDE.dumps_typed(CLOSED.loads_typed(("msgpack+aes", data)))
        at(rows, 5, "UPDATE checkpoints SET type = ?, checkpoint = ?", *plain)
    for key in (KEY, None):
        found, _ = sweep_url(path, key)
        assert [(one.code, one.checkpoint_id, one.channel) for one in found] == [
            ("plaintext-among-encrypted", own, None)
        ]


def test_a_damaged_value_differs_from_a_wrong_key(encrypted: Path, tmp_path: Path) -> None:
    path = copy_store(encrypted, tmp_path)
    found, unchecked = sweep_url(path, b"fedcba9876543210")
    assert (found, list(unchecked)) == ([], [THREAD])
    with rows_of(path) as rows:
        steps = {one: step for step, one in rows.ids().items()}
        done = rows.db.execute(
            "UPDATE writes SET value = ? WHERE checkpoint_id = ? AND channel = 'total'"
            " AND task_path LIKE '%left'",
            [b"x" * 40, rows.ids()[6]],
        )
        assert done.rowcount == 1
    found, unchecked = sweep_url(path)
    assert [(one.code, steps[one.checkpoint_id or ""], one.channel) for one in found] == [
        ("value-unreadable", 6, "total")
    ]
    assert unchecked == {}


def test_a_young_value_may_still_be_named_by_a_checkpoint(postgres_url: str) -> None:
    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
        talk(saver)
    execute(
        postgres_url,
        "INSERT INTO checkpoint_blobs SELECT thread_id, checkpoint_ns, channel, %s, type, blob"
        " FROM checkpoint_blobs WHERE channel = 'facts' LIMIT 1",
        f"{99:032}.0.5",
    )
    assert sweep_url(postgres_url, grace=timedelta(minutes=1)) == ([], {})
    assert [one.code for one in sweep_url(postgres_url)[0]] == ["value-orphaned"]


ROWS = {
    "checkpoint": "UPDATE checkpoints SET type = ?, checkpoint = ? WHERE checkpoint_id = ?",
    "metadata": "UPDATE checkpoints SET type = coalesce(?, type), metadata = ?"
    " WHERE checkpoint_id = ?",
    "write": "UPDATE writes SET type = ?, value = ? WHERE checkpoint_id = ?",
}


TAGS = ("msgpack", "json", "pickle", "bytes", "null", "empty", "msgpack+aes", "int", "")


def mutated(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Replace single bytes."""
    found = bytearray(data)
    for place, byte in changes:
        found[place % len(found)] = byte
    return bytes(found)


@example(step=7, row="checkpoint", tag="msgpack", made=b"\xc1")
@example(step=0, row="write", tag="msgpack", made=b"")
@example(step=3, row="metadata", tag="json", made=b'{"step": "x", "parents": []}')
@example(step=3, row="metadata", tag="json", made=b"[]")
@example(step=9, row="checkpoint", tag="msgpack", made=b"\x81\xaechannel_values\x01")
@example(step=9, row="checkpoint", tag="json", made=b'{"channel_versions": {"a": 1e999}}')
@given(
    step=st.integers(0, 14),
    row=st.sampled_from(sorted(ROWS)),
    tag=st.sampled_from(TAGS),
    made=st.binary(max_size=60)
    | st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_garbage_is_survived(clean: Path, step: int, row: str, tag: str, made: Any) -> None:
    with closing(sqlite3.connect(clean)) as db:
        ids = [one for (one,) in db.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1")]
        saved = list(db.execute("SELECT rowid, type, checkpoint, metadata FROM checkpoints"))
        writes = list(db.execute("SELECT rowid, type, value FROM writes"))
        data = made
        if isinstance(made, list):
            query = "SELECT checkpoint FROM checkpoints WHERE checkpoint_id = ?"
            ((body,),) = db.execute(query, [ids[step]])
            data, tag = mutated(body, made), "msgpack"
        with db:
            db.execute(ROWS[row], [tag, data, ids[step]])
        try:
            found, _ = sweep_url(clean)
        finally:
            with db:
                restore = "UPDATE checkpoints SET type = ?2, checkpoint = ?3, metadata = ?4"
                db.executemany(f"{restore} WHERE rowid = ?1", saved)
                db.executemany("UPDATE writes SET type = ?2, value = ?3 WHERE rowid = ?1", writes)
    for one in found:
        assert one.checkpoint_id in ids
        assert len(one.detail) < 200


@pytest.fixture(params=["postgres", "mysql"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlPlanter[Any]]:
    """An empty database, whose rows are changed by statements."""
    kinds: dict[str, Any] = {"postgres": PostgresHarness, "mysql": MySQLHarness}
    with empty_store(kinds[request.param], request, tmp_path) as harness:
        yield PLANTERS[request.param](harness)  # type: ignore[misc]


def missing(url: str, *words: str) -> list[tuple[str, str]]:
    """The channel and version of each value that is missing; nothing else may be found."""
    found = findings(url, *words)
    assert {one["code"] for one in found} <= {"value-missing"}, found
    return [(one["channel"], one["detail"].split()[1]) for one in found]


@pytest.mark.engines
def test_each_value_that_is_lost_is_named(rows: SqlPlanter[Any]) -> None:
    url, graph = rows.harness.url, graph_of(rows.harness.kept_saver)
    for _ in range(2):
        graph.invoke({"items": ["in"]}, config_of("trip"))
    assert missing(url) == missing(url, "--deep") == []
    place = "WHERE channel = ? AND version = ?"
    rows.run("CREATE TABLE kept AS SELECT * FROM checkpoint_blobs")
    for channel, version in rows.run("SELECT channel, version FROM kept"):
        rows.run(f"DELETE FROM checkpoint_blobs {place}", channel, version)
        assert missing(url, "--deep") == [(channel, version)]
        rows.run(f"INSERT INTO checkpoint_blobs SELECT * FROM kept {place}", channel, version)
    assert "unstored" not in ckpt("-s", url, "show", "trip", "-o", "json").json
    rows.run("TRUNCATE TABLE checkpoint_blobs")
    lost = ["items", "messages"]
    assert sorted(channel for channel, _ in missing(url)) == lost
    assert {channel for channel, _ in missing(url, "--deep")} >= {"__start__", *lost}
    assert ckpt("-s", url, "show", "trip", "-o", "json").json["unstored"] == lost
    text = ckpt("-s", url, "show", "trip").out
    assert "items, messages: written, but the value is not stored" in text
    refused = ckpt("-s", url, "show", "trip", "--channel", "messages")
    assert (refused.code, "channel 'messages' is missing" in refused.err) == (4, True)


# LangGraph.js

_TEXT = "[unable to serialize, circular reference is too complex to analyze]"
"""What its serializer stores for a value with a BigInt."""
_STORED = f'"{_TEXT}"'
_JAVASCRIPT = FIXTURES / "js-1.7.3"


def replaced(url: str | Path, *words: str) -> list[tuple[str, str | None, str | None]]:
    """The checkpoint, channel and task of each such finding about the thread `chat`."""
    answer = ckpt("-s", url, "doctor", "chat", "-o", "json", *words)
    found = [one for one in answer.json["findings"] if one["code"] == "value-replaced"]
    assert answer.code == bool(found)
    return [(one["checkpoint_id"], one["channel"], one["task_id"]) for one in found]


@pytest.mark.engines
def test_a_conversation_replaced_on_postgres(postgres_url: str) -> None:
    restore_rows(_JAVASCRIPT / "postgres.jsonl.gz", postgres_url)
    url = postgres_url
    head, *older = ckpt("-s", url, "history", "chat", "-o", "json").json
    own, of_head = head["checkpoint_id"], head["versions"]["messages"]
    assert replaced(url) == replaced(url, "--deep") == []
    version = next(one for step in older if (one := step["versions"]["messages"]) != of_head)
    first = [one for one in older if one["versions"].get("messages") == version][-1]
    change = "UPDATE checkpoint_blobs SET blob = convert_to(%s, 'UTF8') WHERE thread_id = 'chat'"
    with psycopg.connect(url, autocommit=True) as admin:
        at = " AND checkpoint_ns = '' AND channel = 'messages' AND version = %s"
        admin.execute((change + at).encode(), (_STORED, str(version)))
        assert replaced(url) == []
        assert replaced(url, "--deep") == [(first["checkpoint_id"], "messages", None)]
        # A reducer makes a message of the text, and the next step goes on from it.
        kwargs = {"content": _TEXT, "id": "x"}
        name = ["langchain_core", "messages", "HumanMessage"]
        message = {"lc": 1, "type": "constructor", "id": name, "kwargs": kwargs}
        admin.execute((change + at).encode(), (json.dumps([message]), str(of_head)))
        assert replaced(url) == [(own, "messages", None)]
        admin.execute((change + at).encode(), (_STORED, str(of_head)))
        assert replaced(url) == [(own, "messages", None)]
        admin.execute(
            b"UPDATE checkpoint_writes SET blob = convert_to(%s, 'UTF8') WHERE checkpoint_id = %s"
            b" AND thread_id = 'chat' AND channel = 'messages'",
            (_STORED, older[0]["checkpoint_id"]),
        )
        assert {one[:2] for one in replaced(url, "--deep")} >= {
            (older[0]["checkpoint_id"], "messages")
        }


def test_a_checkpoint_replaced_in_a_file(tmp_path: Path) -> None:
    store = copy_store(_JAVASCRIPT / "store.db", tmp_path)
    assert replaced(store) == replaced(store, "--deep") == []
    head, before = (
        one["checkpoint_id"] for one in ckpt("-s", store, "history", "chat", "-o", "json").json[:2]
    )
    with closing(sqlite3.connect(store)) as file, file:
        place = "WHERE thread_id = 'chat' AND checkpoint_id = ?"
        file.execute(f"UPDATE checkpoints SET checkpoint = ? {place}", (_STORED, head))
        wrote = file.execute(
            f"UPDATE writes SET value = ? {place} AND channel = 'messages' RETURNING task_id",
            (_STORED, before),
        ).fetchall()
    assert replaced(store) == [(head, None, None)]
    assert {*replaced(store, "--deep")} == {
        (head, None, None),
        *((before, "messages", task) for (task,) in wrote),
    }


@pytest.mark.engines
def test_a_checkpoint_replaced_on_mongodb(mongodb_url: str) -> None:
    restore_javascript_documents(_JAVASCRIPT / "mongodb.bson.gz", mongodb_url)
    assert replaced(mongodb_url) == []
    (head, *_) = ckpt("-s", mongodb_url, "history", "chat", "-o", "json").json
    with pymongo.MongoClient[Any](mongodb_url) as admin:
        done = admin.get_default_database()["checkpoints"].update_one(
            {"thread_id": "chat", "checkpoint_id": head["checkpoint_id"]},
            {"$set": {"checkpoint": bson.Binary(_STORED.encode())}},
        )
        assert done.modified_count == 1
    assert replaced(mongodb_url) == [(head["checkpoint_id"], None, None)]
