"""The only writer of stdout: lists of records, and documents, in the chosen format."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime, tzinfo
from itertools import chain, count, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from ckpt_backends.errors import PartlyDone, Refused, StoreUnavailable, reason_of
from ckpt_cli.core.values import json_line
from ckpt_cli.ending import ReaderGone
from ckpt_cli.render.text import (
    UNLIMITED,
    Style,
    StyledLine,
    Ui,
    cell_len,
    folded,
    has_color,
    line,
    safe_json,
    safe_text,
)

if TYPE_CHECKING:
    from subprocess import Popen

    from ckpt_cli.render.table import Column, Record


_ANSI: Mapping[Style, str] = {
    "dim": "2",
    "bold": "1",
    "add": "32",
    "remove": "31",
    "added": "32",
    "added-part": "1;32",
    "removed": "31",
    "removed-part": "1;31",
    "change": "33",
    "warn": "33",
    "head": "1;36",
    "error": "1;31",
    "question": "1;33",
    "id": "33",
    "time": "2",
    "node": "36",
}


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)
"""Created once, because `json.dumps` creates one for each record."""


class Output:
    """Writes the answer in the format that the user chose."""

    def __init__(
        self,
        chosen: str,
        *,
        color: str,
        pager: bool,
        stream: TextIO | None = None,
        no_progress: Callable[[], AbstractContextManager[None]] = nullcontext,
        clock: Callable[[], tuple[datetime, tzinfo]] = lambda: (datetime.now(UTC), UTC),
    ) -> None:
        self._clock = clock
        self._stream = stream or sys.stdout
        self.terminal = self._stream.isatty()
        """Whether stdout is a terminal; long parts may be shortened there."""
        self._no_progress = no_progress if self.terminal else nullcontext
        self._chosen = chosen
        self._pager = pager and self.terminal
        self._color = has_color(color, self._stream)

    @property
    def width(self) -> int:
        """Number of columns of the terminal; unlimited in a file or pipe."""
        return _terminal_size()[0] if self.terminal else UNLIMITED

    @property
    def unicode(self) -> bool:
        """Whether box characters can be printed."""
        return (self._stream.encoding or "").lower().replace("-", "").startswith("utf")

    @property
    def ui(self) -> Ui:
        """What text is drawn for."""
        return Ui(*self._clock(), self.width, self.unicode, self.terminal)

    @property
    def table(self) -> bool:
        """Whether a list is shown as a table."""
        return self._chosen == "table" or (self._chosen == "auto" and self.terminal)

    @property
    def array(self) -> bool:
        """Whether records are printed as one JSON document."""
        return self._chosen == "json"

    @property
    def streams(self) -> bool:
        """Whether each record is printed as a line of JSON."""
        return self._chosen == "ndjson"

    @property
    def machine(self) -> bool:
        """Whether the answer is JSON."""
        return self._chosen in {"json", "ndjson"}

    @property
    def text(self) -> bool:
        """Whether a document is shown as text."""
        return self._chosen in {"auto", "table"}

    def records(
        self,
        rows: Iterable[Record],
        columns: Sequence[Column],
        *,
        rest: Callable[[], str] | None = None,
    ) -> int:
        """Print a list, and return its length. `rest`, if given, returns a line below the table
        about what it leaves out.
        """
        if self.machine:
            return self.json_lines(map(json_line, rows))
        number = count()
        rows = (row for row, _ in zip(rows, number, strict=False))
        if self._chosen == "tsv" or (self._chosen == "auto" and not self.terminal):
            self._print(_tsv_lines(rows, columns))
        else:
            from ckpt_cli.render.table import table_lines

            self._page(chain(table_lines(rows, columns, self.ui), folded(_below(rest), self.width)))
        return next(number)

    def json_lines(self, records: Iterable[str]) -> int:
        """Print a list of records that are lines of JSON already, and return its length."""
        number = count()
        lines = (safe_json(line) for line, _ in zip(records, number, strict=False))
        self._print(_json_array(lines) if self.array else lines)
        return next(number)

    def live(
        self,
        rows: Iterable[Record],
        columns: Sequence[Column],
        text: Callable[[Record], StyledLine],
    ) -> None:
        """Print each record as soon as it arrives: as NDJSON, as TSV, or as a line of text."""
        if self._chosen in {"json", "ndjson"}:
            lines: Iterable[str] = map(_json_line, rows)
        elif self.table:
            lines = self._paint(folded(map(text, rows), self.width))
        else:
            lines = _tsv_lines(rows, columns)
        for text_line in lines:
            self._print([text_line])
            self._stream.flush()

    def wait(self, seconds: float) -> None:
        """Sleep. Raises `BrokenPipeError` as soon as the reader of stdout has closed it."""
        import select

        if not hasattr(select, "poll"):
            time.sleep(seconds)
            return
        poll = select.poll()
        poll.register(self._stream.fileno(), 0)
        if poll.poll(seconds * 1000):
            raise BrokenPipeError

    def document(
        self,
        record: Callable[[], Any],
        text: Callable[[], Iterable[StyledLine]],
        *,
        rows: Callable[[], Iterable[Record]] = tuple,
        columns: Sequence[Column] = (),
    ) -> None:
        """Print one object: as JSON, as text, or its parts as TSV."""
        if self._chosen == "json":
            pieces = _ENCODER.iterencode(record())
            self._write(chain(map(safe_json, pieces), ["\n"]))
        elif self._chosen == "ndjson":
            found = record()
            self._print(map(_json_line, found if isinstance(found, list) else [found]))
        elif self._chosen == "tsv":
            self._print(_tsv_lines(rows(), columns))
        else:
            self._page(folded(text(), self.width))

    def summary(self, record: Record) -> None:
        """Print a record as JSON, or only its field `summary`, without colour."""
        if self.machine:
            self.document(lambda: record, tuple)
        else:
            self._print([str(record["summary"])])

    def lines(self, rows: Iterable[Record]) -> None:
        """Print each record as a line of JSON, in any format."""
        self._print(map(_json_line, rows))

    def to_file(self, path: Path, rows: Iterable[Record], *, lines: bool = False) -> None:
        """Write records to a private file, which appears only when it is complete.

        One line each, or an array with -o json unless `lines` is set.

        Raises `StoreUnavailable` if it cannot be written.
        """
        from ckpt_backends.files import writing

        records = map(_json_line, rows)
        texts = _json_array(records) if self.array and not lines else records
        try:
            with writing(path) as file:
                file.writelines(f"{text}\n".encode() for text in texts)
        except OSError as error:
            raise StoreUnavailable(f"cannot write '{path}': {reason_of(error)}") from error

    def raw(self, data: bytes) -> None:
        """Write bytes unchanged. Raises `Refused` on a terminal, which would interpret them."""
        if self.terminal:
            raise Refused(
                "cannot print raw bytes to a terminal", hint="redirect them: ckpt ... > FILE"
            )
        self._stream.flush()
        self._stream.buffer.write(data)

    def verbatim(self, *texts: str) -> None:
        """Print texts that are safe as they are, in any format."""
        self._write(texts)

    def redraw(self) -> Redraw:
        """Return the screen of the terminal, for lines that are drawn again and again."""
        return Redraw(self._stream)

    def painted(self, lines: Iterable[StyledLine]) -> list[str]:
        """Return lines for the terminal, in colour if the user wants it."""
        return list(self._paint(lines))

    def _paint(self, lines: Iterable[StyledLine]) -> Iterator[str]:
        return map(_painted, lines) if self._color else (one.text for one in lines)

    def _print(self, lines: Iterable[str]) -> None:
        self._write(f"{line}\n" for line in lines)

    def _write(self, pieces: Iterable[str]) -> None:
        pieces = iter(pieces)
        first = list(islice(pieces, 1))  # slow work happens before the first piece
        with self._no_progress():
            for piece in chain(first, pieces):
                try:
                    self._stream.write(piece)
                except BrokenPipeError:
                    raise ReaderGone from None
                except OSError as error:
                    raise PartlyDone(f"cannot write the answer: {reason_of(error)}") from error

    def _page(self, lines: Iterable[StyledLine]) -> None:
        """Print lines, through the pager if they do not fit on the screen."""
        command = _pager_command() if self._pager else None
        if command is None:
            self._print(self._paint(lines))
            return
        lines = iter(lines)
        first, fits = _screenful(lines)
        painted = self._paint(chain(first, lines))
        if fits:
            self._print(painted)
            return
        with self._no_progress():
            _feed(command, painted)


def _terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal."""
    from shutil import get_terminal_size  # late: it loads compressors

    return get_terminal_size()


def _screenful(lines: Iterator[StyledLine]) -> tuple[list[StyledLine], bool]:
    """Return the first lines, and whether these are all lines and fit on the screen."""
    columns, rows = _terminal_size()
    found: list[StyledLine] = []
    for one in lines:
        found.append(one)
        rows -= max(1, -(-cell_len(one.text) // columns))
        if rows < 1:
            return found, False
    return found, True


def _feed(command: str, lines: Iterable[str]) -> None:
    """Show lines in the user's pager, run by the shell as git does."""
    import subprocess

    options = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    pager = subprocess.Popen(  # noqa: S602
        command, shell=True, stdin=subprocess.PIPE, text=True, encoding="utf-8", env=options
    )
    assert pager.stdin is not None  # noqa: S101
    try:
        for line in lines:
            pager.stdin.write(line + "\n")
    except BrokenPipeError:
        pass  # the user left the pager
    finally:
        _wait(pager)


def _pager_command() -> str | None:
    command = os.environ.get("PAGER", "less").strip()
    program = command.partition(" ")[0]
    from shutil import which

    if program in {"", "cat"} or which(program) is None or os.environ.get("TERM") == "dumb":
        return None
    # The user's LESS variable may lack the option that lets colours through.
    return f"{command} -R" if os.path.basename(program) == "less" else command


def _wait(pager: Popen[str]) -> None:
    """Wait for a pager, which handles Ctrl-C itself; exiting before it would spoil the terminal."""
    assert pager.stdin is not None  # noqa: S101
    while True:
        try:
            with suppress(OSError):
                pager.stdin.close()
            pager.wait()
        except KeyboardInterrupt:
            continue
        return


def _json_line(record: Any) -> str:
    return safe_json(json_line(record))


def _json_array(records: Iterable[str]) -> Iterator[str]:
    """Yield a JSON array with one record per line, so that it can be streamed and compared."""
    line, empty = "[", True
    for record in records:
        yield line if empty else line + ","
        line, empty = record, False
    if empty:
        yield "[]"
    else:
        yield line
        yield "]"


def _below(rest: Callable[[], str] | None) -> Iterator[StyledLine]:
    if rest is not None and (text := rest()):
        yield line(safe_text(text))


def _painted(line: StyledLine) -> str:
    return "".join(
        f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if style in _ANSI else text
        for text, style in line.spans
    )


def _tsv_lines(rows: Iterable[Record], columns: Sequence[Column]) -> Iterable[str]:
    from ckpt_cli.render.table import tsv_lines  # late: JSON and text have no columns

    return tsv_lines(rows, columns)


_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The other screen of the terminal, without a cursor; what was there before comes back."""
_BEGIN, _END = "\x1b[?2026h\x1b[H", "\x1b[J\x1b[?2026l"
"""Around a frame: the terminal shows it as a whole, and removes what is below it."""
_TICK = 0.25
"""Seconds after which a new size of the terminal is noticed."""


class Redraw:
    """The screen of a terminal while it is used as a `with` block."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._keys = _Keys()
        self._size = _terminal_size()

    def measure(self) -> tuple[int, int]:
        """Return the columns and lines of the terminal, for which the next lines are drawn."""
        self._size = _terminal_size()
        return self._size

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines in place of the last ones; they must fit on the screen."""
        self._stream.write(_BEGIN + "\r\n".join(f"\x1b[K{one}" for one in lines) + _END)
        self._stream.flush()

    def wait(self, seconds: float) -> bool:
        """Wait, or until the terminal has another size than was measured. Returns whether to go
        on: no `q` came.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and _terminal_size() == self._size:
            if self._keys.ends(min(left, _TICK)):
                return False
        return True

    def __enter__(self) -> Self:
        self._keys.begin()
        self._stream.write(_ENTER)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._keys.restore()
        self._stream.write(_LEAVE)
        self._stream.flush()


class _Keys:
    """Keys that come one by one, without Enter; none if stdin is not a terminal."""

    def __init__(self) -> None:
        self._restore: Callable[[], Any] | None = None

    def begin(self) -> None:
        if not sys.stdin.isatty():
            return
        try:
            import termios
            import tty
        except ImportError:  # There is none on Windows.
            return
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        self._restore = lambda: termios.tcsetattr(number, termios.TCSADRAIN, before)
        tty.setcbreak(number)

    def restore(self) -> None:
        if self._restore is not None:
            self._restore()
            self._restore = None

    def ends(self, seconds: float) -> bool:
        """Wait for a key. Returns whether it is `q`, or the terminal is gone."""
        if self._restore is None:
            time.sleep(seconds)
            return False
        import select

        if not select.select([sys.stdin], [], [], seconds)[0]:
            return False
        typed = os.read(sys.stdin.fileno(), 64)
        return not typed or b"q" in typed or b"Q" in typed
