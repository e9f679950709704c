"""A command group that imports a command only when it runs.

Help and completion need only the table of `CommandRef`s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import groupby
from typing import Any, TypeAlias, cast, get_type_hints

import typer
import typer.core
import typer.main

# `Any` below stands for types of the parser that Typer shows under private names only.
Command: TypeAlias = "typer.core.TyperCommand | LazyGroup"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class CommandRef:
    """Where a command is implemented, and its line in the help."""

    target: str
    """`module:function` in `ckpt_cli.commands`, or `module:GROUP` for a group of commands."""
    summary: str
    """The first line of the command's docstring; a test compares them."""
    panel: str = "Commands"
    """The heading above it in the help."""


class GlobalOption(typer.core.TyperOption):
    """An option of every command; the help lists these options under their own heading."""


class SectionedCommand(typer.core.TyperCommand):
    """A command with a help that lists its own options before the global ones."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self.get_params(ctx), ctx, formatter)


def write_options(params: Sequence[Any], ctx: Any, formatter: Any) -> None:
    """Write the sections Arguments, Options and Global options."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    sections["Global options"] = []
    for param in params:
        record = param.get_help_record(ctx)
        if record is None:
            continue
        if isinstance(param, GlobalOption):
            sections["Global options"].append(record)
        else:
            argument = param.param_type_name == "argument"
            sections["Arguments" if argument else "Options"].append(record)
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class LazyGroup(typer.core.TyperGroup):
    """Commands by name; each is imported when it is called."""

    def __init__(
        self,
        *,
        name: str,
        refs: Mapping[str, CommandRef],
        help: str,  # noqa: A002 - click's name for it
        options: Callable[[], list[GlobalOption]],
    ) -> None:
        super().__init__(
            name=name,
            help=help,
            rich_markup_mode=None,
            no_args_is_help=True,
            params=options(),
            context_settings=HELP_NAMES,
        )
        self.refs = refs
        # "Did you mean" uses only the keys.
        self.commands = dict.fromkeys(refs, self)
        self._options = options

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.refs)

    def get_command(self, ctx: Any, cmd_name: str) -> Command | None:  # noqa: ARG002
        ref = self.refs.get(cmd_name)
        return None if ref is None else load_command(cmd_name, ref, self._options)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for panel, rows in groupby(self.refs.items(), lambda item: item[1].panel):
            with formatter.section(panel):
                formatter.write_dl([(name, ref.summary) for name, ref in rows])


def load_command(name: str, ref: CommandRef, options: Callable[[], list[GlobalOption]]) -> Command:
    """Import one command and add the global options."""
    module, _, attribute = ref.target.partition(":")
    found: Any = getattr(import_module(f"ckpt_cli.commands.{module}"), attribute)
    if isinstance(found, Mapping):
        return LazyGroup(name=name, refs=found, help=ref.summary, options=options)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=SectionedCommand, context_settings=HELP_NAMES)(_parsed(found))
    command = cast("typer.core.TyperCommand", typer.main.get_command(single))
    command.params.extend(options())
    return command


def _parsed(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as the parser calls it: with a context, which holds the session."""
    hints = get_type_hints(command, include_extras=True)
    _, *options = signature(command).parameters.values()
    for one in options:
        (info,) = hints[one.name].__metadata__
        if hints[one.name].__origin__ is bool and info.default is ...:  # it has no names
            info.param_decls = (f"--{one.name.replace('_', '-')}",)  # and no `--no-`

    @wraps(command)
    def run(ctx: typer.Context, **values: Any) -> None:
        command(ctx.obj, **values)

    params = [one.replace(annotation=hints[one.name]) for one in options]
    context = Parameter("ctx", Parameter.POSITIONAL_ONLY, annotation=typer.Context)
    run.__signature__ = Signature([context, *params])  # type: ignore[attr-defined]
    run.__annotations__ = {"ctx": typer.Context, **hints}
    return run
