"""Every command that changes a store saves its plan, and `ckpt apply` carries out each of them."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_cli.app import root
from ckpt_cli.commands.plan_out import TERMS, PlanTerms

OTHERS = {"apply", "tui", "trust"}
"""Commands that ask, and plan nothing by themselves."""


ALL = {tuple(name.split()): found for name, found in root().walk()}


def command(words: tuple[str, ...]) -> Any:
    return ALL[words]


CHANGING = [
    words
    for words in ALL
    if {"dry_run", "yes", "write"} & {one.name for one in command(words).params}
    and words[0] not in OTHERS
]


def test_the_commands_are_found() -> None:
    assert {words[0] for words in ALL} == root().commands.keys()
    assert {("rollback",), ("purge",), ("undo",), ("memory", "edit")} <= set(CHANGING)


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
    named = {one.name: one.metavar for one in found.params if one.param_type_name == "option"}
    secret = {name for name in named if name and name.endswith(("_key", "key_file"))}
    stores = {name for name, metavar in named.items() if metavar == "STORE"}
    assert {one for one in secret | stores if one} - terms.again <= {
        "aes_key_file",  # of every command: the key of the store itself
        "memory",  # only shows what came from removed threads
    }
