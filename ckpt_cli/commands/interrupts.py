"""`ckpt interrupts`: list the questions that wait for an answer."""

from __future__ import annotations

from typing import Annotated

from ckpt_cli.diagnostics import progress
from ckpt_cli.ending import Exit
from ckpt_cli.options import ExitCode, Match, argument, option
from ckpt_cli.queries.interrupts import open_questions
from ckpt_cli.queries.selection import selected_threads
from ckpt_cli.render.history import interrupt_columns
from ckpt_cli.render.records import interrupt_record
from ckpt_cli.session import Session


def interrupts(
    session: Session,
    threads: Annotated[
        list[str] | None, argument("[THREAD]...", "Thread ids; all threads if none is given.")
    ] = None,
    match: Match = None,
    older_than: Annotated[
        str | None, option("AGE", "Only questions older than AGE: 2h, 30d or a date.")
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
    wanted = selected_threads(session.store, threads or [], match, ())
    if not threads:
        wanted = progress(wanted, total=None, label="reading heads")
    found = open_questions(session.store, wanted, session.time(older_than))
    counted = session.output.records(map(interrupt_record, found), interrupt_columns(session.now))
    if not counted:
        session.note("no question waits for an answer")
    if exit_code and counted:
        raise Exit(1)
