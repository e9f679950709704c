"""`ckpt copy` as a person and a script use it, between SQLite files."""

import json
import sqlite3
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.library import config_of_thread
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.scenarios.running import START_ITEMS, ScenarioRun
from ckpt_cli.plans import copy as copy_between
from tests.kit.command import SAMPLE, CommandResult, ckpt, copy_store
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.hostile.corpus import build_odd_store, build_store, hostile_rows
from tests.kit.hostile.watched import FORBIDDEN
from tests.kit.pairs import PYTHON, Places, creating
from tests.kit.rows import change

THREADS, CHECKPOINTS, WRITES = 8, 95, 175
"""Of the sample store."""
TRIP = "trip-to-kyoto"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return copy_store(SAMPLE, tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target.db"


def copy(source: Path, target: Path | str, *words: str) -> CommandResult:
    return ckpt("-s", source, "copy", "--to", target, *words, "-o", "json")


def test_all_threads_are_copied_once_and_as_planned(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source.read_bytes()
    planned = copy(source, target, "--all", "--create", "--dry-run").json
    refused = copy(source, target, "--all", "--create")
    assert (refused.code, "--yes" in refused.err, target.exists()) == (5, True, False)
    with sqlite3.connect(target) as other:
        other.execute("CREATE TABLE invoices (number INTEGER)")
    assert copy(source, target, "--all", "--create", "--yes").code == 5
    target.unlink()
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
    assert planned == {**first, "dry_run": True, "verified": False}
    for together in (copy_between._TOGETHER, 10):  # and as large threads
        monkeypatch.setattr(copy_between, "_TOGETHER", together)
        assert copy(source, target, "--all", "--yes").json == {**first, "added": 0, "present": rows}
    assert source.read_bytes() == before


def test_a_large_thread_is_not_read_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server gives several small ones in one answer, which is held in memory."""
    sizes, together = {"a": 4, "b": 6, "large": 11, "c": 5, "d": 1}, list[tuple[str, ...]]()

    def records_of(names: list[str]) -> Iterator[Any]:
        together.append((*names,))
        return iter(())

    sizes_of = lambda names: (SimpleNamespace(bytes=sizes[one]) for one in names)  # noqa: E731
    store: Any = SimpleNamespace(batches_parts=True, sizes=sizes_of, records_of=records_of)
    monkeypatch.setattr(copy_between, "_TOGETHER", 10)
    found = list(copy_between._read_together(store, [*sizes]))
    assert found == [(name, None if name == "large" else []) for name in sizes]
    assert together == [("a", "b"), ("c", "d")]


def test_threads_are_named_in_one_way_and_go_to_another_store(source: Path, target: Path) -> None:
    for words in ((), ("--all", "refund-4711"), ("--all", "--match", "*")):
        assert copy(source, target, *words, "--create", "--yes").code == 2
        assert not target.exists()
    link = source.parent / "link.db"
    link.symlink_to(source)
    for one in (source, link):
        assert copy(source, one, "--all", "--yes").code == 2


def test_threads_are_chosen_by_a_filter(source: Path, target: Path) -> None:
    found = copy(source, target, "--where", "status = error", "--create", "--yes").json
    assert found["threads"] == 1
    listed = ckpt("-s", target, "threads", "list", "-o", "json").json
    assert [one["thread_id"] for one in listed] == ["invoice-import"]


def test_a_target_that_went_its_own_way_is_replaced_on_demand(source: Path, target: Path) -> None:
    assert copy(source, target, TRIP, "nightly-report", "--create", "--yes").code == 0
    ckpt("-s", target, "rollback", TRIP, "--steps", "2", "--yes", code=0)
    before = target.read_bytes()
    refused = copy(source, target, TRIP, "--yes")
    assert (refused.code, "--replace" in refused.err) == (5, True)
    assert target.read_bytes() == before
    others = copy(source, target, "--all", "--yes")
    assert others.code == 7
    found = json.loads(others.out)
    assert found["threads"] == THREADS - 1
    (skipped,) = found["skipped"]
    assert (skipped["thread_id"], "its own way" in skipped["reason"]) == (TRIP, True)

    planned = copy(source, target, TRIP, "--replace", "--dry-run").json
    assert planned["replaced"] == [TRIP]
    words = ("copy", TRIP, "--to", target, "--replace", "--dry-run", "-o", "table")
    shown = ckpt("-s", source, *words).out
    assert ("21 checkpoints" in shown, shown.split()[:2]) == (True, ["THREAD", "ACTION"])
    done = copy(source, target, TRIP, "--replace", "--yes").json
    assert done == {**planned, "dry_run": False, "verified": True}
    here, there = (ckpt("-s", one, "history", TRIP).out for one in (source, target))
    assert here == there


def test_only_a_newer_state_of_a_source_without_history_replaces_another(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "nightly-report"
    whole = target.with_name("whole.db")
    for one in (whole, target):
        assert copy(source, one, name, "--create", "--yes").code == 0
    *_, (older,), (newer,) = change(
        source, "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY 1", name
    )
    for path, kept in ((source, older), (target, newer)):
        for table in ("checkpoints", "writes"):
            where = "WHERE thread_id = ? AND checkpoint_id <> ?"
            change(path, f"DELETE FROM {table} {where}", name, kept)
    monkeypatch.setattr(copy_between, "keeps_history", lambda _: False)
    for one, other in ((source, target), (target, whole)):
        refused = copy(one, other, name, "--yes")
        assert (refused.code, "--replace" in refused.err) == (5, True)
    assert copy(target, source, name, "--yes").json["replaced"] == [name]


def test_a_changed_row_is_found(source: Path, target: Path) -> None:
    assert copy(source, target, "nightly-report", "--create", "--yes").code == 0
    with sqlite3.connect(target) as store:
        store.execute("UPDATE writes SET value = X'c0'")
    done = copy(source, target, "nightly-report", "--yes")
    assert (done.code, "differs" in done.err) == (5, True)


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
    assert (done.code, "not the same in the target" in done.err) == (4, True)


@pytest.mark.parametrize("build", [graphs.ask_parallel, graphs.ask_twice])
def test_questions_answered_between_two_copies(build: Any, target: Path, tmp_path: Path) -> None:
    """LangGraph replaces the answers that are stored with a checkpoint when one more comes."""
    with SqliteHarness(tmp_path) as place, quiet():
        run = ScenarioRun(build(place.kept_saver), config_of_thread("asking"))
        run.invoke(START_ITEMS)
        assert copy(place.path, target, "--all", "--create", "--yes").json["verified"]
        while run.state().next:
            run.answer_first("yes")
            assert copy(place.path, target, "--all", "--yes").json["verified"]
        with SqliteHarness.at(str(target)) as there:
            state = build(there.kept_saver).get_state(run.config)
            assert (state.values, state.next) == (run.state().values, ())


SERVERS = ("postgres", "mysql", "mongodb", "redis")


@pytest.mark.in_ci("sqlite", "langgraph-dev", "postgres")
@pytest.mark.parametrize(
    "name",
    ["sqlite", "langgraph-dev", *(pytest.param(one, marks=pytest.mark.engines) for one in SERVERS)],
)
def test_hostile_threads_and_rows_of_wrong_types_are_copied_or_skipped(
    name: str, places: Places, tmp_path: Path
) -> None:
    marker, source, odd = tmp_path / "ran", tmp_path / "source.db", tmp_path / "odd.db"
    rows = hostile_rows(marker)
    # Every row goes to two of the servers.
    build_store(source, rows[SERVERS.index(name) % 2 :: 2] if name in SERVERS else rows[::7])
    build_odd_store(odd)
    with places(PYTHON[name]) as target:
        for path, form in product((source, odd), ("table", "json")):
            words = ("copy", "--all", "--to", target.url, "--yes", *creating(target), "-o", form)
            answer = ckpt("-s", path, *words)
            answer.ends_cleanly(0, 4, 5, 7)
            assert FORBIDDEN.search(answer.out + answer.err) is None
            assert not marker.exists()
