"""`ckpt metrics`: print metrics of the store for a monitoring system."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Context, Option

from ckpt_backends import platform
from ckpt_backends.errors import StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import writing
from ckpt_cli.diagnostics import progress
from ckpt_cli.queries.usage import StoreMetrics
from ckpt_cli.render.usage import metrics_text
from ckpt_cli.session import Session

_READABLE = 0o644
"""The mode of the file: a collector runs as another user. It holds no id and no value, but for the
users of --by-user."""


def metrics(
    ctx: Context,
    since: Annotated[
        str | None,
        Option(metavar="TIME", help="Count only tasks that failed since TIME: 2h, 2026-04-07."),
    ] = None,
    fast: Annotated[
        bool,
        Option("--fast", help="Leave out the threads by status, for which every head is read."),
    ] = False,
    by_user: Annotated[
        bool, Option("--by-user", help="Also count questions and failed tasks by user.")
    ] = False,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write to FILE, which is replaced when all is read."),
    ] = None,
) -> None:
    """Print metrics of the store for a monitoring system.

    Prints OpenMetrics text: the number of threads, in all and by status, of checkpoints, of open
    questions and of failed tasks that wait for a retry, the age of the oldest question,
    the time of the newest checkpoint, and the size of the store. No metric has a thread id; with
    --by-user, two have a label with the user.

    Use --out for the textfile collector of Prometheus's node_exporter: it must not read a file that
    is half written. If the store cannot be read, ckpt_up is 0, and the exit code is 4.

    ```
    ckpt -s agent.db metrics
    ckpt -s prod metrics --since 1d -o json
    ```

    In a crontab, every five minutes:

    ```
    */5 * * * *  ckpt -s prod metrics -q --out /var/lib/node_exporter/ckpt.prom
    ```
    """
    session: Session = ctx.obj
    output = session.output
    if out is not None and output.machine:
        raise UsageError("--out writes OpenMetrics text", hint="leave out -o, or --out")
    session.time(since)
    try:
        answer = session.handle.metrics(
            since=since,
            heads=not fast,
            by_user=by_user,
            watch=partial(progress, total=None, label="reading threads"),
        )
    except StoreUnavailable:
        if not output.machine:
            _print(session, None, out)
        raise
    if output.machine:
        output.document(answer.to_dict, tuple)
    else:
        _print(session, answer.found, out)


def _print(session: Session, found: StoreMetrics | None, out: Path | None) -> None:
    text = metrics_text(found, session.names.label, session.now)
    if out is None:
        session.output.verbatim(text)
        return
    try:
        with writing(out) as file:
            file.write(text.encode())
            platform.set_mode(file.fileno(), _READABLE)
    except OSError as error:
        raise StoreUnavailable(f"cannot write '{out}': {reason_of(error)}") from error
