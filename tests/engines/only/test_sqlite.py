"""What only SQLite has: logs, journals and locks, folders that cannot be written, bytes that stay.

A read shows committed transactions only, and changes neither the file nor what stands beside it,
whatever killed and living writers left there (https://www.sqlite.org/lockingv3.html).
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from urllib.parse import quote

import numpy
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.changes import MOVED
from ckpt_backends.codec.stored import EMPTY_TYPES, StoredTexts
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite import journals
from ckpt_backends.url import parse_url
from ckpt_cli.plans.purge import plan_named
from tests.engines.answers import refuses, succeeds
from tests.kit.agents.steps import config_of, graph_of, talk
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store
from tests.kit.harness.three_table import MAKER
from tests.kit.rows import change

# SQLite stores with the rollback journal of a writer that was killed.

KILLED = """
import os, signal, sqlite3, sys
path, mode, pages = sys.argv[1:]
writer = sqlite3.connect(path, isolation_level=None)
writer.execute(f"PRAGMA journal_mode = {mode}")
writer.execute(f"PRAGMA cache_size = {pages}")
writer.execute("BEGIN IMMEDIATE")
writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
os.kill(os.getpid(), signal.SIGKILL)
"""
SPILLED, CACHED = "1", "-20000"
"""With a cache of one page, changed pages stand in the file; with a large one, none do."""
MAGIC = bytes.fromhex("d9d505f920a163d7")


def journal(store: Path) -> Path:
    return store.with_name(store.name + "-journal")


def killed(store: Path, mode: str = "delete", pages: str = SPILLED) -> Path:
    """A store in which a writer was killed in the middle of a transaction."""
    shutil.copyfile(SAMPLE, store)
    subprocess.run([sys.executable, "-c", KILLED, store, mode, pages], check=False)
    # SQLite writes the magic number when the journal is synced, before it changes the file.
    assert journal(store).read_bytes()[:8] == (MAGIC if pages == SPILLED else bytes(8))
    assert (b"UNCOMMITTED" in store.read_bytes()) == (pages == SPILLED)
    return store


# Folders that cannot be written, even if the tests run as root.

NOBODY = 65534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Run a part of a test as another user, since root may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
            os.setegid(0)


def lock(folder: Path) -> None:
    """Let any user read a folder and its files, and none write them."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)


OLD = "refund-4711"


@pytest.fixture(scope="session")
def _imported() -> None:
    """Load late modules now: another user may not read this environment."""
    for words in (["--copy", "threads", "list"], ["stores"], ["du"], ["grep", "x"]):
        ckpt("-s", SAMPLE, *words)


@pytest.fixture
def locked_folder(_imported: None) -> Iterator[Path]:
    """An empty folder that a test fills and then locks, so that any user can read it and none
    can write.
    """
    folder = Path(tempfile.mkdtemp(prefix="ckpt-test-"))
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def with_a_log(store: Path, statement: str) -> Path:
    """Make a store whose last change stands only in its write-ahead log, as after a crash."""
    live = store.with_name("live.db")
    shutil.copyfile(SAMPLE, live)
    with closing(sqlite3.connect(live)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute(statement)
        writer.commit()
        shutil.copyfile(live, store)
        shutil.copyfile(f"{live}-wal", f"{store}-wal")
    for one in store.parent.glob("live.db*"):
        one.unlink()
    return store


def threads(url: str) -> set[str]:
    with open_store(url) as store:
        return {thread.thread_id for thread in store.threads()}


def test_a_folder_that_cannot_be_written(locked_folder: Path) -> None:
    """A store without a log is read as it is; of one with a log, a copy is."""
    store, logged = locked_folder / "store.db", locked_folder / "logged.db"
    shutil.copyfile(SAMPLE, store)
    with_a_log(logged, f"UPDATE checkpoints SET thread_id = 'in-the-log' WHERE thread_id = '{OLD}'")
    before = sorted(locked_folder.iterdir())
    lock(locked_folder)
    with unprivileged():
        answer = succeeds(store, "threads", "list")
        refuses(logged, "threads", "list", says="hint: add --copy")
        copied = succeeds(logged, "--copy", "threads", "list")
    assert "trip-to-kyoto" in answer.out
    assert "its folder cannot be written" in answer.err
    assert "in-the-log" in copied.out
    assert sorted(locked_folder.iterdir()) == before


def test_no_copy_is_of_half_a_transaction(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(sample)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        refuses(sample, "threads", "list", says="try again")
        writer.rollback()
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
        assert Path(f"{sample}-journal").exists()
        refuses(sample, "--copy", "threads", "list", says="another process is writing")
        writer.rollback()
    assert "UNCOMMITTED" not in ckpt("-s", sample, "--copy", "threads", "list").out


def test_a_disturbed_copy_is_made_again(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = journals._copy
    copies: list[Path] = []

    def disturbed(source: Path, target: Path, **more: bool) -> None:
        real(source, target, **more)
        if not copies:
            os.utime(source, ns=(1, 1))
        copies.append(target)

    monkeypatch.setattr(journals, "_copy", disturbed)
    assert "trip-to-kyoto" in threads(f"sqlite:///{sample}?copy=1")
    assert len(copies) == 2


def test_a_path_with_odd_characters(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sample.parent)
    odd = sample.parent / "a b?c#d%41é.db"
    sample.rename(odd)
    for name in (str(odd), f"sqlite:///{quote(str(odd))}"):
        assert "trip-to-kyoto" in threads(name)
    no_text = os.fsencode(sample.parent) + b"/x\xff.db"
    os.rename(os.fsencode(odd), no_text)
    ckpt("stores", code=0)
    assert "trip-to-kyoto" in threads(os.fsdecode(no_text))


NEWEST = "langgraph-checkpoint-sqlite 3.1.2 or later"
JAVASCRIPT = "LangGraph.js, @langchain/langgraph-checkpoint-sqlite"


@cases(
    "era saver both",
    (
        "lg-0.2.14-json",
        "langgraph-checkpoint-sqlite with langgraph-checkpoint before 1.0.10",
        f" and {NEWEST}",
    ),
    ("lg-1.0.10", "langgraph-checkpoint-sqlite before 3.1.2", ", and 3.1.2 or later"),
    ("lg-1.2.22", NEWEST, ""),
    ("js-0.2.74", JAVASCRIPT, f" and {NEWEST}"),
    ("js-1.7.3", JAVASCRIPT, f" and {NEWEST}"),
)
def test_all_who_wrote_a_store_are_named(era: str, saver: str, both: str, tmp_path: Path) -> None:
    path = str(copy_store(FIXTURES / era / "store.db", tmp_path))
    with open_store(path) as store:
        assert store.describe().saver == saver
    with SqliteSaver.from_conn_string(path) as newest:
        newest.put(config_of("new"), empty_checkpoint(), {}, {})
    with open_store(path) as store:
        assert store.describe().saver == saver + both


def test_a_writer_waits_for_nobody_who_follows_a_thread(sample: Path) -> None:
    """Without a write-ahead log, a reader's lock keeps writers out for as long as it is held."""
    with closing(sqlite3.connect(sample, timeout=0)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        with open_store(str(sample)) as store:
            list(store.threads())
            store.refresh()
            writer.execute("DELETE FROM writes")
            writer.commit()
            assert list(store.writes(OLD)) == []


def test_a_second_opening_leaves_the_locks_of_the_first(sample: Path) -> None:
    """Closing any descriptor of a file would drop them, and the last writer remove the log."""
    elsewhere = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('PRAGMA journal_mode = WAL');"
        "c.execute(\"UPDATE writes SET task_path = task_path WHERE thread_id = 'x'\");"
        "c.execute(\"DELETE FROM checkpoints WHERE thread_id = 'refund-4711'\"); c.commit();"
        "c.close()"
    )
    with open_store(str(sample)) as first:
        assert first.thread(OLD) is not None
        with open_store(str(sample)) as second:
            assert second.thread(OLD) is not None
        open_store(str(sample)).close()
        first.refresh()
        subprocess.run([sys.executable, "-c", elsewhere, str(sample)], check=True)
        assert Path(f"{sample}-wal").exists()
        first.refresh()
        assert first.thread(OLD) is None


def test_a_file_that_is_replaced_meanwhile_is_not_read_on(sample: Path) -> None:
    other = Path(shutil.copyfile(SAMPLE, sample.with_name("other.db")))
    with open_store(str(sample)) as store:
        assert list(store.threads())
        store.refresh()
        other.replace(sample)
        with pytest.raises(StoreUnavailable, match="replaced"):
            store.refresh()
        sample.unlink()
        with pytest.raises(StoreUnavailable, match="removed"):
            store.refresh()
        with pytest.raises(StoreUnavailable, match="no such file"):
            store.describe()


CHANGES = [
    ["rollback", "trip-to-kyoto", "~1", "--yes"],
    ["threads", "delete", "trip-to-kyoto", "--yes"],
]


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("words", CHANGES, ids=lambda words: " ".join(words[:2]))
def test_no_right_to_write_is_said(words: list[str], mode: str, locked_folder: Path) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    ckpt("-s", store, *words[:-1], "--dry-run", code=0)
    before = store.read_bytes()
    lock(locked_folder)
    with unprivileged():
        no_file = ckpt("-s", store, *words)
    store.chmod(0o666)
    with unprivileged():
        no_folder = ckpt("-s", store, *words)
    for answer in (no_file, no_folder):
        assert answer.code == 4
        assert "permission denied" in answer.err
        assert str(store) in answer.err
        assert "--copy" not in answer.err
    assert f"for its folder '{locked_folder}'" in no_folder.err
    assert store.read_bytes() == before


@pytest.mark.parametrize("first", [100, 4096], ids=["schema", "rows"])
def test_a_damaged_file_has_a_hint(sample: Path, first: int) -> None:
    data = bytearray(sample.read_bytes())
    data[first:] = b"\xff" * (len(data) - first)
    sample.write_bytes(data)
    for words in (["threads", "list"], ["show", "trip-to-kyoto"]):
        answer = refuses(sample, *words, says="the file is damaged")
        assert f"hint: `sqlite3 {sample} .recover | sqlite3 recovered.db`" in answer.err


@cases("number", 0, 1, 250)
def test_text_that_is_not_unicode_is_read_among_other_text(sample: Path, number: int) -> None:
    names = [f"channel {n:03}".encode() for n in range(300)]
    names[number] = b"channel \xff\xfe"
    with closing(sqlite3.connect(sample)) as writer, writer:
        writer.execute("DELETE FROM writes")
        writer.executemany(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel)"
            " VALUES (?, '', 'id', 'task', ?, CAST(? AS TEXT))",
            [(OLD, n, name) for n, name in enumerate(names)],
        )
    with open_store(str(sample)) as store:
        found = [one.channel for one in store.writes(OLD)]
        assert [one.encode("utf-8", "surrogateescape") for one in found] == names
        assert [one.channel for one in store.writes(OLD)] == found


def test_the_engine_rules_out_no_value_that_may_hold_a_text(sample: Path) -> None:
    dumps = JsonPlusSerializer().dumps_typed
    values: list[tuple[str | None, bytes | str | None]] = [
        *map(dumps, ["Hotel Kanra", "Hotel kanra", 9876543210, 9.876543210e99, -7, "été 3"]),
        *(dumps(numpy.array(items)) for items in (["Kanra"], [9876543210])),
        *(("json", json.dumps(one).encode()) for one in ("été 3", "Kanra", "other", -7)),
        *((tag, b"Kanra") for tag in ("bytes", "null", "pickle", "msgpack+aes", None)),
        *(("msgpack", one) for one in ("\x85Kanra", "other", None)),
    ]
    with closing(sqlite3.connect(sample)) as connection, connection:
        connection.executemany(
            "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel, type, value)"
            " VALUES (?, '1', 't', 0, 'c', ?, ?)",
            [(f"searched {n}", *value) for n, value in enumerate(values)],
        )
    ids = [f"searched {n}" for n in range(len(values))]
    with open_store(str(sample)) as store:
        for text in ("Kanra", "9876543210", "-7", "été 3"):
            wanted, expected = StoredTexts([text]), set[str]()
            for one, (tag, cell) in zip(ids, values, strict=True):
                data = cell.encode() if isinstance(cell, str) else cell or b""
                if tag not in EMPTY_TYPES and wanted.may_be_in(tag or "", data):
                    expected.add(one)
            assert store.threads_that_may_hold(ids, [text]) == expected, text
            many = [text, *(f"absent {n}" for n in range(2000))]
            assert store.threads_that_may_hold(ids, many) >= expected


# What is removed stands neither in the file nor in its log, and gives space back


SECRET, OTHER = "the secret of anna", "the words of bert"
YES = "--yes"


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


def test_undone_pruned_or_deleted_leaves_the_disk(store: Path, agent: sqlite3.Connection) -> None:
    """From the log at first, and then from the file."""
    reason = "a reason nobody needs any more"
    ckpt("-s", store, "rollback", "anna", "~1", "--reason", reason, YES, code=0)
    agent.execute(
        "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
        " value) SELECT thread_id, '', '1ef00000-0000-6000-8000-000000000000', 'x', 0, 'items',"
        " 'json', '\"an orphan\"' FROM checkpoints LIMIT 1"
    )
    agent.commit()
    assert reason.encode() in stored(store)
    assert b"an orphan" in stored(store)
    for words in (
        *(["undo", "anna"], ["gc", "--scope", "writes"], ["purge", "--keep-last", "1"]),
        ["threads", "delete", "anna"],
    ):
        assert SECRET.encode() in stored(store)
        assert "may remain" not in succeeds(store, *words, YES).err
        assert log(store).stat().st_size == 0, words
    for text in (reason, "an orphan", SECRET):
        assert text.encode() not in store.read_bytes(), text
    assert OTHER.encode() in store.read_bytes()


def test_a_forgotten_item_is_gone_from_the_disk(tmp_path: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as first:
        first.execute("PRAGMA journal_mode = WAL")
    with SqliteStore.from_conn_string(str(path)) as memory:
        memory.setup()
        memory.put(("users", "anna"), "profile", {"text": SECRET})
        assert SECRET.encode() in stored(path)
        ckpt("-s", path, "memory", "delete", "users/anna/profile", YES, code=0)
        assert SECRET.encode() not in stored(path)
        assert log(path).stat().st_size == 0


def test_three_tables_too_and_sizes_count_the_log(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with closing(sqlite3.connect(path)) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
        MAKER.fill("sqlite", agent.execute, mark="?")
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
        ckpt("-s", path, "threads", "delete", name, YES, code=0)
        assert name.encode() not in stored(path)
        assert log(path).stat().st_size == 0


def test_a_thread_with_a_write_since_the_plan_stays(sample: Path) -> None:
    with open_store(str(sample)) as found:
        (planned,) = plan_named(found, {OLD: "named"})
    late = "SELECT thread_id, '', max(checkpoint_id), 'late', 0, 'x' FROM checkpoints"
    columns = "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel"
    change(sample, f"INSERT INTO writes ({columns}) {late} WHERE thread_id = ?", OLD)
    with open_writable(parse_url(str(sample))) as writable:
        (done,) = writable.remove([planned.removal])
    assert done.skipped == MOVED


def test_a_reader_that_keeps_a_log_is_told(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(store, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM writes").fetchone()
        answer = ckpt("-s", store, "threads", "delete", "anna", YES, code=0)
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
    with_a_log(store, "UPDATE writes SET task_path = 'x'")
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
    assert ckpt("-s", store, "--copy", "threads", "list").out.count("UNCOMMITTED") == THREADS


def test_no_file_that_a_journal_names_is_deleted(tmp_path: Path) -> None:
    """SQLite itself would delete any file that is named as the super-journal."""
    store, other = killed(tmp_path / "store.db"), tmp_path / "thesis.txt"
    other.write_text("years of work")
    name_super_journal(store, other)
    ckpt("-s", store, "--copy", "threads", "list", code=0)
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
        talk(saver, THREAD)
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
    said = ckpt("-s", "pointer.sqlite", "threads", "list", says="it is a pointer of Git LFS")
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
    for first in (0, 1):  # A plan reads a store twice at a time; either reader may end first.
        stores = [open_store(str(packed)), open_store(str(packed))]
        assert all(len(list(one.threads())) == 1 for one in stores)
        stores.pop(first).close()
        stores.pop().close()
        assert list(folder.iterdir()) == [packed]
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
