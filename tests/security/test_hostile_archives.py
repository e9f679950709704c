"""Archives and plans from strangers: damaged, oversized, changed while a person decides, or with
pickles that nobody allowed."""

import gzip
import json
import pickle
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.code import Code
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.archive import Header, Pickles, check_bundle, is_pickle, write_bundle
from ckpt_backends.errors import CkptError, Unreadable
from ckpt_backends.rows import Cell, Row
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store, first_now
from tests.kit.hostile.watched import in_child

HEADER = Header("trip", "sqlite", "a saver", "agent.db", "2026-11-01T00:00:00Z")
FIRST: dict[str, Any] = {
    **{"ckpt_bundle": 1, "layout": "sqlite", "saver": "", "store": "", "thread_id": "trip"},
    "made_at": "",
}
CELLS = {"thread_id": "trip", "checkpoint_ns": "", "checkpoint_id": "1"}
MOST_MEMORY = 512 << 20
"""Bytes. Without a limit, each of the bombs needs several gigabytes."""


def lines_of(*rows: object, first: object = FIRST, tables: object = None) -> list[bytes]:
    """The lines of a bundle with any rows, with a valid checksum."""
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in (first, *rows)]
    lines = [one + b"\n" for one in lines]
    counts = {"checkpoints": len(rows)} if tables is None else tables
    end = {"rows": counts, "sha256": sha256(b"".join(lines)).hexdigest()}
    return [*lines, json.dumps(end).encode() + b"\n"]


def cell(text: str) -> bytes:
    """A row with a cell that is written as this text."""
    row = json.dumps({"table": "checkpoints", "row": {**CELLS, "type": "HERE"}})
    return row.replace('"HERE"', text).encode()


MALFORMED: dict[str, list[bytes]] = {
    "a list for a table": lines_of({"table": ["checkpoints"], "row": CELLS}),
    "a line that is a list": lines_of([1, 2]),
    "no row": lines_of({"table": "checkpoints"}),
    "a header with a row": lines_of(FIRST | {"table": "checkpoints", "row": CELLS}),
    "a header without a thread": lines_of(first={"ckpt_bundle": 1}),
    "a format that is true": lines_of(first=FIRST | {"ckpt_bundle": True}),
    "a format of text": lines_of(first=FIRST | {"ckpt_bundle": "1"}),
    "bad base64": lines_of(cell('{"$bytes": "a$b"}')),
    "text that is not UTF-8": lines_of(cell('{"$text": "/w=="}')),
    "a cell of two kinds": lines_of(cell('{"$bytes": "", "$text": ""}')),
    "2**63": lines_of(cell(str(1 << 63))),
    "-Infinity": lines_of(cell("-Infinity")),
    "deep nesting": lines_of(cell("[" * 100_000)),
    "more tables than any layout has": lines_of(
        *({"table": str(one), "row": CELLS} for one in range(101)),
        tables={str(one): 1 for one in range(101)},
    ),
    "counts that are a list": lines_of({"table": "checkpoints", "row": CELLS}, tables=[1]),
    "a file that is cut off": lines_of({"table": "checkpoints", "row": CELLS}),
    "a row that was changed": [*lines_of(cell('"a"'))[:-1], lines_of(cell('"b"'))[-1]],
    "no newline at the end": [*lines_of()[:-1], lines_of()[-1].rstrip()],
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_archives_are_refused_clearly(sample: Path, tmp_path: Path, name: str) -> None:
    bundle, before = tmp_path / "a.ckpt.gz", sample.read_bytes()
    packed = gzip.compress(b"".join(MALFORMED[name]))
    bundle.write_bytes(packed[:-9] if name == "a file that is cut off" else packed)
    for word in ("--yes", "--dry-run"):
        refused = ckpt("-s", sample, "import", bundle, word, code=4, says=f"'{bundle}'")
        assert "\nhint: " in refused.err
    assert sample.read_bytes() == before


ROWS = [
    Row("writes", {**CELLS, "idx": 1, "value": b"some bytes", "channel": "a \ud800 b"}),
    Row("checkpoints", {**CELLS, "metadata": "{}", "type": None, "x": 0.5}),
]


@given(st.data())
def test_a_mutated_archive_with_a_valid_checksum_gives_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated.ckpt.gz"
    write_bundle(path, HEADER, ROWS)
    *lines, _ = gzip.decompress(path.read_bytes()).splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = mutated(lines[place], data).replace(b"\n", b"")
    first, *rows = lines
    parts = lines_of(*rows, first=first, tables={"writes": 1, "checkpoints": 1})
    path.write_bytes(gzip.compress(b"".join(parts)))
    with suppress(CkptError):
        for row in check_bundle(path).rows():
            assert isinstance(row.table, str)
            for one in row.cells.values():
                assert one is None or isinstance(one, int | float | str | bytes)


def mutated(content: bytes, data: st.DataObject) -> bytes:
    """Some bytes replaced, removed or inserted."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 8)))
        content = content[:start] + data.draw(st.binary(max_size=8)) + content[end:]
    return content


def packed(*parts: tuple[bytes, int]) -> bytes:
    """A gzip file with each part so many times."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    pieces = [
        packer.compress(part * (1 << 10))
        for part, times in parts
        for _ in range(max(1, times >> 10))
    ]
    return b"".join([*pieces, packer.flush()])


def start_of(row: str) -> bytes:
    return json.dumps(FIRST).encode() + b"\n" + row.encode()


CALM = '{"table":"checkpoints","row":{"a":'
BOMBS: dict[str, Callable[[], bytes]] = {
    "one long text": lambda: gzip.compress(start_of(CALM + '"')) + packed((b"a" * 1024, 600 << 10)),
    "many rows": lambda: (
        gzip.compress(start_of(""))
        + packed((CALM.encode() + b'"%s"}}\n' % (b"a" * 4000), 64 << 10))
    ),
    "many tables": lambda: gzip.compress(
        start_of("\n".join(f'{{"table":"{one}","row":{{}}}}' for one in range(1 << 10)))
    ),
    "many cells": lambda: gzip.compress(
        start_of(CALM + "1," + ",".join(f'"{one}":1' for one in range(1 << 20)) + "}}\n")
    ),
    "many objects": lambda: gzip.compress(start_of(CALM + "[" + "{}," * (15 << 20) + "{}]}}\n")),
    "deep lists": lambda: gzip.compress(start_of(CALM + "[" * (50 << 20) + "\n")),
}


@pytest.mark.parametrize("name", first_now(BOMBS))
@pytest.mark.in_ci("one long text", "deep lists", "many tables")
def test_a_bomb_is_refused_with_bounded_memory(sample: Path, tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "bomb.ckpt.gz"
    bundle.write_bytes(BOMBS[name]())
    refused, used = in_child("-s", sample, "import", bundle, "--yes")
    assert refused.code == 4, refused.err
    assert "cannot read the archive" in refused.err
    assert used < MOST_MEMORY


@pytest.mark.nightly
def test_what_compresses_well_can_be_read_again(tmp_path: Path) -> None:
    """Rows of ckpt's own archives are never taken for a bomb."""
    path = tmp_path / "a.ckpt.gz"
    write_bundle(path, HEADER, [Row("checkpoints", {"value": bytes(60 << 20)})])
    assert path.stat().st_size < 20 << 20
    assert check_bundle(path).counts == {"checkpoints": 1}


def plans(store: Path, tmp_path: Path) -> Iterator[Path]:
    for match in ("trip-to-kyoto", "weekly-*"):
        path = tmp_path / f"{match[:4]}.ndjson"
        ckpt("-s", store, "purge", "--match", match, "--plan-out", path, code=0)
        yield path


def test_a_plan_that_is_swapped_at_the_question_is_not_carried_out(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, other = plans(sample, tmp_path)

    def swap(question: str) -> None:
        assert question.startswith("Remove 1 thread ")
        shown.write_bytes(other.read_bytes())

    monkeypatch.setattr("ckpt_cli.commands.purge.confirm", swap)
    ckpt("-s", sample, "apply", shown, code=0)
    ckpt("-s", sample, "show", "trip-to-kyoto", code=3)
    ckpt("-s", sample, "show", "weekly-digest", code=0)


def line_of_plan(**parts: str) -> str:
    """A line of a plan in which some parts are written otherwise."""
    expects = '{"last_at":null,"checkpoints":1,"writes":1}'
    known = {"thread_id": '"trip-to-kyoto"', "action": '"remove"', "reason": '""', "writes": "0"}
    known |= {"checkpoints": "1", "bytes": "0", "expects": expects, **parts}
    return "{" + ",".join(f'"{name}":{one}' for name, one in known.items()) + "}"


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        line_of_plan(checkpoints="1e999"),
        line_of_plan(blobs="[]"),
        line_of_plan(action="{}"),
        '"\xff"',
        "1" * 5000,
        "null",
    ],
)
def test_malformed_plans_are_refused_clearly(sample: Path, tmp_path: Path, line: str) -> None:
    plan, _ = plans(sample, tmp_path)
    plan.write_bytes(plan.read_bytes() + line.encode("latin-1") + b"\n")
    before = sample.read_bytes()
    ckpt("-s", sample, "apply", plan, "--yes", code=2, says="\nhint: ")
    assert sample.read_bytes() == before


@pytest.mark.engines
def test_a_plan_with_an_endless_line_is_not_read_into_memory(sample: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan"
    with plan.open("wb") as file:
        file.truncate((256 << 20) + 10)
    ckpt("-s", sample, "apply", plan, "--yes", code=2, says="longer than 256 MiB")
    ckpt("-s", sample, "apply", "/dev/zero", "--yes", code=4)


THREAD = "trip-to-kyoto"


class Evil:
    def __reduce__(self) -> Any:
        return print, ("loaded",)


CODE = [pickle.dumps(Evil(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
BINARY = CODE[2:]
"""From protocol 2 on a pickle says that it is one."""


def with_other_cells(store: Path, folder: Path, change: Any) -> Path:
    """An archive of a thread in which the first write of a task has other cells."""
    ckpt("-s", store, "export", THREAD, "--to", folder, code=0)
    (bundle,) = folder.iterdir()
    found = check_bundle(bundle)
    rows = list(found.rows())
    at = next(number for number, row in enumerate(rows) if row.table == "writes")
    rows[at] = Row("writes", {**rows[at].cells, **change})
    write_bundle(bundle, found.header, rows)
    ckpt("-s", store, "threads", "delete", THREAD, "--yes", code=0)
    return bundle


def test_the_first_pickles_are_named_and_the_others_counted(tmp_path: Path) -> None:
    """Pickles, encrypted or not, as the official saver writes them with `pickle_fallback`."""
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    threads = [one["thread_id"] for one in ckpt("-s", store, "threads", "list", "-o", "json").json]
    ckpt("-s", store, "export", *threads, "--to", tmp_path / "a", code=0)
    seen = []
    for bundle in sorted((tmp_path / "a").iterdir()):
        types = [str(row.cells["type"]) for row in check_bundle(bundle).rows()]
        number = sum("pickle" in one for one in types)
        answer = ckpt("-s", store, "import", bundle, "--dry-run", code=5 if number else 0)
        if number:
            shown = answer.err.splitlines()[0]
            assert f"{number} value" in shown
            assert shown.endswith(f"; {number - 3} more") == (number > 3)
            ckpt("-s", store, "import", bundle, "--dry-run", "--allow-pickle", code=0)
        seen.append({one for one in types if "pickle" in one})
    assert {"pickle"} in seen
    assert {"pickle+aes"} in seen


def test_one_archive_with_a_pickle_holds_back_the_others(sample: Path, tmp_path: Path) -> None:
    other = ckpt("-s", sample, "threads", "list", "-o", "json").json[-1]["thread_id"]
    assert other != THREAD
    ckpt("-s", sample, "export", other, "--to", tmp_path / "b", code=0)
    ckpt("-s", sample, "threads", "delete", other, "--yes", code=0)
    bundle = with_other_cells(sample, tmp_path / "a", {"type": "pickle"})
    ckpt("-s", sample, "import", tmp_path / "b", bundle, "--yes", code=5)
    ckpt("-s", sample, "show", other, code=3)


def document(value: Any, **cells: Cell) -> Row:
    """A JSON document of Redis."""
    text = value if isinstance(value, str) else json.dumps(value)
    return Row("checkpoint", {"key": "k", "type": "ReJSON-RL", "value": text, **cells})


def mongo(fields: Any) -> Row:
    return Row("checkpoints", {"bson": bson.encode(fields)})


def renamed(kind: int) -> Row:
    """A document in which the text of the type is of another kind that PyMongo reads as text."""
    data = bson.encode({"type": "pickle", "checkpoint": b"x"})
    return Row("checkpoints", {"bson": data.replace(b"\x02type", bytes([kind]) + b"type", 1)})


def plain(kind: str, tag: str, data: bytes) -> str:
    return json.dumps({kind: tag, "d": b64encode(data).decode()})


def text(value: Any) -> Row:
    """A JSON text of Redis."""
    return Row("writes", {"key": "k", "type": "string", "value": json.dumps(value).encode()})


def write(value: bytes, kind: str | bytes) -> Row:
    """A write of the savers of SQL."""
    return Row("writes", {"channel": "pickle", "type": kind, "value": value})


HASH: dict[str, Cell] = {"key": "k", "type": "hash"}
PICKLED: dict[int, list[Row]] = {
    1: [
        *(write(b"\x80", kind) for kind in ("pickle", b"pickle", "pickle+aes", "Pickle")),
        write(b"\x80\x05N.", "cloudpickle"),
        # What a saver with `serde=pickle` writes, and what such a saver would load.
        write(CODE[0], "dict"),
        *(write(code + b"more", "msgpack") for code in BINARY),
        # It has no end, so it runs before it fails.
        write(CODE[4][:-1], "json"),
        Row("checkpoint_blobs", {"type": "pickle", "blob_data": b"x"}),
        Row("checkpoints", {"type": "msgpack", "checkpoint": b"\x80", "metadata": CODE[2]}),
        Row("checkpoints", {"type": "json", "metadata_type": "pickle", "metadata": b"x"}),
        document({"type": "pickle", "blob": "x"}),
        document({"checkpoint": {"type": "pickle"}}),
        document('{"type": "pickle", "type": "json"}'),
        document('{"checkpoint": {"type": "pickle"}, "checkpoint": 1}'),
        document('{"t\\u0079pe": "pickle"}'),
        document('{"type": "pickle", "n": ' + "1" * 5000 + "}"),
        Row("checkpoint", {**HASH, ".type": b"pickle", ".checkpoint": b"x"}),
        Row("checkpoint", {**HASH, ".type": b"x", ".checkpoint": CODE[4]}),
        Row("writes", {**HASH, ".type": b"pickle", ".TYPE": b"", ".value": b""}),
        Row("cp", {"key": "k", "type": "string", "value": plain("t", "pickle", b"x").encode()}),
        Row("cp", {"key": "k", "type": "string", "value": plain("t", "x", CODE[4]).encode()}),
        text({"type": "msgpack", "checkpoint": b64encode(CODE[4]).decode()}),
        text([{"type": "null", "value": ""}, {"type": "pickle", "value": "eA=="}]),
        text([{"type": "x", "value": b64encode(CODE[2]).decode()}]),
        Row("wr", {**HASH, ".t:0": plain("t", "pickle+aes", b"x").encode()}),
        mongo({"type": "pickle", "checkpoint": b"x"}),
        mongo({"type": "msgpack", "checkpoint": CODE[4]}),
        mongo({"type": "msgpack", "checkpoint": b"x", "metadata": {"a": {"b": ["pickle", b"x"]}}}),
        mongo({"checkpoint_data": b"anything"}),
        mongo({"type": Code("pickle", {"a": 1}), "checkpoint": b"x"}),
        renamed(0x0E),
    ],
    # The word alone makes no pickle.
    0: [
        write(b"\x82\xa1c\x05\xa1d\x06", "msgpack"),
        write(b'{"type": "pickle"}', "json"),
        write(b"chapter one\ntwo\n", "bytes"),
        write(b"\x80 and other bytes", "bytes"),
        # Encrypted bytes may begin in any way.
        write(CODE[4], "msgpack+aes"),
        document({"type": "json", "checkpoint": {"channel_values": {"type": "pickle"}}}),
        text([{"type": "json", "value": "InBpY2tsZSI=", "channel": "pickle"}, "pickle", 7]),
        Row("store", {"prefix": "p", "key": "type", "value": '{"type": "pickle", "t": "pickle"}'}),
        mongo({"type": "msgpack", "metadata": {"type": "pickle", "a": ["pickle", "text"]}}),
    ],
}
"""By the number of pickles in each."""


@pytest.mark.parametrize(
    ("row", "number"), [(row, number) for number, rows in PICKLED.items() for row in rows]
)
def test_a_row_of_any_layout_shows_its_pickle(row: Row, number: int) -> None:
    found = Pickles(Path("a"))
    list(found.seen([row]))
    assert found.count == number, found.places()


@cases(
    "row",
    document("{"),
    document("[" * 100_000),
    Row("checkpoints", {"bson": bson.encode({"a": b"x"})[:-3]}),
    Row("checkpoints", {"bson": struct.pack("<i", 12) + b"\x05a\x00\xff\xff\xff\x7f\x00"}),
)
def test_a_row_that_cannot_be_looked_into_is_refused(row: Row) -> None:
    with pytest.raises(Unreadable, match="cannot read the archive 'a': a row of 'checkpoint"):
        list(Pickles(Path("a")).seen([row]))


def test_a_pickle_of_endless_instructions_ends() -> None:
    assert is_pickle("dict", b"N0" * 1_000_000)
    assert is_pickle("msgpack", b"\x80\x04" + b"N0" * 1_000_000)


def test_long_names_are_cut_short() -> None:
    found = Pickles(Path("a"))
    row = Row("writes", {"checkpoint_id": "c" * 10**6, "type": "pickle", "value": b""})
    assert list(found.seen([row])) == [row]
    assert len(found.places()) < 200
