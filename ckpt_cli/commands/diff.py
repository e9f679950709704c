"""`ckpt diff`: what changed between two checkpoints."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer

from ckpt_cli.options import ExitCode, Namespace, OptionalThread
from ckpt_cli.reading.compare import compare
from ckpt_cli.reading.target import Words, find_two
from ckpt_cli.render.compared import compared_lines
from ckpt_cli.render.diff import diff_text
from ckpt_cli.render.history import change_columns
from ckpt_cli.render.records import change_rows, diff_record
from ckpt_cli.session import Session


def diff(
    ctx: typer.Context,
    thread: OptionalThread = None,
    first: Annotated[
        str | None, typer.Argument(metavar="[REF]", help="Compare with this checkpoint.")
    ] = None,
    second: Annotated[
        str | None, typer.Argument(metavar="[REF]", help="The later one of two refs.")
    ] = None,
    ns: Namespace = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", help="Only this channel; may be repeated.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="One line a channel, with sizes.")] = False,
    exit_code: ExitCode = False,
) -> None:
    """Show what changed between two checkpoints.

    A thread alone, or THREAD@REF, is compared with its parent. THREAD REF is compared with the
    head, THREAD@REF REF and THREAD REF REF with each other. Messages are matched by their id.

    \b
      ckpt -s agent.db diff user-42
      ckpt -s agent.db diff user-42 head~5
      ckpt -s agent.db diff user-42 step:3 step:7 --stat
      ckpt -s agent.db diff user-42@f169 other-thread@head
    """
    session: Session = ctx.obj
    one, other = find_two(
        session.store, Words(thread, ns=ns), first, second, session.now, session.zone, session.note
    )
    found = compare(one, other, channel)
    session.output.document(
        lambda: diff_record(found.before, found.after, found.changes),
        lambda: chain(
            compared_lines(found), diff_text(found.changes, stat=stat, width=session.output.width)
        ),
        rows=lambda: change_rows(found.changes),
        columns=change_columns(),
    )
    if not found.changes:
        session.note("no difference" if found.before else "a first checkpoint, without values")
    if exit_code and found.changes:
        raise typer.Exit(1)
