"""A FIFO, a device, a socket or a folder in place of a file neither hangs nor fills the disk."""

import os
import shutil
import socket
import sqlite3
from collections.abc import Callable
from contextlib import chdir, closing
from pathlib import Path
from unittest.mock import patch

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.files import open_regular, read_regular
from ckpt_backends.sqlite import journals
from tests.kit.cases import cases
from tests.kit.command import SAMPLE, CommandResult, ckpt, first_now
from tests.kit.hostile.watched import here


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
    refused = ckpt("-s", sample, "--copy", "threads", "list")
    assert (refused.code, "has 1000 bytes free" in refused.err) == (4, True)
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
