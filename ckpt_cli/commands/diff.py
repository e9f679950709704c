"""`ckpt diff`: what changed between two checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from ckpt_cli.options import ExitCode, Namespace, OptionalThread
from ckpt_cli.reading.compare import compare
from ckpt_cli.reading.target import Words, find_checkpoint, other_words
from ckpt_cli.render.diff import diff_text
from ckpt_cli.render.history import change_columns
from ckpt_cli.render.records import change_rows, diff_record
from ckpt_cli.session import Session


def diff(
    ctx: typer.Context,
    thread: OptionalThread = None,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="Compare with this: a REF, or THREAD@REF."),
    ] = None,
    ns: Namespace = None,
    channel: Annotated[
        list[str] | None, typer.Option("--channel", help="Only this channel; may be repeated.")
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="One line a channel, with sizes.")] = False,
    exit_code: ExitCode = False,
) -> None:
    """Show what changed between two checkpoints.

    With one ref, between its parent and it; with two, from the first to the second. Messages
    are matched by their id.

    \b
      ckpt -s agent.db diff user-42
      ckpt -s agent.db diff user-42@step:3 head
      ckpt -s agent.db diff user-42@~5 user-42@head --stat
    """
    session: Session = ctx.obj
    store = session.store
    first = find_checkpoint(store, Words(thread, ns=ns), session.now, session.zone, session.note)
    second = None
    if other is not None:
        second = find_checkpoint(
            store,
            other_words(other, first.reader.thread_id, ns, store),
            session.now,
            session.zone,
            session.note,
        )
    found = compare(first, second, channel)
    session.output.document(
        lambda: diff_record(found.before, found.after, found.changes),
        lambda: diff_text(found.changes, stat=stat, width=session.output.width),
        rows=lambda: change_rows(found.changes),
        columns=change_columns(),
    )
    if not found.changes:
        session.note("no difference")
    if exit_code and found.changes:
        raise typer.Exit(1)
