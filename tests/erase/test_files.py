"""What is erased from files is overwritten before the system frees their blocks."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remains
from ckpt_backends.overwriting import OldFiles, overwrite_and_remove
from tests.erase.canary import CANARY, OTHER, erase, fill, still_there
from tests.kit.harness.langgraph_dev import DevHarness

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


def test_a_removed_file_is_overwritten(file: Path) -> None:
    with file.open("rb") as opened:
        assert overwrite_and_remove(file) == ()
        assert opened.read() == bytes(len(TEXT))
    assert not file.exists()


def test_a_file_with_another_name_is_only_removed(file: Path) -> None:
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


def test_a_file_that_is_being_read_is_left_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_backends.overwriting._WAIT_SECONDS", 0.0)
    with OldFiles() as old, file.open("rb") as opened:
        old.hold(file, "facts")
        replace(file)
        remains = old.remains()
        assert opened.read() == TEXT
    assert remains.places[0].reason == "another process has it open"


def test_a_file_that_was_not_replaced_is_left_alone(file: Path) -> None:
    with OldFiles() as old:
        old.hold(file, "facts")
        assert old.remains() == Remains(places=(FREED_BLOCKS, BACKUPS))
    assert file.read_bytes() == TEXT


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
