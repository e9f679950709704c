"""Runs the command line against something hostile, with limits of time and memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from tests.security.test_commands_on_hostile_data import FORBIDDEN
from tests.support import Answer

CODES = {0, 1, 2, 3, 4, 5, 6, 7}
"""The documented exit codes; 70 is a bug."""
_SECONDS = 60
_MEMORY = 4 << 30


def fits(answer: Answer) -> None:
    """Assert that a hostile server only got an ordinary answer."""
    text = answer.raw.decode("utf-8", "replace") + answer.err
    assert answer.code in CODES, (answer.code, answer.err)
    assert "Traceback" not in text
    assert "Exception ignored" not in text
    assert FORBIDDEN.search(text) is None, text
    errors = [line for line in answer.err.splitlines() if line.startswith("ckpt: ")]
    assert len(errors) <= 1, answer.err


def run(*words: str) -> Answer:
    """Run `ckpt` in a process. A hang, or memory without limit, fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", "ckpt_cli", *words],
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        env=dict(os.environ),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY)),
    )
    answer = Answer(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))
    fits(answer)
    return answer
