"""An import brings no pickles that nobody allowed, however an archive hides them.

`test_removal.py` of the conformance suite asks the same of every layout.
"""

import json
import pickle
import struct
from base64 import b64encode
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.code import Code

from ckpt_backends.archive import Pickles, check_bundle, is_pickle, write_bundle
from ckpt_backends.errors import Unreadable
from ckpt_backends.rows import Cell, Row
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store

THREAD = "trip-to-kyoto"


class Evil:
    def __reduce__(self) -> Any:
        return print, ("loaded",)


CODE = [pickle.dumps(Evil(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
BINARY = CODE[2:]
"""From protocol 2 on a pickle says that it is one."""


def changed(store: Path, folder: Path, change: Any) -> Path:
    """An archive of a thread in which the first write of a task has other cells."""
    assert ckpt("-s", store, "export", THREAD, "--to", folder).code == 0
    (bundle,) = folder.iterdir()
    found = check_bundle(bundle)
    rows = list(found.rows())
    at = next(number for number, row in enumerate(rows) if row.table == "writes")
    rows[at] = Row("writes", {**rows[at].cells, **change})
    write_bundle(bundle, found.header, rows)
    assert ckpt("-s", store, "threads", "delete", THREAD, "--yes").code == 0
    return bundle


def test_the_first_pickles_are_named_and_the_others_counted(tmp_path: Path) -> None:
    """Pickles, encrypted or not, as the official saver writes them with `pickle_fallback`."""
    store = copy_store(FIXTURES / "lg-1.2.22-serde" / "store.db", tmp_path)
    threads = [one["thread_id"] for one in ckpt("-s", store, "threads", "list", "-o", "json").json]
    assert ckpt("-s", store, "export", *threads, "--to", tmp_path / "a").code == 0
    seen = []
    for bundle in sorted((tmp_path / "a").iterdir()):
        types = [str(row.cells["type"]) for row in check_bundle(bundle).rows()]
        number = sum("pickle" in one for one in types)
        answer = ckpt("-s", store, "import", bundle, "--dry-run")
        assert answer.code == (5 if number else 0), answer.err
        if number:
            shown = answer.err.splitlines()[0]
            assert f"{number} value" in shown
            assert shown.endswith(f"; {number - 3} more") == (number > 3)
            assert ckpt("-s", store, "import", bundle, "--dry-run", "--allow-pickle").code == 0
        seen.append({one for one in types if "pickle" in one})
    assert {"pickle"} in seen
    assert {"pickle+aes"} in seen


def test_one_archive_with_a_pickle_holds_back_the_others(sample: Path, tmp_path: Path) -> None:
    other = ckpt("-s", sample, "threads", "list", "-o", "json").json[-1]["thread_id"]
    assert other != THREAD
    assert ckpt("-s", sample, "export", other, "--to", tmp_path / "b").code == 0
    assert ckpt("-s", sample, "threads", "delete", other, "--yes").code == 0
    bundle = changed(sample, tmp_path / "a", {"type": "pickle"})
    refused = ckpt("-s", sample, "import", tmp_path / "b", bundle, "--yes")
    assert refused.code == 5
    assert ckpt("-s", sample, "show", other).code == 3


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
ROWS: dict[int, list[Row]] = {
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
    ("row", "number"), [(row, number) for number, rows in ROWS.items() for row in rows]
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
