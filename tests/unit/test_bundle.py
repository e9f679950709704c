"""Bundles give back the very rows that they were made of, or say that they cannot."""

import gzip
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.archive import (
    Header,
    bundle_name,
    check_bundle,
    make_folder,
    read_header,
    write_bundle,
)
from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unreadable
from ckpt_backends.files import writing
from ckpt_backends.rows import Cell, Row, is_part
from tests.kit.cases import cases

HEADER = Header("user-42", "sqlite", "a saver", "agent.db", "2026-11-01T00:00:00Z")
NUMBERS: dict[str, Cell] = {
    "least": -(2**63),
    "most": 2**63 - 1,
    "part": 1.5,
    "less": -inf,
    "none": None,
}
TEXTS: dict[str, Cell] = {"": "é\n", "broken": "\udc80\udcff", "bytes": b"\0\xff", "empty": b""}
ROWS = [Row("writes", NUMBERS), Row("checkpoints", {}), Row("writes", TEXTS), Row("writes", TEXTS)]


@cases("rows thread_id", ([], ""), (ROWS[:1], "user-42"), (ROWS, "../ü"))
def test_rows_come_back_as_they_were(rows: list[Row], thread_id: str, tmp_path: Path) -> None:
    path = tmp_path / bundle_name(thread_id, HEADER.made_at)
    header = replace(HEADER, thread_id=thread_id)
    written = write_bundle(path, header, iter(rows))
    bundle = check_bundle(path)
    assert written == bundle
    assert (bundle.header, bundle.size) == (header, len(rows))
    assert list(bundle.rows()) == rows
    assert read_header(path) == header
    assert [*tmp_path.iterdir()] == [path]


def test_rows_that_were_not_checked_are_not_restored(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt.gz"
    write_bundle(path, HEADER, [Row("writes", {"n": 1})])
    bundle = check_bundle(path)
    write_bundle(path, HEADER, [Row("writes", {"n": 2})])
    with pytest.raises(StoreChanged, match="changed after it was checked"):
        list(bundle.rows())


@given(st.data())
def test_no_byte_can_change_unnoticed(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.ckpt.gz"
        write_bundle(path, HEADER, [Row("writes", {"value": b"some bytes", "n": 7})])
        text = gzip.decompress(path.read_bytes())
        place = data.draw(st.integers(0, len(text) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[place]))
        path.write_bytes(gzip.compress(text[:place] + bytes([other]) + text[place + 1 :]))
        with pytest.raises(Unreadable):
            check_bundle(path)


def test_nothing_follows_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt.gz"
    write_bundle(path, HEADER, [Row("writes", {"n": 7})])
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(Unreadable, match="data after its end"):
        check_bundle(path)


LINES = ["", "not json\n", "[]\n", '{"a": 1}\n', '{"ckpt_bundle": 2}\n']
LINES += ['{"ckpt_bundle": 1, "thread_id": 5}\n', '{"ckpt_bundle": 1, "thread_id": "a"}\n']
LINES += ['{"ckpt_bundle": 1, "thread_id": "a"}']
PACKED = [gzip.compress(one.encode()) for one in LINES]


@pytest.mark.parametrize("content", [b"", b"no gzip", *PACKED], ids=range(10))
def test_what_is_no_bundle_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ckpt.gz"
    path.write_bytes(content)
    with pytest.raises(Unreadable):
        check_bundle(path)


def test_a_broken_writer_leaves_nothing(tmp_path: Path) -> None:
    def rows() -> Iterator[Row]:
        yield Row("writes", {})
        raise StoreUnavailable("the server went away")

    with pytest.raises(StoreUnavailable, match="went away"):
        write_bundle(tmp_path / "a.ckpt.gz", HEADER, rows())
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreUnavailable, match="cannot write the archive"):
        write_bundle(tmp_path / "none" / "a.ckpt.gz", HEADER, [])


def test_names_of_files_are_safe_and_tell_threads_apart(tmp_path: Path) -> None:
    names = ["../../etc/passwd", ".hidden", "a\0b", "", "x" * 500, "X" * 500, "会话", "\ud800"]
    files = [bundle_name(name, HEADER.made_at) for name in names]
    assert len(set(files)) == len(files)
    for file in files:
        assert "/" not in file
        assert "\0" not in file
        assert not file.startswith(".")
        (tmp_path / file).touch()


def test_what_a_killed_run_left_is_removed_and_not_what_a_run_writes(tmp_path: Path) -> None:
    left = tmp_path / ".a-1.ckpt.gz.4711.part"
    left.write_bytes(b"half a bundle")
    others = [tmp_path / name for name in (".a.part", ".b.jsonl.12.part", "a.ckpt.gz.12.part")]
    for one in others:
        one.touch()
    with writing(tmp_path / "b.ckpt.gz") as file:
        file.write(b"so far")
        make_folder(tmp_path)
        (own,) = tmp_path.glob(".b.ckpt.gz.*.part")
        assert not left.exists()
        assert own.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "b.ckpt.gz").read_bytes() == b"so far"
    assert sorted(tmp_path.iterdir()) == sorted([*others, tmp_path / "b.ckpt.gz"])


def ids(*names: str) -> dict[str, Cell]:
    """The members of a list of Redis."""
    return {f".{place}": name for place, name in enumerate(names)}


@cases(
    "stored archived expected",
    ("c", "abc", True),
    ("ac", "abc", True),
    ("abc", "abc", False),
    ("cd", "abc", False),
    ("c", "abac", False),
)
def test_a_part_of_a_list_has_its_order(stored: str, archived: str, expected: bool) -> None:
    assert is_part("list", ids(*stored), ids(*archived)) is expected


@cases(
    "stored expected", ({".a": "1"}, True), ({".a": "2"}, False), ({".a": "1", ".c": "3"}, False)
)
def test_a_part_of_a_sorted_set_has_its_scores(stored: dict[str, Cell], expected: bool) -> None:
    assert is_part("zset", stored, {".a": "1", ".b": "2"}) is expected
    assert not is_part("hash", stored, {".a": "1", ".b": "2"})
