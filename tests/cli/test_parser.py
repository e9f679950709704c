"""What is said about wrong command lines."""

from __future__ import annotations

import pytest

from ckpt_cli import __version__
from tests.kit.command import ckpt

WRONG = {
    "show --chanel x": "no such option: --chanel (Possible options: --channel, --help)",
    "-Z": "no such option: -Z",
    "shwo": "no such command 'shwo'. Did you mean 'show'?",
    "threads lst": "no such command 'lst'. Did you mean 'list'?",
    "blame trip": "missing argument 'CHANNEL[.PATH]'",
    "import": "missing argument 'FILE'",
    "memory edit key": "missing option '--set'",
    "-q": "missing command",
    "show --channel": "option '--channel' requires an argument",
    "threads list --match": "option '--match' requires an argument",
    "threads list --all=3": "option '--all' does not take a value",
    "threads list extra": "got unexpected extra argument(s) (extra)",
    "threads list -n x": "invalid value for '-n' / '--limit': Input should be a valid integer, "
    "unable to parse string as an integer",
    "threads list -n 0": "invalid value for '-n' / '--limit': Input should be greater "
    "than or equal to 1",
    "threads list -n 1000000000": "invalid value for '-n' / '--limit': 1000000000 is too large",
    "tail --interval x": "invalid value for '--interval': Input should be a valid number, "
    "unable to parse string as a number",
    "threads list --color red": "invalid value for '--color': 'red' is not one of 'auto', "
    "'always', 'never'",
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
    assert (answer.code, answer.err) == (2, "")
    assert answer.out.strip() == ckpt(*group.split(), "--help").out.strip()
