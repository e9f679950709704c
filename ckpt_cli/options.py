"""Options that several commands share, and the global options of all commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, get_annotations
from typing import Annotated, Any, TypeVar, dataclass_transform

import click

from ckpt_backends.errors import UsageError
from ckpt_cli import color
from ckpt_cli.lazy import GlobalOption
from ckpt_cli.parameters import ParameterHelp
from ckpt_cli.session import Session

OptionsT = TypeVar("OptionsT")

FORMATS = ("auto", "table", "json", "ndjson", "tsv")
COLORS = ("auto", "always", "never")


def global_options() -> list[GlobalOption]:
    """Return the options allowed before and after any command; if given twice, the last one
    wins.
    """
    return [
        _value(["-s", "--store"], "URL", "SQLite file, store URL or profile [env: CKPT_STORE]."),
        _value(["--config"], "FILE", "Read profiles from this file."),
        _value(
            ["-o", "--output"],
            "FORMAT",
            "auto, table, json, ndjson or tsv. [default: table on a terminal, TSV in a pipe]",
            FORMATS,
        ),
        _value(["--color"], "WHEN", "auto, always or never [env: NO_COLOR].", COLORS),
        _value(
            ["--aes-key-file"],
            "FILE",
            "Decrypt values with the key in this file [env: LANGGRAPH_AES_KEY].",
        ),
        GlobalOption(
            param_decls=["--reducer"],
            metavar="CHANNEL=NAME",
            help="Reducer of a channel, not inferred; repeatable.",
            multiple=True,
            callback=_keep_all,
            expose_value=False,
        ),
        _value(
            ["--library"],
            "VERSION",
            "Rebuild values as this release of LangGraph does. [default: the newest]",
        ),
        _flag(["--redact"], "Show the type and size of values instead of the values."),
        _value(["--audit"], "FILE", "Append each change to FILE, as a chain of hashes."),
        _flag(["--copy"], "Read a private copy of a SQLite file and its log."),
        _flag(["--no-pager"], "Do not use a pager."),
        _flag(["--utc"], "Show times in UTC. [default: local time]"),
        _flag(["-q", "--quiet"], "Print no notes on stderr."),
        _flag(["-v", "--verbose"], "Print on stderr which store was opened."),
        _flag(["--debug"], "Print the traceback of an error."),
    ]


def argument(metavar: str, text: str) -> ParameterHelp:
    """Return an argument of a command, with its line in the help."""
    return ParameterHelp(text, metavar, positional=True)


def flag(text: str, *names: str) -> ParameterHelp:
    """Return an option without a value; without names, it has the name of its parameter."""
    return ParameterHelp(text, names=names)


def option(metavar: str, text: str, *names: str, **more: Any) -> ParameterHelp:
    """Return an option with a value; without names, it has the name of its parameter.

    `more` are `min`, `max` and `check` of `ParameterHelp`.
    """
    return ParameterHelp(text, metavar, names, **more)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def command_options(options: type[OptionsT]) -> type[OptionsT]:
    """Let the options of a command be made from their values by name.

    The type checker takes the class for a frozen dataclass. A dataclass would compile its methods
    at each start, which takes a millisecond.
    """
    options.__init__ = _keep_values  # type: ignore[assignment]
    return options


def _keep_values(options: object, **values: Any) -> None:
    for name, value in values.items():
        setattr(options, name, value)


def takes(
    options: type[OptionsT],
) -> Callable[[Callable[[Session, OptionsT], None]], Callable[..., None]]:
    """Return a decorator for a command that takes `command_options`: each attribute with a type is
    an option of it.
    """
    params = [Parameter("session", Parameter.POSITIONAL_ONLY)]
    for one in reversed(options.__mro__):
        for name, hint in get_annotations(one, eval_str=True).items():
            default = getattr(options, name, Parameter.empty)
            params.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint))

    def decorate(command: Callable[[Session, OptionsT], None]) -> Callable[..., None]:
        @wraps(command)
        def run(session: Session, **values: Any) -> None:
            command(session, options(**values))

        run.__signature__ = Signature(params)  # type: ignore[attr-defined]
        return run

    return decorate


def _value(
    names: list[str], metavar: str, text: str, choices: tuple[str, ...] | None = None
) -> GlobalOption:
    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is None:
            return
        if choices is not None and value not in choices:
            raise click.BadParameter(f"'{value}' is not one of {', '.join(choices)}")
        _remember(ctx, param, value)

    return GlobalOption(
        param_decls=names, metavar=metavar, help=text, callback=keep, expose_value=False
    )


def _keep_all(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> None:
    """Add the values to those that stand before the command."""
    if values:
        earlier = ctx.find_root().obj.settings.get(param.name, ())
        _remember(ctx, param, (*earlier, *values))


def _flag(names: list[str], text: str) -> GlobalOption:
    def keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            _remember(ctx, param, value)

    return GlobalOption(
        param_decls=names, is_flag=True, help=text, callback=keep, expose_value=False
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.find_root().obj.settings[param.name] = value
    if param.name == "color":
        # Progress bars are drawn where no session is at hand.
        color.chosen.set(value)


Thread = Annotated[str, argument("THREAD[@REF]", "Thread id, optionally with a checkpoint.")]
OptionalThread = Annotated[
    str | None, argument("[THREAD[@REF]]", "Thread id, optionally with a checkpoint.")
]
MoreThreads = Annotated[
    list[str] | None, argument("[THREAD[@REF]]...", "More threads; then each word is a thread.")
]
At = Annotated[
    str | None, option("REF", "Checkpoint; use it if the thread id contains '@'.", "--at")
]
Namespace = Annotated[
    str | None, option("NAMESPACE", "Checkpoint namespace. [default: the root]", "--ns")
]
AsOf = Annotated[
    str | None, option("TIME", "The head at TIME, such as 2h, yesterday or 2026-04-07.", "--as-of")
]
Match = Annotated[
    str | None, option("GLOB", "Only thread ids matching GLOB, such as 'user-*'.", "--match")
]
Where = Annotated[
    list[str] | None,
    option(
        "FILTER",
        "Only threads that match FILTER, such as 'status = error'; repeatable.",
        "--where",
    ),
]
Channels = Annotated[
    list[str] | None, option("CHANNEL", "Only this channel; repeatable.", "--channel")
]
Jobs = Annotated[int, option("N", "Use N processes.", "--jobs", min=1, max=64)]
Cluster = Annotated[
    str | None, option("ADDRESS", "Use the workers of this Dask scheduler.", "--cluster")
]
ExitCode = Annotated[bool, flag("Exit with 1 if anything is found.", "--exit-code")]
Summary = Annotated[
    bool, flag("Print one line with the numbers, for a chat or a cron job.", "--summary")
]
Memory = Annotated[
    str | None,
    option(
        "STORE",
        "Long-term memory of these threads. [default: from the profile or DeerFlow]",
        "--memory",
    ),
]
Threads = Annotated[
    str | None,
    option(
        "STORE",
        "Store of the threads of this memory. [default: from the profile or DeerFlow]",
        "--threads",
    ),
]
DryRun = Annotated[bool, flag("Show the plan; write nothing.", "--dry-run")]
Yes = Annotated[bool, flag("Do not ask for confirmation.", "--yes")]


def _storable(text: str | None) -> str | None:
    """Return the text. Raises `UsageError` if it is not UTF-8 and so cannot be stored."""
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("cannot store the text: it is not UTF-8") from None
    return text


Reason = Annotated[
    str | None, option("TEXT", "Record TEXT in the new metadata.", "--reason", check=_storable)
]
Force = Annotated[
    bool, flag("Proceed even if the newest checkpoint is dated in the future.", "--force")
]
