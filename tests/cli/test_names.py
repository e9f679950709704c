"""One name for one thing in all commands, and help in plain words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.app import root
from tests.kit.command import ckpt

METAVARS = {
    **dict.fromkeys(("--older-than", "--keep-within", "--grace"), "AGE"),
    **dict.fromkeys(("--since", "--until", "--as-of"), "TIME"),
    **dict.fromkeys(("--limit", "--page", "--top", "--jobs"), "N"),
    **{"--match": "GLOB", "--ns": "NAMESPACE", "--channel": "CHANNEL", "--reason": "TEXT"},
    "--memory": "STORE",
    "--threads": "STORE",
}
"""What an option with a value is called in each command that has it."""
STUMBLED_OVER = re.compile(
    r"\b(so many|whose|of its own|the room|may be repeated|as (it|[a-z]+) has it)\b", re.IGNORECASE
)


ROOT = root()
COMMANDS = dict(ROOT.walk())


OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if option.param_type_name == "option" and option not in ROOT.params
]
IDS = [f"{name} {max(option.opts, key=len)}" for name, option in OPTIONS]


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=IDS)
def test_an_option_has_the_same_name_and_value_everywhere(name: str, option: Any) -> None:
    flag, metavar = max(option.opts, key=len), option.metavar
    if option.is_flag:
        return
    assert metavar is not None, "it would be shown as <str> or <int range>"
    assert METAVARS.get(flag, metavar) == metavar


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=IDS)
def test_the_help_of_an_option_is_a_short_sentence(name: str, option: Any) -> None:
    text = option.help or ""
    assert text[:1].isupper()
    assert text.endswith((".", "]"))
    assert STUMBLED_OVER.search(text) is None


EXISTING = {name for _, option in OPTIONS for name in option.opts}
EXISTING |= {name for option in ROOT.params for name in option.opts} | {"--help"}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=list(COMMANDS))
def test_the_help_of_a_command_is_in_plain_words(command: Any) -> None:
    assert STUMBLED_OVER.search(command.help) is None
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", command.help))
    assert named <= EXISTING


@pytest.mark.parametrize(
    "words",
    [
        ["diff", "trip-to-kyoto", "--channel", "nosuch"],
        ["diff", "trip-to-kyoto", "--writes", "--channel", "nosuch"],
        ["grep", "Kyoto", "trip-to-kyoto", "--ns", "nosuch"],
    ],
    ids=" ".join,
)
def test_a_channel_or_namespace_that_nothing_has_is_refused(words: list[str], sample: Path) -> None:
    answer = ckpt("-s", sample, *words)
    assert answer.code == 3
    assert "'nosuch' in" in answer.err


@pytest.mark.parametrize("channel", ["messages", "__interrupt__", "nosuch"])
def test_a_search_tells_of_a_channel_that_nothing_has(channel: str, sample: Path) -> None:
    answer = ckpt("-s", sample, "grep", "xyzzy", "--channel", channel)
    assert answer.code == 1
    assert ("no channel" in answer.err) == (channel == "nosuch")
