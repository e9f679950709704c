"""`ckpt interrupts`: questions that wait for an answer."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from ckpt_cli.core.times import ago
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import ExitCode
from ckpt_cli.reading.interrupts import open_questions
from ckpt_cli.render.history import interrupt_columns
from ckpt_cli.render.records import interrupt_record
from ckpt_cli.session import Session


def interrupts(
    ctx: typer.Context,
    thread: Annotated[
        str | None, typer.Argument(metavar="[THREAD]", help="Only this thread.")
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="2h", help="Waiting longer than this.")
    ] = None,
    exit_code: ExitCode = False,
) -> None:
    """List questions that wait for an answer.

    A question that a subgraph asked is listed once, where it was asked. Answer one by running
    the graph on its thread with Command(resume={INTERRUPT_ID: ANSWER}).

    \b
      ckpt -s agent.db interrupts
      ckpt -s agent.db interrupts --older-than 1d --exit-code
    """
    session: Session = ctx.obj
    before = None if older_than is None else ago(older_than, session.now)
    watch = partial(progress, total=None, label="reading heads")
    counted = 0

    def records() -> object:
        nonlocal counted
        for found in open_questions(session.store, thread, before, watch):
            counted += 1
            yield interrupt_record(found)

    columns = interrupt_columns(session.now)
    session.output.records(records(), columns)  # type: ignore[arg-type]
    if not counted:
        session.note("no question waits")
    if exit_code and counted:
        raise typer.Exit(1)
