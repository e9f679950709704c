"""`ckpt threads list`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from typer import Context, Exit, Option

from ckpt_backends.errors import StoreUnavailable, Unsupported, UsageError
from ckpt_backends.model import Status
from ckpt_cli.api.answer import explain_short_forms
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.diagnostics import no_progress, progress
from ckpt_cli.options import AsOf, ExitCode, Match, NewGraph, OldGraph, User, Where, number
from ckpt_cli.queries.threads import SORTS, Sort
from ckpt_cli.reading.store import LiveStore, is_passing
from ckpt_cli.render.table import Column, Record, table_lines
from ckpt_cli.render.text import StyledLine, Ui, folded, line, safe_text
from ckpt_cli.render.threads import thread_columns, thread_line
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_backends.protocol import Store

    Table: TypeAlias = tuple[Sequence[Record], Sequence[Column], str]
    """Rows, columns, and what to say below them."""

_WIDE = 100
"""Columns of a terminal from which an error gets more room than the size of its thread."""
_HEADER = 2
"""Lines above the table of `--watch`: the heading, and a blank one."""
_SHARE = 5
"""At most one in so many seconds is spent on reading."""


_ChangedSince = Annotated[
    str | None, Option(metavar="TIME", help="The same as --since.", hidden=True)
]
"""A name that tells more with --as-of."""


def list_(
    ctx: Context,
    limit: Annotated[int, number("Show at most N.", "-n", "--limit")] = 50,
    everything: Annotated[bool, Option("--all", help="Show all; --long adds the status.")] = (
        False
    ),
    long: Annotated[
        bool, Option("--long", help="Show status, error, title and size, also with --all.")
    ] = False,
    sort: Annotated[Sort, Option(metavar="KEY", help=f"Sort by {', '.join(SORTS)}.")] = "last",
    since: Annotated[
        str | None, Option(metavar="TIME", help="Only threads active since TIME: 2h, 2026-04-07.")
    ] = None,
    changed_since: _ChangedSince = None,
    until: Annotated[
        str | None, Option(metavar="TIME", help="Only threads last active before TIME.")
    ] = None,
    status: Annotated[
        list[Status] | None,
        Option(
            "--status",
            metavar="STATUS",
            help=f"Only threads that are {', '.join(Status)}; repeatable.",
        ),
    ] = None,
    match: Match = None,
    where: Where = None,
    user: User = None,
    first_message: Annotated[
        bool, Option("--first-message", help="Show the first message by a human.")
    ] = False,
    page: Annotated[int, number("Page number.")] = 1,
    watch: Annotated[
        bool, Option("--watch", help="Refresh the list every --interval seconds, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float,
        Option(metavar="SECONDS", help="With --watch: read it every SECONDS.", min=0.1, max=86_400),
    ] = 2.0,
    exit_code: ExitCode = False,
    as_of: AsOf = None,
    compat: NewGraph = None,
    compat_from: OldGraph = None,
) -> None:
    """List threads, newest first.

    STATUS: error (a task failed), interrupted (a question waits for an answer), pending (a run is
    in progress, or stopped before it finished), done, unknown, or empty. A thread can be
    both error and interrupted; --status finds it by either. NEXT lists the nodes that run next.
    WHY is the error of a failed task, or else the question that waits. TITLE is the first line
    that a person said, for ids that say nothing, such as a UUID; with --long, for all.
    `ckpt show THREAD` shows all errors and questions.

    FILTER, in quotes, compares fields with values: thread, status, next, error, question, source,
    step, age, idle, first_at, last_at, checkpoints, bytes, user, metadata.KEY, values.KEY, compat.
    @NAME is a filter of the configuration. docs/filters.md describes the operators and values.

    ```
    ckpt -s agent.db threads list
    ckpt -s agent.db threads list --status interrupted --since 2d
    ckpt -s agent.db threads list --where 'status = error and idle > 2h'
    ckpt -s agent.db threads list --where 'values.messages[-1].content ~ refund'
    ckpt -s agent.db threads list --user anna --first-message -n 20 --page 2
    ckpt -s agent.db threads list --status error --watch
    ckpt -s agent.db threads list --compat new.json --where 'compat in (breaks, loses)'
    ckpt -s agent.db threads list --all -o json | jq -r '.[].thread_id'
    ```
    """
    session: Session = ctx.obj
    details = long or not everything
    sizes = long or sort == "bytes" or session.store.sums_sizes
    chosen = {"where": where, "status": status, "match": match, "user": user}
    chosen |= {"since": since or changed_since, "until": until}
    skip, most = (0, None) if everything else ((page - 1) * limit, limit + 1)  # 1 more: is there?
    asked: dict[str, Any] = {**chosen, "sort": sort, "skip": skip, "limit": most}
    asked |= {"details": details, "sizes": sizes, "first_messages": first_message, "titles": long}

    def columns() -> Sequence[Column]:
        return thread_columns(
            details=details,
            wide=session.output.width >= _WIDE,
            sizes=sizes,
            first_message=first_message,
            expires=details and session.store.keys_expire,
        )

    none = _none(session, page, is_all=all(one is None for one in chosen.values()))
    if watch:
        _check_watch(session, interval, everything=everything, exit_code=exit_code)

        def table(handle: StoreHandle) -> Table:
            found = [row.to_dict() for row in handle.listed(**asked)]
            more = f"the first {limit}; -n N for more" if len(found) > limit else ""
            return found[:limit], columns(), more if found else none

        _watch(session, table, interval)
        return
    counted = _print(session, asked, columns(), limit=None if everything else limit, long=long)
    if not counted:
        if page == 1:
            explain_short_forms(session, where)
        session.note(none)
    elif exit_code:
        raise Exit(1)


def _print(
    session: Session,
    asked: Mapping[str, Any],
    columns: Sequence[Column],
    *,
    limit: int | None,
    long: bool,
) -> int:
    """Print threads and return their number; notes what is left out."""
    rows = session.handle.listed(
        **asked, watch=partial(progress, total=None, label="reading heads")
    )
    more = False
    if limit is not None:
        found = list(rows)
        rows, more = iter(found[:limit]), len(found) > limit
    if session.output.machine:
        counted = session.output.json_lines(thread_line(row.found) for row in rows)
    else:
        counted = session.output.records((row.to_dict() for row in rows), columns)
    if more:
        session.note(f"showing the first {limit}; -n N or --all for more")
    elif counted and limit is None and not long and session.output.terminal:
        session.note("--long also shows status, error, title and size")
    return counted


def _none(session: Session, page: int, *, is_all: bool) -> str:
    if page > 1:
        return f"there is no page {page}"
    if not is_all:
        return "no thread matches"
    return "this store has no threads" if session.as_of is None else "there was no thread then"


def _check_watch(session: Session, interval: float, *, everything: bool, exit_code: bool) -> None:
    if everything or exit_code or session.as_of is not None:
        other = "--all" if everything else "--exit-code" if exit_code else "--as-of"
        raise UsageError(f"--watch cannot be combined with {other}", hint="-n N shows more threads")
    if math.isnan(interval):
        raise UsageError("--interval is not a number", hint="give it in seconds: --interval 2")


def _watch(session: Session, read: Callable[[StoreHandle], Table], interval: float) -> None:
    """Show the list again and again in the same place, until the user ends it.

    Raises `UsageError` if stdout is not a terminal, and `Unsupported` if each look would read a
    whole table.
    """
    output = session.output
    if not output.terminal or not output.table or os.environ.get("TERM") == "dumb":
        raise UsageError(
            "--watch needs a terminal and a table", hint="`ckpt tail -o ndjson` prints what changes"
        )
    if session.store.lists_by_scan:
        raise Unsupported(
            "cannot watch this store: each look would read a whole table",
            hint="`ckpt tail --interval 60` looks once a minute",
        )
    live: LiveStore[Store] = LiveStore(
        lambda: session.open_other(session.names.store_url), session.store
    )
    shown: Table | None = None
    try:
        with no_progress(), output.redraw() as screen:
            while True:
                began, problem = time.monotonic(), ""
                try:
                    shown = read(StoreHandle(live.store, session))
                    live.store.refresh()
                except StoreUnavailable as error:
                    if shown is None or not is_passing(error):
                        raise
                    problem = session.names.without_values(error.message)
                    live.drop()
                width, height = screen.measure()
                ui = output.ui._replace(width=width)
                at = f"{session.now.astimezone(session.zone):%H:%M:%S}"
                heading = f"{at}  every {interval:g} s, q ends"
                screen.draw(output.painted(_screen(shown, heading, problem, ui, height)))
                took = time.monotonic() - began
                if not screen.wait(max(interval, took * (_SHARE - 1))):
                    return
                session.restart_clock()
    finally:
        live.drop()


def _screen(shown: Table, heading: str, problem: str, ui: Ui, height: int) -> Sequence[StyledLine]:
    """Return the lines of a screen; rows that do not fit are left out."""
    rows, columns, below = shown
    top = line((heading, "dim"))
    if problem:
        text = f"  the connection is lost; trying again: {safe_text(problem)}"
        top = line((heading, "dim"), (text, "error"))
    table = folded(table_lines(rows, columns, ui), ui.width) if rows else ()
    room = max(height - _HEADER, 1)
    found = list(islice(table, room + 1))
    if len(found) > room:
        found[room - 1 :] = [line(("…", "dim"))]
    elif below and len(found) < room:
        found.append(line((safe_text(below), "dim")))
    return [*islice(folded([top], ui.width), 1), line(""), *found][:height]
