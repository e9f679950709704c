"""What is erased from files is in none of their bytes, nor in blocks that the system frees."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remains
from ckpt_backends.overwriting import OldFiles, overwrite_and_remove
from tests.erase.canary import CANARY, OTHER, THREAD, erase, fill, still_there
from tests.erase.person import unpacked
from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.harness.sqlite import SqliteHarness

TEXT = b"the secret of anna"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "facts.json"
    path.write_bytes(TEXT)
    return path


def replace(path: Path) -> None:
    """Replace a file, as applications do."""
    other = path.with_suffix(".new")
    other.write_bytes(b"new")
    other.replace(path)


def test_a_removed_file_is_overwritten_unless_it_has_another_name(file: Path) -> None:
    with file.open("rb") as opened:
        assert overwrite_and_remove(file) == ()
        assert opened.read() == bytes(len(TEXT))
    file.write_bytes(TEXT)
    backup = file.with_name("backup.json")
    os.link(file, backup)
    (remaining,) = overwrite_and_remove(file)
    assert "another name" in remaining.reason
    assert backup.read_bytes() == TEXT
    assert not file.exists()


def test_a_link_is_not_followed(file: Path) -> None:
    link = file.with_name("link.json")
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic"):
        overwrite_and_remove(link)
    assert file.read_bytes() == TEXT


def test_a_replaced_file_is_overwritten(file: Path) -> None:
    with OldFiles() as old, file.open("rb") as opened:
        old.hold(file, "facts")
        replace(file)
        # The descriptor of this test would count as a reader.
        copy = os.open(f"/proc/self/fd/{opened.fileno()}", os.O_PATH)
        opened.close()
        remains = old.remains()
        assert remains.done == ("overwrite facts",)
        assert Path(f"/proc/self/fd/{copy}").read_bytes() == bytes(len(TEXT))
        os.close(copy)
    assert file.read_bytes() == b"new"


def test_a_file_that_is_read_or_was_not_replaced_is_left_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.overwriting._WAIT_SECONDS", 0.0)
    with OldFiles() as old:
        old.hold(file, "facts")
        assert old.remains() == Remains(places=(FREED_BLOCKS, BACKUPS))
    assert file.read_bytes() == TEXT
    with OldFiles() as old, file.open("rb") as opened:
        old.hold(file, "facts")
        replace(file)
        remains = old.remains()
        assert opened.read() == TEXT
    assert remains.places[0].reason == "another process has it open"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevHarness]:
    with DevHarness(tmp_path, None) as harness:
        yield harness


def test_the_files_of_langgraph_dev_are_overwritten(dev: DevHarness) -> None:
    rows, url = fill(dev), dev.url
    names = [one.name for one in sorted(dev.path.iterdir())]
    left = dev.path / f"{names[0]}.tmp"
    left.write_bytes(CANARY.encode())
    os.utime(left, (0, 0))
    kept = [os.open(one, os.O_PATH) for one in sorted(dev.path.iterdir())]
    remains = erase(url)
    assert still_there(remains) == []
    assert len(remains.done) == 3
    for one in kept:
        assert CANARY.encode() not in Path(f"/proc/self/fd/{one}").read_bytes()
        os.close(one)
    assert sorted(one.name for one in dev.path.iterdir()) == names
    assert all(CANARY.encode() not in one.read_bytes() for one in dev.path.iterdir())
    assert dev.rows(OTHER) == rows


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SqliteHarness]:
    with SqliteHarness(tmp_path, None) as made:
        yield made


@pytest.mark.parametrize("mode", ["wal", "persist"])
def test_no_file_holds_an_erased_thread(harness: SqliteHarness, tmp_path: Path, mode: str) -> None:
    rows = fill(harness)
    harness.connection.execute("CREATE TABLE runs (run_id text, thread_id text)")
    harness.connection.execute(f"PRAGMA journal_mode = {mode}")
    harness.connection.execute("PRAGMA secure_delete = OFF")
    # Deleted by the application, without overwriting.
    harness.copy(THREAD, f"{THREAD}2")
    harness.connection.execute("DELETE FROM checkpoints WHERE thread_id = ?", [f"{THREAD}2"])
    harness.connection.execute("DELETE FROM writes WHERE thread_id = ?", [f"{THREAD}2"])
    harness.connection.commit()
    assert CANARY.encode() in unpacked(tmp_path)
    remains = erase(harness.url)
    assert remains.places[0].place == "other tables with thread ids"
    assert remains.places[0].reason.startswith("runs: ")
    log = ["wal_checkpoint(TRUNCATE)"] if mode == "wal" else []
    assert remains.done == ("secure_delete=ON", "VACUUM", *log)
    assert still_there(remains) == []
    assert CANARY.encode() not in unpacked(tmp_path)
    assert harness.rows(OTHER) == rows


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
    assert CANARY.encode() not in unpacked(tmp_path)
