"""Runs `ckpt` against hostile data: in a child with a limit of time and a measure of memory, or
here with an alarm; and what must hold for everything that it prints."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

from bench import launch
from tests.kit.command import ROOT, CommandResult, ckpt, fork

SECONDS = 60
"""What counts as a hang. Every timeout in the URLs of these tests is far shorter."""
CODES = {0, 1, 2, 3, 4, 5, 6, 7}
"""The documented exit codes. 70 is a bug of ckpt."""
_MOST = 4 << 30
"""Bytes that a child may add; one answer of MySQL may have 1 GiB, of PostgreSQL 2 GiB."""
FORBIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""What a terminal may obey, or a reader may be fooled by. Tab and newline are ours, and an emoji
may keep its joiner (U+200D)."""


def in_child(*words: str | Path, seconds: int = SECONDS) -> tuple[CommandResult, int]:
    """Run `ckpt` in a child. Returns its answer, and the most memory that it used, in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        done = subprocess.run(
            [
                *(sys.executable, launch.__file__, out, str(seconds)),
                *(sys.executable, "-m", "ckpt_cli", *map(str, words)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            cwd=ROOT,
        )
        found = json.loads(done.stdout)
        answer = CommandResult(
            found["code"], out.read_bytes(), done.stderr.decode("utf-8", "replace")
        )
        return answer, found["kib"] << 10


def checked_in_child(commands: Sequence[Sequence[str]]) -> None:
    """Run command lines one after the other in a child, and check each.

    A hang, or memory without limit, fails the test. The driver's C code may end the process, as
    docs/security.md says; another child then goes on with the next command. Most of the commands
    must end by themselves.
    """
    left, ended = list(commands), 0
    while left:
        reading, writing = os.pipe()
        child = fork(partial(_answer, left, writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            answers = [json.loads(line) for line in told]
        _, status = os.waitpid(child, 0)
        for code, out, err in answers:
            check(CommandResult(code, out.encode(), err))
        assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGSEGV)
        ended += len(answers)
        left = left[len(answers) + 1 :]
    assert ended > len(commands) // 2


def _answer(commands: Sequence[Sequence[str]], writing: int) -> None:
    """Run command lines in a child with little memory more, and write a line of JSON for each."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MOST, used + _MOST))
    for words in commands:
        found = here(*words)
        line = [found.code, found.raw.decode("utf-8", "replace"), found.err]
        os.write(writing, json.dumps(line).encode() + b"\n")


def here(*words: str | Path) -> CommandResult:
    """Run `ckpt` in this process; fail if it hangs."""
    with _alarm():
        return ckpt(*words)


@contextmanager
def _alarm() -> Iterator[None]:
    def ring(_: int, __: FrameType | None) -> None:
        raise AssertionError("ckpt hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(answer: CommandResult, *codes: int) -> CommandResult:
    """An exit code that is documented; at most one error and one hint; nothing that acts.

    Of some commands, less than all `codes` are expected. Returns the answer.
    """
    text = answer.raw.decode("utf-8", "replace") + answer.err
    assert answer.code in (codes or CODES), (answer.code, answer.err)
    assert "Traceback" not in text
    assert "Exception ignored" not in text
    acts = FORBIDDEN.search(text)
    assert acts is None, text[max(acts.start() - 40, 0) : acts.end() + 40]
    errors = [line for line in answer.err.splitlines() if line.startswith(("ckpt: ", '{"error": '))]
    assert len(errors) == (answer.code >= 2 and answer.code != 7) or answer.code == 7, answer.err
    return answer


@contextmanager
def inert(marker: Path) -> Iterator[None]:
    """Fail if this imports a module that is not ours, or if a payload of the corpus has run."""
    before = _modules()
    yield
    assert _modules() == before
    assert not marker.exists()


def _modules() -> set[str]:
    """The modules that are loaded, but for what is late by design.

    These are our own, Python's encodings and reader of opcodes, and the table of widths.
    """
    late = ("ckpt_", "encodings.", "rich._unicode_data.")
    pickles = {"pickle", "_compat_pickle", "_pickle", "pickletools"}
    return {name for name in sys.modules if not name.startswith(late)} - pickles
