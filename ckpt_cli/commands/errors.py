"""`ckpt errors`: list the tasks that failed."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import unwatched
from ckpt_cli.core.support_matrix import limit as lacks
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, ExitCode, Match, Summary, User, Where, number, with_user
from ckpt_cli.queries.incidents import GROUPINGS, grouping
from ckpt_cli.render.incidents import FAILURE_COLUMNS, FAILURE_HISTORY_COLUMNS, group_columns
from ckpt_cli.render.summaries import errors_summary
from ckpt_cli.session import Session


def errors(
    ctx: Context,
    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD", help="Thread ids; all threads if none is given."),
    ] = None,
    match: Match = None,
    where: Where = None,
    since: Annotated[
        str | None,
        Option(metavar="TIME", help="Only tasks that failed since TIME: 2h, 2026-04-07."),
    ] = None,
    history: Annotated[
        bool,
        Option(
            "--history",
            help="Also tasks that were retried, handled or left behind; reads all checkpoints.",
        ),
    ] = False,
    by: Annotated[
        str | None, Option(metavar="KEY", help=f"Count by {' or '.join(GROUPINGS)}.")
    ] = None,
    user: User = None,
    limit: Annotated[int | None, number("Show at most N.", "-n", "--limit")] = None,
    summary: Summary = False,
    exit_code: ExitCode = False,
    as_of: AsOf = None,
) -> None:
    """List the tasks that failed.

    Lists each failed task that has to be retried before its thread can go on, even if another task
    of the same step asks a question. NODE is the node that failed; inside a subgraph, the path to
    it: research > book. With --history, STATE says what became of a task: failed (the thread still
    waits), retried (a retry succeeded), handled (by an error handler of the graph) or left (the
    thread went another way).

    To retry, invoke the graph with the input None on the thread; `ckpt show THREAD` prints the
    call. FAILED is when the step of the task began, in stores that record no time for an error.

    ```
    ckpt -s agent.db errors
    ckpt -s agent.db errors --by error --since 2h
    ckpt -s agent.db errors --by user
    ckpt -s agent.db errors --by metadata.tenant
    ckpt -s agent.db errors --user anna --where 'idle > 1h' -o json
    ckpt -s agent.db errors user-42 --history
    ckpt -s agent.db errors --match 'prod-*' --exit-code
    ```
    """
    session: Session = ctx.obj
    watch = unwatched if threads else partial(progress, total=None, label="reading heads")
    where = with_user(where, user)
    asked: dict[str, Any] = {"threads": threads or None, "match": match, "where": where}
    chosen = {**asked, "since": since, "history": history, "watch": watch}
    if summary:
        if by is not None:
            raise UsageError("--summary cannot be combined with --by", hint="use one of them")
        found = errors_summary(
            (one.found for one in session.handle.errors(**chosen)),
            (one.found for one in session.handle.interrupts(**asked)),
            session.now,
            session.zone,
        )
        session.output.summary(found)
        counted = int(found["failures"])
    elif by is not None:
        groups = session.handle.errors_by(by, **chosen)
        columns = group_columns(grouping(by)[0])
        counted = session.output.records(iter(groups[:limit]), columns)
    else:
        columns = FAILURE_HISTORY_COLUMNS if history else FAILURE_COLUMNS
        counted = session.show_list(islice(session.handle.errors(**chosen), limit), columns)
    if not counted and not summary:
        lacking = lacks("errors", session.store.capabilities)
        whose = " of the chosen threads" if threads or match or where else ""
        session.note(f"no task{whose} failed" if lacking is None else f"no errors: {lacking.why}")
    if exit_code and counted:
        raise Exit(1)
