"""`ckpt timeline`: how long each step of a thread took."""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option

from ckpt_cli.options import AsOf, At, Namespace, OptionalThread, number
from ckpt_cli.reading.target import TargetArguments
from ckpt_cli.session import Session


def timeline(
    ctx: Context,
    thread: OptionalThread = None,
    at: At = None,
    ns: Namespace = None,
    as_of: AsOf = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only steps that ended after TIME: 2h, 2026-04-07.")
    ] = None,
    last: Annotated[int | None, number("Only the last N steps.")] = None,
    ascii_only: Annotated[bool, Option("--ascii", help="Draw with ASCII characters only.")] = False,
) -> None:
    """Show how long each step of a thread took.

    Lists the steps that led to the head, or to REF, with the steps of subgraphs below the step
    that called them. Time in which a question waited for an answer is not counted as running,
    nor is the time between two runs.

    A checkpoint is saved when its step is over, so a step took from the checkpoint before to its
    own. The store does not tell when an answer came: the wait and the run after it are one step.
    `ckpt stats` sums up many threads.

    ```
    ckpt -s agent.db timeline user-42
    ckpt -s agent.db timeline user-42@head~3 --last 20
    ckpt -s agent.db timeline user-42 --since 2h -o json | jq .nodes
    ```
    """
    session: Session = ctx.obj
    words = TargetArguments(thread, at, ns)
    answer = session.checkpoint(words).timeline(since=since, last=last)
    session.show(answer, ascii_only=ascii_only)
