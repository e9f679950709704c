"""An archive of memory that anyone may have written brings nothing but items, and names them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckpt_backends.archive import Bundle, check_bundle, write_bundle
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.memory import ItemKey
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import Cell, Row
from ckpt_backends.url import parse_url
from tests.kit.memory.benches import Bench
from tests.kit.memory.contents import Items, fill, keys
from tests.kit.memory.contents import memory as run

MINE: Items = {(("users", "anna"), "profile"): {"text": "first"}}
OTHER: Items = {(("users", "bob"), "profile"): {"text": "other"}}


def archived(bench: Bench, folder: Path) -> Bundle:
    """The archive of an item that was removed; another item stays."""
    fill(bench, MINE | OTHER)
    more = ("--archive", folder, "--yes", "-o", "json")
    return check_bundle(Path(run(bench, "delete", "users/anna/profile", *more).json["archive"]))


def foreign_rows(row: Row) -> Iterator[Row]:
    """Rows that are no items."""

    def changed(**cells: Cell) -> Row:
        return Row(row.table, {**row.cells, **cells})

    for table in ("checkpoints", "users", "sqlite_master", 'store" --', ""):
        yield Row(table, row.cells)
        yield Row(table, {"thread_id": "trip", "prefix": "users", "key": "a"})
    yield Row(row.table, {})
    if "bson" in row.cells:
        from bson import decode, encode

        raw = row.cells["bson"]
        assert isinstance(raw, bytes)
        document = decode(raw)
        for name, value in (
            ("namespace", "users.bob"),
            ("namespace", [1]),
            ("namespace", None),
            ("namespace_str", "users/bob"),
            ("namespace_str", ""),
            ("namespace_prefix", ["admin"]),
            ("key", 5),
        ):
            yield changed(bson=encode({**document, name: value}))
        first = encode({"key": "other"})[4:-1]
        yield changed(bson=(len(raw) + len(first)).to_bytes(4, "little") + first + raw[4:])
        yield changed(bson=b"")
        return
    yield changed(key=5)
    yield changed(key=None)
    if "prefix" in row.cells:
        yield changed(prefix=None)
        yield changed(**{"value) SELECT 1; --": "a"})
        yield Row(row.table, {one: row.cells[one] for one in row.cells if one != "prefix"})
    else:
        document = json.loads(str(row.cells["value"]))
        yield changed(key="agent:secret")
        yield changed(type="hash")
        yield changed(value="[]")
        yield changed(value="x")
        for name in ("prefix", "key"):
            yield changed(value=json.dumps({**document, name: None}))
        yield changed(value='{"key": "other", ' + str(row.cells["value"])[1:])


def test_an_archive_brings_nothing_but_items(bench: Bench, tmp_path: Path) -> None:
    bundle = archived(bench, tmp_path)
    rows = list(bundle.rows())
    with open_memory(parse_url(bench.url)) as memory:
        assert {memory.key_of(row) for row in rows} == {ItemKey(("users", "anna"), "profile")}
        for row in foreign_rows(rows[0]):
            with pytest.raises((Refused, Unsupported)):
                pytest.fail(f"{row}: {memory.key_of(row)}")
    before = keys(bench)
    write_bundle(bundle.path, bundle.header, [*rows, Row("users", {"key": "a"})])
    for word in ("--dry-run", "--yes"):
        refused = run(bench, "import", bundle.path, word)
        assert (refused.code, refused.raw, "a row of 'users'" in refused.err) == (5, b"", True)
    assert keys(bench) == before


def test_the_plan_and_the_question_name_the_namespaces(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = archived(bench, tmp_path)
    questions: list[str] = []
    (planned,) = run(bench, "import", bundle.path, "--dry-run", "-o", "json").json
    assert planned["namespaces"] == [["users", "anna"]]
    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", questions.append)
    (done,) = run(bench, "import", bundle.path, "-o", "json").json
    assert done["namespaces"] == [["users", "anna"]]
    (question,) = questions
    assert " into users/anna of '" in question


def test_an_archive_that_is_swapped_at_the_question_brings_nothing(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = archived(bench, tmp_path)
    rows = [Row(row.table, row.cells) for row in bundle.rows()]
    before = keys(bench)

    def swap(_: str) -> None:
        write_bundle(bundle.path, bundle.header, [*rows, *rows])

    monkeypatch.setattr("ckpt_cli.commands.memory.confirm", swap)
    refused = run(bench, "import", bundle.path)
    assert (refused.code, "changed after it was checked" in refused.err) == (6, True)
    assert keys(bench) == before
