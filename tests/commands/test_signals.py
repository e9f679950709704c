"""Ctrl-C, SIGTERM and SIGHUP end `ckpt` without a word and with nothing left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_cli.ending import Ended
from tests.kit.cases import cases
from tests.kit.command import first_now

pytestmark = pytest.mark.usefixtures("heeded_signals")
ENDS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
SIGNALS = pytest.mark.parametrize("number", first_now([signal.SIGTERM, signal.SIGHUP]))
ALL_SIGNALS = pytest.mark.parametrize("number", [*first_now([*ENDS][1:]), signal.SIGINT])

BEGIN = """
import os, signal
number = int(os.environ["CKPT_TEST_SIGNAL"])
if number == signal.SIGINT:
    # A shell that runs tests in the background lets them ignore it, and what they start too.
    signal.signal(number, signal.default_int_handler)

def press(*_, **__):
    signal.raise_signal(number)
"""
MAIN = """
from ckpt_cli.__main__ import main
main()
"""

WHILE_COPYING = """
from ckpt_backends.sqlite import journals

def told(data):
    # Twice, as from `timeout`, which tells the process and then its group.
    press()
    press()
    return memoryview(data)

journals.memoryview = told
"""

WHILE_WRITING = """
from ckpt_backends import files
files._put = press
"""

WHILE_READING = """
from ckpt_cli import run
run.flush = press
"""


AGAIN_AND_AGAIN = """
import atexit, sys
from ckpt_cli import run, session

def said(*_):
    print("pressed", file=sys.stderr)
    press()

run.flush = said
session.Session.close = said
atexit.register(said)
"""

IGNORED = """
signal.signal(number, signal.SIG_IGN)
from ckpt_cli import run
flush = run.flush
run.flush = lambda: (press(), flush())
"""

KILLED = """
from ckpt_cli import run
run.flush = lambda: os.kill(os.getpid(), signal.SIGKILL)
"""

WHILE_STARTING_A_JOB = """
from multiprocessing import util

start = util.spawnv_passfds

def told(path, words, passed):
    process = start(path, words, passed)
    if b"--multiprocessing-fork" in map(os.fsencode, words):
        press()
    return process

util.spawnv_passfds = told
"""
"""The job was started, but not yet told what to do."""

IN_A_JOB = """
import os, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    from ckpt_cli.reading import workers

    def told(*words):
        os.kill(os.getppid(), int(os.environ["CKPT_TEST_SIGNAL"]))
        while True:
            signal.pause()

    workers.work_through = told
"""
"""A job that tells the main process to end, and would never end by itself."""

AT_AN_IMPORT = """
import os, signal, sys

class Pressed:
    def find_spec(self, name, path=None, target=None):
        in_job = "--multiprocessing-fork" in sys.orig_argv
        meant = in_job == ("CKPT_TEST_IN_JOB" in os.environ)
        if meant and name == os.environ["CKPT_TEST_PRESSED_AT"]:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressed())
"""

SCRIPT = [str(Path(sys.executable).parent / "ckpt")]
MODULE = [sys.executable, "-m", "ckpt_cli"]
SHOW = "show trip-to-kyoto"
COPY = "--copy -q threads list"
JOBS = "--copy -q grep Kanra --jobs 2"


class Ran:
    """A process of `ckpt` that has ended, in a folder where its temporary files are seen."""

    def __init__(
        self, command: list[str], store: Path, words: str, custom: str = "", **variables: str
    ) -> None:
        temporary = store.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        # Python runs it at its start.
        (store.parent / "sitecustomize.py").write_text(custom)
        variables |= {"TMPDIR": str(temporary), "PYTHONPATH": str(store.parent)}
        done = subprocess.run(
            [*command, "-s", str(store), *words.split()],
            env={**os.environ, **variables},
            cwd=store.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.ended = done.returncode, done.stderr
        self.out = done.stdout
        self.left = sorted(path.name for path in temporary.rglob("*"))


def run(program: str, store: Path, words: str, number: int = signal.SIGTERM, **more: str) -> Ran:
    command = [sys.executable, "-c", BEGIN + program + MAIN]
    return Ran(command, store, words, CKPT_TEST_SIGNAL=str(int(number)), **more)


@ALL_SIGNALS
@pytest.mark.parametrize("program", [WHILE_COPYING, WHILE_READING])
def test_a_private_copy_is_removed(sample: Path, program: str, number: signal.Signals) -> None:
    done = run(program, sample, COPY, number)
    assert (done.ended, done.left) == ((ENDS[number], ""), [])


@SIGNALS
def test_a_file_that_is_not_complete_is_removed(sample: Path, number: signal.Signals) -> None:
    done = run(WHILE_WRITING, sample, "export trip-to-kyoto --to new", number)
    assert done.ended == (-number, "")
    assert list((sample.parent / "new").iterdir()) == []


@ALL_SIGNALS
def test_a_parent_process_may_have_it_ignored(sample: Path, number: signal.Signals) -> None:
    done = run(IGNORED, sample, "threads list", number)
    assert done.ended == (0, "")
    assert "trip-to-kyoto" in done.out


def test_ctrl_c_again_and_again_while_it_ends(sample: Path) -> None:
    assert run(AGAIN_AND_AGAIN, sample, SHOW, signal.SIGINT).ended == (130, "pressed\n" * 3)


@cases(
    "entry module",
    *((SCRIPT, one) for one in ("ckpt_cli.run", "sqlite3")),
    *((MODULE, one) for one in ("typer", "ckpt_cli.commands.show")),
    pytest.param(SCRIPT, "ckpt_cli.app", marks=pytest.mark.engines),
    pytest.param(MODULE, "ckpt_backends.errors", marks=pytest.mark.engines),
)
def test_ctrl_c_at_any_import(sample: Path, entry: list[str], module: str) -> None:
    assert Ran(entry, sample, SHOW, AT_AN_IMPORT, CKPT_TEST_PRESSED_AT=module).ended == (130, "")


def test_the_copy_of_a_killed_run_is_removed_by_the_next_with_its_jobs(sample: Path) -> None:
    done = run(KILLED, sample, COPY)
    assert (done.ended[0], "copy.db" in done.left) == (-signal.SIGKILL, True)
    done = run("", sample, JOBS)
    assert (done.ended[0], done.left) == (0, [])


@SIGNALS
@cases("program custom", ("", IN_A_JOB), (WHILE_STARTING_A_JOB, ""), ids=["at work", "starting"])
def test_jobs_end_with_it(sample: Path, number: signal.Signals, program: str, custom: str) -> None:
    done = run(program, sample, JOBS, number, custom=custom)
    assert (done.ended, done.left) == ((-number, ""), [])


def test_a_job_that_starts_leaves_ctrl_c_to_the_main_process(sample: Path) -> None:
    pressed = {"CKPT_TEST_PRESSED_AT": "ckpt_cli.reading.workers", "CKPT_TEST_IN_JOB": "1"}
    done = Ran(MODULE, sample, "grep Kanra --jobs 2", AT_AN_IMPORT, **pressed)
    assert done.ended == (0, "")
    assert "Kanra" in done.out


def test_where_it_cannot_end_by_the_signal_the_exit_code_names_it() -> None:
    assert Ended(signal.SIGTERM).code == 143
