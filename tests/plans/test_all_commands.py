"""Every command that changes a store saves its plan, and `ckpt apply` carries out each of them."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from ckpt_cli.app import COMMANDS, root
from ckpt_cli.commands.plan_out import TERMS, PlanTerms

OTHERS = {"apply", "tui", "trust"}
"""Commands that ask, and plan nothing by themselves."""


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield (*words, name)


def command(words: tuple[str, ...]) -> click.Command:
    found: click.Command = root()
    for word in words:
        assert isinstance(found, click.Group)
        inner = found.get_command(click.Context(found), word)
        assert inner is not None
        found = inner
    return found


ALL = list(commands(root()))
CHANGING = [
    words
    for words in ALL
    if {"dry_run", "yes", "write"} & {one.name for one in command(words).params}
    and words[0] not in OTHERS
]


def test_the_commands_are_found() -> None:
    assert {words[0] for words in ALL} == COMMANDS.keys()
    assert {("rollback",), ("purge",), ("ops", "undo"), ("memory", "edit")} <= set(CHANGING)


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_each_command_that_changes_a_store_saves_its_plan(words: tuple[str, ...]) -> None:
    found = command(words)
    terms = getattr(found.callback, TERMS, None)
    assert "plan_out" in {one.name for one in found.params}
    assert isinstance(terms, PlanTerms)
    assert terms.action == " ".join(words)
    assert terms.again <= {one.name for one in found.params}
    given_again = {one.name for one in command(("apply",)).params}
    assert terms.again <= given_again


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_no_plan_holds_a_key_or_a_server(words: tuple[str, ...]) -> None:
    """An option that names one is given again, or has no part in carrying out the plan."""
    found = command(words)
    terms: PlanTerms = getattr(found.callback, TERMS)
    named = {one.name: one.metavar for one in found.params if isinstance(one, click.Option)}
    secret = {name for name in named if name and name.endswith(("_key", "key_file"))}
    stores = {name for name, metavar in named.items() if metavar == "STORE"}
    assert {one for one in secret | stores if one} - terms.again <= {
        "aes_key_file",  # of every command: the key of the store itself
        "memory",  # only shows what came from removed threads
    }
