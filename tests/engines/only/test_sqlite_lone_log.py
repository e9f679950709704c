"""Logs without their database, what else has the name of one, and what a read leaves beside it."""

import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from tests.kit.command import SAMPLE, ckpt

THREAD = "chat"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its log, which no checkpoint of the log has emptied, as an agent has it open."""
    folder = tmp_path_factory.mktemp("whole")
    with SqliteSaver.from_conn_string(str(folder / "agent.db")) as saver:
        saver.conn.execute("PRAGMA wal_autocheckpoint = 0")
        one = SCENARIOS[THREAD]
        one.drive(ScenarioRun(one.build(saver), one.thread_config(), {"durability": "sync"}))
        kept = folder / "kept"
        kept.mkdir()
        for name in ("agent.db", "agent.db-wal"):
            shutil.copyfile(folder / name, kept / name)
    return kept


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A folder that has only the log."""
    shutil.copyfile(whole / "agent.db-wal", tmp_path / "agent.db-wal")
    return tmp_path


@pytest.mark.parametrize("name", ["agent.db", "agent.db-wal"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_the_database_is_rebuilt_from_its_log(
    name: str, is_empty: bool, folder: Path, whole: Path
) -> None:
    if is_empty:
        (folder / "agent.db").touch()
    log = (folder / "agent.db-wal").read_bytes()
    said = ckpt("-s", folder / name, "threads", "list")
    assert said.code == 4
    assert "the write-ahead log of 'agent.db', which is missing or empty" in said.err
    assert "--copy" in said.err
    words = ("show", THREAD, "-o", "json")
    found = ckpt("-s", folder / name, "--copy", *words)
    known = ckpt("-s", whole / "agent.db", *words)
    assert found.code == 0, found.err
    assert found.json["values"] == known.json["values"] != {}
    assert "read from the" in found.err
    assert (folder / "agent.db-wal").read_bytes() == log
    assert {one.name for one in folder.iterdir()} <= {"agent.db", "agent.db-wal"}
    refused = ckpt("-s", folder / name, "threads", "delete", THREAD, "--yes")
    assert refused.code != 0
    assert (folder / "agent.db-wal").read_bytes() == log


def test_a_commit_that_was_cut_off_is_left_out(folder: Path) -> None:
    log = folder / "agent.db-wal"
    whole = len(ckpt("-s", log, "--copy", "history", THREAD, "-o", "json").json)
    log.write_bytes(log.read_bytes()[:-100])
    cut = ckpt("-s", log, "--copy", "history", THREAD, "-o", "json")
    assert cut.code == 0
    assert 0 < len(cut.json) <= whole
    with_old_frames = log.read_bytes() + log.read_bytes()[32:]
    log.write_bytes(with_old_frames)
    assert len(ckpt("-s", log, "--copy", "history", THREAD, "-o", "json").json) == len(cut.json)


def test_a_log_of_later_changes_is_not_enough(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE checkpoints SET thread_id = 'x' || thread_id WHERE rowid = 1")
        shutil.copyfile(store.with_name("agent.db-wal"), tmp_path / "alone.db-wal")
    said = ckpt("-s", tmp_path / "alone.db", "--copy", "threads", "list")
    assert said.code == 4
    assert re.search(r"its log holds \d+ of its \d+ pages", said.err)


@pytest.mark.parametrize("data", [b"\x37\x7f\x06\x82" + bytes(100), b"text" * 20, bytes(33)])
def test_what_is_no_log_says_so(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "agent.db-wal").write_bytes(data)
    said = ckpt("-s", tmp_path / "agent.db", "--copy", "threads", "list")
    assert said.code == 4
    assert "no whole transaction" in said.err


def test_a_log_beside_its_database_is_named(whole: Path, tmp_path: Path) -> None:
    for one in whole.iterdir():
        shutil.copyfile(one, tmp_path / one.name)
    said = ckpt("-s", tmp_path / "agent.db-wal", "threads", "list")
    assert said.code == 4
    assert "it is the write-ahead log of 'agent.db'" in said.err


def test_stores_names_logs_and_pointers(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
    (folder / "pointer.sqlite").write_text(pointer)
    for one in whole.iterdir():
        shutil.copyfile(one, folder / one.name.replace("agent", "other"))
    monkeypatch.chdir(folder)
    listed = {one["url"]: one for one in ckpt("stores", "-o", "json").json}
    assert {Path(url).name for url in listed} == {"agent.db-wal", "other.db", "pointer.sqlite"}
    said = ckpt("-s", "pointer.sqlite", "threads", "list")
    assert "it is a pointer of Git LFS" in said.err
    assert "git lfs pull --include pointer.sqlite" in said.err
    for name in ("pointer.sqlite", "agent.db-wal"):
        (folder / name).unlink()
    assert THREAD in ckpt("threads", "list").out


def test_a_read_leaves_no_file_behind(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with closing(sqlite3.connect(whole / "agent.db")) as db, closing(sqlite3.connect(store)) as to:
        db.backup(to)
        to.execute("PRAGMA journal_mode = WAL")
    before = store.read_bytes()
    for words in (["show", THREAD], ["doctor"], ["memory", "list"], ["threads", "list"]):
        ckpt("-s", store, *words)
        assert {one.name for one in tmp_path.iterdir()} == {"agent.db"}, words
    assert store.read_bytes() == before
    agent = sqlite3.connect(store, isolation_level=None)
    with closing(agent):
        agent.execute("SELECT count(*) FROM checkpoints").fetchone()
        ckpt("-s", store, "threads", "list")
        beside = {"agent.db", "agent.db-wal", "agent.db-shm"}
        assert {one.name for one in tmp_path.iterdir()} == beside  # they are the agent's
        agent.execute("DELETE FROM writes")
        ckpt("-s", store, "threads", "list")
        assert (tmp_path / "agent.db-wal").stat().st_size > 0
        assert store.read_bytes() == before


def test_a_read_leaves_what_an_agent_opened_meanwhile(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with closing(sqlite3.connect(whole / "agent.db")) as db, closing(sqlite3.connect(store)) as to:
        db.backup(to)
        to.execute("PRAGMA journal_mode = WAL")
    with open_store(str(store)) as opened:
        assert opened.thread(THREAD) is not None
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"open\n"
    assert (tmp_path / "agent.db-shm").exists()
    agent.communicate(b"\n")
    with closing(sqlite3.connect(store)) as db:
        found = db.execute("SELECT count(*) FROM checkpoints WHERE thread_id = 'new'")
        assert found.fetchone() == (1,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


AGENT = """
import sqlite3, sys
agent = sqlite3.connect(sys.argv[1], isolation_level=None)
agent.execute("SELECT count(*) FROM checkpoints").fetchone()
print("open", flush=True)
sys.stdin.readline()
agent.execute("UPDATE checkpoints SET thread_id = 'new' WHERE rowid = 1")
"""
