"""Run one command line; turn errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING

from ckpt_backends.errors import (
    CkptError,
    InsecureConnection,
    PartlyDone,
    StoreChanged,
    StoreUnavailable,
    UsageError,
)
from ckpt_cli import __version__, color
from ckpt_cli.ending import ReaderGone
from ckpt_cli.limits import out_of_memory, set_limits

if TYPE_CHECKING:
    import typer

    from ckpt_cli.session import Session

COMPLETE = "_complete"
"""The command that shell completion calls; see `ckpt_cli.complete`."""


def safe_streams() -> None:
    """Make stdout and stderr accept any text, even if the parent process closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run(argv: list[str], *, may_exit: bool = False) -> int:
    """Run one command line and return its exit code. Only KeyboardInterrupt is raised.

    With `may_exit`, the process is that of the program: a completion may end it, and its memory
    and time are limited.
    """
    if argv[:1] == [COMPLETE]:
        from ckpt_cli.complete import complete

        return complete(argv[1:], may_exit=may_exit)
    color.chosen.set("auto")
    if argv == ["--version"]:
        # Without the parser, which takes most of the time. Elsewhere in a command line, the
        # parser answers it.
        return _guarded(_print_version, argv)
    from ckpt_cli.session import Session

    session = Session(argv)
    warnings.showwarning = partial(_show_warning, session)
    # Whatever PYTHONWARNINGS says.
    warnings.filterwarnings("always", category=InsecureConnection)
    try:
        act = partial(_carry_out_whole, argv, session, limited=may_exit)
        return _guarded(act, argv, session)
    finally:
        session.close()


def _guarded(act: Callable[[], int], argv: list[str], session: Session | None = None) -> int:
    """Return the exit code of `act`, or that of the error that it raises, which is printed."""
    try:
        return act()
    except CkptError as error:
        return _failed(error, argv, session)
    except EOFError:
        # Ctrl-D at a question.
        return 130
    except (BrokenPipeError, ReaderGone):
        # Python would fail again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _failed(out_of_memory(), argv, session)
    except Exception as error:
        from ckpt_cli import diagnostics

        return diagnostics.bug(error, argv)


def _failed(error: CkptError, argv: list[str], session: Session | None) -> int:
    """Print an error, without what profiles took from the environment; returns its exit code."""
    from ckpt_cli import diagnostics

    if session is not None and isinstance(error, StoreUnavailable | StoreChanged):
        error.message = session.names.without_values(error.message)
        error.hint = error.hint and session.names.without_values(error.hint)
    return diagnostics.fail(error, argv)


def _print_version() -> int:
    print(f"ckpt {__version__}")  # noqa: T201
    flush()
    return 0


def _carry_out_whole(argv: list[str], session: Session, *, limited: bool) -> int:
    """Call the command; raises `PartlyDone` after the answer if it leaves out threads."""
    if limited:
        set_limits(os.environ)
    code = _carry_out(argv, session)
    flush()
    session.check_complete()
    return code


def _carry_out(argv: list[str], session: Session) -> int:
    """Parse the arguments and call the command; returns its exit code."""
    # Imported late: a shell that waits for completions has no time for it.
    import typer

    from ckpt_cli.app import root

    session.parser = root()
    try:
        # The parser empties the list that it is given.
        with session.parser.make_context("ckpt", [*argv], obj=session) as context:
            session.parser.invoke(context)
    except typer.TyperException as error:
        if not error.format_message():  # its help was printed
            return error.exit_code
        raise _usage(error) from error
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def _show_warning(
    session: Session, message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Print the warnings of the storage library, and none of other libraries."""
    if issubclass(category, InsecureConnection):
        from ckpt_cli import diagnostics

        diagnostics.warn(session.names.without_values(str(message)))


def flush() -> None:
    """Write the rest of the answer. Raises `PartlyDone` if it cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        # Python would try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise PartlyDone(f"cannot write the answer: {reason}") from error


def _usage(error: typer.TyperException) -> UsageError:
    """Return a parser error in our own form, without a full stop."""
    from ckpt_cli.app import MOVED

    context = getattr(error, "ctx", None)
    hint = f"see `{context.command_path if context is not None else 'ckpt'} --help`"
    text = error.format_message().strip().replace("Value error, ", "")
    if text.startswith("No such option: "):
        option = text.removeprefix("No such option: ").partition(" ")[0].rstrip(".")
        words = f"{context.command_path if context is not None else 'ckpt'} {option}"
        if now := MOVED.get(words.removeprefix("ckpt ")):
            return UsageError(f"there is no `{words}`", hint=f"use `ckpt {now}`")
        hint += "; a thread id that begins with '-' goes after `--`"
    return UsageError(text[:1].lower() + text[1:].rstrip("."), hint=hint)
