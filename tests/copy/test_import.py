"""Archives are portable: `ckpt import` restores them into a store of another layout."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ckpt_backends.archive import Header, check_bundle, write_bundle
from ckpt_backends.declaration import known_backends
from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Cell, Row
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import graph_of
from ckpt_backends.testing.official import config_of
from ckpt_backends.transfer.copying import RecordsSum
from ckpt_cli.plans import copy
from ckpt_cli.plans.copy import ArchivedRecords
from tests.copy.round_trip import records_for, stored_records, sum_of
from tests.kit.command import CommandResult, ckpt
from tests.kit.harness import HARNESSES
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.official import Source, difference, what_is_read
from tests.kit.pairs import PYTHON, Places, Sources, count_alike, creating

_KINDS = {one.name: one for one in HARNESSES}
FEW = frozenset({"chat", "interrupt-parallel", "subgraph", "fork-update"})


def exported(source: Source, folder: Path) -> Path:
    ckpt("-s", source.harness.url, "export", *source.read, "--to", folder, code=0)
    return folder


def imported(archives: Path, harness: Harness, *words: str) -> CommandResult:
    return ckpt("import", archives, "--to", harness.url, "--yes", "-o", "json", *words)


@pytest.mark.parametrize(
    ("one", "other"),
    [("postgres", "sqlite"), pytest.param("sqlite", "mongodb", marks=pytest.mark.engines)],
)
def test_a_fresh_store_of_another_layout_holds_the_same_threads(
    one: str, other: str, sources: Sources, places: Places, tmp_path: Path
) -> None:
    """What is converted how, the tests of copies prove for each pair of layouts."""
    source = sources(_KINDS[one], FEW)
    archives = exported(source, tmp_path / "archives")
    with places(_KINDS[other]) as target:
        words = creating(target)
        planned, done = (imported(archives, target, *words, *more) for more in (["--dry-run"], []))
        added = {row["thread_id"]: row["added"] for row in done.json}
        assert added == {row["thread_id"]: row["added"] for row in planned.json}
        for name, wanted in source.read.items():
            exact = count_alike(one, other)
            assert difference(what_is_read(target, name), wanted, name, exact=exact) == ""
        assert all(row["added"] == 0 and row["there"] for row in imported(archives, target).json)


@pytest.fixture(scope="module")
def archive(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = exported(sources(_KINDS["postgres"], FEW), tmp_path_factory.mktemp("archives"))
    (found,) = folder.glob("interrupt-parallel-*")
    return found


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target.db")


def restored(path: Path, target: str, *words: str) -> CommandResult:
    return ckpt("import", path, "--to", target, "--create", "--yes", *words)


def changed(archive: Path, folder: Path, rows: Any = None, **header: str) -> Path:
    bundle = check_bundle(archive)
    path = folder / "changed.ckpt.gz"
    write_bundle(path, replace(bundle.header, **header), rows or bundle.rows())
    return path


def test_a_thread_that_went_on_is_left_alone(archive: Path, target: str, tmp_path: Path) -> None:
    of_an_earlier_release = changed(archive, tmp_path, language="", ckpt="")
    assert restored(of_an_earlier_release, target).code == 0
    with closing(sqlite3.connect(target)) as db, db:
        db.execute("UPDATE checkpoints SET metadata = '{}'")
    before = Path(target).read_bytes()
    for words in ([], ["--dry-run"]):
        refused = restored(archive, target, *words)
        assert (refused.code, "went its own way" in refused.err) == (6, True)
    assert Path(target).read_bytes() == before


def test_a_refused_archive_makes_no_store(archive: Path, target: str, tmp_path: Path) -> None:
    without = [name for one in known_backends() for name in one.layouts if not one.forms.get(name)]
    code = b"\x80\x04K\x01."
    rows = [
        Row(one.table, {**one.cells, "type": "pickle", "blob": code})
        if "blob" in one.cells
        else one
        for one in check_bundle(archive).rows()
    ]
    refusals: list[tuple[Any, str]] = [
        ({"thread_id": "other"}, "belongs to thread 'interrupt-parallel', not to 'other'"),
        ({"rows": rows}, "--allow-pickle"),
    ]
    for changes, why in refusals:
        refused = restored(changed(archive, tmp_path, **changes), target)
        assert (refused.code, why in refused.err) == (5, True), refused.err
        assert not Path(target).exists()
    ckpt("import", archive, "--to", target, "--create", code=5)
    assert not Path(target).exists()
    assert restored(archive, target).code == 0
    for layout in (without[0], "unheard-of"):
        refused = restored(changed(archive, tmp_path, layout=layout), target)
        assert (refused.code, f"its layout is '{layout}'" in refused.err) == (5, True), refused.err


DAMAGES: tuple[Cell, ...] = (
    *(None, -1, 2**62, 1.5, "", "[]", '{"id": 1}', "\x00", '{"channel_values": 7}', "[" * 3000),
    *(b"", b"\xff", b"\x91" * 3000, b"\xdd\xff\xff\xff\xff"),
)


@pytest.mark.parametrize(
    "layout",
    ["postgres", *(pytest.param(one, marks=pytest.mark.engines) for one in ("redis", "kaflow"))],
)
def test_damage_in_a_cell_is_a_clear_error(layout: str, sources: Sources, tmp_path: Path) -> None:
    source = sources(_KINDS[layout], FEW)
    name = next(one for one in ("interrupt-parallel", "chat") if one in source.read)
    (archive,) = exported(source, tmp_path / "archives").glob(f"{name}-*")
    rows = list(check_bundle(archive).rows())
    places = {(row.table, cell): number for number, row in enumerate(rows) for cell in row.cells}
    for number, ((table, cell), at) in enumerate(places.items()):
        left = {one: found for one, found in rows[at].cells.items() if one != cell}
        for made in (left, *({**left, cell: one} for one in DAMAGES[number % 3 :: 3])):
            target = tmp_path / "one.db"
            target.unlink(missing_ok=True)
            damaged = [*rows[:at], Row(table, made), *rows[at + 1 :]]
            done = restored(changed(archive, tmp_path, damaged), str(target), "--allow-pickle")
            done.ends_cleanly(0, 4, 5, 6)


THREADS = [f"t{number}" for number in range(30)]
ONE_BY_ONE = ("redis", "valkey")
"""Where each thread is stored for itself. Elsewhere, one transaction adds many small threads."""
SINCE = "open_writable"
"""The function after whose first call a copy is killed."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteHarness]:
    """A file with some threads, each of which waits for an answer."""
    with SqliteHarness(tmp_path_factory.mktemp("killed")) as harness, quiet():
        graph = graph_of(harness.kept_saver)
        asking = graph_of(harness.kept_saver, asks=True)
        for thread_id in THREADS:
            graph.invoke({"items": ["x" * 20_000]}, config_of(thread_id))
            asking.invoke({"items": ["y"]}, config_of(thread_id))
        yield harness


def stored(target: Harness) -> dict[str, RecordsSum]:
    """Return what a store has of each thread that it lists or loads."""
    try:
        with open_store(target.url) as store:
            ids = [one for one in THREADS if store.thread(one) is not None]
            assert sorted(one.thread_id for one in store.threads()) == sorted(ids)
            found = {one: sum_of(stored_records(store, one)) for one in ids}
    except CkptError:  # nothing is there yet
        found = {}
    saver = target.kept_saver
    assert {one for one in THREADS if saver.get_tuple(config_of(one)) is not None} == {*found}
    return found


def finished(words: list[str]) -> Any:
    """Run a copy until it has copied everything.

    MongoDB ends the transaction of a killed client a minute later; until then, another one that
    writes the same thread fails.
    """
    end = time.monotonic() + 90
    while True:
        done = ckpt(*words, "-o", "json")
        if done.code == 0 or "changed meanwhile" not in done.err or time.monotonic() > end:
            return done.json
        time.sleep(2)


@pytest.mark.parametrize(
    ("name", "at_random"),
    [
        pytest.param("sqlite", False, marks=pytest.mark.engines),
        *(
            pytest.param(one, True, marks=pytest.mark.nightly)
            for one in ("sqlite", "postgres", "mysql", "langgraph-dev", "mongodb", *ONE_BY_ONE)
        ),
    ],
)
def test_a_killed_copy_is_finished_by_the_next_run(
    name: str, at_random: bool, source: SqliteHarness, places: Places, chance: Chance
) -> None:
    brought = set()
    whole = {one: sum_of(records_for(source.url, name, one)) for one in THREADS}
    rounds = chance.rounds(at_least=4) if at_random else map(Random, range(4))
    calls = None
    for number, dice in enumerate(rounds, 1):
        with places(PYTHON[name]) as target:
            words = ["-s", source.url, "copy", "--all", "--to", target.url, "--yes"]
            words += creating(target)
            if calls is None:
                calls = calls_of(words, SINCE)
                continue
            kill_at(
                words, dice.choice(calls) if at_random else calls[len(calls) * number // 5], SINCE
            )
            found = stored(target)
            assert found.items() <= whole.items()
            brought.add(len(found))
            again = finished(words)
            assert again["verified"]
            assert (again["threads"], again["skipped"]) == (len(THREADS), [])
            assert stored(target) == whole
    assert brought - {len(THREADS)}
    assert name not in ONE_BY_ONE or brought - {0, len(THREADS)}


@pytest.mark.parametrize(("seconds", "has_expired"), [(-60, True), (60, False)])
def test_an_archive_expires_with_the_first_of_its_records(
    seconds: int, has_expired: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = ArchivedRecords(Path("archive.ckpt"))
    assert not archived.has_expired()
    write = Record.write(CheckpointKey("t", "", "1"), "task", "", 0, "x", TypedBytes("null", b""))
    ends = (None, *(int((time.time() + one) * 1000) for one in (90, seconds, 80)))
    records = [write._replace(expires_at=one) for one in ends]
    monkeypatch.setattr(copy, "records_of_rows", lambda *_: iter(records))
    assert list(archived.checked(Header("t", "any", "", "", ""), iter(()))) == []
    assert archived.has_expired() is has_expired
