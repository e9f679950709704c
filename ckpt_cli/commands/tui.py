"""`ckpt tui`: threads, trees and checkpoints on one screen."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, Unsupported, UsageError
from ckpt_backends.registry import open_memory
from ckpt_cli.commands.carrying_out import store_words
from ckpt_cli.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ckpt_backends.url import StoreUrl
    from ckpt_cli.reading.opening import Opening
    from ckpt_cli.tui.app import CkptApp, Start
    from ckpt_cli.tui.desk import MemoryNamed


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
    """Browse threads, their trees and checkpoints on one screen, and long-term memory.

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
    opening, words, memory, start = _found(session)
    if write and start != "threads":
        raise UsageError("--write changes threads", hint="name the store of the threads")
    application(Desk(opening, words, session.zone, pause, memory=memory), start).run()


def _found(session: Session) -> tuple[Opening, Sequence[str], MemoryNamed, Start]:
    """The threads and the memory that belong to the store that was named.

    Raises what opening it raises.
    """
    from ckpt_cli.reading.beside import memory_place
    from ckpt_cli.tui.desk import MemoryNamed

    url, words = session.store_url, store_words(session)
    try:
        session.store.describe()
        # It would hold its moment, and a lock where writers wait for readers, as long as one looks.
        session.store.close()
    except SeveralLayouts:
        raise
    except (UnknownLayout, Unsupported) as error:
        # Long-term memory may be all that it holds.
        threads = _threads_of_memory(session, error)
        named = MemoryNamed(url, words)
        if threads is None:
            return session.opening, words, named, "memory alone"
        return replace(session.opening, url=threads), ["-s", str(threads)], named, "memory"
    place = memory_place(url, session.other_store("memory"))
    named = MemoryNamed(url, words)
    if place is not None:
        named = MemoryNamed(place.url, ["-s", str(place.url)])
    return session.opening, words, named, "threads"


def _threads_of_memory(session: Session, error: CkptError) -> StoreUrl | None:
    """The threads of a store that holds memory and none itself; None where they are not known.

    Raises the error that told so where it holds no memory either.
    """
    from ckpt_cli.reading.provenance import threads_place

    url = session.store_url
    threads = threads_place(url, session.other_store("threads")).url
    try:
        with open_memory(url) as memory:
            memory.describe()
    except CkptError:
        if threads == url:
            raise error from None
        raise
    return None if threads == url else threads


def _reading() -> type[CkptApp]:
    from ckpt_cli.tui.app import CkptApp

    return CkptApp


def _writing() -> type[CkptApp]:
    from ckpt_cli.tui.writing import WritingApp

    return WritingApp
