"""What `ckpt` writes can be read by its owner only, goes through no planted link, and is whole if
two write it; what is no regular file neither hangs it nor fills the disk."""

import json
import os
import shutil
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager
from pathlib import Path
from stat import S_IMODE
from unittest.mock import patch

import pytest

from ckpt_backends import platform
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.files import (
    TemporaryFolder,
    create_part,
    open_regular,
    read_regular,
    remove_all,
    remove_unfinished,
    writing,
)
from ckpt_backends.registry import open_store
from ckpt_backends.sqlite import journals
from ckpt_backends.testing.official import drive
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, CommandResult, ckpt, first_now
from tests.kit.harness.langgraph_dev import FileSaver
from tests.kit.hostile.watched import here
from tests.kit.processes import at_once, leftovers
from tests.kit.rows import change
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


def test_without_a_folder_of_temporary_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder / "missing"))
    ckpt("-s", folder / "store.db", "--copy", "threads", "list", code=4, says="hint: set TMPDIR")


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


def test_the_sample_store_is_written_through_no_link(
    folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target in (victim, victim.with_name("missing")):
        (folder / "new.db").unlink(missing_ok=True)
        (folder / "new.db").symlink_to(target)
        ckpt("demo", folder / "new.db", code=5, says="the file exists")
        assert (folder / "new.db").is_symlink()
    assert (victim.read_bytes(), list(victim.parent.iterdir())) == (PRECIOUS, [victim])

    def unknown(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    # Some file systems know no hard links.
    monkeypatch.setattr(os, "link", unknown)
    ckpt("demo", folder / "other.db", code=0)
    ckpt("demo", folder / "other.db", code=5)


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


@cases("name there", ("plan", "a file"), ("memory export", "a link"), ("export", "a folder"))
def test_what_is_written_in_place_of_something_is_private_and_the_folder_stays_as_it_is(
    folder: Path, victim: Path, name: str, there: str
) -> None:
    path = folder / WRITERS[name].split()[-1]
    into = path if there == "a folder" else folder
    into.mkdir(exist_ok=True, parents=True)
    into.chmod(0o755)
    if there == "a file":
        path.touch(0o644)
    elif there == "a link":
        path.symlink_to(victim)
    ckpt("-s", folder / "store.db", *WRITERS[name].split(), code=0)
    (made,) = into.iterdir() if there == "a folder" else [path]
    assert not made.is_symlink()
    assert made.stat().st_size
    assert (S_IMODE(made.stat().st_mode), S_IMODE(into.stat().st_mode)) == (0o600, 0o755)
    assert (victim.read_bytes(), S_IMODE(victim.stat().st_mode)) == (PRECIOUS, 0o644)


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


@pytest.mark.filterwarnings("ignore")
def test_pickles_are_replaced_with_their_mode_and_owner(tmp_path: Path) -> None:
    pickles = tmp_path / "project" / ".langgraph_api"
    saver = FileSaver(pickles)
    drive(saver, SCENARIOS["chat"])
    saver.sync()
    names = sorted(path.name for path in pickles.iterdir())
    left = pickles / f".{names[0]}.0123456789abcdef.part"
    left.write_bytes(b"deleted values")
    for name in names:
        (pickles / name).chmod(0o640)
        if os.geteuid() == 0:
            os.chown(pickles / name, 12345, 12346)
    owners = {name: _access(pickles / name) for name in names}
    inodes = {(pickles / name).stat().st_ino for name in names}
    ckpt("-s", pickles, "rollback", "chat", "~1", "--yes", code=0)
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
    ckpt(*words, "--write", code=0)
    # A link to a shared volume stays one: the file that it names is replaced.
    assert (folder / "memory.json").is_symlink()
    assert shared.stat().st_ino != inode
    assert _access(shared) == before
    assert sorted(victim.parent.iterdir()) == sorted([victim, shared])


def test_another_group_gains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def run(folder: Path, *words: str | Path) -> CommandResult:
    """Run `ckpt` in a folder, where it also puts its temporary files."""
    folder.joinpath("tmp").mkdir(exist_ok=True)
    with chdir(folder), patch("tempfile.tempdir", str(folder / "tmp")):
        return here(*words)


def bind(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # The path of a socket must be short.
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


KINDS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": bind,
    "a folder": Path.mkdir,
}


BESIDE = ["-s store.db threads list", "-s store.db --copy threads list"]
PICKLES = ["-s .langgraph_api threads list", "-s .langgraph_api threads delete x --yes"]
PLACES: dict[str, tuple[int, str, list[str]]] = {
    "agent.db": (
        *(4, "ckpt: cannot open 'agent.db': it is {}\n"),
        [
            *("-s agent.db threads list", "-s agent.db --copy threads list"),
            *("-s agent.db rollback trip-to-kyoto ~1 --yes", "-s agent.db memory list"),
        ],
    ),
    "store.db-wal": (4, "ckpt: cannot open 'store.db': 'store.db-wal' is {}\n", BESIDE),
    "store.db-shm": (4, "ckpt: cannot open 'store.db': 'store.db-shm' is {}\n", BESIDE),
    "store.db-journal": (4, "ckpt: cannot open 'store.db': 'store.db-journal' is {}\n", BESIDE),
    ".langgraph_api/.langgraph_checkpoint.1.pckl": (4, "it is {}", PICKLES),
    ".langgraph_api/.langgraph_checkpoint.3.pckl": (4, "it is {}", PICKLES),
    ".deer-flow/memory.json": (4, "it is {}", ["-s .deer-flow/memory.json memory list"]),
    "given": (
        *(2, "ckpt: cannot read 'given': it is {}\n"),
        [
            "-s store.db --aes-key-file given threads list",
            "-s store.db threads delete --from given --yes",
        ],
    ),
}
"""By file: the exit code, what is said, and the commands that read it."""


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", first_now(KINDS))
def test_what_is_no_regular_file_is_named_and_not_read(sample: Path, name: str, kind: str) -> None:
    code, says, commands = PLACES[name]
    path = sample.parent / name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".pckl":
        for number in {1, 2, 3} - {int(path.stem[-1])}:
            path.with_name(f".langgraph_checkpoint.{number}.pckl").write_bytes(b"\x80\x04}.")
    KINDS[kind](path)
    # Next to a store, a link is refused wherever it leads; in a folder, a memory is looked for.
    shown = "a symbolic link" if kind == "a device" and "db-" in name else kind
    is_searched = kind == "a folder" and name.endswith(".json")
    for words in commands:
        done = run(sample.parent, *words.split())
        assert (done.code, done.out) == (code, "")
        assert is_searched or says.format(shown) in done.err
    assert os.path.lexists(path)
    assert not list((sample.parent / "tmp").iterdir())


@pytest.mark.engines
@pytest.mark.parametrize("name", ["/proc/kmsg", "/proc/self/pagemap", "/proc/self/mem"])
def test_a_file_of_the_kernel_that_has_no_size(tmp_path: Path, name: str) -> None:
    if not os.path.exists(name):
        pytest.skip(f"this system has no {name}")
    (tmp_path / "agent.db").symlink_to(name)
    for option in ([], ["--copy"]):
        assert run(tmp_path, "-s", "agent.db", *option, "threads", "list").code == 4


def test_stores_lists_what_it_can(sample: Path) -> None:
    folder = sample.parent
    for name in ("fifo.db", "memory.json"):
        os.mkfifo(folder / name)
    for name in ("log.db", "journal.db"):
        shutil.copyfile(SAMPLE, folder / name)
    os.mkfifo(folder / "log.db-wal")
    os.mkfifo(folder / "journal.db-journal")
    (folder / "zero.db").symlink_to("/dev/zero")
    (folder / ".langgraph_api").mkdir()
    os.mkfifo(folder / ".langgraph_api" / ".langgraph_checkpoint.1.pckl")
    done = run(folder, "stores", "-o", "tsv")
    assert "store.db" in done.out
    assert "Traceback" not in done.err


@cases(
    "text words",
    ("trip-to-kyoto\n", "threads delete --dry-run --from"),
    ("k" * 16, "threads list --aes-key-file"),
)
def test_the_output_of_a_command_is_read(sample: Path, text: str, words: str) -> None:
    """What bash makes of `--from <(command)`."""
    ours, theirs = os.pipe()
    os.write(theirs, text.encode())
    os.close(theirs)
    done = run(sample.parent, "-s", "store.db", *words.split(), f"/dev/fd/{ours}")
    os.close(ours)
    assert (done.code, "trip-to-kyoto" in done.out) == (0, True), done.err


def test_an_endless_list_of_ids(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ckpt_cli.commands.arguments.LONGEST_INPUT", 1000)
    given = sample.with_name("given")
    given.write_bytes(b"x" * 1001)
    refused = ckpt("-s", sample, "threads", "delete", "--from", given, "--yes")
    assert (refused.code, "it is longer than 1000 bytes" in refused.err) == (2, True)


def test_a_file_is_read_up_to_a_limit_unless_it_is_swapped_for_a_fifo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"1234")
    assert read_regular(path, 4) == b"1234"
    with pytest.raises(StoreUnavailable, match="longer than 3 bytes"):
        read_regular(path, 3)
    os.mkfifo(tmp_path / "fifo")
    real = os.stat(path)
    monkeypatch.setattr(os, "stat", lambda *_, **__: real)
    with pytest.raises(StoreUnavailable, match="it is a FIFO"):
        open_regular(tmp_path / "fifo")


def test_a_private_copy_needs_its_space(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(sample.parent))
    usage = shutil.disk_usage(sample)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    refused = ckpt("-s", sample, "--copy", "threads", "list", code=4, says="has 1000 bytes free")
    assert "hint: set TMPDIR to a folder with more space" in refused.err
    assert [path.name for path in sample.parent.iterdir()] == ["store.db"]


def test_a_private_copy_is_no_longer_than_its_source_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that grows while it is copied is not followed."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 10)

    usage = shutil.disk_usage(tmp_path)

    def grow(_: Path) -> object:
        with source.open("ab") as file:
            file.write(b"y" * 10)
        return usage

    monkeypatch.setattr(shutil, "disk_usage", grow)
    journals._copy(source, target)
    assert target.read_bytes() == b"x" * 10


def test_the_log_of_a_store_that_is_named_by_a_link_is_copied_too(tmp_path: Path) -> None:
    """SQLite keeps the log next to the file itself."""
    real, link = tmp_path / "real" / "agent.db", tmp_path / "agent.db"
    real.parent.mkdir()
    shutil.copyfile(SAMPLE, real)
    link.symlink_to(real)
    with closing(sqlite3.connect(real)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute(
            "UPDATE checkpoints SET thread_id = 'in-the-log' WHERE thread_id = 'trip-to-kyoto'"
        )
        writer.commit()
        copied = ckpt("-s", link, "--copy", "threads", "list")
    assert "in-the-log" in copied.out


TIMES = [1, pytest.param(10, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("times", TIMES)
def test_a_sample_is_whole(tmp_path: Path, times: int) -> None:
    for number in range(times):
        path = tmp_path / f"{number}.db"
        both = at_once(["demo", path], ["demo", path])
        assert 0 in [one.code for one in both], both
        ckpt("-s", path, "replay", "--all", "--verify", code=0)
        assert leftovers(tmp_path) == []


@pytest.mark.engines
@pytest.mark.parametrize("times", TIMES)
def test_archives_and_plans_are_whole(sample: Path, times: int) -> None:
    folder = sample.parent / "archive"
    plan = sample.parent / "plan"
    export = ["-s", str(sample), "export", "--to", str(folder), "--", "trip-to-kyoto"]
    plan_out = ["-s", str(sample), "purge", "--older-than", "0s", "--plan-out", str(plan)]
    for _ in range(times):
        at_once(export, export, plan_out, plan_out)
        for archive in folder.iterdir():
            answer = ckpt("-s", sample, "import", archive, "--dry-run")
            assert answer.code in {0, 6}, answer.err  # the thread is there
        ckpt("-s", sample, "apply", plan, "--dry-run", code=0)
        assert leftovers(sample.parent) == []


@pytest.mark.parametrize("times", TIMES)
def test_a_plan_is_carried_out_once(sample: Path, tmp_path: Path, times: int) -> None:
    before = sample.read_bytes()
    for number in range(times):
        store = tmp_path / f"{number}.db"
        store.write_bytes(before)
        plan = tmp_path / f"plan{number}"
        policy = ["--older-than", "0s", "--include-pending", "--include-error"]
        ckpt("-s", store, "purge", *policy, "--plan-out", plan, code=0)
        wanted = ["-s", str(store), "apply", str(plan), "--skip-changed", "--yes", "-o", "json"]
        both = at_once(wanted, wanted)
        removed = sum(json.loads(one.out)["removed"]["threads"] for one in both if one.code == 0)
        assert json.loads(plan.read_text().splitlines()[0])["ckpt_plan"]
        going = [json.loads(line)["action"] for line in plan.read_text().splitlines()[1:]]
        assert removed == going.count("remove"), both
        assert change(store, "PRAGMA integrity_check") == [("ok",)]
