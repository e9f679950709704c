"""Measure `ckpt` beside other ways to get the same, and print a table: python -m tests.bench"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from tests import servers
from tests.bench.declared import Subject
from tests.bench.machine import described
from tests.bench.report import report, write
from tests.bench.runner import measured
from tests.bench.sizes import FULL, SMALL
from tests.bench.stores import CACHE, Stores
from tests.bench.subjects.every import SUBJECTS
from tests.bench.table import Row

_ADVICE = """\
The ratio is that of the shortest times. Every command runs as installed, in turn with what stands
beside it. Stores and the peer are kept in bench-data. Exit code 1: an answer was wrong; a budget
that is not met is only shown. Ctrl-C prints what was measured until then.
"""


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    asked = _asked(words)
    if asked.list:
        print(
            "\n".join(f"{one.name:12} {len(one.measurements):3}  {one.about}" for one in SUBJECTS)
        )
        return 0
    chosen = [one for one in SUBJECTS if not asked.only or one.name in asked.only]
    size, began = SMALL if asked.small else FULL, monotonic()
    tables: list[tuple[Subject, list[Row]]] = []
    wrong: list[str] = []
    missing: list[str] = []
    before: dict[Path, str] = {}
    with _as_installed(), Stores(size, _say) as stores, suppress(KeyboardInterrupt):
        for subject in chosen:
            rows: list[Row] = []
            tables.append((subject, rows))
            for one in subject.measurements:
                if not one.store.startswith(asked.on):
                    continue
                _say(f"{monotonic() - began:5.0f} s  {subject.name}: {one.what} on {one.store}")
                try:
                    made = stores.get(one.store)
                    is_file = made.engine.startswith("SQLite") and not subject.grows
                    if is_file and not one.changes and made.path not in before:
                        before[made.path] = _hash(made.path)
                    rows += measured(one, made, seconds=_SECONDS[asked.small])
                except servers.Unavailable as error:
                    missing.append(f"not measured: {one.store}: {error}")
                except Exception as error:
                    traceback.print_exc()
                    wrong.append(f"WRONG: {one.what} on {one.store}: {error!r}"[:_MOST])
    machine = [*described()]
    wrong += _changed(before)
    took = monotonic() - began
    head = [
        *machine,
        f"Size: {size.name}; {took / 60:.0f} minutes.",
        *dict.fromkeys(missing),
        *wrong,
    ]
    text = report(head, tables, markdown=asked.markdown is not None)
    if asked.markdown not in {None, "-"}:
        write(Path(asked.markdown), text)
    else:
        sys.stdout.write(text)
    return 1 if wrong else 0


_MOST = 300
"""Characters of a complaint."""
_SECONDS = {False: 4.0, True: 1.0}
"""After this time, no further round of a measurement begins."""


def _asked(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=_ADVICE, usage="%(prog)s [options]"
    )
    names = [one.name for one in SUBJECTS]
    parser.add_argument(
        "--only",
        metavar="NAMES",
        type=lambda text: text.split(","),
        help=f"subjects with commas between: {', '.join(names)}",
    )
    parser.add_argument(
        "--on",
        metavar="STORES",
        type=lambda text: tuple(text.split(",")),
        default=("",),
        help="only stores whose names begin with one of these, such as sqlite,postgres",
    )
    parser.add_argument("--small", action="store_true", help="small stores; a few minutes")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        help="write Markdown to FILE, or to stdout for -; a FILE with <!-- bench --> and"
        " <!-- end --> keeps the rest",
    )
    parser.add_argument("--list", action="store_true", help="list the subjects and stop")
    found = parser.parse_args(words)
    if unknown := sorted({*(found.only or ())}.difference(names)):
        parser.error(f"no such subject: {', '.join(unknown)}")
    return found


@contextmanager
def _as_installed() -> Iterator[None]:
    """Measure as after a plain install: with bytecode, and without environment variables of this
    machine.
    """
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("PYTHON", "CKPT_STORE"))]:
        del os.environ[name]
    os.environ.update(PYTHONPYCACHEPREFIX=str(CACHE / "bytecode"), COLUMNS="200")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _changed(before: Mapping[Path, str]) -> Iterator[str]:
    """Yield complaints of files of which a byte changed: nobody may, not even the peer."""
    for path, known in before.items():
        if _hash(path) != known:
            yield f"WRONG: a command that only reads changed {path.name}"


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
