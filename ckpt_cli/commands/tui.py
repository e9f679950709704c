"""`ckpt tui`: browse threads, trees and checkpoints on one screen."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from ckpt_backends.errors import CkptError, SeveralLayouts, UnknownLayout, Unsupported, UsageError
from ckpt_backends.installing import install_command
from ckpt_backends.model import CheckpointKey
from ckpt_backends.platform import ENDING
from ckpt_backends.registry import open_memory
from ckpt_cli import diagnostics
from ckpt_cli.config.store_names import memory_place
from ckpt_cli.ending import Ended, restored
from ckpt_cli.options import AsOf, NewGraph, OldGraph, OptionalThread
from ckpt_cli.session import Session
from ckpt_cli.tui.serving import SERVED

if TYPE_CHECKING:
    from ckpt_backends.url import StoreUrl
    from ckpt_cli.reading.store import Opening
    from ckpt_cli.tui.app import Start
    from ckpt_cli.tui.context import MemoryNamed
    from ckpt_cli.tui.screens.main import Changes, MainScreen


def tui(
    ctx: Context,
    target: OptionalThread = None,
    pause: Annotated[
        float,
        Option("--refresh", metavar="SECONDS", help="Refresh every SECONDS; 0: only on r.", min=0),
    ] = 2.0,
    write: Annotated[
        bool, Option("--write", help="Enable the keys that change the store.")
    ] = False,
    serve: Annotated[
        bool, Option("--serve", help="Show the screen in a browser on this machine.")
    ] = False,
    port: Annotated[
        int | None,
        Option(metavar="N", help="The port for --serve; a free one if left out.", min=1, max=65535),
    ] = None,
    as_of: AsOf = None,
    compat: NewGraph = None,
    compat_from: OldGraph = None,
) -> None:
    """Browse threads, checkpoints and long-term memory in the terminal.

    With THREAD, the screen opens there. It is read-only unless --write is given; then each change
    shows its plan and asks. With --compat, the key C shows what a new graph would do to a thread.
    Press ? for help.

    ```
    ckpt -s agent.db tui
    ckpt -s agent.db tui trip-to-kyoto
    ckpt -s agent.db tui --write
    ckpt -s agent.db tui --serve
    ckpt -s agent.db tui --compat new.json
    ```
    """
    session: Session = ctx.obj
    if port is not None and not serve:
        raise UsageError("--port needs --serve", hint="add --serve")
    if serve and write:
        raise UsageError(
            "--serve cannot be combined with --write", hint="a served screen is read-only"
        )
    # The process of a served screen has the same arguments.
    is_served = serve and SERVED in os.environ
    if serve and not is_served:
        _serve(session, port or 0, target)
        return
    if not is_served and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "cannot start the screen: not a terminal", hint="run ckpt threads list, or ckpt show"
        )
    if write and any(session.settings.get(one) for one in ("copy", "redact", "as_of")):
        raise UsageError(
            "--write cannot be combined with --copy, --redact or --as-of", hint="leave them out"
        )
    if write:
        session.changes_store()
    with _installed("textual", "tui"):
        from ckpt_cli.tui.app import CkptApp
    from ckpt_cli.tui.context import CheckRules, ScreenContext, look_file

    # Errors of the store are reported before the screen starts.
    opening, words, memory, start, goal = _found(session, target)
    if write and start != "threads":
        raise UsageError(
            "--write changes threads, and this store holds memory only",
            hint="name the store of its threads with -s",
        )
    names = session.names
    rules = CheckRules(dict(names.reducers), names.ignored_codes)
    look = partial(ScreenContext, opening, words, session.zone, pause, rules=rules, memory=memory)
    context = look(audit=names.audit, alias=partial(names.filter_alias, acts=False))
    screen = CkptApp(context, start, look_file(), goal, _writing() if write else None)
    with restored(*ENDING):
        screen.run()
    if screen.ended_by is not None:
        raise Ended(screen.ended_by)
    if session.settings.get("debug"):
        for failure in context.failures:
            diagnostics.traceback(failure)


def _serve(session: Session, port: int, target: str | None) -> None:
    """Serve the screen to a browser until Ctrl-C."""
    with _installed("textual", "serve"), _installed("textual_serve", "serve"):
        from ckpt_cli.tui.serving.server import ScreenServer
    # Errors of the store are reported here, before anybody looks.
    _found(session, target)

    def ready(url: str) -> None:
        session.output.verbatim(f"{url}\n")
        sys.stdout.flush()
        session.note("open this address in a browser on this machine; Ctrl-C ends")

    ended = ScreenServer(session.argv).serve(port, ready)
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    raise Ended(ended)


@contextmanager
def _installed(package: str, extra: str) -> Iterator[None]:
    """Raise `UsageError` with the command that installs a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise UsageError(
            f"cannot start the screen: package '{package.replace('_', '-')}' is not installed",
            hint=install_command(f"langgraph-ckpt[{extra}]"),
        ) from None


def _found(
    session: Session, target: str | None
) -> tuple[Opening, Sequence[str], MemoryNamed, Start, CheckpointKey | None]:
    """The threads and the memory of the store that was named, and the checkpoint to show first.

    Raises what opening it raises, and `NotFound`.
    """
    from ckpt_cli.tui.context import MemoryNamed

    url, words = session.names.store_url, session.names.words
    try:
        session.store.describe()
        goal = None if target is None else _goal(session, target)
        # Open, it would keep its snapshot, and a lock where writers wait for readers.
        session.store.close()
    except SeveralLayouts:
        raise
    except (UnknownLayout, Unsupported) as error:
        # The store may hold long-term memory only.
        threads = _threads_of_memory(session, error)
        if target is not None:
            raise UsageError(
                "this store holds memory only", hint="name the store of its threads with -s"
            ) from None
        named = MemoryNamed(url, words)
        if threads is None:
            return session.opening, words, named, "memory alone", None
        return session.opening._replace(url=threads), ["-s", str(threads)], named, "memory", None
    place = memory_place(url, session.names.other_store("memory"))
    named = MemoryNamed(url, words)
    if place is not None:
        named = MemoryNamed(place.url, ["-s", str(place.url)])
    return session.opening, words, named, "threads", goal


def _goal(session: Session, target: str) -> CheckpointKey:
    """The checkpoint that was named: THREAD or THREAD@REF. Raises `NotFound`."""
    from ckpt_cli.reading.target import TargetArguments, find_checkpoint

    found = find_checkpoint(
        session.store, TargetArguments(target), session.now, session.zone, session.note
    )
    return CheckpointKey(found.reader.thread_id, found.checkpoint_ns, found.checkpoint_id)


def _threads_of_memory(session: Session, error: CkptError) -> StoreUrl | None:
    """The threads of a store that holds memory only; None if they are not known.

    Raises `error` if it holds no memory either.
    """
    from ckpt_cli.queries.memory import threads_place

    url = session.names.store_url
    threads = threads_place(url, session.names.other_store("threads")).url
    try:
        with open_memory(url) as memory:
            memory.describe()
    except CkptError:
        if threads == url:
            raise error from None
        raise
    return None if threads == url else threads


def _writing() -> Callable[[MainScreen], Changes]:
    """What can change a store is loaded only for --write."""
    from ckpt_cli.tui.writing import Writing

    return Writing
