"""`ckpt copy` as a person and a script use it, between SQLite files."""

import json
import sqlite3
from pathlib import Path

import pytest

from ckpt_cli.plans import copy as copy_between
from tests.kit.command import SAMPLE, CommandResult, ckpt, copy_store

THREADS, CHECKPOINTS, WRITES = 8, 95, 175
"""Of the sample store."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.db"


def copy(source: Path, target: Path | str, *words: str) -> CommandResult:
    return ckpt("-s", source, "copy", "--to", target, *words, "-o", "json")


def test_all_threads_are_copied_once(source: Path, target: Path) -> None:
    first = copy(source, target, "--all", "--create", "--yes").json
    counts = {"threads": THREADS, "checkpoints": CHECKPOINTS, "writes": WRITES, "values": 0}
    rows = CHECKPOINTS + WRITES
    assert first == {
        "source": str(source),
        "target": str(target),
        "dry_run": False,
        **counts,
        "bytes": first["bytes"],
        "added": rows,
        "present": 0,
        "replaced": [],
        "skipped": [],
        "verified": True,
    }
    again = copy(source, target, "--all", "--yes").json
    assert again == {**first, "added": 0, "present": rows}


def test_a_dry_run_tells_what_a_run_does(source: Path, target: Path) -> None:
    planned = copy(source, target, "--all", "--create", "--dry-run").json
    assert not target.exists()
    done = copy(source, target, "--all", "--create", "--yes").json
    assert planned == {**done, "dry_run": True, "verified": False}


def test_the_source_is_only_read(source: Path, target: Path) -> None:
    before = source.read_bytes()
    assert copy(source, target, "--all", "--create", "--yes").code == 0
    assert source.read_bytes() == before


def test_nothing_is_made_where_something_else_is(source: Path, target: Path) -> None:
    with sqlite3.connect(target) as other:
        other.execute("CREATE TABLE invoices (number INTEGER)")
    before = target.read_bytes()
    assert copy(source, target, "--all", "--create", "--yes").code == 5
    assert target.read_bytes() == before


def test_nothing_is_copied_without_consent(source: Path, target: Path) -> None:
    done = copy(source, target, "--all", "--create")
    assert (done.code, "--yes" in done.err) == (5, True)
    assert not target.exists()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--all", "refund-4711"),
        ("--all", "--match", "*"),
        ("refund-4711", "--where", "status = done"),
    ],
)
def test_threads_are_named_in_one_way(source: Path, target: Path, words: tuple[str, ...]) -> None:
    assert copy(source, target, *words, "--create", "--yes").code == 2
    assert not target.exists()


def test_a_store_is_not_copied_to_itself(source: Path) -> None:
    other = source.parent / "." / source.name
    link = source.parent / "link.db"
    link.symlink_to(source)
    for one in (source, other, link):
        assert copy(source, one, "--all", "--yes").code == 2


def test_threads_are_chosen_by_a_filter(source: Path, target: Path) -> None:
    found = copy(source, target, "--where", "status = error", "--create", "--yes").json
    assert found["threads"] == 1
    listed = ckpt("-s", target, "threads", "list", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["invoice-import"]


class TestATargetThatWentItsOwnWay:
    THREAD = "trip-to-kyoto"

    @pytest.fixture(autouse=True)
    def _continued(self, source: Path, target: Path) -> None:
        assert copy(source, target, self.THREAD, "nightly-report", "--create", "--yes").code == 0
        words = ("rollback", self.THREAD, "--steps", "2", "--yes")
        assert ckpt("-s", target, *words).code == 0

    def test_it_is_refused(self, source: Path, target: Path) -> None:
        before = target.read_bytes()
        done = copy(source, target, self.THREAD, "--yes")
        assert done.code == 5
        assert "--replace" in done.err
        assert target.read_bytes() == before

    def test_other_threads_are_copied(self, source: Path, target: Path) -> None:
        done = copy(source, target, "--all", "--yes")
        assert done.code == 7
        found = json.loads(done.out)
        assert found["threads"] == THREADS - 1
        (skipped,) = found["skipped"]
        assert skipped["thread_id"] == self.THREAD
        assert "its own way" in skipped["reason"]

    def test_it_is_replaced_on_demand(self, source: Path, target: Path) -> None:
        planned = copy(source, target, self.THREAD, "--replace", "--dry-run").json
        assert planned["replaced"] == [self.THREAD]
        words = ("copy", self.THREAD, "--to", target, "--replace", "--dry-run", "-o", "table")
        shown = ckpt("-s", source, *words)
        assert "21 checkpoints" in shown.out
        assert shown.out.split()[:2] == ["THREAD", "ACTION"]
        done = copy(source, target, self.THREAD, "--replace", "--yes").json
        assert done == {**planned, "dry_run": False, "verified": True}
        here, there = (ckpt("-s", one, "history", self.THREAD).out for one in (source, target))
        assert here == there

    def test_a_changed_row_is_found(self, source: Path, target: Path) -> None:
        with sqlite3.connect(target) as store:
            store.execute("UPDATE writes SET value = X'c0' WHERE thread_id = 'nightly-report'")
        done = copy(source, target, "nightly-report", "--yes")
        assert done.code == 5
        assert "differs" in done.err


@pytest.mark.engines
def test_several_processes_copy_the_same(source: Path, target: Path) -> None:
    found = copy(source, target, "--all", "--create", "--jobs", "3", "--yes").json
    assert found["verified"]
    assert (found["threads"], found["checkpoints"]) == (THREADS, CHECKPOINTS)
    assert copy(source, target, "--all", "--yes").json["added"] == 0


@pytest.mark.parametrize("most", [8 << 20, 100], ids=["small", "large"])
def test_what_cannot_be_read_back_is_told(
    source: Path, target: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A target that stores something else than it was given is no copy."""
    monkeypatch.setattr("ckpt_cli.apply.copy._BATCH_BYTES", most)
    assert copy(source, target, "nightly-report", "--create", "--yes").code == 0
    with sqlite3.connect(target) as store:
        store.execute(
            "CREATE TRIGGER spoil AFTER INSERT ON checkpoints BEGIN"
            " UPDATE checkpoints SET metadata = '{}' WHERE checkpoint_id = new.checkpoint_id; END"
        )
    done = copy(source, target, "weekly-digest", "--yes")
    assert done.code == 4
    assert "not the same in the target" in done.err


def test_large_threads_that_are_there_are_found_equal(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copy(source, target, "--all", "--create", "--yes").code == 0
    monkeypatch.setattr(copy_between, "_TOGETHER", 10)
    found = copy(source, target, "--all", "--yes").json
    assert (found["added"], found["checkpoints"]) == (0, CHECKPOINTS)
    assert found["verified"]
