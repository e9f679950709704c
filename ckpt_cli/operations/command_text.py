"""The command line of an operation as it is recorded: without secrets and without values."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Any

import typer

from ckpt_backends import shell
from ckpt_backends.url import printable
from ckpt_cli.lazy import Group

_STORES = frozenset({"STORE", "URL", "[NAME=]STORE"})
"""The metavars of options that name a store, perhaps with a password."""
_VALUES = frozenset({"CHANNEL=JSON", "FIELD=VALUE", "FILTER", "THREAD:PATH", "CONTENT"})
"""The metavars of options that hold values of a store or name a person."""
_MASK = "..."


def command_text(command: Group, argv: Sequence[str]) -> str:
    """Return a command line to read, with each value of the store masked.

    The parser itself says which word is the value of an option, however it was written.
    """
    words: list[str] = []
    left: list[str] = [*argv]
    while True:
        context = typer.Context(command, **command.context_settings)
        given, left, order = command.make_parser(context).parse_args(left)
        values = {name: iter(v if isinstance(v, list) else [v]) for name, v in given.items()}
        ids: list[str] = []
        options: list[str] = []
        for one in order:
            if one.param_type_name == "option":
                options += _option(one, next(values[one.name or ""], None))
            else:
                found = given[one.name or ""]
                ids += found if isinstance(found, list | tuple) else [found]
        ids = [one for one in ids if isinstance(one, str)]
        # A word that looks like an option is none behind `--`.
        hidden = any(one.startswith("-") for one in ids)
        words += [*options, "--", *ids] if hidden else [*ids, *options]
        following = command.loaded(left[0]) if isinstance(command, Group) and left else None
        if following is None:
            return shell.command("ckpt", *words)
        words.append(left.pop(0))
        command = following


def user_name() -> str:
    """Return the name of the user of the operating system; `''` if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _option(one: Any, value: object) -> list[str]:
    """Return an option with its value, as it is printed."""
    name = one.opts[0]
    if one.is_flag or one.count or value is None:
        return [name]
    if one.metavar in _VALUES:
        return [name, _MASK]
    return [name, printable(str(value)) if one.metavar in _STORES else str(value)]
