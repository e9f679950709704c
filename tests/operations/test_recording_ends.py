"""What is recorded of changes that stop early, and where operations cannot be recorded."""

import fcntl
import json
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.open_for_writing import open_writable_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply import changes as apply_memory
from ckpt_cli.apply import copy as restore
from ckpt_cli.apply.purge import Pace
from ckpt_cli.apply.recording import writable_store
from ckpt_cli.core.copying import CopyReport
from ckpt_cli.operations import log as file_lock
from ckpt_cli.operations.log import Journal
from tests.kit.command import CommandResult, ckpt
from tests.kit.recorded_store import stored
from tests.kit.savers.deerflow import memory, save

TRIP, REFUND = "trip-to-kyoto", "refund-4711"
NUMBER = 8
"""Threads of the sample."""


def state() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "ckpt" / "operations"


def recorded(*store: Path) -> list[dict[str, Any]]:
    """Return the operations, the newest first; with a store, after what it can tell."""
    named: tuple[str | Path, ...] = ("-s", *store) if store else ()
    found: list[dict[str, Any]] = ckpt(*named, "ops", "list", "-o", "json").json
    return found


def running() -> list[str]:
    return [one.name for one in state().glob("running/*")]


def test_an_interrupted_copy_is_recorded_with_all_that_it_copied(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, target = CopyReport.add, tmp_path / "other.db"

    def interrupted(report: CopyReport, one: Any) -> None:
        add(report, one)
        if report.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(CopyReport, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ckpt("-s", sample, "copy", "--all", "--to", target, "--create", "--yes")
    (one,) = recorded()
    assert (one["number"], one["undoable"], one["ended"]) == (NUMBER, True, "interrupted")
    assert not running()
    assert ckpt("-s", target, "undo", "--yes").code == 0
    assert stored(target) == {}


def test_a_purge_that_stops_is_recorded_with_what_it_removed(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, reasons = stored(sample), iter(["", "", "--max-duration reached"])
    monkeypatch.setattr(Pace, "why_stop", lambda _: next(reasons))
    purge = ["purge", "--match", "*", "--include-pending", "--include-interrupted"]
    more = ["--include-error", "--batch", "1", "--archive", str(tmp_path / "archive"), "--yes"]
    assert ckpt("-s", sample, *purge, *more).code == 7
    (one,) = recorded()
    assert (one["number"], one["ended"]) == (2, "--max-duration reached")
    assert ckpt("-s", sample, "undo", "--yes").code == 0
    assert stored(sample) == first


def test_a_thread_that_is_skipped_is_not_recorded(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intend = Journal.intend

    def used_meanwhile(journal: Journal, steps: Any) -> None:
        intend(journal, steps)
        with closing(sqlite3.connect(sample)) as db, db:
            db.execute("DELETE FROM writes WHERE thread_id = ?", [REFUND])

    monkeypatch.setattr(Journal, "intend", used_meanwhile)
    assert ckpt("-s", sample, "threads", "delete", TRIP, REFUND, "--yes").code == 7
    (one,) = recorded()
    assert (one["threads"], one["number"]) == ([TRIP], 1)


@pytest.mark.parametrize("is_done", [True, False])
def test_what_became_of_a_change_after_a_lost_connection_the_next_run_finds_out(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    assert ckpt("-s", sample, "export", TRIP, "--to", tmp_path / "archive").code == 0
    assert ckpt("-s", sample, "threads", "delete", TRIP, "--yes").code == 0

    @contextmanager
    def losing(*words: Any) -> Iterator[Any]:
        with writable_store(*words) as writable:

            def restore_and_lose(rows: Any) -> None:
                if is_done:
                    writable.restore(rows)
                raise StoreUnavailable("the connection was lost")

            yield SimpleNamespace(restore=restore_and_lose)

    with monkeypatch.context() as patch:
        patch.setattr(restore, "writable_store", losing)
        assert ckpt("-s", sample, "import", tmp_path / "archive", "--yes").code == 4
    assert len(running()) == 1
    found = [(one["action"], one["threads"]) for one in recorded(sample)]
    assert found == [("import", [TRIP])] * is_done + [("threads delete", [TRIP])]
    assert not running()


@pytest.mark.parametrize("is_done", [True, False])
def test_what_became_of_a_change_of_memory_the_next_run_finds_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    path = tmp_path / "memory.json"
    save(path, memory())
    first = json.loads(path.read_bytes())["facts"]

    @contextmanager
    def losing(url: StoreUrl) -> Iterator[Any]:
        with open_writable_memory(url) as writable:

            def remove_and_lose(items: Any) -> None:
                if is_done:
                    writable.remove(items)
                raise StoreUnavailable("the connection was lost")

            yield SimpleNamespace(remove=remove_and_lose)

    delete = ("memory", "delete", "fact_e5f6g7h8", "--archive", tmp_path / "archive", "--write")
    with monkeypatch.context() as patch:
        patch.setattr(apply_memory, "open_writable_memory", losing)
        assert ckpt("-s", path, *delete, "--yes").code == 4
    found = recorded(path)
    assert [(one["action"], one["number"]) for one in found] == [("memory delete", 1)] * is_done
    assert not running()
    assert (json.loads(path.read_bytes())["facts"] != first) == is_done
    assert ckpt("-s", path, "undo", "--yes").code == (0 if is_done else 3)
    assert json.loads(path.read_bytes())["facts"] == first


CHANGES = {
    "rollback": ["rollback", TRIP, "--steps", "2", "--yes"],
    "purge": ["purge", "--match", TRIP, "--keep-last", "1", "--yes"],
    "copy": ["copy", TRIP, "--to", "other.db", "--create", "--yes"],
    "import": ["import", "archive", "--yes"],
}


def test_a_killed_copy_says_how_what_it_added_is_removed(sample: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.db"
    copied = ckpt("-s", sample, "copy", REFUND, "--to", target, "--create", "--yes")
    assert copied.code == 0, copied.err
    (kept,) = (state() / "steps").iterdir()
    lines = kept.read_bytes().splitlines(keepends=True)
    # The outcome is the second step; a killed run has only the intended one.
    (state() / "running" / kept.name).write_bytes(b"".join(lines[:2]))
    (state() / "log.ndjson").unlink()
    (one,) = recorded(target)
    assert one["why_not"].startswith("it was killed before it recorded what it added")
    assert one["why_not"].endswith(f"ckpt -s {target} threads delete {REFUND}")


@pytest.fixture
def folder(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert ckpt("-s", sample, "export", TRIP, "--to", "archive").code == 0
    with closing(sqlite3.connect(sample)) as db, db:
        db.execute("DELETE FROM writes WHERE thread_id = ?", [TRIP])
    return tmp_path


def change(name: str) -> CommandResult:
    return ckpt("-s", "store.db", *CHANGES[name])


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_carried_out_where_it_cannot_be_recorded(folder: Path, name: str) -> None:
    state().parent.mkdir(parents=True)
    state().write_text("no folder")
    before = stored(folder / "store.db"), stored(folder / "other.db")
    done = change(name)
    assert done.code == 0, done.err
    assert done.err.count("`ckpt ops` will not know this change") == 1
    assert (stored(folder / "store.db"), stored(folder / "other.db")) != before
    assert ckpt("-s", "store.db", "ops", "list").code == 2


def test_what_is_recorded_is_private(folder: Path) -> None:
    before = os.umask(0)
    try:
        for name in CHANGES:
            assert change(name).code == 0
    finally:
        os.umask(before)
    found = [state(), *state().rglob("*")]
    assert any(one.parent.name == "steps" for one in found)
    for one in found:
        assert stat.S_IMODE(one.stat().st_mode) == (0o700 if one.is_dir() else 0o600), one


def test_what_is_recorded_of_memory_holds_no_values_but_edited_ones(tmp_path: Path) -> None:
    save(tmp_path / "memory.json", memory())
    words = ("-s", tmp_path / "memory.json", "memory")
    assert ckpt(*words, "edit", "fact_a1b2c3d4", "--set", "category=goal", "--write").code == 0
    archive = ("--archive", tmp_path / "archive")
    assert ckpt(*words, "delete", "fact_e5f6g7h8", "--write", "--yes", *archive).code == 0
    lines = [
        json.loads(line)
        for path in state().rglob("*.ndjson")
        for line in path.read_text().splitlines()
    ]
    assert "GitHub" not in json.dumps(lines, ensure_ascii=False)
    edits = [one["command"] for one in lines if one.get("action") == "memory edit"]
    assert edits
    assert all(one.endswith("--set ... --write") for one in edits)


def test_a_log_that_another_process_holds_does_not_stop_a_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "_PATIENCE", 0.05)
    assert change("rollback").code == 0
    with open(state() / "lock", "rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = change("purge")
    assert done.code == 0, done.err
    assert "another process keeps it locked" in done.err
    # The next run finds out what it did.
    assert [one["action"] for one in recorded(folder / "store.db")] == ["purge", "rollback"]
