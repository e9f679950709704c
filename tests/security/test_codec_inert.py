"""Decoding the hostile corpus runs nothing, imports nothing, raises nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_backends.codec import Opaque, decode, decode_checkpoint, to_json
from ckpt_backends.model import TypedBytes
from tests.kit.hostile.corpus import build_store, hostile_rows, whole_values

ROOT = Path(__file__).parents[2]

SCRIPT = """
import json, sys, threading
from pathlib import Path
from ckpt_backends.codec import decode, decode_checkpoint, from_json, to_json
from ckpt_backends.codec import json as json_codec, msgpack  # loaded before what is counted
from ckpt_backends.model import TypedBytes
from tests.kit.hostile.corpus import hostile_rows

marker = Path(sys.argv[1])
rows = [row for row in hostile_rows(marker) if isinstance(row.data, bytes)]
decode(TypedBytes("loads hashlib", b""))
decode(TypedBytes("pickle", b"N."))
before = set(sys.modules)
failed = []

for row in rows:
    typed = TypedBytes(row.type or "", row.data)
    try:
        value = (decode_checkpoint if row.table == "checkpoint" else decode)(typed)
        form = to_json(value)
        if len(row.data) < 100_000:
            text = json.dumps(form, allow_nan=False)
            if to_json(from_json(json.loads(text))) != form:
                failed.append([row.name, "does not round-trip"])
    except BaseException as error:
        failed.append([row.name, repr(error)])

def read_again() -> None:
    for row in rows:
        if len(row.data) > 300_000:
            continue
        decode_checkpoint(TypedBytes(row.type or "", row.data))

threading.stack_size(1 << 20)
thread = threading.Thread(target=read_again)
thread.start()
thread.join()
print(json.dumps({
    # Python loads its own encodings when they are first used.
    "imported": sorted(name for name in set(sys.modules) - before if "encodings." not in name),
    "failed": failed,
    "marker": marker.exists(),
    "rows": len(rows),
}))
"""


@pytest.mark.engines
def test_decoding_the_corpus_runs_and_imports_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(marker)], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["imported"] == []
    assert found["failed"] == []
    assert not found["marker"]
    assert not marker.exists()
    assert found["rows"] > 250


def test_the_corpus_would_run_in_a_reader_that_unpickles(tmp_path: Path) -> None:
    import pickle

    marker = tmp_path / "marker"
    payload = next(row.data for row in hostile_rows(marker) if row.type == "pickle")
    assert isinstance(payload, bytes)
    pickle.loads(payload)
    assert marker.exists()


@pytest.mark.parametrize("tag", ["msgpack", "json", "pickle"])
def test_a_value_that_ends_too_early_is_not_read(tag: str) -> None:
    whole = whole_values()[tag]
    value = decode(TypedBytes(tag, whole))
    assert not isinstance(value, Opaque)
    for end in range(len(whole)):
        for read in (decode, decode_checkpoint):
            assert isinstance(read(TypedBytes(tag, whole[:end])), Opaque), end


@pytest.mark.parametrize("tag", ["msgpack", "json", "pickle"])
def test_a_value_with_a_wrong_byte_is_read_or_not(tag: str) -> None:
    whole = whole_values()[tag]
    for at in range(len(whole)):
        for byte in (0x00, 0x28, 0x2E, 0x52, 0x62, 0x81, 0xFF):
            broken = whole[:at] + bytes([byte]) + whole[at + 1 :]
            json.dumps(to_json(decode(TypedBytes(tag, broken))))


def test_the_store_has_one_thread_a_row(tmp_path: Path) -> None:
    rows = hostile_rows(tmp_path)
    ids = build_store(tmp_path / "store.db", rows)
    assert len(set(ids)) == len(ids) == len(rows)
