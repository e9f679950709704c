"""`ckpt grep`: search the values of all threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from ckpt_backends.errors import PartlyDone
from ckpt_cli.core.search import compile_pattern
from ckpt_cli.diagnostics import progress
from ckpt_cli.reading.grep import Hit, Wanted, grep_threads
from ckpt_cli.reading.threads import Selection, list_threads
from ckpt_cli.render.grep import hit_columns, hit_record, table_record
from ckpt_cli.session import Session


def grep(
    ctx: typer.Context,
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Regular expression, as Python has them.")
    ],
    ignore_case: Annotated[
        bool, typer.Option("-i", "--ignore-case", help="Upper and lower case are the same.")
    ] = False,
    fixed: Annotated[
        bool, typer.Option("-F", "--fixed-strings", help="Search for the text as it is.")
    ] = False,
    threads: Annotated[
        str | None,
        typer.Option("--threads", metavar="GLOB", help="Only in these, such as 'user-*'."),
    ] = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", help="Only this channel; may be repeated.")
    ] = None,
    ns: Annotated[
        str | None,
        typer.Option("--ns", metavar="NAMESPACE", help="Only this one, '' for the root."),
    ] = None,
    head_only: Annotated[
        bool, typer.Option("--head-only", help="Only what is known now, not what was.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="Stop after so many lines.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, max=64, help="Search with so many processes.")
    ] = 1,
) -> None:
    """Search the values of all threads.

    A line is printed once, at the oldest checkpoint that holds it: a message that stays in the
    list is not found again at each step. Text and numbers are searched, names of fields are
    not. As grep does, exits with 1 if nothing was found; with 7 if a value that
    could not be read may hold it.

    \b
      ckpt -s agent.db grep -i 'refund|chargeback'
      ckpt -s agent.db grep -F 'order 4711' --threads 'user-*' --channel messages
      ckpt -s agent.db grep 'Traceback' --head-only -o json | jq -r '.[].thread_id'
    """
    session: Session = ctx.obj
    wanted = Wanted(pattern, fixed, ignore_case, tuple(channel or ()), ns, head_only)
    compile_pattern(pattern, fixed=fixed, ignore_case=ignore_case)
    store = session.store
    listed = (row.thread for row in list_threads(store, Selection(match=threads)))
    watched = progress(listed, total=None, label="searching threads")
    counted = unread = 0

    def hits() -> Iterator[Hit]:
        nonlocal unread
        for searched in grep_threads(store, session.opening, watched, wanted, jobs):
            unread += searched.unread
            yield from searched.hits

    def records() -> Iterator[dict[str, Any]]:
        nonlocal counted
        for hit in islice(hits(), limit):
            counted += 1
            yield as_record(hit)

    as_record = table_record if session.output.table else hit_record
    session.output.records(records(), hit_columns())
    if unread:
        said = f"{unread} values could not be read, or not to their end"
        if not counted:
            raise PartlyDone(f"nothing found, but {said}")
        session.note(said)
    if not counted:
        raise typer.Exit(1)
