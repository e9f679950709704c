"""Archives are portable: `ckpt import` restores them into a store of another layout."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ckpt_backends.archive import check_bundle, write_bundle
from ckpt_backends.declaration import known_backends
from ckpt_backends.rows import Cell, Row
from ckpt_backends.testing.harness import Harness
from tests.kit.command import CommandResult, ckpt
from tests.kit.differing import difference
from tests.kit.harness import HARNESSES
from tests.kit.official import Source, what_follows, what_is_read
from tests.kit.pairs import Places, Sources, count_alike, creating

_KINDS = {one.name: one for one in HARNESSES}
FEW = frozenset({"chat", "interrupt-parallel", "subgraph", "fork-update"})


def exported(source: Source, folder: Path) -> Path:
    """Write archives of all threads of a store."""
    done = ckpt("-s", source.harness.url, "export", *source.read, "--to", folder)
    assert done.code == 0, done.err
    return folder


def imported(archives: Path, harness: Harness, *words: str) -> CommandResult:
    return ckpt("import", archives, "--to", harness.url, "--yes", "-o", "json", *words)


LATER = ("postgres", "mysql", "mongodb", "redis", "langgraph-dev")
ENDS = [
    *(pytest.param("sqlite", one, marks=pytest.mark.engines) for one in LATER),
    ("postgres", "sqlite"),
    *(pytest.param(one, "sqlite", marks=pytest.mark.engines) for one in ("mongodb", "redis")),
]


@pytest.mark.in_ci("sqlite-postgres", "sqlite-mongodb")
@pytest.mark.parametrize(("one", "other"), ENDS)
def test_a_fresh_store_of_another_layout_holds_the_same_threads(
    one: str, other: str, sources: Sources, places: Places, tmp_path: Path
) -> None:
    source = sources(_KINDS[one], FEW)
    archives = exported(source, tmp_path / "archives")
    exact = count_alike(one, other)
    with places(_KINDS[other]) as target:
        words = creating(target)
        planned = imported(archives, target, *words, "--dry-run")
        assert planned.code == 0, planned.err
        done = imported(archives, target, *words)
        assert done.code == 0, done.err
        added = {row["thread_id"]: row["added"] for row in done.json}
        assert added == {row["thread_id"]: row["added"] for row in planned.json}
        for name, wanted in source.read.items():
            assert difference(what_is_read(target, name), wanted, name, exact=exact) == ""
        again = imported(archives, target)
        assert again.code == 0, again.err
        assert all(row["added"] == 0 and row["there"] for row in again.json)
        for name, wanted in source.resumed.items():
            assert what_follows(target, name, name, source.inputs[name]) == wanted


@pytest.fixture(scope="module")
def archive(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a thread of PostgreSQL."""
    source = sources(_KINDS["postgres"], FEW)
    folder = exported(source, tmp_path_factory.mktemp("archives"))
    (found,) = folder.glob("interrupt-parallel-*")
    return found


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A file that is not there yet."""
    return str(tmp_path / "target.db")


def restored(path: Path, target: str, *words: str) -> CommandResult:
    return ckpt("import", path, "--to", target, "--create", "--yes", *words)


def test_the_header_tells_what_is_needed_elsewhere(archive: Path) -> None:
    header = check_bundle(archive).header
    assert (header.layout, header.language) == ("postgres", "python")
    assert header.saver
    assert header.ckpt


def test_an_archive_of_an_earlier_release_is_restored(
    archive: Path, target: str, tmp_path: Path
) -> None:
    bundle = check_bundle(archive)
    path = tmp_path / "old.ckpt.gz"
    write_bundle(path, replace(bundle.header, language="", ckpt=""), bundle.rows())
    assert check_bundle(path).header.ckpt == ""
    assert restored(path, target).code == 0


def test_a_thread_that_went_on_is_left_alone(archive: Path, target: str) -> None:
    assert restored(archive, target).code == 0
    with closing(sqlite3.connect(target)) as db, db:
        db.execute("UPDATE checkpoints SET metadata = '{}'")
    before = Path(target).read_bytes()
    for words in ([], ["--dry-run"]):
        refused = restored(archive, target, *words)
        assert refused.code == 6
        assert "went its own way" in refused.err
    assert Path(target).read_bytes() == before


def test_a_layout_without_a_way_is_refused_with_the_reason(
    archive: Path, target: str, tmp_path: Path
) -> None:
    bundle = check_bundle(archive)
    assert restored(archive, target).code == 0
    without = [name for one in known_backends() for name in one.layouts if not one.forms.get(name)]
    for layout in (*without[:1], "unheard-of"):
        path = tmp_path / f"{layout}.ckpt.gz"
        write_bundle(path, replace(bundle.header, layout=layout), bundle.rows())
        refused = restored(path, target)
        assert refused.code == 5
        assert f"its layout is '{layout}'" in refused.err


def test_nothing_is_made_for_an_archive_that_is_refused(
    archive: Path, target: str, tmp_path: Path
) -> None:
    bundle = check_bundle(archive)
    path = tmp_path / "foreign.ckpt.gz"
    write_bundle(path, replace(bundle.header, thread_id="other"), bundle.rows())
    refused = restored(path, target)
    assert refused.code == 5
    assert "belongs to thread 'interrupt-parallel', not to 'other'" in refused.err
    assert not Path(target).exists()
    asked = ckpt("import", archive, "--to", target, "--create")
    assert asked.code == 5
    assert not Path(target).exists()


def test_a_pickle_in_the_archive_of_another_layout_needs_permission(
    archive: Path, target: str, tmp_path: Path
) -> None:
    bundle = check_bundle(archive)
    rows = [
        Row(one.table, {**one.cells, "type": "pickle", "blob": b"\x80\x04K\x01."})
        if "blob" in one.cells
        else one
        for one in bundle.rows()
    ]
    path = tmp_path / "pickled.ckpt.gz"
    write_bundle(path, bundle.header, rows)
    refused = restored(path, target)
    assert refused.code == 5
    assert "--allow-pickle" in refused.err


def spoiled(cell: Cell, place: int, byte: int) -> Cell:
    """Return a cell with one byte changed, or cut off there."""
    if cell is None or isinstance(cell, int | float) or not cell:
        return byte
    at = place % len(cell)
    if isinstance(cell, bytes):
        return cell[:at] + (b"" if byte == 0 else bytes([byte]) + cell[at + 1 :])
    return cell[:at] + ("" if byte == 0 else chr(byte) + cell[at + 1 :])


REPLACED = st.sampled_from(
    [
        *(None, 0, -1, 2**62, 1.5, True, "", "{}", "[]", "null", '{"id": 1}', "\x00"),
        *('{"channel_values": 7}', "[" * 3000, b"", b"\xff", b"\xc1", b"\x91" * 3000),
        b"\xdd\xff\xff\xff\xff",
    ]
)
"""Cells in the place of others; True removes one."""
SPOILED = st.tuples(st.integers(0, 9999), st.sampled_from([0, 1, 34, 44, 91, 125, 127, 128, 255]))


@pytest.mark.in_ci("postgres")
@pytest.mark.parametrize(
    "layout",
    [
        "postgres",
        *(
            pytest.param(one, marks=pytest.mark.engines)
            for one in ("mongodb", "redis", "langgraph-dev", "kaflow")
        ),
    ],
)
def test_damage_in_each_cell_ends_in_a_clear_error(
    layout: str, sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    source = sources(_KINDS[layout], FEW)
    name = next(one for one in ("interrupt-parallel", "chat") if one in source.read)
    (archive,) = exported(source, folder / "archives").glob(f"{name}-*")
    bundle = check_bundle(archive)
    rows = list(bundle.rows())
    places = st.sampled_from(
        [(number, name) for number, row in enumerate(rows) for name in row.cells]
    )

    def check(damage: list[tuple[tuple[int, str], Any]]) -> None:
        changed = list(rows)
        for (number, name), how in damage:
            cells = changed[number].cells
            if name not in cells:
                continue
            made: dict[str, Cell] = {**cells}
            made[name] = spoiled(cells[name], *how) if isinstance(how, tuple) else how
            if how is True:
                del made[name]
            changed[number] = Row(changed[number].table, made)
        path, target = folder / "one.ckpt.gz", folder / "one.db"
        target.unlink(missing_ok=True)
        write_bundle(path, bundle.header, changed)
        done = restored(path, str(target), "--allow-pickle")
        done.ends_cleanly(0, 4, 5, 6)

    settings(
        max_examples=40,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )(given(st.lists(st.tuples(places, REPLACED | SPOILED), min_size=1, max_size=2))(check))()
