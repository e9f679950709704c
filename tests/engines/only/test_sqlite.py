"""What only SQLite has: its log, its locks, and folders that cannot be written."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import numpy
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.codec.stored import EMPTY_TYPES, StoredTexts
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite import journals
from ckpt_backends.url import parse_url
from tests.engines.answers import refuses
from tests.kit.agents.steps import config_of
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, SAMPLE, ckpt, copy_store
from tests.kit.locked import lock, unprivileged

OLD = "refund-4711"


@pytest.fixture
def with_log(tmp_path: Path) -> Path:
    """A store whose newest thread stands only in the write-ahead log, as after a crash."""
    live = tmp_path / "live.db"
    shutil.copyfile(SAMPLE, live)
    with closing(sqlite3.connect(live)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE checkpoints SET thread_id = 'in-the-log' WHERE thread_id = ?", [OLD])
        writer.commit()
        crashed = tmp_path / "crashed" / "store.db"
        crashed.parent.mkdir()
        shutil.copyfile(live, crashed)
        shutil.copyfile(f"{live}-wal", f"{crashed}-wal")
    return crashed


def threads(url: str) -> set[str]:
    with open_store(url) as store:
        return {thread.thread_id for thread in store.threads()}


@cases("url", "{}", "sqlite:///{}?copy=1")
def test_rows_that_stand_only_in_the_log_are_read(with_log: Path, url: str) -> None:
    before, log = sorted(with_log.parent.iterdir()), Path(f"{with_log}-wal")
    held = with_log.read_bytes(), log.read_bytes()
    assert "in-the-log" in threads(url.format(with_log))
    assert (with_log.read_bytes(), log.read_bytes()) == held
    assert "copy" not in url or sorted(with_log.parent.iterdir()) == before


def test_two_readers_of_one_process_leave_no_files(sample: Path) -> None:
    """Whichever is closed first; a plan reads a store twice at a time."""
    for first in (0, 1):
        stores = [open_store(str(sample)), open_store(str(sample))]
        assert all(len(list(one.threads())) > 1 for one in stores)
        stores.pop(first).close()
        stores.pop().close()
        assert list(sample.parent.iterdir()) == [sample]


def test_a_folder_that_cannot_be_written(locked_folder: Path) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(SAMPLE, store)
    lock(locked_folder)
    with unprivileged():
        answer = ckpt("-s", store, "threads", "list")
    assert answer.code == 0, answer.err
    assert "trip-to-kyoto" in answer.out
    assert "its folder cannot be written" in answer.err
    assert [path.name for path in locked_folder.iterdir()] == ["store.db"]


def test_a_log_in_a_folder_that_cannot_be_written(locked_folder: Path, with_log: Path) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(with_log, store)
    shutil.copyfile(f"{with_log}-wal", f"{store}-wal")
    lock(locked_folder)
    with unprivileged():
        refused = ckpt("-s", store, "threads", "list")
        copied = ckpt("-s", store, "--copy", "threads", "list")
    assert refused.code == 4
    assert "hint: add --copy" in refused.err
    assert copied.code == 0, copied.err
    assert "in-the-log" in copied.out


def test_a_locked_store_says_so(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(sample)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable) as caught:
            open_store(str(sample))
    assert caught.value.hint is not None
    assert "try again" in caught.value.hint


def test_a_copy_is_never_of_half_a_transaction(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.sqlite.database._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(sample)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE checkpoints SET thread_id = 'UNCOMMITTED' || thread_id")
        assert Path(f"{sample}-journal").exists()
        refuses(sample, "--copy", "threads", "list", says="another process is writing")
        writer.rollback()
    assert "UNCOMMITTED" not in ckpt("-s", sample, "--copy", "threads", "list").out


def test_a_copy_that_changes_while_it_is_made_is_made_again(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert ckpt("stores").code == 0
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


def test_a_second_opening_leaves_the_locks_of_the_first(tmp_path: Path) -> None:
    """Closing any descriptor of a file would drop them, and the last writer remove the log."""
    path = tmp_path / "agent.db"
    shutil.copyfile(SAMPLE, path)
    url = parse_url(str(path))
    elsewhere = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('PRAGMA journal_mode = WAL');"
        "c.execute(\"UPDATE writes SET task_path = task_path WHERE thread_id = 'x'\");"
        "c.execute(\"DELETE FROM checkpoints WHERE thread_id = 'refund-4711'\"); c.commit();"
        "c.close()"
    )
    with open_store(url) as first:
        assert first.thread("refund-4711") is not None
        with open_store(url) as second:
            assert second.thread("refund-4711") is not None
        open_store(url).close()
        first.refresh()
        subprocess.run([sys.executable, "-c", elsewhere, str(path)], check=True)
        assert path.with_name("agent.db-wal").exists()
        first.refresh()
        assert first.thread("refund-4711") is None


def test_a_file_that_is_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    path, other = tmp_path / "agent.db", tmp_path / "other.db"
    shutil.copyfile(SAMPLE, path)
    shutil.copyfile(SAMPLE, other)
    with open_store(parse_url(str(path))) as store:
        assert list(store.threads())
        store.refresh()
        other.replace(path)
        with pytest.raises(StoreUnavailable, match="replaced"):
            store.refresh()
        path.unlink()
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
def test_a_change_of_what_cannot_be_written_says_so(
    words: list[str], mode: str, locked_folder: Path
) -> None:
    store = locked_folder / "store.db"
    shutil.copyfile(SAMPLE, store)
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
    assert ckpt("-s", store, *words[:-1], "--dry-run").code == 0
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


@pytest.mark.parametrize("number", [0, 1, 250])
def test_text_that_is_not_unicode_is_read_among_other_text(tmp_path: Path, number: int) -> None:
    path = tmp_path / "odd.db"
    shutil.copyfile(SAMPLE, path)
    names = [f"channel {n:03}".encode() for n in range(300)]
    names[number] = b"channel \xff\xfe"
    with closing(sqlite3.connect(path)) as writer, writer:
        writer.execute("DELETE FROM writes")
        writer.executemany(
            "INSERT INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel)"
            " VALUES (?, '', 'id', 'task', ?, CAST(? AS TEXT))",
            [(OLD, n, name) for n, name in enumerate(names)],
        )
    with open_store(parse_url(str(path))) as store:
        found = [one.channel for one in store.writes(OLD)]
        assert [one.encode("utf-8", "surrogateescape") for one in found] == names
        assert [one.channel for one in store.writes(OLD)] == found


SEARCHED = ["Kanra", "9876543210", "-7", "été 3"]


def as_bytes(cell: bytes | str | None) -> bytes:
    return cell.encode() if isinstance(cell, str) else cell or b""


def test_the_engine_rules_out_no_value_that_may_hold_a_text(sample: Path) -> None:
    dumps = JsonPlusSerializer().dumps_typed
    values: list[tuple[str | None, bytes | str | None]] = [
        *map(dumps, ["Hotel Kanra", "Hotel kanra", 9876543210, 9.876543210e99, -7, "été 3"]),
        *(dumps(numpy.array(items)) for items in (["Kanra"], [9876543210])),
        *(("json", json.dumps(one).encode()) for one in ("été 3", "Kanra", "other", -7)),
        *((tag, b"Kanra") for tag in ("bytes", "null", "pickle", "msgpack+aes", None)),
        ("msgpack", "\x85Kanra"),
        ("msgpack", "other"),
        ("msgpack", None),
    ]
    ids = [f"searched {n}" for n in range(len(values))]
    with closing(sqlite3.connect(sample)) as connection, connection:
        names = "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value"
        insert = f"INSERT INTO writes ({names}) VALUES (?, '', '1', 't', 0, 'c', ?, ?)"
        rows = [(one, *value) for one, value in zip(ids, values, strict=True)]
        connection.executemany(insert, rows)
    with open_store(parse_url(str(sample))) as store:
        for text in SEARCHED:
            wanted = StoredTexts([text])
            expected = {
                one
                for one, (tag, cell) in zip(ids, values, strict=True)
                if tag not in EMPTY_TYPES and wanted.may_be_in(tag or "", as_bytes(cell))
            }
            assert store.threads_that_may_hold(ids, [text]) == expected, text
            many = [text, *(f"absent {n}" for n in range(2000))]
            assert store.threads_that_may_hold(ids, many) >= expected
