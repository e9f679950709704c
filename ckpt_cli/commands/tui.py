"""`ckpt tui`: threads, trees and checkpoints on one screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.carrying_out import store_words
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from ckpt_cli.tui.app import CkptApp


def tui(
    ctx: typer.Context,
    pause: Annotated[
        float,
        typer.Option("--refresh", metavar="SECONDS", min=0, help="Look again so often; 0: never."),
    ] = 2.0,
    write: Annotated[
        bool, typer.Option("--write", help="With keys that roll back, fork, undo, repair, purge.")
    ] = False,
) -> None:
    """Browse threads, their trees and checkpoints on one screen.

    Reads only, unless --write is given; then whatever changes the store shows its plan and asks.
    Press ? for the keys.

    \b
      ckpt -s agent.db tui
      ckpt -s prod tui --refresh 10
      ckpt -s agent.db tui --write
    """
    session: Session = ctx.obj
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the screen needs a terminal", hint="`ckpt threads list` and `ckpt show` print"
        )
    if write and (session.settings.get("copy") or session.settings.get("redact")):
        raise UsageError("--write needs the store itself", hint="leave out --copy and --redact")
    try:
        application = _writing() if write else _reading()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UsageError(
            "the screen needs the package 'textual'",
            hint="install it: pip install 'langgraph-ckpt[tui]'",
        ) from None
    from ckpt_cli.tui.desk import Desk

    # What is wrong with the store is said before the screen is taken.
    session.store.describe()
    # It would hold its moment, and a lock where writers wait for readers, as long as one looks.
    session.store.close()
    application(Desk(session.opening, store_words(session), session.zone, pause)).run()


def _reading() -> type[CkptApp]:
    from ckpt_cli.tui.app import CkptApp

    return CkptApp


def _writing() -> type[CkptApp]:
    from ckpt_cli.tui.writing import WritingApp

    return WritingApp
