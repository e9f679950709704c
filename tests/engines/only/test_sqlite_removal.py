"""What is removed from a SQLite file stands neither in it nor in its log, and gives space back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.changes import MOVED
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.plans.purge import plan_named
from tests.engines.answers import succeeds
from tests.kit.agents.steps import graph_of
from tests.kit.command import ckpt
from tests.kit.savers.three_table import maker

SECRET, OTHER = "the secret of anna", "the words of bert"
YES = "--yes"
PURGE = ["purge", "--match", "anna", "--include-pending", "--include-interrupted", YES]


def log(store: Path) -> Path:
    return store.with_name(store.name + "-wal")


def stored(store: Path) -> bytes:
    return store.read_bytes() + (log(store).read_bytes() if log(store).exists() else b"")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """An application's connection that stays open, so that nobody else deletes the log."""
    with closing(sqlite3.connect(tmp_path / "agent.db", check_same_thread=False)) as connection:
        graph = graph_of(SqliteSaver(connection))
        for thread, text in (("anna", SECRET), ("bert", OTHER)):
            for size in (1, 1000):
                graph.invoke({"items": [text * size]}, {"configurable": {"thread_id": thread}})
        yield connection


@pytest.fixture
def store(agent: sqlite3.Connection) -> Path:
    ((_, _, path),) = agent.execute("PRAGMA database_list").fetchall()
    found = Path(path)
    assert SECRET.encode() in stored(found)
    return found


@pytest.mark.parametrize(
    "words",
    [["threads", "delete", "anna", YES], PURGE, [*PURGE, "--vacuum"]],
    ids=["delete", "purge", "vacuum"],
)
@pytest.mark.parametrize("is_in_log", [True, False], ids=["log", "file"])
def test_a_removed_thread_is_gone_from_the_disk(
    store: Path, agent: sqlite3.Connection, words: list[str], is_in_log: bool
) -> None:
    if not is_in_log:
        agent.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert SECRET.encode() in store.read_bytes()
    answer = succeeds(store, *words)
    assert SECRET.encode() not in stored(store)
    assert OTHER.encode() in store.read_bytes()
    assert log(store).stat().st_size == 0
    assert "may remain" not in answer.err
    # A vacuum gives space back.
    is_packed = agent.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert is_packed == ("--vacuum" in words)


def test_what_is_undone_pruned_or_collected_is_gone_from_the_disk(
    store: Path, agent: sqlite3.Connection
) -> None:
    reason = "a reason nobody needs any more"
    assert ckpt("-s", store, "rollback", "anna", "~1", "--reason", reason, YES).code == 0
    agent.execute(
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
        " value) SELECT thread_id, '', '1ef00000-0000-6000-8000-000000000000', 'x', 0, 'items',"
        " 'json', '\"an orphan\"' FROM checkpoints LIMIT 1"
    )
    agent.commit()
    assert reason.encode() in stored(store)
    assert b"an orphan" in stored(store)
    for words in (["undo", "anna"], ["gc", "--scope", "writes"], ["purge", "--keep-last", "1"]):
        assert ckpt("-s", store, *words, YES).code == 0
        assert log(store).stat().st_size == 0, words
    assert reason.encode() not in stored(store)
    assert b"an orphan" not in stored(store)


def test_a_forgotten_item_is_gone_from_the_disk(tmp_path: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as first:
        first.execute("PRAGMA journal_mode = WAL")
    with SqliteStore.from_conn_string(str(path)) as memory:
        memory.setup()
        memory.put(("users", "anna"), "profile", {"text": SECRET})
        assert SECRET.encode() in stored(path)
        assert ckpt("-s", path, "memory", "delete", "users/anna/profile", YES).code == 0
        assert SECRET.encode() not in stored(path)
        assert log(path).stat().st_size == 0


def test_three_tables_too_and_sizes_count_the_log(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with closing(sqlite3.connect(path)) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
        maker().fill("sqlite", agent.execute, mark="?")
        agent.commit()
        (thread,) = ckpt("-s", path, "threads", "list", "-o", "json").json
        name = thread["thread_id"]
        assert name.encode() in stored(path)
        # The sizes count the log.
        (about,) = ckpt("-s", path, "stores", "-o", "json").json
        used = ckpt("-s", path, "du", "-o", "json").json
        whole, kept = len(stored(path)), log(path).stat().st_size
        assert (about["size"], about["log"]) == (used["size"], used["log"]) == (whole, kept)
        assert "of write-ahead log" in ckpt("-s", path, "-o", "table", "du").out
        assert "LOG" in ckpt("-s", path, "-o", "table", "stores").out
        assert ckpt("-s", path, "threads", "delete", name, YES).code == 0
        assert name.encode() not in stored(path)
        assert log(path).stat().st_size == 0


def test_a_reader_that_keeps_the_log_is_told_of(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(store, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM writes").fetchone()
        answer = ckpt("-s", store, "threads", "delete", "anna", YES)
        assert answer.code == 0
        kept = log(store).stat().st_size
        assert (
            f"remain in '{store}' and in '{log(store).name}', which keeps {kept} bytes"
            in answer.err
        )
        command = answer.err.partition("run: sqlite3 ")[2].splitlines()[0]
        assert command == f"{store} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        reader.execute("ROLLBACK")
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert SECRET.encode() not in stored(store)


def test_a_thread_that_got_a_write_since_the_plan_stays(
    store: Path, agent: sqlite3.Connection
) -> None:
    with open_store(str(store)) as found:
        (planned,) = plan_named(found, {"anna": "named"})
    agent.execute(
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel)"
        " SELECT thread_id, '', max(checkpoint_id), 'late', 0, 'items' FROM checkpoints"
        " WHERE thread_id = 'anna'"
    )
    agent.commit()
    before = agent.execute("SELECT count(*) FROM checkpoints").fetchall()
    with open_writable(parse_url(str(store))) as writable:
        (done,) = writable.remove([planned.removal])
    assert done.skipped == MOVED
    assert agent.execute("SELECT count(*) FROM checkpoints").fetchall() == before
