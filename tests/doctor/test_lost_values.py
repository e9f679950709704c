"""Values that a server lost are named; channels that are empty by their nature are not.

The savers for PostgreSQL and MySQL put small values into the body, and store nothing for a channel
that is empty.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import bson
import psycopg
import pymongo
import pytest

from tests.doctor.asking import findings
from tests.kit.agents.steps import config_of, graph_of
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.opening import empty_store
from tests.kit.planting.planters import PLANTERS, SqlPlanter
from tests.kit.stores import restore_javascript_documents, restore_rows


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
