"""`ckpt tail`: follow the checkpoints of a thread, or of all threads."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.options import Match, Namespace, Where, not_huge
from ckpt_cli.render.history import MOVEMENT_COLUMNS, history_columns, history_line, movement_line
from ckpt_cli.session import Session

_DAY = 86_400.0
"""Seconds."""


def tail(
    ctx: Context,
    thread: Annotated[
        str | None, Argument(metavar="THREAD", help="Thread id. [default: all threads]")
    ] = None,
    lines: Annotated[
        int,
        Option(
            "-n",
            "--lines",
            metavar="N",
            help="Begin with the last N checkpoints.",
            min=0,
            callback=not_huge,
        ),
    ] = 5,
    match: Match = None,
    where: Where = None,
    ns: Namespace = None,
    all_ns: Annotated[bool, Option("--all-ns", help="Follow all namespaces.")] = False,
    interval: Annotated[
        float | None,
        Option(
            metavar="SECONDS", help="Look for new checkpoints every SECONDS. [default: 1]", min=0.05
        ),
    ] = None,
) -> None:
    """Print new checkpoints as they are saved, of all threads or one.

    Without THREAD, prints a line for each new checkpoint of any thread, also of new threads: the
    nodes that ran, what changed, errors and questions. A deleted thread is named if it was among
    the 200 that moved last. --match and --where are asked again each time a thread moves. If the
    connection is lost, it is opened again.

    A checkpoint is printed again when a task of its step fails or asks a question, even if the
    task was retried meanwhile. Stop with Ctrl-C; deleting THREAD stops it too.

    ```
    ckpt -s agent.db tail
    ckpt -s agent.db tail --where 'status in (error, interrupted)' -o ndjson
    ckpt -s agent.db tail user-42
    ckpt -s agent.db tail user-42 -n 0 --all-ns -o ndjson | jq .next
    ```
    """
    session: Session = ctx.obj
    if session.settings.get("output") == "json":
        raise UsageError(
            "cannot print an endless answer as one JSON document", hint="use -o ndjson"
        )
    if interval is not None and not interval <= _DAY:  # also if it is no number
        raise UsageError("--interval is longer than a day", hint="give it in seconds: --interval 2")
    if thread is None:
        if ns is not None:
            raise UsageError("--ns requires THREAD", hint="--all-ns follows all namespaces")
        _tail_store(session, lines, match, where, interval, all_ns=all_ns)
        return
    if match is not None or where:
        raise UsageError(
            "THREAD cannot be combined with --match or --where",
            hint="leave out THREAD or these options",
        )
    found = session.thread(thread).tail(
        lines, ns=ns, all_ns=all_ns, interval=interval or 1.0, wait=session.output.wait
    )
    session.output.live(
        (one.to_dict() for one in found),
        history_columns({}, all_ns=all_ns),
        lambda record: history_line(record, session.zone, all_ns=all_ns),
    )


def _tail_store(
    session: Session,
    lines: int,
    match: str | None,
    where: list[str] | None,
    interval: float | None,
    *,
    all_ns: bool,
) -> None:
    found = session.handle.tail(
        lines,
        match=match,
        where=where or (),
        all_ns=all_ns,
        interval=interval,
        wait=session.output.wait,
    )
    session.output.live(
        (one.to_dict() for one in found),
        MOVEMENT_COLUMNS,
        lambda record: movement_line(record, session.zone),
    )
