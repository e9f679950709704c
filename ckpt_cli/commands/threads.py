"""`ckpt threads`: list threads, and show the status of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Context, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.filters import explain_short_forms
from ckpt_cli.api.watch import Watcher, unwatched
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import (
    ExitCode,
    Match,
    Memory,
    Where,
    command_options,
    not_huge,
    takes,
)
from ckpt_cli.queries.threads import SORTS
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.render.thread_records import thread_line
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.api.store import StoreHandle
    from ckpt_cli.commands.watch_threads import Table
    from ckpt_cli.queries.listed_threads import ListedThread
    from ckpt_cli.render.terminal.table import Column


_WIDE = 100
"""Columns of a terminal from which an error gets more room than the size of its thread."""


@command_options
class ThreadListOptions:
    """The options of `ckpt threads list`."""

    limit: Annotated[
        int, Option("-n", "--limit", metavar="N", help="Show at most N.", min=1, callback=not_huge)
    ] = 50
    everything: Annotated[bool, Option("--all", help="Show all threads, without their status.")] = (
        False
    )
    long: Annotated[
        bool, Option("--long", help="Show status, error, title and size, also with --all.")
    ] = False
    sort: Annotated[str, Option(metavar="KEY", help=f"Sort by {', '.join(SORTS)}.")] = "last"
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only threads active since TIME: 2h, 2026-04-07.")
    ] = None
    until: Annotated[
        str | None, Option(metavar="TIME", help="Only threads last active before TIME.")
    ] = None
    status: Annotated[
        list[str] | None,
        Option(metavar="STATUS", help=f"Only threads that are {', '.join(Status)}; repeatable."),
    ] = None
    match: Match = None
    where: Where = None
    user: Annotated[
        str | None,
        Option(metavar="NAME", help="Only threads of this user, in stores that record users."),
    ] = None
    first_message: Annotated[
        bool, Option("--first-message", help="Show the first message by a human.")
    ] = False
    page: Annotated[int, Option(metavar="N", help="Page number.", min=1, callback=not_huge)] = 1
    watch: Annotated[
        bool, Option("--watch", help="Show the list again and again on the terminal.")
    ] = False
    interval: Annotated[
        float,
        Option(metavar="SECONDS", help="With --watch: read it every SECONDS.", min=0.1, max=86_400),
    ] = 2.0
    exit_code: ExitCode = False

    @property
    def details(self) -> bool:
        """Whether heads are read."""
        return self.long or not self.everything

    @property
    def sizes(self) -> bool:
        """Whether sizes are requested, also where a layout adds them up row by row."""
        return self.long or self.sort == "bytes"

    @property
    def has_conditions(self) -> bool:
        """Whether an option leaves out threads."""
        given = (self.since, self.until, self.status, self.match, self.where, self.user)
        return any(one is not None for one in given)


@takes(ThreadListOptions)
def list_(session: Session, options: ThreadListOptions) -> None:
    """List threads, newest first.

    STATUS: error (a task failed), interrupted (a question waits for an answer), pending (a run is
    in progress, or stopped before it finished), done, unknown, or empty. A thread can be
    both error and interrupted; --status finds it by either. NEXT lists the nodes that run next.
    WHY is the error of a failed task, or else the question that waits. TITLE is the first line
    that a person said, for ids that say nothing, such as a UUID; with --long, for all.
    `ckpt threads show THREAD` shows all errors and questions.

    FILTER, in quotes, compares fields with values: thread, status, next, error, question, source,
    step, age, idle, first_at, last_at, checkpoints, bytes, user, metadata.KEY, values.KEY. @NAME is
    a filter of the configuration. docs/filters.md describes the operators and values.

    ```
    ckpt -s agent.db threads list
    ckpt -s agent.db threads list --status interrupted --since 2d
    ckpt -s agent.db threads list --where 'status = error and idle > 2h'
    ckpt -s agent.db threads list --where 'values.messages[-1].content ~ refund'
    ckpt -s agent.db threads list --where metadata.user_id=42 --long
    ckpt -s agent.db threads list --user anna --first-message -n 20 --page 2
    ckpt -s agent.db threads list --status error --watch
    ckpt -s agent.db threads list --all -o json | jq -r '.[].thread_id'
    ```
    """
    if options.watch:
        # Imported late, like all that only some lists need.
        from ckpt_cli.commands.watch_threads import watch_threads

        _check_watch(options)
        watch_threads(session, partial(_table, session, options), options.interval)
        return
    rows = _listed(
        session, session.handle, options, partial(progress, total=None, label="reading heads")
    )
    more = False
    if not options.everything:
        found = list(rows)
        rows, more = iter(found[: options.limit]), len(found) > options.limit
    columns = _columns(session, options)
    if session.output.machine:
        counted = session.output.json_lines(thread_line(row.found) for row in rows)
    else:
        counted = session.output.records((row.to_dict() for row in rows), columns)
    if not counted:
        if options.page == 1:
            explain_short_forms(session, options.where)
        session.note(_why_none(options))
    elif options.everything and not options.long and session.output.terminal:
        session.note("--long also shows status, error, title and size")
    elif more:
        session.note(f"showing the first {options.limit}; -n N or --all for more")
    if options.exit_code and counted:
        raise Exit(1)


def _listed(
    session: Session, handle: StoreHandle, options: ThreadListOptions, watch: Watcher
) -> Iterator[Answer[ListedThread]]:
    """Yield the threads, and one more than the limit, to know whether there are more."""
    return handle.listed(
        options.where,
        status=options.status,
        match=options.match,
        since=options.since,
        until=options.until,
        user=options.user,
        sort=options.sort,
        skip=0 if options.everything else (options.page - 1) * options.limit,
        limit=None if options.everything else options.limit + 1,
        details=options.details,
        sizes=options.sizes or session.store.sums_sizes,
        first_messages=options.first_message,
        titles=options.long,
        watch=watch,
    )


def _columns(session: Session, options: ThreadListOptions) -> Sequence[Column]:
    if session.output.machine:
        return ()
    from ckpt_cli.render.thread_list import thread_columns  # late: JSON has no columns

    return thread_columns(
        session.now,
        details=options.details,
        wide=session.output.width >= _WIDE,
        sizes=options.sizes or session.store.sums_sizes,
        first_message=options.first_message,
        expires=options.details and session.store.keys_expire,
    )


def _check_watch(options: ThreadListOptions) -> None:
    if options.everything or options.exit_code:
        other = "--all" if options.everything else "--exit-code"
        raise UsageError(f"--watch cannot be combined with {other}", hint="-n N shows more threads")
    if math.isnan(options.interval):
        raise UsageError("--interval is not a number", hint="give it in seconds: --interval 2")


def _table(session: Session, options: ThreadListOptions, handle: StoreHandle) -> Table:
    """Return what `--watch` shows now."""
    found = list(_listed(session, handle, options, unwatched))
    below = _why_none(options) if not found else ""
    if len(found) > options.limit:
        below = f"the first {options.limit}; -n N for more"
    rows = [row.to_dict() for row in found[: options.limit]]
    return rows, _columns(session, options), below


def _why_none(options: ThreadListOptions) -> str:
    if options.page > 1:
        return f"there is no page {options.page}"
    return "no thread matches" if options.has_conditions else "this store has no threads"


def show(
    ctx: Context,
    thread: Annotated[str, Argument(metavar="THREAD", help="Thread id.")],
    memory: Memory = None,
) -> None:
    """Show what is wrong with a thread, and how to resume it.

    Shows the error of each failed task, the questions that wait for an answer, and the call that
    resumes the thread; then its size, what ckpt changed in it, its namespaces, and the long-term
    memory made from it.

    ```
    ckpt -s agent.db threads show user-42
    ckpt -s .deer-flow/data/deerflow.db threads show user-42
    ckpt -s agent.db threads show user-42 -o json
    ```
    """
    session: Session = ctx.obj
    # Imported late: lists do not need it.
    from ckpt_cli.render.thread import namespace_columns, summary_lines

    found = session.handle.thread(thread)
    answer = found.summary()
    summary, record = answer.found, answer.to_dict()
    memories = found.memories(memory)
    if memories is not None:
        record["memories"] = memories
    width = session.output.width
    session.output.document(
        lambda: record,
        lambda: chain(
            summary_lines(summary, session.names.words, session.now, session.zone, width),
            _memory_lines(memories, width) if memories else (),
        ),
        rows=lambda: record["in_namespaces"],
        columns=namespace_columns(),
    )


def _memory_lines(memories: list[dict[str, Any]], width: int) -> Iterator[StyledLine]:
    """A table of the memories of the thread; its module is loaded only if there are some."""
    from ckpt_cli.render.memory.provenance import memory_lines

    return memory_lines(memories, width)
