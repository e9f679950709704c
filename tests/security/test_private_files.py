"""What `ckpt` writes can be read by its owner only, under any umask and in any folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckpt_backends.files import TemporaryFolder, remove_all
from ckpt_backends.registry import open_store
from tests.kit.command import ckpt
from tests.kit.savers.deerflow import memory, save

WRITERS = {
    "export": ["export", "trip-to-kyoto", "--to", "new/deep"],
    "export as JSON": ["export", "trip-to-kyoto", "--format", "jsonl", "--to", "new/deep"],
    "threads delete": ["threads", "delete", "trip-to-kyoto", "--archive", "new/deep", "--yes"],
    "purge": ["purge", "--match", "trip*", "--include-pending", "--archive", "new/deep", "--yes"],
    "plan": ["purge", "--match", "*", "--include-pending", "--plan-out", "plan.ndjson"],
    "memory export": ["-s", "memory.json", "memory", "export", "--to", "items.ndjson"],
    "memory delete": [
        *("-s", "memory.json", "memory", "delete", "--match", "*", "--write", "--yes"),
        *("--archive", "new/deep"),
    ],
    "demo": ["demo", "sample.db"],
}


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def folder(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a store and a memory."""
    save(tmp_path / "memory.json", memory())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("name", WRITERS)
def test_every_new_file_is_its_owners_alone(folder: Path, name: str, mask: int) -> None:
    before = set(folder.rglob("*"))
    with umask(mask):
        done = ckpt("-s", folder / "store.db", *WRITERS[name])
    assert done.code == 0, done.err
    # SQLite gives the files next to a database the mode of the database.
    made = {path for path in folder.rglob("*") if not path.name.startswith("store.db")} - before
    assert any(path.is_file() for path in made)
    modes = {path: path.stat().st_mode & 0o777 for path in made}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in made}


@pytest.mark.parametrize("name", ["plan", "memory export"])
def test_a_file_that_is_replaced_gets_private_and_its_folder_stays_as_it_is(
    folder: Path, name: str
) -> None:
    path = folder / WRITERS[name][-1]
    path.touch()
    path.chmod(0o644)
    folder.chmod(0o755)
    assert ckpt("-s", folder / "store.db", *WRITERS[name]).code == 0
    assert path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_exists_is_left_as_it_is(folder: Path) -> None:
    backups = folder / "backups"
    backups.mkdir()
    backups.chmod(0o755)
    assert ckpt("-s", folder / "store.db", "export", "trip-to-kyoto", "--to", backups).code == 0
    assert backups.stat().st_mode & 0o777 == 0o755
    (bundle,) = backups.iterdir()
    assert bundle.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_a_private_copy_is_its_owners_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mask: int
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with umask(mask), open_store(f"sqlite:///{folder / 'store.db'}?copy=1") as store:
        assert list(store.threads())
        (copies,) = folder.glob("ckpt-*")
        assert copies.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in copies.iterdir()} == {0o600}
    assert not copies.exists()


def test_a_temporary_folder_of_a_killed_run_is_removed_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, others, victim = tmp_path / f"ckpt-private-{'0' * 16}", [], tmp_path / "victim"
    left.mkdir(mode=0o700)
    (left / "copy.db").touch()
    for name in ("ckpt-1000", "ckpt-private-", f"ckpt-private-{'0' * 15}x"):
        others.append(tmp_path / name)
        others[-1].mkdir(mode=0o700)
    victim.mkdir(mode=0o700)
    link = tmp_path / f"ckpt-private-{'1' * 16}"
    link.symlink_to(victim)
    with TemporaryFolder() as used, TemporaryFolder() as other:
        assert not left.exists()
        assert sorted(tmp_path.iterdir()) == sorted([*others, victim, link, used, other])
    assert sorted(tmp_path.iterdir()) == sorted([*others, victim, link])


def test_where_others_can_rename_folders_none_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    precious = tmp_path / f"ckpt-private-{'0' * 16}"
    precious.mkdir(mode=0o700)
    tmp_path.chmod(0o777)
    TemporaryFolder().remove()
    assert precious.exists()
    tmp_path.chmod(0o1777)
    TemporaryFolder().remove()
    assert not precious.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_temporary_folder_of_another_user_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = tmp_path / f"ckpt-private-{'0' * 16}"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12345, 12345)
    TemporaryFolder().remove()
    assert theirs.exists()


def test_without_a_folder_for_temporary_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder / "missing"))
    refused = ckpt("-s", folder / "store.db", "--copy", "threads", "list")
    assert (refused.code, "hint: set TMPDIR" in refused.err) == (4, True)


def test_a_folder_is_removed_if_a_signal_comes_just_after_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def made(path: Path, mode: int) -> None:
        make(path, mode)
        raise KeyboardInterrupt

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", made)
    with pytest.raises(KeyboardInterrupt):
        TemporaryFolder()
    remove_all()
    assert list(tmp_path.iterdir()) == []
