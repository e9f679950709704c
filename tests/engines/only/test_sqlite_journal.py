"""Rollback journals of killed and of living writers (https://www.sqlite.org/lockingv3.html).

A read shows committed transactions only, and changes neither the file nor its journal.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from tests.kit.command import SAMPLE, ckpt
from tests.kit.locked import lock, unprivileged
from tests.kit.planting.journals import CACHED, MAGIC, journal, killed

THREADS = 8

COMMANDS = [
    ["threads", "list", "--long", "-o", "json"],
    ["show", "trip-to-kyoto"],
    ["grep", "Kyoto"],
    ["du"],
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


HOT: list[Callable[[Path], Path]] = [
    killed,
    lambda store: killed(store, "truncate"),
    lambda store: killed(store, "persist"),
    torn_tail,
    half_a_header,
    super_journal,
    beside_a_log,
]
NAMES = [
    *("delete", "truncate", "persist", "torn tail", "half a header"),
    *("super-journal", "beside a log"),
]


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.iterdir()}


@pytest.mark.parametrize("is_locked", [False, True], ids=["writable", "locked"])
@pytest.mark.parametrize("leave", HOT, ids=NAMES)
def test_an_unfinished_transaction_is_never_shown(
    leave: Callable[[Path], Path], is_locked: bool, locked_folder: Path
) -> None:
    store = leave(locked_folder / "store.db")
    if is_locked:
        lock(locked_folder)
    before = contents(locked_folder)
    with unprivileged() if is_locked else nullcontext():
        for words in COMMANDS:
            answer = ckpt("-s", store, *words)
            assert answer.code == 4, words
            assert "an unfinished transaction in 'store.db-journal'" in answer.err
            assert "add --copy to read a private copy with it rolled back" in answer.err
            assert "its folder" not in answer.err
            assert "UNCOMMITTED" not in answer.out + answer.err
        copied = ckpt("-s", store, "--copy", "threads", "list", "-o", "json")
    assert len(copied.json) == THREADS
    assert "UNCOMMITTED" not in copied.out
    assert "rolled back" in copied.err
    assert "writing" not in copied.err
    assert contents(locked_folder) == before


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


@pytest.mark.parametrize("times", [1, 2])
def test_no_file_that_a_journal_names_is_deleted(tmp_path: Path, times: int) -> None:
    """SQLite itself would delete any file that is named as the super-journal."""
    store, other = killed(tmp_path / "store.db"), tmp_path / "thesis.txt"
    other.write_text("years of work")
    for _ in range(times):
        name_super_journal(store, other)
    assert ckpt("-s", store, "--copy", "threads", "list").code == 0
    assert other.read_text() == "years of work"
    # All commands refuse such a store before they write; it may be planted while they ask.
    with pytest.raises(StoreUnavailable, match=r"which SQLite would delete: '.*thesis\.txt'"):
        open_writable(parse_url(str(store)))
    assert other.read_text() == "years of work"


@pytest.mark.parametrize("is_locked", [False, True], ids=["writable", "locked"])
@pytest.mark.parametrize("mode", ["truncate", "persist"])
def test_a_journal_of_a_finished_transaction_is_none(
    mode: str, is_locked: bool, locked_folder: Path
) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as writer:
        writer.execute(f"PRAGMA journal_mode = {mode}")
        writer.execute("UPDATE checkpoints SET thread_id = 'committed-' || thread_id")
        writer.commit()
    assert journal(store).exists()
    if is_locked:
        lock(locked_folder)
    with unprivileged() if is_locked else nullcontext():
        for words in ([], ["--copy"]):
            answer = ckpt("-s", store, *words, "threads", "list")
            assert answer.code == 0, answer.err
            assert answer.out.count("committed-") == THREADS
            assert "rolled back" not in answer.err


@pytest.mark.parametrize("is_locked", [False, True], ids=["writable", "locked"])
@pytest.mark.parametrize("mode", ["delete", "truncate", "persist"])
def test_a_writer_killed_before_it_touched_the_file(
    mode: str, is_locked: bool, locked_folder: Path
) -> None:
    store = killed(locked_folder / "store.db", mode, CACHED)
    if is_locked:
        lock(locked_folder)
    before = contents(locked_folder)
    with unprivileged() if is_locked else nullcontext():
        for words in ([], ["--copy"]):
            answer = ckpt("-s", store, *words, "threads", "list", "-o", "json")
            assert len(answer.json) == THREADS
            assert "UNCOMMITTED" not in answer.out
    assert contents(locked_folder) == before


def test_a_log_store_with_an_old_journal_in_a_locked_folder(locked_folder: Path) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
    journal(store).write_bytes(bytes(600))
    lock(locked_folder)
    with unprivileged():
        assert ckpt("-s", store, "threads", "list").code == 0


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


@pytest.mark.parametrize("words", [[], ["--copy"]], ids=["file", "copy"])
def test_the_first_transaction_of_a_new_store(tmp_path: Path, words: list[str]) -> None:
    store = killed(tmp_path / "store.db")
    store.write_bytes(b"")
    before = contents(tmp_path)
    answer = ckpt("-s", store, *words, "threads", "list")
    assert answer.code == 4
    assert "no checkpoint tables" in answer.err
    assert contents(tmp_path) == before


def test_a_journal_without_its_database(tmp_path: Path) -> None:
    store = killed(tmp_path / "store.db")
    store.unlink()
    answer = ckpt("-s", store, "threads", "list")
    assert answer.code == 4
    assert "no such file" in answer.err
    assert [one.name for one in tmp_path.iterdir()] == ["store.db-journal"]


@pytest.mark.parametrize("words", [[], ["--copy"]], ids=["file", "copy"])
@pytest.mark.parametrize("synchronous", ["OFF", "FULL"])
def test_a_living_writer_that_has_not_touched_the_file_yet(
    sample: Path, words: list[str], synchronous: str
) -> None:
    with closing(sqlite3.connect(sample, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute(f"PRAGMA synchronous = {synchronous}")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
        assert (journal(sample).read_bytes()[:8] == MAGIC) == (synchronous == "OFF")
        answer = ckpt("-s", sample, *words, "threads", "list", "-o", "json")
        assert len(answer.json) == THREADS
        assert "UNCOMMITTED" not in answer.out
        assert "rolled back" not in answer.err
        writer.execute("COMMIT")
    assert ckpt("-s", sample, *words, "threads", "list").out.count("UNCOMMITTED") == THREADS


def test_a_journal_that_vanishes_while_sqlite_looks_at_it(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckpt_backends.sqlite import database as opening

    real, calls = opening._connect, list[str]()

    def connect(path: Path, query: str) -> sqlite3.Connection:
        calls.append(query)
        if len(calls) == 1:
            error = sqlite3.OperationalError("attempt to write a readonly database")
            error.sqlite_errorcode = sqlite3.SQLITE_READONLY_ROLLBACK
            raise error
        return real(path, query)

    monkeypatch.setattr(opening, "_connect", connect)
    assert ckpt("-s", sample, "threads", "list").code == 0
    assert calls == ["mode=ro", "mode=ro"]


def test_a_writer_that_is_killed_while_a_thread_is_followed(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    with open_store(str(store)) as opened:
        assert opened.thread("trip-to-kyoto") is not None
        opened.refresh()
        killed(tmp_path / "other.db")
        store.write_bytes((tmp_path / "other.db").read_bytes())
        journal(tmp_path / "other.db").rename(journal(store))
        with pytest.raises(StoreUnavailable) as caught:
            opened.thread("trip-to-kyoto")
    assert "an unfinished transaction" in caught.value.message
    assert "add --copy" in str(caught.value.hint)
