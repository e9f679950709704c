"""A command group that imports a command only when it runs.

Help and completion need only the table of `CommandRef`s.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import click

Command: TypeAlias = "SectionedCommand | LazyGroup"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


class CommandRef(NamedTuple):
    """Where a command is implemented, and its line in the help."""

    target: str
    """`module:function` in `ckpt_cli.commands`, or `module:GROUP` for a group of commands."""
    summary: str
    """The first line of the command's docstring; a test compares them."""
    panel: str = "Commands"
    """The heading above it in the help."""


class NothingGiven(click.UsageError):
    """A group was called without any argument; the message is its help."""


class GlobalOption(click.Option):
    """An option of every command; the help lists these options under their own heading."""


def _show_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value and not ctx.resilient_parsing:
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP = click.Option(
    ["-h", "--help"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_help,
    help="Show this message and exit.",
)
"""As the parser would make it, but without looking for a translation, which loads `locale`."""


def spelled_out(
    words: Sequence[str], params: Iterable[click.Parameter], *, interspersed: bool
) -> list[str]:
    """Return the words of a command line with `--store` in place of `-s`, and so on.

    The parser takes each short name for a mistyped long one, and looks for similar names, which
    takes 3 ms. Words stay as they are from the first one that begins with `-` and is not just the
    name of an option, or that is no option and not `interspersed` among them.
    """
    named = {name: one for one in params if isinstance(one, click.Option) for name in one.opts}
    found, at = [*words], 0
    while at < len(found):
        option = named.get(found[at])
        if option is None:
            if found[at].startswith("-") or not interspersed:
                break
            at += 1
        elif option.is_flag or at + 1 < len(found):
            found[at] = max(option.opts, key=len)
            at += 1 if option.is_flag else 2
        else:
            break
    return found


class SectionedCommand(click.Command):
    """A command with a help that lists its own options before the global ones."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled_out(args, self.params, interspersed=True))

    def get_help_option(self, ctx: click.Context) -> click.Option:  # noqa: ARG002
        return _HELP

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help(self, ctx, formatter)


def write_help(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the usage, the text, and the sections Arguments, Options and Global options."""
    command.format_usage(ctx, formatter)
    command.format_help_text(ctx, formatter)
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    sections["Global options"] = []
    for param in command.get_params(ctx):
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


class LazyGroup(click.Group):
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
            params=[*options()],
            context_settings=HELP_NAMES,
            # Releases of the parser differ in what they do then; `parse_args` does it.
            no_args_is_help=False,
        )
        self.refs = refs
        self._options = options

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args:
            raise NothingGiven(ctx.get_help(), ctx)
        return super().parse_args(ctx, spelled_out(args, self.params, interspersed=False))

    def get_help_option(self, ctx: click.Context) -> click.Option:  # noqa: ARG002
        return _HELP

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.refs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> "Command | None":  # noqa: ARG002
        ref = self.refs.get(cmd_name)
        return None if ref is None else load_command(cmd_name, ref, self._options)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.refs:
            ctx.fail(f"no such command '{args[0]}'{_meant(args[0], self.refs)}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help(self, ctx, formatter)
        for panel, rows in groupby(self.refs.items(), lambda item: item[1].panel):
            with formatter.section(panel):
                formatter.write_dl([(name, ref.summary) for name, ref in rows])


def _meant(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known))
    return f". Did you mean {', '.join(map(repr, close))}?" if close else ""


def load_command(name: str, ref: CommandRef, options: Callable[[], list[GlobalOption]]) -> Command:
    """Import one command and add the global options."""
    module, _, attribute = ref.target.partition(":")
    found: Any = getattr(import_module(f"ckpt_cli.commands.{module}"), attribute)
    if isinstance(found, Mapping):
        return LazyGroup(name=name, refs=found, help=ref.summary, options=options)
    # Imported late: the help of a group does not need it.
    from ckpt_cli.parameters import parameters

    return SectionedCommand(
        name,
        callback=click.pass_obj(found),
        params=[*parameters(found), *options()],
        help=found.__doc__,
        context_settings=HELP_NAMES,
    )
