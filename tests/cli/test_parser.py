"""What the parser says does not depend on its release: `click` 8.1 and later."""

from __future__ import annotations

import itertools

import click
import pytest

from ckpt_cli import __version__
from ckpt_cli.lazy import spelled_out
from tests.support import ckpt

WRONG = {
    "show --chanel x": "no such option: --chanel (Possible options: --channel, --help)",
    "-Z": "no such option: -Z",
    "shwo": "no such command 'shwo'. Did you mean 'show'?",
    "threads lst": "no such command 'lst'. Did you mean 'list'?",
    "blame trip": "missing argument 'CHANNEL[.PATH]'",
    "import": "missing argument 'FILE...'",
    "memory edit key": "missing option '--set'",
    "-q": "missing command",
    "show --channel": "option '--channel' requires an argument",
    "threads list --match": "option '--match' requires an argument",
    "threads list --all=3": "option '--all' does not take a value",
    "threads list extra": "got unexpected extra argument (extra)",
    "threads list -n x": "invalid value for '-n' / '--limit': 'x' is not a valid whole number",
    "threads list -n 0": "invalid value for '-n' / '--limit': 0 is not in the range x>=1",
    "threads list -n 1000000000": "invalid value for '-n' / '--limit': 1000000000 is too large",
    "tail --interval x": "invalid value for '--interval': 'x' is not a valid number",
    "threads list --color red": "invalid value for '--color': 'red' is not one of auto, always, "
    "never",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_command_line_is_told_in_one_line(words: str) -> None:
    answer = ckpt(*words.split())
    assert answer.code == 2
    line, hint, *more = answer.err.splitlines()
    assert (line, more) == (f"ckpt: {WRONG[words]}", [])
    assert hint.startswith("hint: see `ckpt")


@pytest.mark.parametrize("words", ["--version", "--utc --version", "--version threads"])
def test_the_version(words: str) -> None:
    answer = ckpt(*words.split())
    assert (answer.code, answer.out, answer.err) == (0, f"ckpt {__version__}\n", "")


@pytest.mark.parametrize("group", ["", "threads", "memory"])
def test_a_group_alone_prints_its_help(group: str) -> None:
    answer = ckpt(*group.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == ckpt(*group.split(), "--help").out


PARAMS = [
    click.Option(["-s", "--store"]),
    click.Option(["-q", "--quiet"], is_flag=True),
    click.Option(["--all"], is_flag=True),
    click.Option(["--at"]),
    click.Argument(["words"], nargs=-1),
]
WORDS = ["-s", "-q", "--store", "--all", "--at", "--store=-s", "-qs", "-sx", "--", "-", "-x", "w"]


def _parsed(words: list[str], *, interspersed: bool) -> object:
    settings = {"allow_interspersed_args": interspersed}
    command = click.Command("all", params=PARAMS, context_settings=settings)
    try:
        found = command.make_context("all", words)
    except click.UsageError as error:
        return error.format_message()
    return found.params


@pytest.mark.parametrize("interspersed", [True, False])
@pytest.mark.parametrize("count", range(4))
def test_names_that_are_spelled_out_mean_the_same(count: int, interspersed: bool) -> None:
    changed = 0
    for words in map(list, itertools.product(WORDS, repeat=count)):
        written = spelled_out(words, PARAMS, interspersed=interspersed)
        if written != words:
            changed += 1
            expected = _parsed([*words], interspersed=interspersed)
            assert _parsed(written, interspersed=interspersed) == expected, words
    assert changed or count == 0
