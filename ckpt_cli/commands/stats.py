"""`ckpt stats`: what nodes wrote, how long they took, and what their tokens cost."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from typer import Argument, Context, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import Watcher
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, Cluster, Jobs, Match, User, Where, number, with_user
from ckpt_cli.render.values import counted
from ckpt_cli.session import Session

_TOP = 20


def stats(
    ctx: Context,
    thread: Annotated[
        str | None, Argument(metavar="THREAD", help="Thread id. [default: all threads]")
    ] = None,
    by: Annotated[
        list[str] | None,
        Option(
            metavar="KEYS",
            help="Count by node, channel, model, thread, day, user, or several: node,day."
            " [default: node]",
        ),
    ] = None,
    match: Match = None,
    where: Where = None,
    user: User = None,
    ns: Annotated[
        str | None,
        Option(metavar="NAMESPACE", help="With THREAD: only this namespace; '' is the root."),
    ] = None,
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints from TIME on: 2h, 2026-04-07.")
    ] = None,
    until: Annotated[
        str | None, Option(metavar="TIME", help="Only checkpoints up to TIME.")
    ] = None,
    top: Annotated[int, number("Show the N largest.")] = _TOP,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_of: AsOf = None,
) -> None:
    """Show runs, writes, times and tokens of each node.

    Counts all branches. SIZE is the stored size of what was written. TIME sums up the steps of
    `ckpt timeline`; P50 and P95 are the times that 50 and 95 of 100 runs did not exceed. TOKENS
    are those of the models' messages, each counted once, also if it was removed or trimmed since.
    A table [prices] in the configuration adds what they cost.

    --by counts by other keys: thread, day and user have the same columns; TIME is then that of
    steps. With model, the columns are the kinds of tokens; with channel, only writes are counted.
    --by channel alone compares what tasks wrote (WRITTEN) with all stored values together (STORED).
    RATIO is STORED divided by WRITTEN: a high one means that a value is stored again and again.

    Only messages are decoded, to count their tokens. --by node,channel decodes nothing, which is
    much faster in a large store.

    ```
    ckpt -s agent.db stats
    ckpt -s agent.db stats user-42 --by node,channel
    ckpt -s agent.db stats --by model,day --since 30d
    ckpt -s agent.db stats --where 'status = error' --by user
    ckpt -s agent.db stats -o json | jq '.nodes[:5]'
    ```
    """
    from ckpt_cli.render.usage import stats_notes

    session: Session = ctx.obj
    where = with_user(where, user)
    if thread is not None and (match is not None or where):
        raise UsageError(
            "THREAD cannot be combined with --match, --where or --user", hint="use one of them"
        )
    if thread is None and ns is not None:
        raise UsageError("--ns requires THREAD")
    # Only JSON tells more than the table by node: for its channels, all bodies are read.
    keys = by or (None if session.output.machine else ["node"])
    if thread is not None:
        answer = session.thread(thread).stats(by=keys, ns=ns, since=since, until=until)
    else:
        watch: Watcher = partial(progress, total=None, label="counting threads")
        answer = session.handle.stats(
            by=keys,
            match=match,
            where=where,
            since=since,
            until=until,
            jobs=jobs,
            cluster=cluster,
            watch=watch,
        )
    session.show(answer, top=top)
    found = answer.found
    for note in stats_notes(found, session.names.prices, named=not session.settings.get("redact")):
        session.note(note)
    if found.unread:
        session.warn(f"{counted(found.unread, 'value')} could not be read and counted")
