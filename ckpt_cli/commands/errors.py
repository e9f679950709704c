"""`ckpt errors`: list the tasks that failed."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated, Any

from typer import Argument, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_cli.api.watch import unwatched
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    ExitCode,
    Match,
    Summary,
    Where,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.queries.error_groups import GROUPINGS, grouping
from ckpt_cli.render.errors import failure_columns, group_columns
from ckpt_cli.render.summaries import errors_summary
from ckpt_cli.session import Session


@command_options
class ErrorOptions:
    """The arguments and options of `ckpt errors`."""

    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD", help="Thread ids; all threads if none is given."),
    ] = None
    match: Match = None
    where: Where = None
    since: Annotated[
        str | None,
        Option(metavar="TIME", help="Only tasks that failed since TIME: 2h, 2026-04-07."),
    ] = None
    history: Annotated[
        bool,
        Option(
            "--history",
            help="Also tasks that were retried, handled or left behind; reads all checkpoints.",
        ),
    ] = False
    by: Annotated[
        str | None,
        Option(metavar="KEY", help=f"Count by {' or '.join(GROUPINGS)}: one line for each kind."),
    ] = None
    limit: Annotated[
        int | None,
        Option("-n", "--limit", metavar="N", help="Show at most N.", min=1, callback=not_huge),
    ] = None
    summary: Summary = False
    exit_code: ExitCode = False


@takes(ErrorOptions)
def errors(session: Session, options: ErrorOptions) -> None:
    """List the tasks that failed.

    Lists each failed task that has to be retried before its thread can go on, even if another task
    of the same step asks a question. NODE is the node that failed; inside a subgraph, the path to
    it: research > book. With --history, STATE says what became of a task: failed (the thread still
    waits), retried (a retry succeeded), handled (by an error handler of the graph) or left (the
    thread went another way).

    To retry, invoke the graph with the input None on the thread; `ckpt threads show THREAD` prints
    the call. FAILED is when the step of the task began, in stores that record no time for an error.

    ```
    ckpt -s agent.db errors
    ckpt -s agent.db errors --by error --since 2h
    ckpt -s agent.db errors --where 'metadata.user = anna and idle > 1h' -o json
    ckpt -s agent.db errors user-42 --history
    ckpt -s agent.db errors --match 'prod-*' --exit-code
    ```
    """
    if options.summary:
        counted = _print_summary(session, options)
    elif options.by is not None:
        counted = _print_groups(session, options, options.by)
    else:
        found = session.handle.errors(**_chosen(options))
        records = (one.to_dict() for one in islice(found, options.limit))
        columns = failure_columns(session.now, history=options.history)
        counted = session.output.records(records, columns)
    if not counted and not options.summary:
        lacking = limit("errors", session.store.capabilities)
        whose = (
            " of the chosen threads" if options.threads or options.match or options.where else ""
        )
        session.note(f"no task{whose} failed" if lacking is None else f"no errors: {lacking.why}")
    if options.exit_code and counted:
        raise Exit(1)


def _print_groups(session: Session, options: ErrorOptions, by: str) -> int:
    groups = session.handle.errors_by(by, **_chosen(options))
    columns = group_columns(grouping(by), session.now, session.zone)
    return session.output.records(iter(groups[: options.limit]), columns)


def _print_summary(session: Session, options: ErrorOptions) -> int:
    if options.by is not None:
        raise UsageError("--summary cannot be combined with --by", hint="use one of them")
    chosen = _chosen(options)
    asking = {name: chosen[name] for name in ("threads", "match", "where")}
    found = errors_summary(
        (one.found for one in session.handle.errors(**chosen)),
        (one.found for one in session.handle.interrupts(**asking)),
        session.now,
        session.zone,
    )
    session.output.summary(found)
    return int(found["failures"])


def _chosen(options: ErrorOptions) -> dict[str, Any]:
    watch = unwatched if options.threads else partial(progress, total=None, label="reading heads")
    return {
        "threads": options.threads or None,
        "match": options.match,
        "where": options.where or (),
        "since": options.since,
        "history": options.history,
        "watch": watch,
    }
