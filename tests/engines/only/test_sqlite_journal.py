"""Rollback journals and logs of killed and of living writers (https://www.sqlite.org/lockingv3.html).

A read shows committed transactions only, and changes neither the file nor what stands beside it.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_backends.testing.scenarios.running import ScenarioRun
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses, succeeds
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, ckpt
from tests.kit.locked import lock, unprivileged
from tests.kit.planting.journals import CACHED, MAGIC, journal, killed

THREADS = 8

COMMANDS = [
    ["threads", "list", "--long", "-o", "json"],
    ["stores"],
    ["rollback", "trip-to-kyoto", "~1", "--yes"],
    ["threads", "delete", "trip-to-kyoto", "--yes"],
]


def torn_tail(store: Path) -> Path:
    """The journal ends in the middle of a page that it had not needed yet."""
    with journal(killed(store)).open("ab") as file:
        file.write(b"\x01" * 1000)
    return store


def half_a_header(store: Path) -> Path:
    killed(store, pages=CACHED)
    journal(store).write_bytes(MAGIC[:5])
    return store


def super_journal(store: Path) -> Path:
    """A transaction over several databases whose super-journal is still there."""
    name_super_journal(killed(store), store.with_name("others-mj0"))
    store.with_name("others-mj0").write_bytes(b"anything")
    return store


def name_super_journal(store: Path, name: Path) -> None:
    text = os.fsencode(name)
    with journal(store).open("ab") as file:
        page = (0x40000000 // 4096 + 1).to_bytes(4)
        checksum = sum(text).to_bytes(4)
        file.write(page + text + len(text).to_bytes(4) + checksum + MAGIC)


def beside_a_log(store: Path) -> Path:
    """A writer that changed the journal mode was killed before a log was copied into the file."""
    live = store.with_name("live.db")
    shutil.copyfile(SAMPLE, live)
    with closing(sqlite3.connect(live)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE writes SET task_path = 'x'")
        writer.commit()
        shutil.copyfile(live, store)
        shutil.copyfile(f"{live}-wal", f"{store}-wal")
    for one in store.parent.glob("live.db*"):
        one.unlink()
    numbers = (0, 7, store.stat().st_size // 4096, 512, 4096)
    header = MAGIC + b"".join(one.to_bytes(4) for one in numbers)
    journal(store).write_bytes(header.ljust(512, b"\0"))
    return store


HOT: dict[str, Callable[[Path], Path]] = {
    "delete": killed,
    "truncate": lambda store: killed(store, "truncate"),
    "persist": lambda store: killed(store, "persist"),
    "torn tail": torn_tail,
    "half a header": half_a_header,
    "super-journal": super_journal,
    "beside a log": beside_a_log,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize("name", HOT)
def test_an_unfinished_transaction_is_never_shown(name: str, locked_folder: Path) -> None:
    """Nor to another user, who cannot write."""
    store = HOT[name](locked_folder / "store.db")
    before = contents(locked_folder)
    for user in (nullcontext, unprivileged):
        with user():
            for words in COMMANDS:
                said = "an unfinished transaction in 'store.db-journal'"
                answer = refuses(store, *words, says=said)
                assert "add --copy to read a private copy with it rolled back" in answer.err
                assert "its folder" not in answer.err
                assert "UNCOMMITTED" not in answer.out + answer.err
            copied = ckpt("-s", store, "--copy", "threads", "list", "-o", "json")
        assert len(copied.json) == THREADS
        assert "UNCOMMITTED" not in copied.out
        assert "rolled back" in copied.err
        assert "writing" not in copied.err
        assert contents(locked_folder) == before
        lock(locked_folder)


def finished(store: Path, mode: str) -> Path:
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as writer:
        writer.execute(f"PRAGMA journal_mode = {mode}")
        writer.execute("UPDATE checkpoints SET thread_id = 'committed-' || thread_id")
        writer.commit()
    return store


def beside_an_old_journal(store: Path) -> Path:
    finished(store, "wal")
    journal(store).write_bytes(bytes(600))
    return store


COLD: dict[str, Callable[[Path], Path]] = {
    "committed": lambda store: finished(store, "truncate"),
    "committed and kept": lambda store: finished(store, "persist"),
    "committed to a log": beside_an_old_journal,
    "killed early, delete": lambda store: killed(store, "delete", CACHED),
    "killed early, truncate": lambda store: killed(store, "truncate", CACHED),
    "killed early, persist": lambda store: killed(store, "persist", CACHED),
}
"""A journal that stays of a finished transaction, or of one that has not touched the file."""


@pytest.mark.parametrize("name", COLD)
def test_a_journal_that_nothing_is_rolled_back_from_is_none(name: str, locked_folder: Path) -> None:
    store = COLD[name](locked_folder / "store.db")
    assert journal(store).exists()
    before = contents(locked_folder)
    for user in (nullcontext, unprivileged):
        with user():
            for words in ([], ["--copy"]):
                answer = ckpt("-s", store, *words, "threads", "list", "-o", "json")
                found = [one["thread_id"].partition("-")[0] == "committed" for one in answer.json]
                assert found == [name.startswith("committed")] * THREADS
                assert "rolled back" not in answer.err
        assert contents(locked_folder) == before
        lock(locked_folder)


def test_a_log_is_read_once_the_journal_before_it_is_rolled_back(tmp_path: Path) -> None:
    store = beside_a_log(tmp_path / "store.db")
    with open_store(f"sqlite:///{store}?copy=1") as opened:
        paths = {write.task_path for write in opened.writes("trip-to-kyoto")}
    assert paths == {"x"}


def test_a_transaction_without_its_super_journal_was_committed(tmp_path: Path) -> None:
    """As SQLite has it: deleting the super-journal is what commits."""
    store = killed(tmp_path / "store.db")
    name_super_journal(store, tmp_path / "gone-mj0")
    copied = ckpt("-s", store, "--copy", "threads", "list")
    assert copied.out.count("UNCOMMITTED") == THREADS


def test_no_file_that_a_journal_names_is_deleted(tmp_path: Path) -> None:
    """SQLite itself would delete any file that is named as the super-journal."""
    store, other = killed(tmp_path / "store.db"), tmp_path / "thesis.txt"
    other.write_text("years of work")
    name_super_journal(store, other)
    assert ckpt("-s", store, "--copy", "threads", "list").code == 0
    assert other.read_text() == "years of work"
    # All commands refuse such a store before they write; it may be planted while they ask.
    with pytest.raises(StoreUnavailable, match=r"which SQLite would delete: '.*thesis\.txt'"):
        open_writable(parse_url(str(store)))
    assert other.read_text() == "years of work"


def test_a_journal_that_cannot_be_read_counts(locked_folder: Path) -> None:
    store = killed(locked_folder / "store.db")
    lock(locked_folder)
    journal(store).chmod(0o000)
    with unprivileged():
        refused = ckpt("-s", store, "threads", "list")
        copied = ckpt("-s", store, "--copy", "threads", "list")
    assert (refused.code, copied.code) == (4, 4)
    assert "an unfinished transaction" in refused.err
    assert "store.db-journal': permission denied" in copied.err


def test_the_first_transaction_of_a_store_and_a_journal_without_database(tmp_path: Path) -> None:
    store = killed(tmp_path / "store.db")
    store.write_bytes(b"")
    before = contents(tmp_path)
    for words in ([], ["--copy"]):
        refuses(store, *words, "threads", "list", says="no checkpoint tables")
    assert contents(tmp_path) == before
    store.unlink()
    for words in ([], ["--copy"]):
        refuses(store, *words, "threads", "list", says="no such file")
    assert [one.name for one in tmp_path.iterdir()] == ["store.db-journal"]


@cases("synchronous", "OFF", "FULL")
def test_a_living_writer_that_has_not_touched_the_file_yet(sample: Path, synchronous: str) -> None:
    with closing(sqlite3.connect(sample, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute(f"PRAGMA synchronous = {synchronous}")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
        assert (journal(sample).read_bytes()[:8] == MAGIC) == (synchronous == "OFF")
        for words in ([], ["--copy"]):
            answer = ckpt("-s", sample, *words, "threads", "list", "-o", "json")
            assert len(answer.json) == THREADS
            assert "UNCOMMITTED" not in answer.out
            assert "rolled back" not in answer.err
        writer.execute("COMMIT")
    for words in ([], ["--copy"]):
        assert ckpt("-s", sample, *words, "threads", "list").out.count("UNCOMMITTED") == THREADS


def test_a_writer_that_is_killed_while_a_thread_is_followed(sample: Path) -> None:
    with closing(sqlite3.connect(sample)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with open_store(str(sample)) as opened:
        assert opened.thread("trip-to-kyoto") is not None
        opened.refresh()
        other = killed(sample.with_name("other.db"))
        sample.write_bytes(other.read_bytes())
        journal(other).rename(journal(sample))
        with pytest.raises(StoreUnavailable) as caught:
            opened.thread("trip-to-kyoto")
    assert "an unfinished transaction" in caught.value.message
    assert "add --copy" in str(caught.value.hint)


# Logs without their database, and what else has the name of one


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


@cases("is_empty", False, True)
def test_the_database_is_rebuilt_from_its_log(is_empty: bool, folder: Path, whole: Path) -> None:
    if is_empty:
        (folder / "agent.db").touch()
    log = (folder / "agent.db-wal").read_bytes()
    words = ("show", THREAD, "-o", "json")
    known = ckpt("-s", whole / "agent.db", *words)
    for name in ("agent.db", "agent.db-wal"):
        says = "the write-ahead log of 'agent.db', which is missing or empty"
        assert "--copy" in refuses(folder / name, "threads", "list", says=says).err
        found = succeeds(folder / name, "--copy", *words)
        assert found.json["values"] == known.json["values"] != {}
        assert "read from the" in found.err
        assert ckpt("-s", folder / name, "threads", "delete", THREAD, "--yes").code != 0
        assert (folder / "agent.db-wal").read_bytes() == log
        assert {one.name for one in folder.iterdir()} <= {"agent.db", "agent.db-wal"}


def test_a_commit_that_was_cut_off_is_left_out(folder: Path) -> None:
    log = folder / "agent.db-wal"

    def steps() -> int:
        return len(succeeds(log, "--copy", "history", THREAD, "-o", "json").json)

    whole = steps()
    log.write_bytes(log.read_bytes()[:-100])
    cut = steps()
    assert 0 < cut <= whole
    log.write_bytes(log.read_bytes() + log.read_bytes()[32:])  # with old frames
    assert steps() == cut


def test_a_log_of_later_changes_is_not_enough(sample: Path) -> None:
    alone = sample.with_name("alone.db-wal")
    with closing(sqlite3.connect(sample, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("UPDATE checkpoints SET thread_id = 'x' || thread_id WHERE rowid = 1")
        shutil.copyfile(f"{sample}-wal", alone)
    said = refuses(sample.with_name("alone.db"), "--copy", "threads", "list", says="its log holds")
    assert re.search(r"its log holds \d+ of its \d+ pages", said.err)


def test_a_log_beside_its_database_and_what_is_no_log_say_so(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    store, log = tmp_path / "agent.db", tmp_path / "agent.db-wal"
    refuses(log, "threads", "list", says="it is the write-ahead log of 'agent.db'")
    store.unlink()
    for data in (b"\x37\x7f\x06\x82" + bytes(100), b"text" * 20, bytes(33)):
        log.write_bytes(data)
        refuses(store, "--copy", "threads", "list", says="no whole transaction")


def test_stores_names_lone_logs(whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.fixture
def packed(whole: Path, tmp_path: Path) -> Path:
    """The store with an empty log, which nobody has open."""
    store = tmp_path / "agent.db"
    with closing(sqlite3.connect(whole / "agent.db")) as db, closing(sqlite3.connect(store)) as to:
        db.backup(to)
        to.execute("PRAGMA journal_mode = WAL")
    return store


def test_a_read_leaves_no_file_behind(packed: Path) -> None:
    folder, before = packed.parent, packed.read_bytes()
    for words in (["show", THREAD], ["doctor"], ["memory", "list"], ["threads", "list"]):
        ckpt("-s", packed, *words)
        assert {one.name for one in folder.iterdir()} == {"agent.db"}, words
    assert packed.read_bytes() == before
    with closing(sqlite3.connect(packed, isolation_level=None)) as agent:
        agent.execute("SELECT count(*) FROM checkpoints").fetchone()
        ckpt("-s", packed, "threads", "list")
        beside = {"agent.db", "agent.db-wal", "agent.db-shm"}
        assert {one.name for one in folder.iterdir()} == beside  # they are the agent's
        agent.execute("DELETE FROM writes")
        ckpt("-s", packed, "threads", "list")
        assert (folder / "agent.db-wal").stat().st_size > 0
        assert packed.read_bytes() == before


def test_a_read_leaves_what_an_agent_opened_meanwhile(packed: Path) -> None:
    with open_store(str(packed)) as opened:
        assert opened.thread(THREAD) is not None
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, packed], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"open\n"
    assert packed.with_name("agent.db-shm").exists()
    agent.communicate(b"\n")
    with closing(sqlite3.connect(packed)) as db:
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
