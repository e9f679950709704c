"""`ckpt tui`: threads, trees and checkpoints on one screen."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.carrying_out import store_words
from ckpt_cli.session import Session


def tui(
    ctx: typer.Context,
    pause: Annotated[
        float,
        typer.Option("--refresh", metavar="SECONDS", min=0, help="Look again so often; 0: never."),
    ] = 2.0,
) -> None:
    """Browse threads, their trees and checkpoints on one screen.

    Reads only. Press ? for the keys.

    \b
      ckpt -s agent.db tui
      ckpt -s prod tui --refresh 10
    """
    session: Session = ctx.obj
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the screen needs a terminal", hint="`ckpt threads list` and `ckpt show` print"
        )
    try:
        from ckpt_cli.tui.app import CkptApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UsageError(
            "the screen needs the package 'textual'",
            hint="pip install 'langgraph-ckpt[tui]'",
        ) from None
    # What is wrong with the store is said before the screen is taken.
    session.store.describe()
    CkptApp(session.opening, store_words(session), session.zone, pause).run()
