"""The forms of an answer: the same facts in each, safe for whoever reads them."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.render.table import Column, Record, table_lines, tsv_lines
from ckpt_cli.render.text import Ui
from tests.kit.cases import cases
from tests.kit.command import ckpt

THREAD = {"thread_id", "head", "step", "first_at", "last_at", "checkpoints", "namespaces"}
DETAILS = {"status", "conditions", "next", "runs", "source", "parent", "metadata", "bytes", "user"}


@cases(
    "words keys",
    ("threads list", THREAD | DETAILS),
    ("threads list --all", THREAD),
    ("threads list --all --long", THREAD | DETAILS | {"title"}),
)
def test_what_takes_long_is_told_if_asked_for(sample: Path, words: str, keys: set[str]) -> None:
    """All other keys are those of the schemas, with which each answer of a test is compared."""
    first, *_ = ckpt("-s", sample, *words.split(), "-o", "json").json
    assert set(first) == keys


def test_the_forms_tell_the_same_wherever_the_options_stand(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("-s", sample, "threads", "list")
    array = ckpt(*words, "-o", "json").json
    lines = [json.loads(line) for line in ckpt(*words, "-o", "ndjson").out.splitlines()]
    rows = list(csv.DictReader(io.StringIO(ckpt(*words, "-o", "tsv").out), delimiter="\t"))
    assert lines == array
    assert [row["thread_id"] for row in rows] == [one["thread_id"] for one in array]
    assert [row["bytes"] for row in rows] == [str(one["bytes"]) for one in array]
    assert ckpt(*words).out == ckpt(*words, "-o", "tsv").out
    none = (*words, "--match", "nothing")
    assert (ckpt(*none, "-o", "json").out, ckpt(*none, "-o", "ndjson").out) == ("[]\n", "")
    assert (ckpt(*none, "--exit-code").code, ckpt(*words, "--exit-code").code) == (0, 1)
    # Global options stand anywhere.
    answers = [
        ckpt("-s", sample, "-o", "json", "threads", "list"),
        ckpt("threads", "-s", sample, "list", "-o", "json"),
        ckpt("threads", "list", "--store", sample, "--output=json"),
    ]
    monkeypatch.setenv("CKPT_STORE", str(sample))
    answers.append(ckpt("-o", "tsv", "threads", "list", "-o", "json"))
    assert len({answer.out for answer in answers}) == 1
    tree = ("show", "trip-to-kyoto", "--tree")
    assert "\x1b[" not in ckpt(*tree).out
    assert "\x1b[" in ckpt(*tree, "--color", "always").out


def run(words: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "ckpt_cli", *words], check=False, **options
    )


def test_nobody_reads_the_disk_is_full_or_there_is_no_unicode(sample: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    words = ["-s", str(sample), "show", "research-agent", "-o", "json"]
    done = run(words, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")
    words = ["-s", str(sample), "show", "research-agent"]
    with open("/dev/full", "wb") as full:
        done = run(words, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 7
    assert done.stderr.startswith(b"ckpt: cannot write the answer: no space left")
    # A terminal without unicode gets escapes and ascii.
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    for words in (["show", "trip-to-kyoto"], ["show", "trip-to-kyoto", "--tree"]):
        done = run(["-s", str(sample), *words], capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
    assert b"|-" in done.stdout


def table(rows: Sequence[Record], columns: Sequence[Column], width: int) -> list[str]:
    return [line.text for line in table_lines(rows, columns, Ui(datetime.now(UTC), width=width))]


def test_a_row_that_no_table_can_hold_is_a_block() -> None:
    columns = [Column("NAMESPACE", "ns"), Column("ID", "id", drop=1), Column("NODE", "node")]
    ns, key = f"planner:{UUID(int=1)}", str(UUID(int=2))
    rows: list[Record] = [
        {"ns": ns, "id": key, "node": "plan"},
        {"ns": None, "id": key, "node": "book"},
    ]
    assert table(rows, columns, 40) == [
        *("namespace:", "  planner:", f"  {UUID(int=1)}", f"id: {key}", "node: plan", ""),
        *(f"id: {key}", "node: book"),
    ]
    short = [{"id": "short", "node": "plan"}] * 200
    lines = table([*short, {"id": "a" * 30, "node": "writer"}], columns[1:], 36)
    assert lines[:2] + lines[201:] == [
        "ID     NODE",
        "short  plan",
        "id: " + "a" * 30,
        "node: writer",
    ]


@given(st.lists(st.none() | st.booleans() | st.integers() | st.text(), min_size=1, max_size=4))
def test_each_cell_of_tsv_is_escaped_as_if_it_were_alone(cells: list[object]) -> None:
    keys = [str(n) for n in range(len(cells))]
    columns = [Column(key, key) for key in keys]
    _, together = tsv_lines([dict(zip(keys, cells, strict=True))], columns)
    alone = [list(tsv_lines([{"0": one}], columns[:1]))[1] for one in cells]
    assert together.split("\t") == alone


def test_tsv_escapes_what_would_break_a_line() -> None:
    rows = [{"a": "x\ty\nz\\", "b": {"c": 1}, "d": None, "e": True}]
    columns = [Column(name, name) for name in "abde"]
    assert list(tsv_lines(rows, columns)) == ["a\tb\td\te", 'x\\ty\\nz\\\\\t{"c":1}\t\ttrue']
