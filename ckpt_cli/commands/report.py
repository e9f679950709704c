"""`ckpt report`: one HTML page about a thread."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, At, Namespace, OptionalThread, number
from ckpt_cli.reading.target import TargetArguments
from ckpt_cli.session import Session

_LAST = 200


def report(
    ctx: Context,
    thread: OptionalThread = None,
    at: At = None,
    ns: Namespace = None,
    all_ns: Annotated[
        bool, Option("--all-ns", help="Also show the checkpoints of subgraphs.")
    ] = False,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints from TIME on: 2h, 2026-04-07.")
    ] = None,
    last: Annotated[int, number("Show the newest N checkpoints.")] = _LAST,
    as_of: AsOf = None,
) -> None:
    """Write an HTML page about a thread, for a ticket.

    The page shows what is wrong, the tree, the state and the changes at each checkpoint, the
    timeline, the conversation, errors, and commands. It is one file that loads nothing, so it can
    be mailed or attached. It opens at REF; without REF, at the thread's head. It holds the values
    of the thread; with --redact, only their types and sizes.

    ```
    ckpt -s agent.db report user-42 > incident.html
    ckpt -s agent.db report user-42@head~2 --redact > incident.html
    ckpt -s agent.db report user-42 --since 2h --last 1000 > incident.html
    ```
    """
    session: Session = ctx.obj
    if not session.output.text:
        raise UsageError(
            "a report is an HTML page", hint="leave out -o; `ckpt history -o json` prints records"
        )
    if session.output.terminal:
        raise UsageError(
            "cannot print a page to a terminal", hint="redirect it: ckpt report ... > incident.html"
        )
    found = session.checkpoint(TargetArguments(thread, at, ns))
    watch = partial(progress, total=None, label="reading checkpoints")
    session.output.verbatim(found.report(all_ns=all_ns, since=since, last=last, watch=watch))
