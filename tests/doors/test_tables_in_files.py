"""Tables in files: what pandas, Polars and DuckDB read, and a run that goes on."""

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.files import create_part
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_cli.api import sql as exporting
from ckpt_cli.sql.tables import TABLES
from tests.kit.command import SAMPLE, ckpt, copy_store

TWO = ("--table", "threads", "--table", "writes")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(exporting, "MOST_THREADS", 3)
    return tmp_path / "lake"


def rows_of(query: str) -> list[tuple[Any, ...]]:
    import duckdb

    return duckdb.execute(query).fetchall()


def export(lake: Path, form: str = "parquet", *more: str) -> list[dict[str, object]]:
    words = ("export", "--all", "--format", form, "--to", str(lake), "-o", "json", *more)
    found: list[dict[str, object]] = ckpt("-s", SAMPLE, *words).json
    return found


def test_files_hold_the_tables(lake: Path) -> None:
    written = export(lake)
    assert len(written) == 9 * 3 + 1
    manifest = json.loads((lake / "manifest.json").read_text())
    assert manifest["complete"]
    for one in manifest["files"]:
        path = lake / one["file"]
        assert sha256(path.read_bytes()).hexdigest() == one["sha256"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for table in TABLES.values():
        files = f"'{lake}/{table.name}/*.parquet'"
        types = rows_of(f"DESCRIBE FROM {files}")
        names = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}
        assert [row[:2] for row in types] == [
            (one.name, names.get(one.type, one.type)) for one in table.columns
        ]
        if table.items is None:
            query = f'SELECT count(*) AS n FROM "{table.name}"'
            (asked,) = ckpt("-s", SAMPLE, "sql", query, "-o", "json").json
            assert rows_of(f"SELECT count(*) FROM {files}") == [(asked["n"],)]


def test_a_run_that_was_stopped_goes_on(lake: Path) -> None:
    whole = export(lake)
    lost = lake / "writes" / "part-00001.parquet"
    lost.unlink()
    assert [one["file"] for one in export(lake)] == ["writes/part-00001.parquet"]
    assert export(lake) == []
    assert len(whole) == len(json.loads((lake / "manifest.json").read_text())["files"])
    other = ckpt("-s", SAMPLE, "export", "--all", "--format", "csv", "--to", lake)
    assert (other.code, "holds another export" in other.err) == (5, True)
    (lake.parent / "mine.txt").write_text("x")
    found = ckpt("-s", SAMPLE, "export", "--all", "--format", "parquet", "--to", lake.parent)
    assert (found.code, "not empty" in found.err) == (5, True)


@pytest.mark.nightly
def test_runs_that_are_killed_are_completed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lake / "whole"
    export(whole, "ndjson")
    rows_before = {path.relative_to(whole): path.read_bytes() for path in whole.glob("*/*")}
    names = ("writes", "messages", "threads")
    tables: list[str | Path] = [word for one in names for word in ("--table", one)]
    for share in range(1, 12):
        folder = lake / f"killed-{share}"
        words = ["-s", SAMPLE, "export", "--all", "--format", "ndjson", "--to", folder, *tables]
        calls = len(calls_of(words))
        shutil.rmtree(folder)
        for nth in (share, share + 5):
            kill_at(words, calls * nth // 17)
            listed = (
                json.loads((folder / "manifest.json").read_text())["files"]
                if (folder / "manifest.json").exists()
                else []
            )
            for one in listed:
                assert sha256((folder / one["file"]).read_bytes()).hexdigest() == one["sha256"]
        assert ckpt(*words).code == 0
        held = {path.relative_to(folder): path.read_bytes() for path in folder.glob("*/*")}
        assert held == {key: one for key, one in rows_before.items() if key.parts[0] in names}
        assert json.loads((folder / "manifest.json").read_text())["complete"]


def refused(lake: Path, *more: str) -> tuple[int, str]:
    done = ckpt("-s", SAMPLE, "export", "--all", "--format", "csv", "--to", lake, *more)
    return done.code, done.err


MALFORMED = [
    "[" * 100_000,
    "7",
    '{"files": [7]}',
    '{"files": [{}]}',
    '{"files": [{"table": [], "part": {}, "file": 7, "bytes": "", "left_out": 0}]}',
]


@pytest.mark.parametrize("name", ["manifest.json", "plan.ndjson"])
def test_an_odd_record_of_a_run_is_refused(lake: Path, name: str, tmp_path: Path) -> None:
    export(lake, "csv", "--table", "threads")
    shutil.rmtree(lake / "threads")
    shutil.copyfile(lake / name, tmp_path / name)
    for text in MALFORMED:
        (lake / name).write_text(text)
        code, said = refused(lake, "--table", "threads")
        assert (code, f"{name}'" in said) == (5, True), said
    (lake / name).unlink()
    os.mkfifo(lake / name)
    code, said = refused(lake, "--table", "threads")
    assert (code, "it is a FIFO" in said) == (4, True), said
    (lake / name).unlink()
    (lake / name).symlink_to(tmp_path / name)
    code, said = refused(lake, "--table", "threads")
    assert (code, "it is a symbolic link" in said) == (4, True), said


def test_a_finished_file_that_changed_is_written_again(lake: Path, tmp_path: Path) -> None:
    written = export(lake, "csv", *TWO)
    one, two, three = (lake / "threads" / f"part-0000{n}.csv" for n in range(3))
    kept = [path.read_bytes() for path in (one, two, three)]
    changed = bytearray(kept[0])
    changed[-2] ^= 1
    one.write_bytes(changed)
    two.rename(tmp_path / "elsewhere.csv")
    two.symlink_to(tmp_path / "elsewhere.csv")
    three.unlink()
    again = export(lake, "csv", *TWO)
    assert [one["file"] for one in again] == [f"threads/part-0000{n}.csv" for n in range(3)]
    assert [path.read_bytes() for path in (one, two, three)] == kept
    assert not two.is_symlink()
    assert len(written) > len(again)


def test_swapped_links_end_it(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")

    def swapped(path: Path) -> Any:
        part, file = create_part(path)
        part.unlink()
        part.symlink_to(precious)
        return part, file

    monkeypatch.setattr(exporting, "create_part", swapped)
    export(lake, "csv", "--table", "threads")
    assert precious.read_text() == "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = tmp_path / "other"
    monkeypatch.undo()
    export(other, "csv", "--table", "threads")
    shutil.rmtree(other / "threads")
    (other / "threads").symlink_to(elsewhere)
    code, said = refused(other, "--table", "threads")
    assert (code, "symbolic link" in said, list(elsewhere.iterdir())) == (5, True, [])


def test_the_memory_of_others_is_not_written(lake: Path, tmp_path: Path) -> None:
    from langgraph.store.sqlite import SqliteStore

    store = copy_store(SAMPLE, tmp_path)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        memory = SqliteStore(connection)
        memory.setup()
        memory.put(("users", "bert"), "profile", {"text": "likes coffee"})
    ways = (["trip-to-kyoto"], ["--match", "trip-*"], ["--where", "step > 0"])
    for chosen, form in zip(ways, ("parquet", "csv", "ndjson"), strict=True):
        folder = lake / form
        words: list[str | Path] = ["export", *chosen, "--format", form, "--to", folder]
        assert ckpt("-s", store, *words).code == 0
        assert not (folder / "memory").exists()
        assert "memory" not in json.loads((folder / "manifest.json").read_text())["tables"]
        asked = ckpt("-s", store, *words, "--table", "memory")
        assert (asked.code, "items of all users" in asked.err) == (2, True)
    words = ["export", "--all", "--format", "csv", "--to", lake / "all", "--table", "memory"]
    assert ckpt("-s", store, *words, "-o", "json").json[0]["rows"] == 1


def test_redacted_lines_are_not_added_to_values(tmp_path: Path) -> None:
    words = ("export", "trip-to-kyoto", "--format", "jsonl", "--to")
    values, redacted = tmp_path / "values", tmp_path / "redacted"
    assert ckpt("-s", SAMPLE, *words, values).code == 0
    for _ in range(2):
        assert ckpt("-s", SAMPLE, "--redact", *words, redacted).code == 0
    held = sorted(one.read_bytes() for one in values.iterdir())
    for folder, more in ((values, ["--redact"]), (redacted, [])):
        done = ckpt("-s", SAMPLE, *more, *words, folder)
        assert (done.code, "redacted differ" in done.err) == (5, True), folder
    assert sorted(one.read_bytes() for one in values.iterdir()) == held
    for name, kind in (("bundles", "bundle"), ("tables", "csv")):
        folder = tmp_path / name
        whole = ("export", "trip-to-kyoto", "--format", kind, "--to", folder)
        assert ckpt("-s", SAMPLE, *whole).code == 0
        assert ckpt("-s", SAMPLE, "--redact", *words, folder).code == 5
