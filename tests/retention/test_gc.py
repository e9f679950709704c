"""Rows that belong to nothing: found, left alone while they are young, and removed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.kit.agents.steps import fill, graph_of, saver_of
from tests.kit.command import SAMPLE, ckpt, copy_store
from tests.kit.servers import Server, postgres_database

OLD, YOUNG = "1ef00000-0000-6000-8000-000000000000", "1ffffffe-0000-6000-8000-000000000000"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


def writes_of_nobody(store: Path, thread: str, checkpoint_id: str) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value) VALUES (?, '', ?, 'task', 0, 'x', 'msgpack', x'01')",
            [thread, checkpoint_id],
        )
    connection.close()


def test_a_healthy_store_has_no_orphans(store: Path) -> None:
    before = store.read_bytes()
    found = ckpt("-s", store, "gc", "--scope", "all", "--yes", "-o", "json").json
    assert found["threads"] == found["skipped"] == []
    assert store.read_bytes() == before


def test_writes_without_their_checkpoint_go_when_they_are_old(store: Path) -> None:
    for thread in ("trip-to-kyoto", "nobody"):
        writes_of_nobody(store, thread, OLD)
        writes_of_nobody(store, thread, YOUNG)
    words = ["-s", str(store), "gc", "-o", "json", "--scope"]
    assert ckpt(*words, "calls", "--yes").json["threads"] == []
    planned = ckpt(*words, "writes", "--dry-run").json["threads"]
    assert {one["thread_id"]: one["writes"] for one in planned} == {"trip-to-kyoto": 1, "nobody": 1}
    before = ckpt("-s", store, "show", "trip-to-kyoto", "-o", "json").json
    done = ckpt(*words, "writes", "--yes").json
    assert done["threads"] == planned
    assert done["removed"]["rows"] == {"checkpoints": 0, "writes": 2}
    assert ckpt("-s", store, "show", "trip-to-kyoto", "-o", "json").json == before
    with sqlite3.connect(store) as connection:
        left = connection.execute("SELECT checkpoint_id FROM writes WHERE task_id = 'task'")
        assert left.fetchall() == [(YOUNG,), (YOUNG,)]
    connection.close()


def test_calls_without_their_caller_go(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(
            "DELETE FROM checkpoints WHERE thread_id = 'research-agent' AND checkpoint_ns = ''"
        )
        ((number,),) = connection.execute(
            "SELECT count(*) FROM checkpoints WHERE thread_id = 'research-agent'"
            " AND checkpoint_ns LIKE '%:%'"
        ).fetchall()
    connection.close()
    words = ["-s", str(store), "gc", "--scope", "calls", "--grace", "0s", "-o", "json"]
    (one,) = ckpt(*words, "--yes").json["threads"]
    assert (one["thread_id"], one["checkpoints"]) == ("research-agent", number)
    assert ckpt(*words, "--yes").json["threads"] == []


def test_values_that_no_checkpoint_names_go(postgres_server: Server) -> None:
    with postgres_database(postgres_server) as url:
        fill(url, "a", "b")
        with psycopg.connect(url) as connection:
            connection.execute(
                "INSERT INTO checkpoint_blobs SELECT thread_id, checkpoint_ns, channel, 'lost',"
                " type, blob FROM checkpoint_blobs WHERE thread_id = 'a' LIMIT 1"
            )
            ((before,),) = connection.execute("SELECT count(*) FROM checkpoint_blobs").fetchall()
        words = ["-s", url, "gc", "--scope", "blobs", "-o", "json", "--yes"]
        assert ckpt(*words).json["threads"] == []
        found = ckpt(*words, "--grace", "0s").json
        assert found["removed"]["rows"]["checkpoint_blobs"] == 1
        with psycopg.connect(url) as connection:
            ((after,),) = connection.execute("SELECT count(*) FROM checkpoint_blobs").fetchall()
        assert after == before - 1
        with saver_of(url) as saver:
            state = graph_of(saver).get_state({"configurable": {"thread_id": "a"}})
            assert state.values["items"] == ["in a", "from a", "from b"]


def test_a_scope_must_be_given(store: Path) -> None:
    refused = ckpt("-s", store, "gc", "--yes")
    assert (refused.code, "--scope blobs" in refused.err) == (2, True)
    assert "--dry-run" in refused.err
    assert ckpt("-s", store, "gc", "--scope", "nonsense").code == 2
    words = ["-s", str(store), "gc", "--dry-run", "-o", "json"]
    assert ckpt(*words).json == ckpt(*words, "--scope", "all").json != []
