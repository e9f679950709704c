"""Ctrl-C ends `ckpt` with 130 and without a word, whenever it comes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.command import later

PRESS = """
import os, signal, sys

class Pressed:
    def find_spec(self, name, path=None, target=None):
        in_job = "--multiprocessing-fork" in sys.orig_argv
        meant = in_job == ("CKPT_TEST_IN_JOB" in os.environ)
        if meant and name == os.environ["CKPT_TEST_PRESSED_AT"]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

# A shell that runs tests in the background lets them ignore Ctrl-C, and what they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressed())
"""
"""Sends Ctrl-C to this process where it imports a module; Python runs it at its start."""

TWICE = """
import atexit, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from ckpt_cli import run, session
from ckpt_cli.__main__ import main

def press(*_):
    print("pressed", file=sys.stderr)
    signal.raise_signal(signal.SIGINT)

run.flush = press
session.Session.close = press
atexit.register(press)
main()
"""

IGNORED = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from ckpt_cli import run
flush = run.flush
run.flush = lambda: (signal.raise_signal(signal.SIGINT), flush())
from ckpt_cli.__main__ import main
main()
"""

IN_THE_MIDDLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from ckpt_cli.queries.doctor import examine

check, pressed = examine.head_findings, []

def press(*words, **options):
    pressed.append(True)
    if len(pressed) == 3:
        signal.raise_signal(signal.SIGINT)
    return check(*words, **options)

examine.head_findings = press
from ckpt_cli.__main__ import main
main()
"""
"""Sends Ctrl-C to this process when doctor checks its third thread."""

ENTRIES = {
    "script": [str(Path(sys.executable).parent / "ckpt")],
    "module": [sys.executable, "-m", "ckpt_cli"],
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "module",
    [
        *("ckpt_cli.run", "typer", "ckpt_cli.commands.show", "sqlite3"),
        *later("ckpt_cli.session", "ckpt_backends.errors", "typer.core", "ckpt_cli.app"),
        *later("ckpt_cli.output", "ckpt_cli.reading.store", "ckpt_backends.sqlite.store"),
        *later("ckpt_cli.reading.thread", "ormsgpack", "json"),
    ],
)
def test_at_any_import(sample: Path, tmp_path: Path, entry: str, module: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRESS)
    done = subprocess.run(
        [*ENTRIES[entry], "-s", str(sample), "show", "trip-to-kyoto"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "CKPT_TEST_PRESSED_AT": module},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_again_and_again_while_it_ends(sample: Path) -> None:
    done = run(TWICE, "-s", str(sample), "show", "trip-to-kyoto")
    assert (done.returncode, done.stderr) == (130, "pressed\n" * 3)


def test_in_the_middle_of_a_check(sample: Path) -> None:
    done = run(IN_THE_MIDDLE, "-s", str(sample), "doctor")
    assert (done.returncode, done.stderr) == (130, "")


def test_a_shell_may_have_it_ignored(sample: Path) -> None:
    done = run(IGNORED, "-s", str(sample), "show", "trip-to-kyoto")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_job_that_starts_leaves_it_to_the_process_that_gives_out_the_work(
    sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRESS)
    pressed = {"CKPT_TEST_PRESSED_AT": "ckpt_cli.reading.workers", "CKPT_TEST_IN_JOB": "1"}
    done = subprocess.run(
        [*ENTRIES["module"], "-s", str(sample), "grep", "Kanra", "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), **pressed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Kanra" in done.stdout
