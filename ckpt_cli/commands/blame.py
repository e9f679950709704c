"""`ckpt blame`: which step, task or edit set a value."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context

from ckpt_cli.options import AsOf, At, Namespace, Thread
from ckpt_cli.reading.target import TargetArguments
from ckpt_cli.session import Session


def blame(
    ctx: Context,
    thread: Thread,
    path: Annotated[
        str, Argument(metavar="CHANNEL[.PATH]", help="A value, such as 'messages[-1].content'.")
    ],
    at: At = None,
    ns: Namespace = None,
    as_of: AsOf = None,
) -> None:
    """Show which step and task set a value.

    Finds the first checkpoint that has the value, and the task that wrote it. For a value that
    was edited with `ckpt fork`, names the fork and its reason. Messages are followed by their id.
    CHANNEL may be one of an edge, such as 'join:a+b:c' or branch:to:a.

    ```
    ckpt -s agent.db blame user-42 plan
    ckpt -s agent.db blame user-42@step:7 'messages[-1].content'
    ckpt -s agent.db blame user-42 'files["main.py"]' -o json | jq .node
    ```
    """
    session: Session = ctx.obj
    session.show(session.checkpoint(TargetArguments(thread, at, ns)).blame(path))
