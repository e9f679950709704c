"""Rows that belong to nothing: found, left alone while they are young, and removed."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.kit.agents.steps import fill
from tests.kit.command import ckpt
from tests.kit.harness.postgres import PostgresHarness

OLD, YOUNG = "1ef00000-0000-6000-8000-000000000000", "1ffffffe-0000-6000-8000-000000000000"


def writes_of_nobody(sample: Path, thread: str, checkpoint_id: str) -> None:
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel,"
            " type, value) VALUES (?, '', ?, 'task', 0, 'x', 'msgpack', x'01')",
            [thread, checkpoint_id],
        )


def test_writes_without_their_checkpoint_go_when_they_are_old(sample: Path) -> None:
    for thread in ("trip-to-kyoto", "nobody"):
        writes_of_nobody(sample, thread, OLD)
        writes_of_nobody(sample, thread, YOUNG)
    words = ["-s", str(sample), "gc", "-o", "json", "--scope"]
    assert ckpt(*words, "calls", "--yes").json["threads"] == []
    planned = ckpt(*words, "writes", "--dry-run").json["threads"]
    assert {one["thread_id"]: one["writes"] for one in planned} == {"trip-to-kyoto": 1, "nobody": 1}
    before = ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json
    done = ckpt(*words, "writes", "--yes").json
    assert done["threads"] == planned
    assert done["removed"]["rows"] == {"checkpoints": 0, "writes": 2}
    assert ckpt("-s", sample, "show", "trip-to-kyoto", "-o", "json").json == before
    with closing(sqlite3.connect(sample)) as db:
        left = db.execute("SELECT checkpoint_id FROM writes WHERE task_id = 'task'")
        assert left.fetchall() == [(YOUNG,), (YOUNG,)]


def test_calls_without_their_caller_go(sample: Path) -> None:
    of = "FROM checkpoints WHERE thread_id = 'research-agent' AND checkpoint_ns"
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute(f"DELETE {of} = ''")
        ((number,),) = db.execute(f"SELECT count(*) {of} LIKE '%:%'").fetchall()
    words = ["-s", str(sample), "gc", "--scope", "calls", "--grace", "0s", "-o", "json"]
    (one,) = ckpt(*words, "--yes").json["threads"]
    assert (one["thread_id"], one["checkpoints"]) == ("research-agent", number)
    assert ckpt(*words, "--yes").json["threads"] == []


def test_values_that_no_checkpoint_names_go(postgres_url: str) -> None:
    fill(postgres_url, "a", "b")
    with PostgresHarness.at(postgres_url) as place:
        before = place.rows("a")
        place.connection.execute(
            "INSERT INTO checkpoint_blobs SELECT thread_id, checkpoint_ns, channel, 'lost',"
            " type, blob FROM checkpoint_blobs WHERE thread_id = 'a' LIMIT 1"
        )
        words = ["-s", postgres_url, "gc", "--scope", "blobs", "-o", "json", "--yes"]
        assert ckpt(*words).json["threads"] == []
        assert place.rows("a") != before
        found = ckpt(*words, "--grace", "0s").json
        assert found["removed"]["rows"]["checkpoint_blobs"] == 1
        assert place.rows("a") == before


def test_a_dry_run_looks_everywhere(sample: Path) -> None:
    words = ["-s", str(sample), "gc", "--dry-run", "-o", "json"]
    writes_of_nobody(sample, "nobody", OLD)
    found = ckpt(*words).json
    assert found == ckpt(*words, "--scope", "all").json
    assert [one["thread_id"] for one in found["threads"]] == ["nobody"]
