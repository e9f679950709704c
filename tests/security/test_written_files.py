"""What `ckpt` writes can be read by its owner only, and goes through no planted link."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import pytest

from ckpt_backends import platform
from ckpt_backends.files import TemporaryFolder, create_part, remove_all, remove_unfinished, writing
from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.kit.command import ckpt
from tests.kit.harness.langgraph_dev import FileSaver
from tests.kit.savers.deerflow import memory, save

WRITERS = {
    "export": "export trip-to-kyoto --to new/deep",
    "export as JSON": "export trip-to-kyoto --format jsonl --to new/deep",
    "threads delete": "threads delete trip-to-kyoto --archive new/deep --yes",
    "purge": "purge --match trip* --include-pending --archive new/deep --yes",
    "plan": "purge --match * --include-pending --plan-out plan.ndjson",
    "memory export": "-s memory.json memory export --to items.ndjson",
    "memory delete": "-s memory.json memory delete --match * --write --yes --archive new/deep",
    "demo": "demo sample.db",
    "rollback": "rollback trip-to-kyoto --steps 2 --yes",
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


@pytest.mark.parametrize("mask", [0o000, 0o077])
@pytest.mark.parametrize("name", WRITERS)
def test_every_new_file_is_its_owners_alone(folder: Path, name: str, mask: int) -> None:
    before = set(folder.rglob("*"))
    with umask(mask):
        done = ckpt("-s", folder / "store.db", *WRITERS[name].split())
    assert done.code == 0, done.err
    # SQLite gives the files next to a database the mode of the database.
    made = {path for path in folder.rglob("*") if not path.name.startswith("store.db")} - before
    recorded = set(Path(os.environ["XDG_STATE_HOME"]).rglob("*"))
    assert any(path.is_file() for path in made | recorded)
    made |= recorded
    modes = {path: path.stat().st_mode & 0o777 for path in made}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in made}


@pytest.mark.parametrize("name", ["plan", "memory export", "export"])
def test_what_is_written_into_a_folder_is_private_and_the_folder_stays_as_it_is(
    folder: Path, name: str
) -> None:
    """A file that is there gets private, too."""
    path = folder / WRITERS[name].split()[-1]
    into = path if name == "export" else folder
    into.mkdir(exist_ok=True, parents=True)
    into.chmod(0o755)
    if name != "export":
        path.touch()
        path.chmod(0o644)
    assert ckpt("-s", folder / "store.db", *WRITERS[name].split()).code == 0
    (made,) = into.iterdir() if name == "export" else [path]
    assert made.stat().st_size
    assert made.stat().st_mode & 0o777 == 0o600
    assert into.stat().st_mode & 0o777 == 0o755


def test_a_private_copy_is_its_owners_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with umask(0), open_store(f"sqlite:///{folder / 'store.db'}?copy=1") as store:
        assert list(store.threads())
        (copies,) = folder.glob("ckpt-*")
        assert copies.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in copies.iterdir()} == {0o600}
    assert not copies.exists()


def test_a_temporary_folder_of_a_killed_run_is_removed_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    left, theirs, link = (tmp_path / f"ckpt-private-{one * 16}" for one in "012")
    (tmp_path / "victim").mkdir(mode=0o700)
    link.symlink_to(tmp_path / "victim")
    for name in ("ckpt-1000", "ckpt-private-", f"ckpt-private-{'0' * 15}x"):
        (tmp_path / name).mkdir(mode=0o700)
    if os.geteuid() == 0:
        theirs.mkdir(mode=0o700)
        os.chown(theirs, 12345, 12345)
    others = sorted(tmp_path.iterdir())
    left.mkdir(mode=0o700)
    (left / "copy.db").touch()
    # Where others can rename folders, it may be any folder of the victim.
    tmp_path.chmod(0o777)
    TemporaryFolder().remove()
    assert left.exists()
    tmp_path.chmod(0o1777)
    with TemporaryFolder() as used, TemporaryFolder() as other:
        assert sorted(tmp_path.iterdir()) == sorted([*others, used, other])
    assert sorted(tmp_path.iterdir()) == others


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


PRECIOUS = b"a file of the victim"
TOKEN = bytes(8)


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("victim") / ".bashrc"
    path.write_bytes(PRECIOUS)
    path.chmod(0o644)
    return path


@pytest.mark.parametrize("name", ["plan", "memory export"])
def test_a_link_at_the_target_is_replaced_and_not_followed(
    folder: Path, victim: Path, name: str
) -> None:
    path = folder / WRITERS[name].split()[-1]
    path.symlink_to(victim)
    assert ckpt("-s", folder / "store.db", *WRITERS[name].split()).code == 0
    assert not path.is_symlink()
    assert path.stat().st_size
    assert (victim.read_bytes(), S_IMODE(victim.stat().st_mode)) == (PRECIOUS, 0o644)


def test_the_sample_store_is_written_through_no_link(
    folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target in (victim, victim.with_name("missing")):
        (folder / "new.db").unlink(missing_ok=True)
        (folder / "new.db").symlink_to(target)
        refused = ckpt("demo", folder / "new.db")
        assert (refused.code, "the file exists" in refused.err) == (5, True)
        assert (folder / "new.db").is_symlink()
    assert victim.read_bytes() == PRECIOUS
    assert list(victim.parent.iterdir()) == [victim]

    def unknown(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    # Some file systems know no hard links.
    monkeypatch.setattr(os, "link", unknown)
    assert ckpt("demo", folder / "other.db").code == 0
    assert ckpt("demo", folder / "other.db").code == 5


def test_a_temporary_name_that_exists_is_never_opened(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", lambda _: TOKEN)
    planted = tmp_path / f".plan.{TOKEN.hex()}.part"
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError), writing(tmp_path / "plan") as file:
        file.write(b"secret")
    assert victim.read_bytes() == PRECIOUS
    assert list(tmp_path.iterdir()) == [planted]


def test_what_others_left_is_not_removed(tmp_path: Path, victim: Path) -> None:
    link, fifo, folder, name = (tmp_path / f".plan.{one}.part" for one in ("a1", "b2", "c3", "d4"))
    link.symlink_to(victim)
    os.mkfifo(fifo)
    folder.mkdir()
    other = tmp_path / ".another plan.e5.part"
    other.touch()
    if os.geteuid() == 0:
        name.touch()
        os.chown(name, 12345, 12345)
    before = sorted(tmp_path.iterdir())
    with writing(tmp_path / "plan") as file:
        file.write(b"done")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "plan"])
    assert victim.read_bytes() == PRECIOUS
    remove_unfinished(tmp_path, lambda name: name.endswith("plan"))
    assert not other.exists()


@pytest.mark.parametrize("kind", ["folder", "FIFO", "link to a device"])
@pytest.mark.parametrize("name", ["plan", "memory export"])
def test_only_a_regular_file_is_replaced(folder: Path, name: str, kind: str) -> None:
    path = folder / WRITERS[name].split()[-1]
    match kind:
        case "folder":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)
        case _:
            path.symlink_to("/dev/null")
    before = path.lstat()
    refused = ckpt("-s", folder / "store.db", *WRITERS[name].split())
    assert refused.code in {2, 4}
    assert f"'{path.name}': it is a {kind.removeprefix('link to a ').lower()}" in refused.err
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert not list(folder.glob(".*.part"))


@pytest.fixture
def pickles(tmp_path: Path) -> Path:
    """The folder of a `langgraph dev`."""
    found = tmp_path / "project" / ".langgraph_api"
    saver = FileSaver(found)
    drive(saver, SCENARIOS["chat"])
    saver.sync()
    return found


@pytest.mark.filterwarnings("ignore")
def test_pickles_are_replaced_with_their_mode_and_owner(pickles: Path) -> None:
    names = sorted(path.name for path in pickles.iterdir())
    left = pickles / f".{names[0]}.0123456789abcdef.part"
    left.write_bytes(b"deleted values")
    for name in names:
        (pickles / name).chmod(0o640)
        if os.geteuid() == 0:
            os.chown(pickles / name, 12345, 12346)
    owners = {name: _access(pickles / name) for name in names}
    inodes = {(pickles / name).stat().st_ino for name in names}
    assert ckpt("-s", pickles, "rollback", "chat", "~1", "--yes").code == 0
    assert {(pickles / name).stat().st_ino for name in names} != inodes
    assert {path.name: _access(path) for path in pickles.iterdir()} == owners


def test_a_memory_is_replaced_with_its_mode_and_owner(folder: Path, victim: Path) -> None:
    shared = victim.with_name("shared.json")
    shutil.copyfile(folder / "memory.json", shared)
    (folder / "memory.json").unlink()
    (folder / "memory.json").symlink_to(shared)
    shared.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(shared, 12345, 12346)
    before, inode = _access(shared), shared.stat().st_ino
    left = shared.with_name(".shared.json.0123456789abcdef.part")
    left.touch()
    words = ["-s", "memory.json", "memory", "edit", "fact_a1b2c3d4", "--set", "category=goal"]
    done = ckpt(*words, "--write")
    assert done.code == 0, done.err
    # A link to a shared volume stays one: the file that it names is replaced.
    assert (folder / "memory.json").is_symlink()
    assert shared.stat().st_ino != inode
    assert _access(shared) == before
    assert sorted(victim.parent.iterdir()) == sorted([victim, shared])


def test_the_members_of_another_group_gain_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = tmp_path / "like"
    like.touch()
    like.chmod(0o664)

    def denied(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(platform, "_copied_access_list", lambda *_: False)
    monkeypatch.setattr(os, "fchown", denied)
    part, file = create_part(tmp_path / "new", like=like)
    file.close()
    assert S_IMODE(part.stat().st_mode) == 0o644


def _access(path: Path) -> tuple[int, int, int]:
    facts = path.stat()
    return S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid
