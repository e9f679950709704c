"""`ckpt bisect`: find the checkpoint where a condition begins to hold."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Annotated

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import PartlyDone, UsageError
from ckpt_cli.api.answer import unwatched
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, At, Namespace, Thread
from ckpt_cli.queries.bisect import Bisection, Candidate, Test
from ckpt_cli.reading.target import TargetArguments
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_SKIP = 125
_LAST = 127
_CANNOT_RUN = (126, 127)
"""Exit codes of the shell for a command that it cannot execute, or does not find."""


def bisect(
    ctx: Context,
    thread: Thread,
    condition: Annotated[
        str | None, Argument(metavar="CONDITION", help="A filter, such as 'values.plan = null'.")
    ] = None,
    execute: Annotated[
        str | None,
        Option(
            "--exec", metavar="COMMAND", help="Ask COMMAND: it gets each state as JSON on stdin."
        ),
    ] = None,
    binary: Annotated[
        bool,
        Option(
            "--binary",
            help="Halve the range at each try; right only if CONDITION stays true once it is.",
        ),
    ] = False,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints from TIME on: 2h, 2026-04-07.")
    ] = None,
    until: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints up to TIME.")
    ] = None,
    at: At = None,
    ns: Namespace = None,
    as_of: AsOf = None,
) -> None:
    """Find the first checkpoint where a condition holds.

    Tries the checkpoints that lead to the head, or to REF, from the oldest on. Stops at the first
    one where CONDITION holds after one where it does not: it may hold and stop to hold several
    times. Shows the tasks that made it so, and the values that CONDITION names before and after.
    If it holds from the start, shows the oldest checkpoint and says so. Exits with 1 if it holds
    nowhere.

    CONDITION is a filter as for --where, about a checkpoint: values.KEY, metadata.KEY, step,
    source, next, status, error.

    COMMAND runs in the shell. CKPT_THREAD, CKPT_NAMESPACE, CKPT_CHECKPOINT, CKPT_PARENT and
    CKPT_STEP are set, and its output goes to stderr. Its exit code decides, as in `git bisect run`:
    0 means that the fault is not there yet, 1 to 127 that it is there, 125 skips the checkpoint.
    Anything else stops the search, and so does 126 or 127 at the first checkpoint.

    ```
    ckpt -s agent.db bisect user-42 'values.plan = null'
    ckpt -s agent.db bisect user-42@~3 'values.messages[-1].content ~ sorry' --since 2d
    ckpt -s agent.db bisect user-42 'values.count > 100' --binary
    ckpt -s agent.db bisect user-42 --exec 'jq -e ".files | length < 10"'
    ```
    """
    session: Session = ctx.obj
    if (condition is None) == (execute is None):
        raise UsageError(
            "bisect takes either CONDITION or --exec", hint="such as 'values.plan = null'"
        )
    named = session.handle.named(TargetArguments(thread, at, ns))
    target = session.handle.checkpoint(named)
    test = None if execute is None else _command_test(execute)
    answer = target.thread.bisect(
        condition,
        target.id,
        test=test,
        ns=target.ns,
        since=since,
        until=until,
        binary=binary,
        # A command may print to the terminal itself.
        watch=unwatched if execute else partial(progress, total=None, label="reading checkpoints"),
    )
    found = answer.found
    session.show(answer, words=session.names.words)
    for text in _notes(found, binary=binary):
        session.note(text)
    if found.moment is None:
        raise Exit(1)


def _notes(found: Bisection, *, binary: bool) -> list[str]:
    """Return what limits the answer."""
    notes = []
    if found.moment is None:
        notes.append(f"the condition holds at none of {counted(found.search.tried, 'checkpoint')}")
        if binary:
            notes.append("--binary only tried whether it holds at the newest; leave it out")
    elif found.from_start:
        notes.append("the condition holds from the start: no earlier checkpoint is without it")
    if found.skipped:
        skipped = counted(len(found.skipped), "checkpoint")
        notes.append(f"it may have begun earlier: {skipped} before it could not be judged")
    elif found.search.skipped:
        notes.append(f"{counted(found.search.skipped, 'checkpoint')} could not be judged")
    return notes


def _command_test(command: str) -> Test:
    """Return a test that runs a command of the command line by the shell, once for each state.

    The command gets the state as JSON on stdin. Exit code 0 means that the fault is not there yet,
    125 skips the checkpoint, and any other up to 127 means that it is there. The test raises
    `UsageError` if the shell cannot run the command at the first state, and `PartlyDone` if the
    command ends in another way.
    """
    is_first = True

    def test(candidate: Candidate) -> bool | None:
        nonlocal is_first
        code = _exit_code(command, candidate)
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


def _exit_code(command: str, candidate: Candidate) -> int:
    """Run the command on a state; the code is negative if a signal killed it."""
    import json  # late, as is subprocess: few searches run a command
    import subprocess

    state = json.dumps(candidate.values, ensure_ascii=False)
    try:
        stdout = sys.stderr.fileno()  # stdout is for the answer
    except (OSError, ValueError):  # It is no file where Python code replaced it.
        stdout = subprocess.DEVNULL
    key, step = candidate.key, candidate.step
    about = {
        "CKPT_THREAD": key.thread_id,
        "CKPT_NAMESPACE": key.checkpoint_ns,
        "CKPT_CHECKPOINT": key.checkpoint_id,
        "CKPT_PARENT": candidate.parent_checkpoint_id or "",
        "CKPT_STEP": "" if step is None else str(step),
    }
    try:
        done = subprocess.run(  # noqa: S602
            command,
            shell=True,
            check=False,
            input=state.encode(errors="surrogatepass"),
            stdout=stdout,
            env={**os.environ, **about},
        )
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"cannot run '{command}': {reason}") from error
    return done.returncode
