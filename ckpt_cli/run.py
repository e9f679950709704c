"""Run one command line; turn errors into one line and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from time import sleep
from typing import TYPE_CHECKING

from ckpt_backends import platform
from ckpt_backends.errors import (
    CkptError,
    InsecureConnection,
    PartlyDone,
    StoreUnavailable,
    UsageError,
    reason_of,
)
from ckpt_cli import __version__
from ckpt_cli.ending import Ended, ReaderGone

if TYPE_CHECKING:
    import typer

    from ckpt_cli.lazy import Group
    from ckpt_cli.session import Session

COMPLETE = "_complete"
"""The command that shell completion calls; see `ckpt_cli.complete`."""
MEMORY, TIME = "CKPT_MEMORY_LIMIT", "CKPT_TIME_LIMIT"
NO_LIMIT = "none"
_LEAST = 2 << 30
"""Bytes that are allowed by default on any machine: DuckDB and a value with its copies fit in."""
_SIZE = re.compile(r"([1-9]\d{0,8})([KMGT])(?:i?B)?", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_GRACE = 5.0
"""Seconds in which the program may clean up after its time is over."""


def run(argv: list[str], *, may_exit: bool = False) -> int:
    """Run one command line and return its exit code. Only KeyboardInterrupt is raised.

    With `may_exit`, the process is that of the program: a completion may end it, and its memory
    and time are limited.
    """
    if argv[:1] == [COMPLETE]:
        from ckpt_cli.complete import complete

        return complete(argv[1:], may_exit=may_exit)
    if argv == ["--version"]:
        # Without the parser, which takes most of the time. Elsewhere in a command line, the
        # parser answers it.
        return _guarded(_print_version, argv)
    from ckpt_cli.session import Session

    session = Session(argv)
    warnings.showwarning = session.show_warning
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
        from ckpt_cli import diagnostics

        return diagnostics.fail(error, argv, None if session is None else session.names)
    except EOFError:
        # Ctrl-D at a question.
        return 130
    except (BrokenPipeError, ReaderGone):
        # Python would fail again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as ended:
        if isinstance(ended, Ended):
            raise
        # The reader of the help is gone; it is printed by a library, which then ends the process.
        return 0
    except MemoryError:
        from ckpt_cli import diagnostics

        return diagnostics.fail(out_of_memory(), argv)
    except Exception as error:
        from ckpt_cli import diagnostics

        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return diagnostics.fail(PartlyDone(f"cannot write: {error.strerror}".lower()), argv)
        return diagnostics.bug(error, argv)


def _print_version() -> int:
    print(f"ckpt {__version__}")  # noqa: T201
    flush()
    return 0


def flush() -> None:
    """Write the rest of the answer. Raises `PartlyDone` if it cannot be written."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python would try again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise PartlyDone(f"cannot write the answer: {reason_of(error)}") from error


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
        with (
            _plain_help(argv),
            session.parser.make_context("ckpt", [*argv], obj=session) as context,
        ):
            session.parser.invoke(context)
    except typer.TyperException as error:
        if not error.format_message():  # its help was printed
            return error.exit_code
        raise _usage(error, session.parser, argv) from error
    except typer.Exit as ended:
        return ended.exit_code
    return 0


@contextmanager
def _plain_help(argv: list[str]) -> Iterator[None]:
    """Let the help have no colours with `--color never`, also where FORCE_COLOR is set.

    Rich, which prints it, asks nothing but the environment.
    """
    is_plain = "--color=never" in argv or ("--color", "never") in pairwise(argv)
    before = os.environ.get("TERM")
    if not is_plain or {"-h", "--help"}.isdisjoint(argv):
        yield
        return
    os.environ["TERM"] = "dumb"
    try:
        yield
    finally:
        del os.environ["TERM"]
        os.environ |= {} if before is None else {"TERM": before}


def _usage(error: typer.TyperException, root: Group, argv: list[str]) -> UsageError:
    """Return a parser error in our own form, without a full stop."""
    from ckpt_cli.commands import MOVED

    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"ckpt {root.named_in(argv)}".strip()
    hint = f"see `{path} --help`"
    text = error.format_message().strip().replace("Value error, ", "")
    if text.startswith("No such option: "):
        option = text.removeprefix("No such option: ").partition(" ")[0].rstrip(".")
        words = f"{path} {option}"
        if now := MOVED.get(words.removeprefix("ckpt ")):
            return UsageError(f"there is no `{words}`", hint=f"use `ckpt {now}`")
        hint += "; a thread id that begins with '-' goes after `--`"
    return UsageError(text[:1].lower() + text[1:].rstrip("."), hint=hint)


# Limits of memory and time for the whole program.
#
# A server may answer without end, or announce a value of any size, and its driver believes it.
# These limits keep that from taking the machine down. They hold for the program `ckpt` and the
# processes that it starts, not for the Python interface.


def set_limits(environment: Mapping[str, str]) -> None:
    """Limit the memory and the time of this process. Raises `UsageError` for a malformed limit.

    By default, the memory is limited to half of the machine's, at least 2 GiB, and the time is not.
    """
    memory, time = environment.get(MEMORY), environment.get(TIME)
    if time and time != NO_LIMIT and _SECONDS.fullmatch(time) is None:
        raise UsageError(f"invalid {TIME} '{time}'", hint=f"write seconds, or '{NO_LIMIT}'")
    if memory != NO_LIMIT:
        platform.limit_data(_bytes_of(memory) if memory else max(_LEAST, platform.half_of_memory()))
    if time and time != NO_LIMIT:
        threading.Thread(target=_end_after, args=(int(time),), daemon=True).start()
    threading.excepthook = _thread_failed


def out_of_memory() -> StoreUnavailable:
    """The error to print where Python or a driver could not allocate."""
    return StoreUnavailable(
        "out of memory: the answer needs more than this process may use",
        hint=f"read fewer threads, or allow more, such as {MEMORY}=16G ('{NO_LIMIT}': no limit)",
    )


def _bytes_of(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise UsageError(f"invalid {MEMORY} '{text}'", hint=f"write 4G, 800M or '{NO_LIMIT}'")
    return int(found[1]) << 10 * (1 + "KMGT".index(found[2].upper()))


def _end_after(seconds: int) -> None:
    """End the program as SIGTERM does; if a driver does not return, without cleaning up."""
    import signal

    from ckpt_cli import diagnostics

    sleep(seconds)
    diagnostics.report(
        StoreUnavailable(f"not finished after {seconds} s", hint=f"{TIME} sets this limit"),
        as_json=False,
    )
    os.kill(os.getpid(), signal.SIGTERM)
    sleep(_GRACE)
    platform.end_at_once()


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Print nothing, unless asked: drivers have threads, and the main one gets an error, too."""
    if "--debug" in sys.argv and failed.exc_value is not None:
        from ckpt_cli import diagnostics

        diagnostics.traceback(failed.exc_value)
