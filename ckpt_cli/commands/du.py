"""`ckpt du`: show disk usage."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from typer import Argument, Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import Match, Where, number
from ckpt_cli.queries.usage import BYS, By
from ckpt_cli.render.usage import amount_columns, more_text, scanned_text
from ckpt_cli.session import Session


def du(
    ctx: Context,
    thread: Annotated[str | None, Argument(metavar="THREAD", help="Only this thread.")] = None,
    match: Match = None,
    where: Where = None,
    by: Annotated[
        By | None, Option(metavar="KEY", help=f"Group by {', '.join(BYS[:-1])} or {BYS[-1]}.")
    ] = None,
    top: Annotated[int | None, number("Show the N largest.")] = None,
) -> None:
    """Show disk usage by thread, channel and type.

    Sizes are the stored lengths of values. Sizes by channel come from scanning checkpoints: all
    of them with --by channel, otherwise those of the largest threads.

    ```
    ckpt -s agent.db du
    ckpt -s agent.db du user-42 --by channel
    ckpt -s agent.db du --where 'status = done and idle > 30d'
    ckpt -s agent.db du --by thread --top 100 -o json
    ```
    """
    session: Session = ctx.obj
    output = session.output
    watch = partial(progress, total=None, label="scanning threads")
    measured = session.handle if thread is None else session.thread(thread)
    chosen = _chosen(thread, match, where)
    if by is None:
        session.show(measured.du(top=top, watch=watch, **chosen), thread_id=thread)
        return
    amounts = measured.du_by(by, top=top, watch=watch, **chosen)
    output.records(
        amounts,
        amount_columns(by, unicode=output.unicode),
        rest=lambda: more_text(amounts.found, by),
    )
    if text := scanned_text(amounts.found):
        session.note(text)


def _chosen(thread: str | None, match: str | None, where: list[str] | None) -> dict[str, Any]:
    """Return the arguments that choose threads. Raises `UsageError` if a thread is named, too."""
    if match is None and not where:
        return {}
    if thread is not None:
        raise UsageError(
            "THREAD cannot be combined with --match or --where", hint="use one of them"
        )
    return {"match": match, "where": where or ()}
