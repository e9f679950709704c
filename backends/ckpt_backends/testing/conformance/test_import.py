"""An archive that anyone may have written brings nothing but rows of the thread that it names."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from ckpt_backends.archive import Header, check_bundle, write_bundle
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.registry import open_store
from ckpt_backends.rows import Cell, Row
from ckpt_backends.testing.command_line import CommandResult, ckpt
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import EmptyStore, Library

HARMLESS, VICTIM = "harmless", "trip-to-kyoto"


@dataclass
class ArchivePlace:
    """A store with a thread, and the archive of a thread that was removed."""

    harness: Harness
    library: Library
    header: Header
    rows: list[Row]
    of_victim: list[Row]
    folder: Path

    def state(self) -> list[list[Row]]:
        with open_store(self.harness.url) as store:
            return [list(store.rows(one)) for one in (HARMLESS, VICTIM)]

    def imported(self, bundle: Path) -> CommandResult:
        """Import an archive, whose pickles are KaFlow's own."""
        return ckpt("-s", self.harness.url, "import", bundle, "--allow-pickle", "--yes")

    def bundle(self, rows: list[Row], **changes: Any) -> Path:
        path = self.folder / "archive.ckpt.gz"
        write_bundle(path, replace(self.header, **changes), rows)
        return path


@pytest.fixture(scope="module")
def place(
    empty_store: EmptyStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ArchivePlace]:
    harness, library = empty_store.harness, empty_store.library
    folder = tmp_path_factory.mktemp("archives")
    with quiet():
        for one in (HARMLESS, VICTIM):
            library.run(one, "in")
        for one in (HARMLESS, VICTIM):
            ckpt("-s", harness.url, "export", one, "--to", folder, code=0)
        harmless, victim = map(check_bundle, sorted(folder.glob("*.ckpt.gz")))
        rows, of_victim = list(harmless.rows()), list(victim.rows())
        ckpt("-s", harness.url, "threads", "delete", HARMLESS, "--yes", code=0)
        yield ArchivePlace(harness, library, harmless.header, rows, of_victim, folder)
        for one in (HARMLESS, VICTIM):
            library.forget(one)


def with_cells(row: Row, cells: Mapping[str, Cell]) -> Row:
    return Row(row.table, {**row.cells, **cells})


def without(row: Row, name: str) -> Row:
    return Row(row.table, {one: cell for one, cell in row.cells.items() if one != name})


def renamed(row: Row) -> Row:
    """The same row with the other thread's name in every place but the thread's own cell."""

    def other(cell: Cell) -> Cell:
        if isinstance(cell, bytes):
            return cell
        return cell.replace(HARMLESS, VICTIM) if isinstance(cell, str) else cell

    kept = {"thread_id", "value"} if "key" in row.cells else {"thread_id"}
    return Row(
        row.table, {name: cell if name in kept else other(cell) for name, cell in row.cells.items()}
    )


def foreign_rows(place: ArchivePlace) -> Iterator[tuple[str, list[Row]]]:
    """Archives of `harmless` with something that must not come in, each with its name."""
    *rows, last = place.rows
    yield "a row of the victim", [*place.rows, place.of_victim[-1]]
    yield "only rows of the victim", place.of_victim
    for row in place.of_victim:
        yield f"{row.table} of the victim", [*place.rows, row]
    yield "a table of the application", [*place.rows, Row("users", {"thread_id": HARMLESS})]
    yield "a table of the engine", [*place.rows, Row("sqlite_master", last.cells)]
    yield "a hostile table", [*place.rows, replace(last, table='checkpoints" SELECT 1; --')]
    yield "an empty row", [*place.rows, replace(last, cells={})]
    if "thread_id" in last.cells:
        for cell in (5, 5.0, None, HARMLESS.encode(), f"{HARMLESS} ", HARMLESS.upper(), ""):
            yield f"the thread id {cell!r}", [*rows, with_cells(last, {"thread_id": cell})]
        yield "no thread id", [*rows, without(last, "thread_id")]
        yield "no namespace", [*rows, without(last, "checkpoint_ns")]
        for name in ('x"; DROP TABLE checkpoints; --', "x` = 1, `y", "thread_id) VALUES (1) --"):
            yield f"the column {name}", [*rows, with_cells(last, {name: "a"})]
    if "key" in last.cells:
        for row in place.rows:
            if VICTIM in str(renamed(row).cells["key"]):
                yield f"the key of a {row.table}", [*place.rows, renamed(row)]
        for name in ("agent:secret", "harmless", "", f"checkpoint:{HARMLESS}"):
            yield f"the key {name!r}", [*rows, with_cells(last, {"key": name})]
        for cell in (None, 5, b"key"):
            yield f"the key {cell!r}", [*rows, with_cells(last, {"key": cell})]
        yield "another type", [*rows, with_cells(last, {"type": "set"})]
        yield "a time of expiry that is a text", [*rows, with_cells(last, {"expires_at": "1"})]
        yield "no contents", [*rows, Row(last.table, dict(list(last.cells.items())[:3]))]
        for row in place.rows:
            if isinstance(row.cells.get("value"), str):
                document = json.loads(str(row.cells["value"]))
                for changed in (
                    {**document, "thread_id": VICTIM},
                    {**document, "thread_id": None},
                    {**document, "checkpoint_ns": f"x:{VICTIM}"},
                    {**document, "checkpoint_id": "another"},
                ):
                    is_shallow = row.table == "checkpoint" and not place.harness.has_history
                    if is_shallow or row.table == "checkpoint_blob":
                        changed["thread_id"] = VICTIM  # The id is no part of the key.
                    text = json.dumps(changed)
                    others = [one for one in place.rows if one is not row]
                    yield f"a {row.table} of {changed}", [*others, with_cells(row, {"value": text})]
                twice = f'{{"thread_id": "{VICTIM}", {str(row.cells["value"])[1:]}'
                yield "two thread ids", [*rows, with_cells(row, {"value": twice})]
        if last.table == "checkpoint_latest":
            named = str(last.cells["value"]).replace(HARMLESS, VICTIM)
            yield "a pointer to the victim", [*rows, with_cells(last, {"value": named.encode()})]
    if "bson" in last.cells:
        yield from documents(rows, last)


def documents(rows: list[Row], last: Row) -> Iterator[tuple[str, list[Row]]]:
    from bson import decode, encode

    raw = last.cells["bson"]
    assert isinstance(raw, bytes)
    document = decode(raw)
    for value in (VICTIM, 5, None, {"$ne": ""}, [HARMLESS], HARMLESS.encode()):
        changed = encode({**document, "thread_id": value})
        yield f"the thread id {value!r}", [*rows, with_cells(last, {"bson": changed})]
    # The server finds the first of two fields of the same name, and Python reads the second.
    first = encode({"thread_id": VICTIM})[4:-1]
    twice = (len(raw) + len(first)).to_bytes(4, "little") + first + raw[4:]
    yield "two thread ids", [*rows, with_cells(last, {"bson": twice})]
    del document["thread_id"]
    yield "no thread id", [*rows, with_cells(last, {"bson": encode(document)})]
    for cell in (b"", b"\0" * 5, raw[:-3], "text", None):
        yield f"the document {cell!r}", [*rows, with_cells(last, {"bson": cell})]


def test_an_archive_brings_no_row_of_another_thread(place: ArchivePlace) -> None:
    with open_store(place.harness.url) as store:
        assert list(store.own_rows(HARMLESS, place.rows)) == place.rows
        for what, rows in foreign_rows(place):
            with pytest.raises((Refused, Unsupported)):
                pytest.fail(f"{what}: {list(store.own_rows(HARMLESS, rows))}")


def test_the_command_brings_the_archive_as_it_is_or_nothing(
    place: ArchivePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.state()
    bundle = place.bundle([*place.rows, place.of_victim[-1]])
    for words in (["--dry-run"], ["--yes"], []):
        refused = ckpt("-s", place.harness.url, "import", bundle, *words)
        assert (refused.code, refused.raw) == (5, b"")
        assert f"cannot import '{bundle}': " in refused.err
        assert f"hint: look at its rows: zcat {quote(str(bundle))} | less" in refused.err
    for thread_id in (VICTIM, "another", HARMLESS.upper(), f"{HARMLESS} "):
        assert place.imported(place.bundle(place.rows, thread_id=thread_id)).code == 5
    bundle, questions = place.bundle(place.rows), []

    def swap(question: str) -> None:
        questions.append(question)
        place.bundle(place.rows[1:])

    monkeypatch.setattr("ckpt_cli.commands.import_.confirm", swap)
    refused = ckpt("-s", place.harness.url, "import", bundle, "--allow-pickle")
    assert (refused.code, len(questions)) == (6, 1)
    assert "changed after it was checked" in refused.err
    assert place.state() == before
    done = place.imported(place.bundle(place.rows))
    assert done.code == 0, done.err
    harmless, _ = place.state()
    assert sorted(map(repr, harmless)) == sorted(map(repr, place.rows))
    place.library.forget(HARMLESS)


def test_cells_of_other_types_end_with_a_clear_error(place: ArchivePlace) -> None:
    """What the engine takes is restored and removed again. A server takes every other cell."""
    others: Iterator[Cell] = cycle([1 << 62, "x", b"x", None, 0.5])
    step = 1 if place.harness.server is None else 2
    for row in {one.table: one for one in place.rows}.values():
        for name in list(row.cells)[::step]:
            changed = with_cells(row, {name: next(others)})
            rows = [changed if one is row else one for one in place.rows]
            done = place.imported(place.bundle(rows))
            done.ends_cleanly(0, 4, 5, 6)
            if done.code == 0:
                place.library.forget(HARMLESS)
                ckpt("-s", place.harness.url, "gc", "--scope", "all", "--grace", "0s", "--yes")
