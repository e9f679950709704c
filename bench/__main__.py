"""Measure `ckpt` beside other ways to do the same, and print a table: python -m bench"""

import argparse
import compileall
import hashlib
import json
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

from bench import raw
from bench.measure import CKPT, Command, Run, in_turn, run
from bench.rows import CHECKS, ROWS, Row
from bench.stores import ENGINES, Store, Stores
from tests.kit import servers

Cells = tuple[str, ...]
_ROOT = Path(__file__).parents[1]
_ADVICE = """\
The ratio is that of the shortest times. Every command runs as installed, in turn with what stands
beside it. SQLite files are kept in the folder of --data. Exit code 1: an answer was wrong; a budget
that is not met is only shown. Ctrl-C prints what was measured until then.
"""
_HEAD: Cells = ("ratio", "of CPU", "budget", "met", "what", "on", "ckpt", "beside", "memory")
_MIB = 150
"""Of memory that any command may use."""
_RATE = 2000
"""Checkpoints a second."""
_MODULES = {"typer": "typer_program", "official": "agents"}
"""Of programs that have another name."""
_TELLING = ("official", "screen")
"""Programs that measure themselves, without their imports."""


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    asked = _asked(words)
    chosen = [one for one in ROWS if not asked.only or one.group in asked.only]
    if asked.list:
        _print([(one.group, one.store, ", ".join(one.engines), one.ours) for one in chosen])
        return 0
    began, lines, wrong = monotonic(), [_HEAD], list[str]()
    with ExitStack() as stack:
        _forget_this_user(stack.enter_context(tempfile.TemporaryDirectory()))
        stores, files = Stores(stack, asked.data, small=asked.small), dict[Path, str]()
        with suppress(KeyboardInterrupt):
            for row, engine in [(one, engine) for one in chosen for engine in one.engines]:
                if asked.on and row.store and engine not in asked.on:
                    continue
                named = f"{row.ours} on {engine} {row.store}"
                print(f"{monotonic() - began:5.0f} s  {named}", file=sys.stderr, flush=True)
                try:
                    store = stores.get(row.store, engine)
                    if row.store and store.file not in files:
                        files[store.file] = _hash(store.file)
                    lines.append(_measured(row, store, stores, 1.0 if asked.small else 4.0))
                except servers.Unavailable as error:
                    wrong.append(f"not measured: {named}: {error}")
                except Exception as error:
                    traceback.print_exc()
                    wrong.append(f"WRONG: {named}: {error!r}"[:300])
        wrong += [f"WRONG: {path} changed" for path, was in files.items() if _hash(path) != was]
    took = f"{'small' if asked.small else 'full'}, {(monotonic() - began) / 60:.0f} minutes"
    print(*_machine(), took, *wrong, "", sep="\n")
    _print(lines)
    return 1 if any(one.startswith("WRONG") for one in wrong) else 0


def _asked(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=_ADVICE)
    groups = [*dict.fromkeys(one.group for one in ROWS)]
    names: Any = {"metavar": "NAME,...", "type": lambda text: text.split(","), "default": []}
    parser.add_argument("--only", **names, help=", ".join(groups))
    parser.add_argument("--on", **names, help=", ".join(ENGINES))
    parser.add_argument("--small", action="store_true", help="small stores; some minutes")
    help_of_data = "where SQLite files are kept between runs (default: bench-data)"
    data = _ROOT / "bench-data"
    parser.add_argument("--data", metavar="FOLDER", type=Path, default=data, help=help_of_data)
    parser.add_argument("--list", action="store_true", help="list what is measured and stop")
    found = parser.parse_args(words)
    if unknown := sorted({*found.only}.difference(groups) | {*found.on}.difference(ENGINES)):
        parser.error(f"no such name: {', '.join(unknown)}")
    return found


def _forget_this_user(home: str) -> None:
    """Let commands run as after an installation: with bytecode, without variables, settings and a
    log of operations of this user.
    """
    for name in [name for name in os.environ if name.startswith(("PYTHON", "CKPT_STORE"))]:
        del os.environ[name]
    os.environ.update(COLUMNS="200", XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
    for package in ("ckpt_cli", "backends/ckpt_backends", "bench"):
        compileall.compile_dir(_ROOT / package, quiet=1)


def _command(words: str, store: Store) -> Command:
    """Return the command of a command line of `rows.py`."""
    program, *rest = shlex.split(words)
    url = [store.url] if store.url and "{url}" not in words else []
    rest = [one.format(**store.facts, url=store.url) for one in rest]
    if program == "ckpt":
        return [CKPT, *(["-s", *url] if url else []), *rest]
    if program == "python":
        return [sys.executable, *rest]
    module = _MODULES.get(program, program)
    code = f"import sys; sys.path[0] = {str(_ROOT)!r}; from bench.{module} import main; main()"
    return [sys.executable, "-c", code, *rest[: len(url)], *url, *rest[len(url) :]]


def _output(words: str, store: Store) -> str:
    with tempfile.NamedTemporaryFile("r") as out:
        run(_command(words, store), out=Path(out.name), codes=(0, 1))
        return out.read()


def _measured(row: Row, store: Store, stores: Stores, seconds: float) -> Cells:
    """Return a line of the table. Raises AssertionError if an answer is wrong."""
    beginnings = (f"{words} ".startswith for words in (row.beside, row.ours))
    of = next((one for begins in beginnings for one in CHECKS if begins(f"{one} ")), None)
    if of is not None and row.group != "memory":
        ours = json.loads(_output(f"{row.ours} -o json", store))
        assert CHECKS[of](store, ours, _found(row.beside, store)), "the answer is another one"

    @contextmanager
    def made(words: str) -> Iterator[Command]:
        with stores.changed(store, row.change) if row.change else nullcontext(store) as one:
            yield _command(words, one)
            if row.change:
                _check_change(row.change, one)

    lines = [one for one in (row.ours, row.beside, row.start) if one]
    telling = [one for one in lines if one.startswith(_TELLING)]
    commands = {one: partial(made, one) for one in lines}
    return _line(row, store, in_turn(commands, row.rounds, seconds=seconds, telling=telling))


def _found(words: str, store: Store) -> list[Any]:
    """Return the threads that a raw program finds, or the lines of an official one."""
    if words.startswith("official"):
        return _output(words, store).splitlines()[:-1]  # The last one tells the time.
    if not words.startswith("raw") or words == "raw values":
        return []
    _, name, *rest = shlex.split(words.format(**store.facts))
    return list(getattr(raw, name)(store.url, *rest))


def _check_change(change: str, store: Store) -> None:
    """Assert that what was to be copied is there, or that what was to be removed is not."""
    left = {row[0]: row[1:3] for row in raw.every(store.facts.get("target", store.url))}
    assert left
    if change == "copy":
        assert left == {row[0]: row[1:3] for row in raw.every(store.url)}
    else:
        assert [name for name in left if name.startswith("old-")] == []


def _line(row: Row, store: Store, runs: Mapping[str, Run]) -> Cells:
    ours, budgets = runs[row.ours], []
    ratio, of_cpu, beside = "", "", ""
    if row.beside:
        theirs = runs[row.beside]
        ratio, of_cpu = _times(ours.seconds / theirs.seconds), _times(ours.cpu / theirs.cpu)
        beside = f"{_seconds(theirs)} {row.beside}"
        if row.most is not None:
            start = runs[row.start].seconds if row.start else 0.0
            allowed = start + row.most * max(theirs.seconds - start, 0)
            told = f"{'start + ' if row.start else ''}{row.most:.3g} x"
            budgets.append((f"{_short(allowed)}: {told}", ours.seconds <= allowed))
    if row.seconds is not None:
        budgets.append((f"{row.seconds:g} s", ours.seconds <= row.seconds))
    if row.rate:
        rate = int(store.facts[row.rate]) / ours.seconds
        budgets.append((f"{_RATE:,} a second", rate >= _RATE))
        beside = f"{rate:,.0f} checkpoints a second"
    mib = max(_MIB, row.of_value * int(store.facts.get("number", 0)))
    if row.group == "memory" or ours.mib > mib:
        budgets.append((f"{mib:.0f} MiB", ours.mib <= mib))
    return (
        *(ratio, of_cpu, ", ".join(told for told, _ in budgets)),
        *("" if not budgets else "yes" if all(met for _, met in budgets) else "NO", row.ours),
        f"{store.engine} {row.store} {store.facts.get('number', '')}",
        *(_seconds(ours), beside, f"{ours.mib:.0f} MiB"),
    )


def _times(ratio: float) -> str:
    """Return a ratio: `1.5 x`, or `1/300` where the other takes far longer."""
    return f"{ratio:.3g} x" if ratio >= 0.1 else f"1/{1 / max(ratio, 0.0001):.0f}"


def _seconds(run: Run) -> str:
    """Return the least and the median, as `120 ms / 131 ms`."""
    return " / ".join(dict.fromkeys([_short(run.seconds), _short(run.median)]))


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _print(lines: Sequence[Sequence[str]]) -> None:
    """Print a table, which is Markdown, too."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print(f"| {' | '.join(cells)} |")
        if number == 0:
            print(f"|{'|'.join('-' * (width + 2) for width in widths)}|")


def _machine() -> Iterator[str]:
    """Yield what it ran on: the machine, Python, packages, and the servers that were used."""
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = [
        f"{one} {version(one)}" for one in ("typer", "langgraph", "psycopg", "pymysql", "redis")
    ]
    yield f"{os.cpu_count()} cores, {gib:.0f} GiB of memory"
    yield f"Python {sys.version.split()[0]}, {', '.join(found)}"
    yield from (told.partition(" of /")[0] for told in servers.USED.values())


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
