"""`ckpt sessions`: list the chat sessions that an application stores in Redis."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Context, Option

from ckpt_cli.api.sessions import session_beside, sessions_beside
from ckpt_cli.render.sessions import session_columns, session_lines
from ckpt_cli.session import Session


def list_(
    ctx: Context,
    thread: Annotated[
        str | None, Option(metavar="THREAD", help="Only sessions of this thread.")
    ] = None,
    user: Annotated[str | None, Option(metavar="USER", help="Only sessions of this user.")] = None,
) -> None:
    """List the sessions of an application, newest first.

    Reads the chat sessions that an application keeps in Redis next to its checkpoints, with the
    status of each session's thread. By default these are the keys that match *context*:*:*. For
    other keys, add a pattern to the URL: redis://localhost/0?pattern=app:session:*

    ```
    ckpt -s redis://localhost/0 sessions list
    ckpt -s redis://localhost/0 sessions list --thread user-42
    ```
    """
    session: Session = ctx.obj
    found = sessions_beside(session, lambda: session.store, thread=thread, user=user)
    session.output.records((one.to_dict() for one in found), session_columns(session.now))
    if not found:
        session.note("no session matches" if thread or user else "this store has no sessions")


def show(
    ctx: Context,
    name: Annotated[
        str, Argument(metavar="SESSION", help="Session id, USER:ID, or the key in the store.")
    ],
) -> None:
    """Show one session and the status of its thread.

    ```
    ckpt -s redis://localhost/0 sessions show 8d1f
    ```
    """
    session: Session = ctx.obj
    answer = session_beside(session, lambda: session.store, name)
    session.output.document(
        answer.to_dict,
        lambda: session_lines(answer.found, session.now, session.zone, session.output.width),
        rows=lambda: [answer.to_dict()],
        columns=session_columns(session.now),
    )
