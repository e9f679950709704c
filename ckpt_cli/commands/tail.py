"""`ckpt tail`: follow the checkpoints of a thread."""

from __future__ import annotations

from typing import Annotated

from ckpt_backends.errors import UsageError
from ckpt_cli.options import Namespace, argument, flag, option
from ckpt_cli.render.history import history_columns, history_line
from ckpt_cli.session import Session

_DAY = 86_400.0
"""Seconds."""


def tail(
    session: Session,
    thread: Annotated[str | None, argument("[THREAD]", "Thread id. [default: the newest]")] = None,
    lines: Annotated[
        int, option("N", "Begin with the last N checkpoints.", "-n", "--lines", min=0)
    ] = 5,
    ns: Namespace = None,
    all_ns: Annotated[bool, flag("Follow all namespaces.")] = False,
    interval: Annotated[
        float, option("SECONDS", "Look for new checkpoints every SECONDS.", min=0.05)
    ] = 1.0,
) -> None:
    """Print new checkpoints of a thread as they are saved.

    A checkpoint is printed again when a task of its step fails or asks a question, even if the
    task was retried meanwhile. Stop with Ctrl-C; deleting the thread stops it too.

    \b
      ckpt -s agent.db tail user-42
      ckpt -s agent.db tail user-42 -n 0 --all-ns -o ndjson | jq .next
    """
    if session.settings.get("output") == "json":
        raise UsageError(
            "cannot print an endless answer as one JSON document", hint="use -o ndjson"
        )
    if not interval <= _DAY:  # also if it is no number
        raise UsageError("--interval is longer than a day", hint="give it in seconds: --interval 2")
    found = session.thread(thread).tail(
        lines, ns=ns, all_ns=all_ns, interval=interval, wait=session.output.wait
    )
    session.output.live(
        (one.to_dict() for one in found),
        history_columns({}, session.now, session.zone, all_ns=all_ns),
        lambda record: history_line(record, session.zone, all_ns=all_ns),
    )
