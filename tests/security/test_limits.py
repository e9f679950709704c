"""Memory and time have limits, whatever a store or a server holds."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from ormsgpack import packb

from ckpt_cli.run import run
from tests.kit.cases import cases
from tests.kit.command import ckpt
from tests.kit.hostile.corpus import DDL, ORDINARY_ID
from tests.kit.hostile.mysql import END, MysqlWire, column, row
from tests.kit.hostile.redis import Command, honest, serving
from tests.kit.hostile.sql import url_at
from tests.kit.hostile.standin import standin
from tests.kit.hostile.watched import check, in_child

ALLOWED = 200 << 20
SAID = "needs more"
"""Part of what is said of too little memory."""


def flooding(wire: MysqlWire) -> None:
    """Send rows for ever."""
    wire.begin()
    wire.let_in()
    while b"SELECT" not in (said := wire.query()):
        wire.say(*(wire.catalog(said) or wire.done))
    wire.say(b"\x01", column(), END)
    while True:
        wire.say(row(b"x" * 200_000))


def one_long_text(command: Command) -> bytes:
    if command[0] != b"SCAN":
        return honest(command)
    return b"*2\r\n$1\r\n0\r\n$900000000\r\n" + bytes(500_000_000)


@pytest.mark.parametrize("server", ["mysql", pytest.param("redis", marks=pytest.mark.nightly)])
def test_an_endless_answer_ends_at_the_limit(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_MEMORY_LIMIT", "200M")
    if server == "mysql":
        with url_at(MysqlWire, flooding) as url:
            answer, used = in_child("-s", url, "threads", "list")
    else:
        with standin(serving(one_long_text)) as port:
            answer, used = in_child("-s", f"redis://127.0.0.1:{port}/0", "threads", "list")
    check(answer)
    assert (answer.code, SAID in answer.err, "CKPT_MEMORY_LIMIT" in answer.err) == (4, True, True)
    assert used < ALLOWED + (50 << 20)


def limits(**environment: str) -> str:
    """The soft limit that the program sets for itself."""
    code = (
        "import os, resource; from ckpt_cli.run import set_limits; set_limits(os.environ);"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CKPT_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the limit")
def test_half_of_the_memory_is_allowed_unless_another_limit_is_set() -> None:
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert limits() == str(max(2 << 30, whole // 2))
    assert limits(CKPT_MEMORY_LIMIT="3G") == str(3 << 30)
    assert limits(CKPT_MEMORY_LIMIT="none") == str(resource.getrlimit(resource.RLIMIT_DATA)[0])


@cases(
    "setting",
    *(f"CKPT_MEMORY_LIMIT={one}" for one in ("4", "0M", "-1G")),
    *(f"CKPT_TIME_LIMIT={one}" for one in ("0", "1.5", "1h")),
)
def test_a_limit_that_is_none_is_refused(
    setting: str, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    assert run(["-s", str(sample), "threads", "list"], may_exit=True) == 2
    assert f"invalid {name} '{value}'" in capsys.readouterr().err


def test_the_python_interface_has_no_limit(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_MEMORY_LIMIT", "lots")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert run(["-s", str(sample), "threads", "list"]) == 0
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_the_program_ends_at_its_limit_of_time(sample: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", "-s", sample, "tail"],
        env={**os.environ, "CKPT_TIME_LIMIT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGTERM
    assert done.stderr.splitlines()[-2:] == [
        "ckpt: not finished after 1 s",
        "hint: CKPT_TIME_LIMIT sets this limit",
    ]


LONG = (256 << 20) + 1
MEMORY = 150 << 20
"""Bytes that a run may take."""
UNSAFE = "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
"""Files of hundreds of megabytes are not waited for until they are on the disk."""
BODY = {"v": 4, "channel_values": {"n": 1}, "channel_versions": {"n": "1", "big": "1"}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oversize") / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(UNSAFE + DDL)
        row = "INSERT INTO checkpoints VALUES (?, '', ?, NULL, 'msgpack', {body}, '{{}}')"
        db.execute(row.format(body=f"zeroblob({LONG})"), ["long-body", ORDINARY_ID])
        db.execute(row.format(body="?"), ["long-write", ORDINARY_ID, packb(BODY)])
        db.execute(
            "INSERT INTO writes VALUES ('long-write', '', ?, '1', '', 0, 'big', 'msgpack',"
            f" zeroblob({LONG}))",
            [ORDINARY_ID],
        )
        db.commit()
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of 6 MB each behind a small one: more than a run may take."""
    path = tmp_path_factory.mktemp("large") / "store.db"
    parent = None
    with closing(sqlite3.connect(path)) as db:
        db.executescript(UNSAFE + DDL)
        for n in range(35):
            checkpoint_id = f"1f0a0000-0000-6000-8{n:03x}-000000000000"
            values = {"big": bytes([n]) * (6_000_000 if n else 1), "n": n}
            body = {**BODY, "channel_values": values, "channel_versions": dict.fromkeys(values, n)}
            row = ("t", "", checkpoint_id, parent, "msgpack", packb(body), '{"source": "loop"}')
            db.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            parent = checkpoint_id
        db.commit()
    return path


@cases(
    "name words code",
    ("store", "show long-write --writes", 0),
    ("store", "grep .", 0),
    ("store", "diff long-body", 4),
    ("large", "history t", 0),
    *(
        pytest.param(*one, marks=pytest.mark.engines)
        for one in (
            ("store", "show long-body", 0),
            ("store", "du", 0),
            ("store", "show long-body --raw", 4),
            ("large", "grep x", 1),
            ("large", "blame t n", 0),
        )
    ),
)
def test_memory_follows_neither_the_longest_value_nor_their_number(
    request: pytest.FixtureRequest, name: str, words: str, code: int
) -> None:
    answer, used = in_child("-s", request.getfixturevalue(name), *words.split())
    assert answer.code == code, answer.err
    assert used < MEMORY


def test_it_is_shown_with_its_size_and_why(store: Path) -> None:
    assert "longer than 256 MiB, not read" in ckpt("-s", store, "show", "long-body").out
    (write,) = ckpt("-s", store, "show", "long-write", "-o", "json").json["writes"]
    assert (write["bytes"], write["value"]["$opaque"]["bytes"]) == (LONG, LONG)
    assert "not read" in write["value"]["$opaque"]["reason"]


@pytest.mark.nightly
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
    assert (shown["n"], shown["big"]["$opaque"]["bytes"]) == (1, LONG)
    assert "not read" in shown["big"]["$opaque"]["reason"]
