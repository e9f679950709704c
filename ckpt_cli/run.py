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

_SCHEME = 40
"""Maximum length of an option and a scheme before `://`."""


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
        return _guarded(_print_version, argv, None)
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


def _guarded(act: Callable[[], int], argv: list[str], session: Session | None) -> int:
    """Return the exit code of `act`, or that of the error that it raises, which is printed."""
    try:
        code = act()
        flush()
    except CkptError as error:
        return _fail(error, argv, session)
    except EOFError:
        # Ctrl-D at a question.
        return 130
    except (BrokenPipeError, ReaderGone):
        # Python would fail again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail(out_of_memory(), argv, session)
    except Exception as error:
        return _bug(error, argv)
    return code


def _print_version() -> int:
    print(f"ckpt {__version__}")  # noqa: T201
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


def _fail(error: CkptError, argv: list[str], session: Session | None) -> int:
    from ckpt_cli import diagnostics

    if _given("--debug", argv):
        diagnostics.traceback(error)
    error.message = _without_passwords(error.message, argv)
    error.hint = error.hint and _without_passwords(error.hint, argv)
    if session is not None and isinstance(error, StoreUnavailable | StoreChanged):
        error.message = session.names.without_values(error.message)
        error.hint = error.hint and session.names.without_values(error.hint)
    diagnostics.report(error, as_json=_wants_json(argv))
    return error.exit_code


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


def _bug(error: Exception, argv: list[str]) -> int:
    from ckpt_cli import diagnostics

    if _given("--debug", argv):
        diagnostics.traceback(error)
    # The text of an unexpected error may contain values.
    words = "redacted" if _given("--redact", argv) else _without_passwords(str(error), argv)
    line = f"internal error: {type(error).__name__}: {words}"
    hint = "this is a bug in ckpt; run again with --debug and report what it prints"
    diagnostics.report(CkptError(line, hint=hint), as_json=_wants_json(argv))
    return 70


def _without_passwords(text: str, argv: list[str]) -> str:
    """Return a message that may quote a word of the command line, without passwords of URLs.

    A URL may stand where none belongs, or behind an option: `--store=URL`, `-sURL`.
    """
    # Late, as in `_carry_out`.
    from pathlib import Path

    from ckpt_backends.discovery import backend_of
    from ckpt_backends.url import printable

    for word in argv:
        # Each part of the word that may be a URL, the longest first.
        options = {2, 3} if word.startswith("-") else set()
        at = word.find("://")
        starts = {0, *options, word.find("=") + 1, *range(max(0, at - _SCHEME), at)}
        for part in (word[start:] for start in sorted(starts)):
            shown = printable(part)
            if shown != part and any(one in part for one in ("://", "@", "=")):
                text = text.replace(part, shown)
                # The parser quotes as `repr` does, and a path has no two slashes.
                text = text.replace(repr(part)[1:-1], shown).replace(str(Path(part)), shown)
            scheme, mark, _ = part.partition("://")
            if mark and backend_of(scheme) is not None:
                break  # a part of its scheme would be an unknown one, without harmless parameters
    return text


def _given(flag: str, argv: list[str]) -> bool:
    """Return whether a global flag is given; uses the arguments, since parsing may have failed."""
    end = argv.index("--") if "--" in argv else len(argv)
    return flag in argv[:end]


def _wants_json(argv: list[str]) -> bool:
    """Return whether errors are printed as JSON; uses the arguments, since parsing may have
    failed.
    """
    formats = [
        value
        for option, value in zip(argv, [*argv[1:], ""], strict=True)
        if option in {"-o", "--output"}
    ]
    formats += [word.partition("=")[2] for word in argv if word.startswith("--output=")]
    formats += [word[2:].removeprefix("=") for word in argv if word.startswith("-o")]
    return any(value in {"json", "ndjson"} for value in formats)
