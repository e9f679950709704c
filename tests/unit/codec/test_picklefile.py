"""Pickle files: the same value as in memory, with what is long left where it stands."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.pickle import Dict, FilePosition, Machine, read_pickle_file

LONG = {"text": "é\ud800" * 700_000, "bytes": bytes(range(256)) * 5000, "short": "x" * 100}


def read(data: bytes, path: Path) -> Any:
    path.write_bytes(data)
    with path.open("rb") as file:
        return read_pickle_file(file)


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_what_is_long_stays_in_the_file(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "one.pckl"
    root = read(pickle.dumps(LONG, protocol), path)
    assert isinstance(root, Dict)
    found = dict(root.pairs)
    assert found["short"] == LONG["short"]
    with path.open("rb") as file:
        for name in ("text", "bytes"):
            place = found[name]
            assert isinstance(place, FilePosition)
            assert place.size == len(LONG[name])
            data = place.read(file)
            whole = data.decode("utf-8", "surrogatepass") if place.is_text else data
            assert whole == LONG[name]
    path.write_bytes(b"")
    with path.open("rb") as file, pytest.raises(ValueError, match="shorter than it was"):
        found["text"].read(file)


def test_a_file_larger_than_the_window_reads_as_in_memory(tmp_path: Path) -> None:
    rows = {f"key {n}": (n, n * 1.5, -n, f"{n}" * 50, 1 << n % 200) for n in range(30_000)}
    data = pickle.dumps(rows, 2)
    assert len(data) > 3 << 20
    machine = Machine(10**7)
    machine.run(data)
    assert read(data, tmp_path / "one.pckl").pairs == machine.root.pairs


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x80\x04", b"](", b"cos\nx\n)R", b"X"]))
def test_no_bytes_raise_but_value_errors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pckl"
    try:
        read(start + data + b".", path)
    except ValueError:
        return
    assert path.stat().st_size


@pytest.mark.parametrize("length", [b"\xff\xff\xff\x7f", b"\x10\x00\x00\x00"])
def test_a_declared_length_beyond_the_end_is_refused(tmp_path: Path, length: bytes) -> None:
    for code in (b"X", b"B"):
        with pytest.raises(ValueError, match="cut off"):
            read(code + length + b"abc.", tmp_path / "one.pckl")
