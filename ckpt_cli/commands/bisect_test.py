"""Run a command of the user on a state, and read its verdict as `git bisect run` does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_cli.queries.bisect import Candidate, Test

_SKIP = 125
_LAST = 127
_CANNOT_RUN = (126, 127)
"""Exit codes of the shell for a command that it cannot execute, or does not find."""


def command_test(command: str) -> Test:
    """Return a test that runs a command of the command line by the shell, once for each state.

    The command gets the state as JSON on stdin. Exit code 0 means that the fault is not there yet,
    125 skips the checkpoint, and any other up to 127 means that it is there. The test raises
    `UsageError` if the shell cannot run the command at the first state, and `PartlyDone` if the
    command ends in another way.
    """
    run = _runner(command)
    is_first = True

    def test(candidate: Candidate) -> bool | None:
        nonlocal is_first
        code = run(candidate)
        if is_first and code in _CANNOT_RUN:
            raise UsageError(
                f"the shell cannot run '{command}' (exit code {code})",
                hint="the command must exit with 0, or with 1 if the fault is there",
            )
        is_first = False
        if code == _SKIP:
            return None
        if 0 <= code <= _LAST:
            return code != 0
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise PartlyDone(
            f"the command {ended} at checkpoint '{candidate.key.checkpoint_id}'",
            hint="exit with 0 or 1; 125 skips a checkpoint",
        )

    return test


def _runner(command: str) -> Callable[[Candidate], int]:
    """Return a function that runs the command on a state and returns its exit code.

    The code is negative if a signal killed the command.
    """

    def run(candidate: Candidate) -> int:
        state = json.dumps(candidate.values, ensure_ascii=False)
        try:
            done = subprocess.run(  # noqa: S602
                command,
                shell=True,
                check=False,
                input=state.encode(errors="surrogatepass"),
                # stdout is for the answer.
                stdout=_stderr(),
                env={**os.environ, **_names(candidate)},
            )
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise UsageError(f"cannot run '{command}': {reason}") from error
        return done.returncode

    return run


def _names(candidate: Candidate) -> dict[str, str]:
    """Return the environment variables that name the checkpoint."""
    key, step = candidate.key, candidate.step
    return {
        "CKPT_THREAD": key.thread_id,
        "CKPT_NAMESPACE": key.checkpoint_ns,
        "CKPT_CHECKPOINT": key.checkpoint_id,
        "CKPT_PARENT": candidate.parent_checkpoint_id or "",
        "CKPT_STEP": "" if step is None else str(step),
    }


def _stderr() -> int:
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError):  # It is no file where Python code replaced it.
        return subprocess.DEVNULL
