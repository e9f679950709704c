"""What is erased from SQLite files is in none of their bytes."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.registry import open_memory
from ckpt_backends.url import parse_url
from tests.erase.canary import CANARY, OTHER, THREAD, erase, fill, still_there
from tests.kit.harness.sqlite import SqliteHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    with SqliteHarness(tmp_path, None) as made:
        yield made


def raw(folder: Path) -> bytes:
    """Return the bytes of all files of a folder."""
    return b"".join(one.read_bytes() for one in sorted(folder.iterdir()))


@pytest.mark.parametrize("mode", ["wal", "persist"])
def test_no_file_holds_an_erased_thread(harness: SqliteHarness, tmp_path: Path, mode: str) -> None:
    rows = fill(harness)
    harness.connection.execute(f"PRAGMA journal_mode = {mode}")
    harness.connection.execute("PRAGMA secure_delete = OFF")
    # Deleted by the application, without overwriting.
    harness.copy(THREAD, f"{THREAD}2")
    harness.connection.execute("DELETE FROM checkpoints WHERE thread_id = ?", [f"{THREAD}2"])
    harness.connection.execute("DELETE FROM writes WHERE thread_id = ?", [f"{THREAD}2"])
    harness.connection.commit()
    assert CANARY.encode() in raw(tmp_path)
    remains = erase(harness.url)
    log = ["wal_checkpoint(TRUNCATE)"] if mode == "wal" else []
    assert remains.done == ("secure_delete=ON", "VACUUM", *log)
    assert still_there(remains) == []
    assert CANARY.encode() not in raw(tmp_path)
    assert harness.rows(OTHER) == rows


def test_a_reader_keeps_old_bytes_and_is_named(
    harness: SqliteHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    fill(harness)
    with closing(sqlite3.connect(harness.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM checkpoints").fetchone()
        remains = erase(harness.url)
    assert CANARY.encode() in raw(tmp_path)
    assert still_there(remains) == ["'store.db' and 'store.db-wal'"]


def test_samples_of_keys_are_erased_too(harness: SqliteHarness, tmp_path: Path) -> None:
    """A SQLite with ENABLE_STAT4 keeps some keys of each index in a table."""
    fill(harness)
    run = harness.connection.execute
    run("CREATE TABLE samples (tbl, idx, neq, nlt, ndlt, sample)")
    run("INSERT INTO samples VALUES ('writes', 'i', '1', '1', '1', ?)", [CANARY.encode()])
    harness.connection.commit()
    run("PRAGMA writable_schema = ON")
    run(
        "UPDATE sqlite_master SET name = 'sqlite_stat4', tbl_name = 'sqlite_stat4',"
        " sql = replace(sql, 'samples', 'sqlite_stat4') WHERE name = 'samples'"
    )
    run("PRAGMA writable_schema = RESET")
    harness.connection.commit()
    assert "ANALYZE" in erase(harness.url).done
    assert CANARY.encode() not in raw(tmp_path)


def test_tables_of_the_application_are_named(harness: SqliteHarness) -> None:
    fill(harness)
    harness.connection.execute("CREATE TABLE runs (run_id text, thread_id text)")
    (place, *_) = erase(harness.url).places
    assert place.place == "other tables with thread ids"
    assert place.reason.startswith("runs: ")


def test_no_file_holds_an_erased_item(tmp_path: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    path = tmp_path / "memory.db"
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.put(("users", CANARY), "profile", {"text": f"{CANARY} likes tea"})
        store.put(("users", "bert"), "profile", {"text": "likes coffee"})
    assert CANARY.encode() in raw(tmp_path)
    url = parse_url(str(path))
    with open_memory(url) as memory:
        items = list(memory.items(prefix=("users", CANARY)))
    with open_writable_memory(url) as writable:
        assert writable.remove(items) == 1
        remains = writable.erase_remains()
    assert still_there(remains) == []
    assert CANARY.encode() not in raw(tmp_path)
    assert b"likes coffee" in raw(tmp_path)
