"""The only writer of stderr: errors, hints, notes and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from ckpt_backends.errors import CkptError
from ckpt_cli.render.text import safe_json, safe_text

_Item = TypeVar("_Item")


def report(error: CkptError, *, as_json: bool) -> None:
    """Print an error as `ckpt: ...` with its hint, or as one JSON line."""
    if as_json:
        record = {"error": error.code, "message": error.message, "exit_code": error.exit_code}
        if error.hint is not None:
            record["hint"] = error.hint
        _write(safe_json(json.dumps(record, ensure_ascii=False)))
        return
    _write(f"ckpt: {safe_text(error.message)}")
    if error.hint is not None:
        _write(f"hint: {safe_text(error.hint)}")


def note(text: str) -> None:
    """Print a remark that is not part of the answer."""
    _write(f"note: {safe_text(text)}")


def warn(text: str) -> None:
    """Print a remark that a person should act on."""
    _write(f"warning: {safe_text(text)}")


def progress(items: Iterable[_Item], *, total: int | None, label: str) -> Iterator[_Item]:
    """Pass items through, with a bar on a terminal; silent anywhere else."""
    if not sys.stderr.isatty():
        yield from items
        return
    # Takes 60 ms to import, so only a terminal that shows a bar pays for it.
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(items, description=label, total=total, console=console, transient=True)


def ask(question: str) -> bool | None:
    """Ask a person for yes or no on the terminal; None where there is no terminal to ask on."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"{safe_text(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def traceback() -> None:
    """Print the traceback of the error in hand."""
    from traceback import format_exc

    for line in format_exc().splitlines():
        _write(safe_text(line))


def _write(line: str) -> None:
    # stdout is buffered when it is a pipe and stderr is not: without this, a remark made now
    # would overtake the answer it belongs to.
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
