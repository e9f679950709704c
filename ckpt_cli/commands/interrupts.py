"""`ckpt interrupts`: list the questions that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from typer import Argument, Context, Exit, Option

from ckpt_cli.api.answer import unwatched
from ckpt_cli.diagnostics import progress
from ckpt_cli.options import AsOf, ExitCode, Match, User, Where, with_user
from ckpt_cli.render.incidents import WAITING_COLUMNS
from ckpt_cli.session import Session


def interrupts(
    ctx: Context,
    threads: Annotated[
        list[str] | None,
        Argument(metavar="THREAD", help="Thread ids; all threads if none is given."),
    ] = None,
    match: Match = None,
    where: Where = None,
    user: User = None,
    older_than: Annotated[
        str | None, Option(metavar="AGE", help="Only questions older than AGE: 2h, 30d or a date.")
    ] = None,
    exit_code: ExitCode = False,
    as_of: AsOf = None,
) -> None:
    """List the questions that wait for an answer.

    NODE is the node that asks; inside a subgraph, the path to it: research > ask. INTERRUPT is
    left out in a narrow terminal; `ckpt show THREAD` prints it. To answer, invoke the graph on
    the thread with Command(resume={INTERRUPT: ANSWER}).

    ```
    ckpt -s agent.db interrupts
    ckpt -s agent.db interrupts user-42 user-43
    ckpt -s agent.db interrupts --match 'user-*' --older-than 1d --exit-code
    ckpt -s agent.db interrupts --where 'metadata.tenant = acme'
    ```
    """
    session: Session = ctx.obj
    found = session.handle.interrupts(
        threads or None,
        match=match,
        where=with_user(where, user),
        older_than=older_than,
        watch=unwatched if threads else partial(progress, total=None, label="reading heads"),
    )
    unloaded: dict[str, str] = {}

    def records() -> Iterator[dict[str, Any]]:
        for one in found:
            if one.found.unloaded:
                unloaded[one.found.key.thread_id] = one.found.unloaded
            yield one.to_dict()

    counted = session.output.records(records(), WAITING_COLUMNS)
    for thread_id, words in unloaded.items():
        session.note(
            f"the question of thread '{thread_id}' waits at its newest checkpoint: {words}"
        )
    if not counted:
        whose = " of the chosen threads" if threads or match or where or user else ""
        session.note(f"no question{whose} waits for an answer")
    if exit_code and counted:
        raise Exit(1)
