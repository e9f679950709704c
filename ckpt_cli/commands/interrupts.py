"""`ckpt interrupts`: list the questions that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_cli.core.times import parse_time
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import ExitCode, Match
from ckpt_cli.reading.interrupts import open_questions
from ckpt_cli.reading.target import find_thread
from ckpt_cli.reading.threads import Selection, matching
from ckpt_cli.render.history import interrupt_columns
from ckpt_cli.render.records import interrupt_record
from ckpt_cli.session import Session


def interrupts(
    ctx: typer.Context,
    threads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[THREAD]...", help="Thread ids; all threads if none is given."),
    ] = None,
    match: Match = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Only questions older than AGE: 2h, 30d or a date.",
        ),
    ] = None,
    exit_code: ExitCode = False,
) -> None:
    """List the questions that wait for an answer.

    NODE is the node that asks; inside a subgraph, the path to it: research > ask. INTERRUPT is
    left out in a narrow terminal; `ckpt threads show THREAD` prints it. To answer, invoke the
    graph on the thread with Command(resume={INTERRUPT: ANSWER}).

    \b
      ckpt -s agent.db interrupts
      ckpt -s agent.db interrupts user-42 user-43
      ckpt -s agent.db interrupts --match 'user-*' --older-than 1d --exit-code
    """
    session: Session = ctx.obj
    if threads and match is not None:
        raise UsageError("THREAD cannot be combined with --match", hint="use one of them")
    before = None
    if older_than is not None:
        before = parse_time(older_than, session.now, session.zone)
    wanted = _threads(session, threads or [], match)
    counted = 0

    def records() -> Iterator[dict[str, Any]]:
        nonlocal counted
        for found in open_questions(session.store, wanted, before):
            counted += 1
            yield interrupt_record(found)

    session.output.records(records(), interrupt_columns(session.now))
    if not counted:
        session.note("no question waits for an answer")
    if exit_code and counted:
        raise typer.Exit(1)


def _threads(session: Session, names: list[str], match: str | None) -> Iterable[Thread]:
    if names:
        once = dict.fromkeys(names)
        return [find_thread(session.store, name, session.note).thread for name in once]
    found = matching(session.store.threads(), Selection(match=match))
    return progress(found, total=None, label="reading heads")
