"""SIGTERM and SIGHUP end `ckpt` by that signal, without a word and with nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_cli.ending import Ended
from tests.kit.command import first_now

pytestmark = pytest.mark.usefixtures("heeded_signals")
SIGNALS = pytest.mark.parametrize("number", first_now([signal.SIGTERM, signal.SIGHUP]))

WHILE_COPYING = """
import os, signal
from ckpt_backends.sqlite import journals

def told(data):
    # Twice, as from `timeout`, which tells the process and then its group.
    signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))
    signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))
    return memoryview(data)

journals.memoryview = told
from ckpt_cli.__main__ import main
main()
"""

WHILE_WRITING = """
import os, signal
from ckpt_backends import files
files._put = lambda *_, **__: signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))
from ckpt_cli.__main__ import main
main()
"""

WHILE_READING = """
import os, signal
from ckpt_cli import run
run.flush = lambda: signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))
from ckpt_cli.__main__ import main
main()
"""

IN_A_FINALIZER = """
import os, signal
from ckpt_cli import run

class Dying:
    def __del__(self):
        signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))

run.flush = Dying
from ckpt_cli.__main__ import main
main()
"""

IGNORED = """
import os, signal
number = int(os.environ["CKPT_TEST_SIGNAL"])
signal.signal(number, signal.SIG_IGN)
from ckpt_cli import run
flush = run.flush
run.flush = lambda: (signal.raise_signal(number), flush())
from ckpt_cli.__main__ import main
main()
"""

KILLED = """
import os, signal
from ckpt_cli import run
run.flush = lambda: os.kill(os.getpid(), signal.SIGKILL)
from ckpt_cli.__main__ import main
main()
"""

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

WHILE_STARTING_A_JOB = """
import os, signal
from multiprocessing import util

start = util.spawnv_passfds

def told(path, words, passed):
    process = start(path, words, passed)
    if b"--multiprocessing-fork" in map(os.fsencode, words):
        signal.raise_signal(int(os.environ["CKPT_TEST_SIGNAL"]))
    return process

util.spawnv_passfds = told
from ckpt_cli.__main__ import main
main()
"""
"""The job was started, but not yet told what to do."""


def run(
    program: str, store: Path, *words: str, number: int = signal.SIGTERM, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `ckpt` in a folder where its temporary files are seen."""
    temporary = store.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-c", program, "-s", str(store), *words],
        env={
            **os.environ,
            "TMPDIR": str(temporary),
            "CKPT_TEST_SIGNAL": str(int(number)),
            **variables,
        },
        cwd=store.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def left(store: Path) -> list[str]:
    """The temporary files."""
    return sorted(path.name for path in (store.parent / "tmp").rglob("*"))


@SIGNALS
@pytest.mark.parametrize("program", [WHILE_COPYING, WHILE_READING, IN_A_FINALIZER])
def test_a_private_copy_is_removed(sample: Path, program: str, number: int) -> None:
    done = run(program, sample, "--copy", "-q", "threads", "list", number=number)
    assert (done.returncode, done.stderr) == (-number, "")
    assert left(sample) == []


@pytest.mark.parametrize("program", [WHILE_COPYING, WHILE_READING, IN_A_FINALIZER])
def test_a_private_copy_is_removed_at_ctrl_c_too(sample: Path, program: str) -> None:
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    words = ["--copy", "-q", "threads", "list"]
    done = run(heeding + program, sample, *words, number=signal.SIGINT)
    assert (done.returncode, done.stderr) == (130, "")
    assert left(sample) == []


@SIGNALS
def test_a_file_that_is_not_complete_is_removed(sample: Path, number: int) -> None:
    words = ["export", "trip-to-kyoto", "--to", "new"]
    done = run(WHILE_WRITING, sample, *words, number=number)
    assert (done.returncode, done.stderr) == (-number, "")
    assert list((sample.parent / "new").iterdir()) == []


@SIGNALS
def test_a_parent_process_may_have_it_ignored(sample: Path, number: int) -> None:
    done = run(IGNORED, sample, "threads", "list", number=number)
    assert (done.returncode, done.stderr) == (0, "")
    assert "trip-to-kyoto" in done.stdout


def test_the_copy_of_a_killed_run_is_removed_by_the_next(sample: Path) -> None:
    done = run(KILLED, sample, "--copy", "-q", "threads", "list")
    assert done.returncode == -signal.SIGKILL
    assert "copy.db" in left(sample)
    done = run("from ckpt_cli.__main__ import main; main()", sample, "--copy", "threads", "list")
    assert done.returncode == 0
    assert left(sample) == []


def test_jobs_leave_no_copies(sample: Path) -> None:
    program = "from ckpt_cli.__main__ import main; main()"
    done = run(program, sample, "--copy", "grep", "Kanra", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert left(sample) == []


@SIGNALS
def test_jobs_end_with_the_main_process(sample: Path, number: int) -> None:
    hook = sample.parent / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(IN_A_JOB)
    program = "from ckpt_cli.__main__ import main; main()"
    words = ["--copy", "-q", "grep", "Kanra", "--jobs", "2"]
    done = run(program, sample, *words, number=number, PYTHONPATH=str(hook))
    assert (done.returncode, done.stderr) == (-number, "")
    assert left(sample) == []


@SIGNALS
def test_a_job_that_is_starting_ends_too(sample: Path, number: int) -> None:
    words = ["--copy", "-q", "grep", "Kanra", "--jobs", "2"]
    done = run(WHILE_STARTING_A_JOB, sample, *words, number=number)
    assert (done.returncode, done.stderr) == (-number, "")
    assert left(sample) == []


def test_where_it_cannot_end_by_the_signal_the_exit_code_names_it() -> None:
    assert Ended(signal.SIGTERM).code == 143
