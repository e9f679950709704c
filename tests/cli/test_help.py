"""Help: complete, with examples, in step with the table, and quick."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ckpt_cli.app import root
from tests.kit.command import SAMPLE, ckpt

REFS = dict(root().walk())
HEAVY = {
    *("sqlite3", "textual", "ormsgpack", "xxhash", "psycopg", "redis"),
    *("langgraph", "langchain_core", "asyncio", "ckpt_cli.commands.show"),
}


@pytest.mark.parametrize("name", REFS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    *above, last = name.split()
    group: Any = root()
    for word in above:
        group = group.commands[word]
    assert group.commands[last].help == REFS[name].help.partition("\n")[0]


UNASKED = {
    *("rich", "psycopg", "Crypto", "pickletools", "asyncio"),
    *("ckpt_backends.postgres.connect", "ckpt_cli.config.profiles"),
    *("ckpt_cli.core.tree", "ckpt_cli.core.diff", "ckpt_cli.core.search", "ckpt_cli.render.tree"),
}


@pytest.mark.parametrize("name", REFS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    answer = ckpt(*name.split(), "--help")
    assert answer.code == 0
    assert "\n  ckpt " in answer.out
    assert "Global options" in answer.out


def test_one_group_has_what_erases_and_encrypts() -> None:
    group = ckpt("--help").out.partition("Erase and encrypt")[2].partition("╰")[0]
    names = [line.split()[1] for line in group.splitlines()[1:] if not line.startswith("│  ")]
    assert [one for one in names if one in REFS] == ["secrets", "erase", "rekey"]


def test_ckpt_alone_prints_its_help() -> None:
    answer = ckpt()
    assert answer.code == 2
    assert "Usage: ckpt" in answer.out


def test_no_colour_is_forced_on_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    program = "import sys; from ckpt_cli.run import run; run(sys.argv[1:])"
    for words in (["--color", "never", "show", "--help"], ["show", "-h", "--color=never"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
        )
        assert "Usage: ckpt show" in done.stdout
        assert "\x1b" not in done.stdout


def loaded_by(*words: str) -> set[str]:
    """Modules that one command line loads, in a process of its own."""
    program = (
        "import sys; from ckpt_cli.run import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    return set(done.stderr.split())


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["--bogus"], ["bogus"]], ids=lambda words: words[0]
)
def test_help_loads_no_driver_and_no_terminal_library(words: list[str]) -> None:
    assert not HEAVY & loaded_by(*words)


def test_a_commands_help_loads_no_driver() -> None:
    """Asked of one process: what one command loads is still there after the others."""
    program = (
        "import sys; from ckpt_cli.run import run\n"
        "for name in sys.argv[2:]:\n"
        "    assert run([*name.split(), '--help']) == 0\n"
        "    loaded = [one for one in sys.argv[1].split() if one in sys.modules]\n"
        "    if loaded: sys.exit(f'{name} --help loads {loaded}')"
    )
    # The decoder of msgpack is no driver: the command that looks for types needs its names.
    unasked = " ".join(HEAVY - {"ckpt_cli.commands.show", "ormsgpack"})
    words = [sys.executable, "-c", program, unasked, *REFS]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Global options") == len(REFS)


def test_show_loads_only_what_it_uses() -> None:
    loaded = loaded_by("-s", str(SAMPLE), "show", "trip-to-kyoto", "-o", "json")
    assert "ckpt_cli.commands.show" in loaded
    assert not UNASKED & loaded


def test_the_version_is_printed_without_parser_and_session() -> None:
    assert not loaded_by("--version") & {
        *("typer", "dataclasses", "inspect", "json", "pathlib", "ckpt_cli.session")
    }


ONLY_OF_CHANGES = {
    *("ckpt_backends.changes", "ckpt_backends.changes"),
    *("ckpt_backends.changes", "ckpt_backends.rows"),
    "ckpt_backends.plugins",
    *("ckpt_backends.sql.write", "ckpt_backends.codec.stored"),
    *("ckpt_cli.operations.log", "ckpt_cli.config.trust", "ckpt_cli.api.opening"),
    *("ckpt_cli.core.retention", "ckpt_cli.core.reducers", "ckpt_cli.plans.fork"),
}


@pytest.mark.parametrize(
    "words",
    [
        ["show", "trip-to-kyoto@~1"],  # at the head, it also looks for memory
        ["show", "trip-to-kyoto", "-o", "json"],
        ["threads", "list"],
        ["threads", "list", "--all"],
        ["history", "trip-to-kyoto"],
        ["interrupts"],
    ],
    ids=" ".join,
)
def test_reading_loads_nothing_of_changes(words: list[str]) -> None:
    assert not ONLY_OF_CHANGES & loaded_by("-s", str(SAMPLE), *words)


ONLY_OF_HEADS = {"ormsgpack", "ckpt_backends.codec.msgpack"}
ONLY_OF_OTHERS = {
    *("rich", "asyncio", "ckpt_backends.memory", "ckpt_cli.api.memory"),
    *("ckpt_cli.api.thread", "ckpt_cli.render.show"),
    *("ckpt_cli.core.filters", "psycopg", "redis"),
}


def test_lists_load_nothing_of_one_thread() -> None:
    loaded = loaded_by("-s", str(SAMPLE), "threads", "list")
    assert loaded >= ONLY_OF_HEADS
    assert not ONLY_OF_OTHERS & loaded


def test_lists_of_the_index_load_nothing_of_heads() -> None:
    loaded = loaded_by("-s", str(SAMPLE), "threads", "list", "--all", "-o", "json")
    assert "ckpt_cli.queries.threads" in loaded
    assert not (ONLY_OF_HEADS | ONLY_OF_OTHERS) & loaded
