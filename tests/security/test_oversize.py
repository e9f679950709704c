"""Values too long for memory are named and not read, by every command that meets one."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from ormsgpack import packb

from tests.kit.command import ckpt, first_now
from tests.kit.hostile.corpus import DDL, ORDINARY_ID

LONG = (256 << 20) + 1
MEMORY = 150 << 20
"""Bytes that a run may take."""
UNSAFE = "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
"""Files of hundreds of megabytes are not waited for until they are on the disk."""
BODY = {"v": 4, "channel_values": {"n": 1}, "channel_versions": {"n": "1", "big": "1"}}
PROGRAM = """
import sys
from ckpt_cli.run import run
code = run(sys.argv[1:])
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak) * 1024, file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oversize") / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(UNSAFE + DDL)
        row = "INSERT INTO checkpoints VALUES (?, '', ?, NULL, 'msgpack', {body}, '{{}}')"
        db.execute(row.format(body=f"zeroblob({LONG})"), ["long body", ORDINARY_ID])
        db.execute(row.format(body="?"), ["long write", ORDINARY_ID, packb(BODY)])
        db.execute(
            "INSERT INTO writes VALUES ('long write', '', ?, '1', '', 0, 'big', 'msgpack',"
            f" zeroblob({LONG}))",
            [ORDINARY_ID],
        )
        db.commit()
    return path


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show", "long write", "--writes"], 0),
        (["grep", "."], 0),
        (["diff", "long body"], 4),
        pytest.param(["show", "long body"], 0, marks=pytest.mark.engines),
        pytest.param(["history", "long body"], 0, marks=pytest.mark.engines),
        pytest.param(["threads", "list"], 0, marks=pytest.mark.engines),
        pytest.param(["du"], 0, marks=pytest.mark.engines),
        pytest.param(["show", "long body", "--raw"], 4, marks=pytest.mark.engines),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_memory_does_not_follow_the_longest_value(store: Path, words: list[str], code: int) -> None:
    command = [sys.executable, "-c", PROGRAM, "-s", str(store), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert int(done.stderr.splitlines()[-1]) < MEMORY


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty checkpoints of 6 MB each behind a small one."""
    path = tmp_path_factory.mktemp("large") / "store.db"
    parent = None
    with closing(sqlite3.connect(path)) as db:
        db.executescript(UNSAFE + DDL)
        for n in range(50):
            checkpoint_id = f"1f0a0000-0000-6000-8{n:03x}-000000000000"
            values = {"big": bytes([n]) * (6_000_000 if n else 1), "n": n}
            body = {**BODY, "channel_values": values, "channel_versions": dict.fromkeys(values, n)}
            row = ("t", "", checkpoint_id, parent, "msgpack", packb(body), '{"source": "loop"}')
            db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            parent = checkpoint_id
        db.commit()
    return path


@pytest.mark.parametrize(
    "words",
    first_now([["history", "t"], ["grep", "x"], ["blame", "t", "n"], ["du"], ["threads", "list"]]),
)
def test_memory_does_not_follow_the_number_of_values(large: Path, words: list[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, "-s", str(large), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert int(done.stderr.splitlines()[-1]) < MEMORY


def test_it_is_shown_with_its_size_and_why(store: Path) -> None:
    assert "longer than 256 MiB, not read" in ckpt("-s", store, "show", "long body").out
    (write,) = ckpt("-s", store, "show", "long write", "-o", "json").json["writes"]
    assert write["bytes"] == LONG
    assert write["value"]["$opaque"]["bytes"] == LONG
    assert "not read" in write["value"]["$opaque"]["reason"]


@pytest.mark.slow
def test_a_value_that_is_kept_apart(postgres_url: str) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(postgres_url) as saver:
        saver.setup()
    with psycopg.connect(postgres_url) as db:
        db.execute(
            "INSERT INTO checkpoints VALUES ('t', '', %s, NULL, NULL, %s, '{}')",
            [ORDINARY_ID, json.dumps(BODY)],
        )
        made = f"convert_to(repeat('x', {LONG}), 'UTF8')"
        db.execute(f"INSERT INTO checkpoint_blobs VALUES ('t', '', 'big', '1', 'msgpack', {made})")
    shown = ckpt("-s", postgres_url, "show", "t", "-o", "json").json["values"]
    assert shown["n"] == 1
    assert shown["big"]["$opaque"]["bytes"] == LONG
    assert "not read" in shown["big"]["$opaque"]["reason"]
