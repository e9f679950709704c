"""The program has limits of memory and time, whatever a server sends; the Python interface none."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_cli.run import run
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


@pytest.mark.parametrize("server", ["mysql", pytest.param("redis", marks=pytest.mark.slow)])
def test_an_answer_without_end_ends_at_the_limit_of_memory(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("CKPT_MEMORY_LIMIT", one) for one in ("4", "0M", "-1G", "lots", "4 G")),
        *(("CKPT_TIME_LIMIT", one) for one in ("0", "1.5", "1h", "-3")),
    ],
)
def test_a_limit_that_is_none_is_refused(
    name: str,
    value: str,
    sample: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
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
