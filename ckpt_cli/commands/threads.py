"""`ckpt threads`: which threads there are, and one of them as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Annotated, Any

import typer

from ckpt_backends.errors import UsageError
from ckpt_backends.expiry import expiring
from ckpt_backends.model import Status
from ckpt_backends.sizing import is_summed_up
from ckpt_cli.commands.remembering import remembered
from ckpt_cli.core.times import parse_time
from ckpt_cli.diagnostics import progress
from ckpt_cli.lazy import CommandRef
from ckpt_cli.options import ExitCode, Memory
from ckpt_cli.reading.threads import (
    SORTS,
    Selection,
    first,
    list_threads,
    parse_status,
    parse_where,
    summarize,
)
from ckpt_cli.render.lines import Line
from ckpt_cli.render.records import summary_record, thread_record
from ckpt_cli.render.thread import namespace_columns, summary_lines, thread_columns
from ckpt_cli.session import Session

COMMANDS = {
    "list": CommandRef(
        "ckpt_cli.commands.threads:list_", "List threads, the most recent first.", "Commands"
    ),
    "show": CommandRef("ckpt_cli.commands.threads:show", "Show one thread as a whole.", "Commands"),
    "copy": CommandRef(
        "ckpt_cli.commands.copy:copy", "Copy a thread with all its history.", "Commands"
    ),
    "delete": CommandRef(
        "ckpt_cli.commands.delete:delete",
        "Remove threads by id, whatever their status.",
        "Commands",
    ),
}


def list_(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="Show so many.")] = 50,
    everything: Annotated[bool, typer.Option("--all", help="Show all, from the index.")] = False,
    long: Annotated[bool, typer.Option("--long", help="Read each head, also with --all.")] = False,
    sort: Annotated[
        str, typer.Option(metavar="KEY", help=f"{', '.join(SORTS)}; last means newest first.")
    ] = "last",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Active since then: 2h, 2026-04-07.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not active after then.")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help=f"{', '.join(Status)}; may be repeated."),
    ] = None,
    match: Annotated[
        str | None, typer.Option(metavar="GLOB", help="Whose whole id fits, such as 'user-*'.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="metadata.KEY=VALUE", help="Whose head says so; may be repeated."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose it is, where the layout says so.")
    ] = None,
    first_message: Annotated[
        bool, typer.Option("--first-message", help="With what a person said first.")
    ] = False,
    page: Annotated[int, typer.Option(min=1, metavar="N", help="The Nth so many.")] = 1,
    exit_code: ExitCode = False,
) -> None:
    """List threads, the most recent first.

    Reads the index alone for what is not shown. --status and --where read every thread's head.

    \b
      ckpt -s agent.db threads list
      ckpt -s agent.db threads list --status interrupted --since 2d
      ckpt -s agent.db threads list --where metadata.user_id=42 --long
      ckpt -s agent.db threads list --user anna --first-message -n 20 --page 2
      ckpt -s agent.db threads list --all -o json | jq -r '.[].thread_id'
    """
    session: Session = ctx.obj
    if sort not in SORTS:
        raise UsageError(f"cannot sort by '{sort}'", hint=f"known: {', '.join(SORTS)}")
    wanted = Selection(
        match=match,
        since=None if since is None else parse_time(since, session.now, session.zone),
        until=None if until is None else parse_time(until, session.now, session.zone),
        status=frozenset(map(parse_status, status or ())),
        user=user,
        where=tuple(map(parse_where, where or ())),
    )
    details = long or not everything
    sizes = long or sort == "bytes" or is_summed_up(session.store)
    rows = list_threads(
        session.store,
        wanted,
        sort=sort,
        details=details,
        sizes=sizes,
        first_messages=first_message,
        skip=0 if everything else (page - 1) * limit,
        limit=None if everything else limit,
        watch=partial(progress, total=None, label="reading heads"),
    )
    more = False
    if not everything:
        found, more = first(rows, limit)
        rows = iter(found)
    counted = 0

    def records() -> object:
        nonlocal counted
        for row in rows:
            counted += 1
            yield thread_record(row)

    columns = thread_columns(
        session.now,
        details=details,
        sizes=sizes,
        first_message=first_message,
        expires=details and expiring(session.store) is not None,
    )
    session.output.records(records(), columns)  # type: ignore[arg-type]
    if not counted:
        session.note("no thread" + (" fits" if wanted != Selection() else " in this store"))
    elif everything and not details and session.output.terminal:
        session.note("heads were not read; --long shows status and size")
    elif more:
        session.note(f"the first {limit}; --limit N shows more, --all shows all")
    if exit_code and counted:
        raise typer.Exit(1)


def show(
    ctx: typer.Context,
    thread: Annotated[str, typer.Argument(metavar="THREAD", help="Thread id.")],
    memory: Memory = None,
) -> None:
    """Show one thread as a whole.

    Its namespaces, its size, what its head waits for, and what long-term memory has from it.

    \b
      ckpt -s agent.db threads show user-42
      ckpt -s .deer-flow/data/deerflow.db threads show user-42
      ckpt -s agent.db threads show user-42 -o json
    """
    session: Session = ctx.obj
    summary = summarize(session.store, thread)
    record = summary_record(summary)
    memories = remembered(session, memory, lambda thread_id: thread_id == thread)
    if memories is not None:
        record["memories"] = memories
    width = session.output.width
    session.output.document(
        lambda: record,
        lambda: chain(
            summary_lines(summary, session.now, session.zone, width),
            _memory_lines(memories, width) if memories else (),
        ),
        rows=lambda: record["in_namespaces"],
        columns=namespace_columns(),
    )


def _memory_lines(memories: list[dict[str, Any]], width: int) -> Iterator[Line]:
    """A table of what is remembered of the thread; loaded where there is any."""
    from ckpt_cli.render.provenance import memory_lines

    return memory_lines(memories, width)
