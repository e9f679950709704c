"""Decoding the hostile corpus runs nothing, imports nothing, raises nothing."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_backends.codec import Opaque, decode, decode_checkpoint, to_json
from ckpt_backends.model import TypedBytes
from tests.kit.command import ROOT
from tests.kit.hostile.corpus import build_store, hostile_rows, whole_values

SCRIPT = """
import json, sys, threading
from pathlib import Path
from ckpt_backends.codec import decode, decode_checkpoint, from_json, to_json
from ckpt_backends.codec import json as json_codec, msgpack  # loaded before what is counted
from ckpt_backends.model import TypedBytes
from tests.kit.hostile.corpus import hostile_rows
from tests.kit.hostile.watched import inert

marker = Path(sys.argv[1])
rows = [row for row in hostile_rows(marker) if isinstance(row.data, bytes)]
assert len(rows) > 250
decode(TypedBytes("loads hashlib", b""))

def read_again() -> None:
    for row in rows:
        if len(row.data) <= 300_000:
            decode_checkpoint(TypedBytes(row.type or "", row.data))

with inert(marker):
    for row in rows:
        typed = TypedBytes(row.type or "", row.data)
        form = to_json((decode_checkpoint if row.table == "checkpoint" else decode)(typed))
        if len(row.data) < 100_000:
            text = json.dumps(form, allow_nan=False)
            assert to_json(from_json(json.loads(text))) == form, row.name
    threading.stack_size(1 << 20)
    thread = threading.Thread(target=read_again)
    thread.start()
    thread.join()
"""


@pytest.mark.engines
def test_decoding_the_corpus_runs_and_imports_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "marker"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_corpus_would_run_in_a_reader_that_unpickles(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    payload = next(row.data for row in hostile_rows(marker) if row.type == "pickle")
    assert isinstance(payload, bytes)
    pickle.loads(payload)
    assert marker.exists()


@pytest.mark.parametrize("tag", ["msgpack", "json", "pickle"])
def test_a_value_that_is_cut_off_or_has_a_wrong_byte_is_named(tag: str) -> None:
    whole = whole_values()[tag]
    assert not isinstance(decode(TypedBytes(tag, whole)), Opaque)
    for at in range(len(whole)):
        for read in (decode, decode_checkpoint):
            assert isinstance(read(TypedBytes(tag, whole[:at])), Opaque), at
        for byte in (0x00, 0x28, 0x2E, 0x52, 0x62, 0x81, 0xFF):
            broken = whole[:at] + bytes([byte]) + whole[at + 1 :]
            json.dumps(to_json(decode(TypedBytes(tag, broken))))


def test_the_store_has_one_thread_a_row(tmp_path: Path) -> None:
    rows = hostile_rows(tmp_path)
    ids = build_store(tmp_path / "store.db", rows)
    assert len(set(ids)) == len(ids) == len(rows)
