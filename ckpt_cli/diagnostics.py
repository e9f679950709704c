"""The only writer of stderr: errors, hints, notes, questions and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from ckpt_backends.errors import CkptError
from ckpt_cli.render.text import safe_json, safe_text

if TYPE_CHECKING:
    from rich.progress import Progress

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
    """Print a note on stderr."""
    _write(f"note: {safe_text(text)}")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _write(f"warning: {safe_text(text)}")


def progress(items: Iterable[_Item], *, total: int | None, label: str) -> Iterator[_Item]:
    """Pass items through, with a bar on a terminal until the answer begins."""
    if not sys.stderr.isatty() or _hidden:
        yield from items
        return
    # Takes 60 ms to import, so only a terminal that shows a bar pays for it.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        _bars.append(bar)
        try:
            yield from bar.track(items, total=total, description=label)
        finally:
            _bars.remove(bar)


@contextmanager
def no_progress() -> Iterator[None]:
    """Clear the bar, and show none until this ends: the answer needs the terminal."""
    for bar in _bars:
        bar.stop()
    _hidden.append(True)
    try:
        yield
    finally:
        _hidden.pop()


_bars: list[Progress] = []
"""Bars on the terminal."""
_hidden: list[bool] = []
"""Not empty while an answer is being written."""


def ask(question: str) -> bool | None:
    """Ask a person for yes or no; None if stdin or stderr is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"{safe_text(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def traceback() -> None:
    """Print the traceback of the error that is being handled."""
    from traceback import format_exc

    for line in format_exc().splitlines():
        _write(safe_text(line))


def _write(line: str) -> None:
    # stdout is buffered in a pipe and stderr is not: unflushed, the answer would come after a note
    # that was printed later.
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
