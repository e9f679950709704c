"""The only writer of stderr: errors, hints, notes, questions and progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from ckpt_backends.errors import CkptError, ParseError, StoreChanged, StoreUnavailable
from ckpt_cli.render.text import cell_len, color_chosen, fit, has_color, safe_json, safe_text

if TYPE_CHECKING:
    from threading import Timer

    from rich.progress import Progress

    from ckpt_cli.config.store_names import StoreNames

_Item = TypeVar("_Item")
_SCHEME = 40
"""Maximum length of an option and a scheme before `://`."""

SOON = 0.5
"""Seconds of work for which no progress bar is drawn."""


def report(error: CkptError, *, as_json: bool) -> None:
    """Print an error as `ckpt: ...` with its hint, or as one JSON line."""
    if as_json:
        record = {"error": error.code, "message": error.message, "exit_code": error.exit_code}
        if error.hint is not None:
            record["hint"] = error.hint
        if isinstance(error, ParseError):
            record["position"] = error.position
        _write(safe_json(json.dumps(record, ensure_ascii=False)))
        return
    _write(f"ckpt: {safe_text(error.message)}")
    if isinstance(error, ParseError):
        for line in _marked(error.text, error.position):
            _write(f"  {line}")
    if error.hint is not None:
        _write(f"hint: {safe_text(error.hint)}")


def _marked(text: str, position: int) -> Iterator[str]:
    """Yield a text and a caret under a place in it; of a long text, the part around the place."""
    before, after = safe_text(text[:position]), safe_text(text[position:])
    if len(before) > _WIDEST_BEFORE:
        before = "…" + before[1 - _WIDEST_BEFORE :]
    yield before + fit(after, _WIDEST_AFTER)
    yield " " * cell_len(before) + "^"


_WIDEST_BEFORE, _WIDEST_AFTER = 50, 25


def note(text: str) -> None:
    """Print a note on stderr."""
    _write(f"note: {safe_text(text)}")


def warn(text: str) -> None:
    """Print a warning on stderr."""
    _write(f"warning: {safe_text(text)}")


def progress(
    items: Iterable[_Item], *, total: int | None, label: str | Callable[[], str]
) -> Iterator[_Item]:
    """Yield the items and show a progress bar on a terminal until the answer begins.

    A label that is a function is asked again after each item.
    """
    if not shows_progress():
        yield from items
        return

    def said() -> str:
        return label if isinstance(label, str) else label()

    with Bar(said(), total) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.update(done, total, said())
        bar.advance(0, said())


def shows_progress() -> bool:
    """Return whether progress bars are shown, so that it is worth to count what is to be done."""
    return sys.stderr.isatty() and not _hidden


class Bar:
    """A progress bar on a terminal, which appears only when the work takes longer than `SOON`."""

    def __init__(self, label: str, total: int | None, *, of_bytes: bool = False) -> None:
        self._total = total
        self._task: dict[str, Any] = {
            "description": safe_text(label),
            "total": total,
            "completed": 0,
        }
        self._of_bytes = of_bytes
        self._bar: Progress | None = None
        self._timer: Timer | None = None
        """None if no bar is shown, or none any more."""
        if shows_progress():
            import threading  # late, as is rich: most commands show no bar

            self._lock = threading.Lock()
            self._timer = threading.Timer(SOON, self._draw)
            self._timer.daemon = True
            _bars.append(self)
            self._timer.start()

    def update(self, done: int, total: int | None, label: str | None = None) -> None:
        """Say how much is done. A total that is less than that was an estimate."""
        self._task |= {"completed": done, "total": None if total is None else max(total, done)}
        if label is not None:
            self._task["description"] = safe_text(label)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], **self._task)

    def advance(self, number: int, label: str | None = None) -> None:
        """Say that more is done."""
        self.update(self._task["completed"] + number, self._total, label)

    def end(self) -> None:
        """Remove the bar, which does not come back."""
        if self._timer is None:
            return
        self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._bar is not None:
                self._bar.stop()
        _bars.remove(self)

    def _draw(self) -> None:
        with self._lock:
            if self._timer is None:
                return
            bar = _new_bar(of_bytes=self._of_bytes)
            bar.add_task(**self._task)
            bar.start()
            self._bar = bar

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def _new_bar(*, of_bytes: bool) -> Progress:
    """Return a bar for stderr, in colour only if text there has any."""
    # The import takes 60 ms.
    from rich.console import Console
    from rich.progress import Progress

    colored = has_color(color_chosen.get(), sys.stderr)
    # rich obeys NO_COLOR even where --color says always, and keeps bold and dim.
    system: Literal["auto"] | None = "auto" if colored else None
    console = Console(stderr=True, color_system=system, no_color=not colored)
    if not of_bytes:
        return Progress(console=console, transient=True)
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


class ScanBar:
    """A `ScanObserver` that shows progress on a terminal, and the report as a note."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._bar: Bar | None = None

    def scanning(self, label: str, done: int, total: int | None) -> None:
        if self._bar is None and shows_progress():
            self._bar = Bar(label, total)
        if self._bar is not None:
            self._bar.update(done, total)

    def scanned(self, report: str) -> None:
        if self._bar is not None:
            self._bar.end()
            self._bar = None
        self._note(report)


@contextmanager
def no_progress() -> Iterator[None]:
    """Remove the progress bar, and show none until the context ends: the answer uses the
    terminal.
    """
    for bar in [*_bars]:
        bar.end()
    _hidden.append(True)
    try:
        yield
    finally:
        _hidden.pop()


_bars: list[Bar] = []
"""Bars that are on the terminal now, or may appear."""
_hidden: list[bool] = []
"""Not empty while an answer is being written."""


def ask(question: str) -> bool | None:
    """Ask the user yes or no; returns None if stdin or stderr is not a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    with suppress(OSError):
        sys.stdout.flush()
    sys.stderr.write(f"{safe_text(question)} [y/N] ")
    sys.stderr.flush()
    answer = ""
    try:
        answer = sys.stdin.readline()
    finally:
        if not answer:  # Ctrl-C and Ctrl-D leave the cursor behind the question
            sys.stderr.write("\n")
    return answer.strip().lower() in {"y", "yes"}


def ask_secret(question: str) -> str | None:
    """Ask for a text without showing it; returns None if stdin or stderr is not a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    from getpass import getpass

    return getpass(safe_text(question), sys.stderr)


def traceback(error: BaseException) -> None:
    """Print the traceback of an error."""
    from traceback import format_exception

    for line in "".join(format_exception(error)).splitlines():
        _write(safe_text(line))


def _write(line: str) -> None:
    # In a pipe, stdout is buffered and stderr is not: without the flush, a note would come before
    # an answer that was printed earlier.
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def fail(error: CkptError, argv: Sequence[str], names: StoreNames | None = None) -> int:
    """Print the error of a command line, without secrets; returns its exit code."""
    if _given("--debug", argv):
        traceback(error)
    error.message = _without_passwords(error.message, argv)
    error.hint = error.hint and _without_passwords(error.hint, argv)
    if names is not None and isinstance(error, StoreUnavailable | StoreChanged):
        error.message = names.without_values(error.message)
        error.hint = error.hint and names.without_values(error.hint)
    if names is not None and error.hint is not None:
        error.hint = names.with_store(error.hint)
    report(error, as_json=_wants_json(argv))
    return error.exit_code


class _Bug(CkptError):
    """An error that nobody expected."""

    exit_code = 70


def bug(error: Exception, argv: Sequence[str]) -> int:
    """Print an error that nobody expected; returns its exit code."""
    if _given("--debug", argv):
        traceback(error)
    # The text of an unexpected error may contain values.
    words = "redacted" if _given("--redact", argv) else _without_passwords(str(error), argv)
    line = f"internal error: {type(error).__name__}: {words}"
    hint = "this is a bug in ckpt; run again with --debug and report what it prints"
    found = _Bug(line, hint=hint)
    report(found, as_json=_wants_json(argv))
    return found.exit_code


def _without_passwords(text: str, argv: Sequence[str]) -> str:
    """Return a message that may quote a word of the command line, without passwords of URLs.

    A URL may stand where none belongs, or behind an option: `--store=URL`, `-sURL`.
    """
    # Late: most runs end without an error.
    from pathlib import Path

    from ckpt_backends.declaration import backend_of
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


def _given(flag: str, argv: Sequence[str]) -> bool:
    """Return whether a global flag is given; uses the arguments, since parsing may have failed."""
    end = argv.index("--") if "--" in argv else len(argv)
    return flag in argv[:end]


def _wants_json(argv: Sequence[str]) -> bool:
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
