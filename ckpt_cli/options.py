"""Options that commands share: the global ones, and those with the same meaning in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ckpt_backends.errors import UsageError
from ckpt_cli.lazy import GlobalOption

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter

FORMATS = ("auto", "table", "json", "ndjson", "tsv")
COLORS = ("auto", "always", "never")


def global_options() -> list[Parameter]:
    """The options that stand before or after any command; the later one wins."""
    return [
        _value(["-s", "--store"], "URL", "SQLite file, store URL or profile [env: CKPT_STORE]."),
        _value(["--config"], "FILE", "Read profiles from this file."),
        _value(
            ["-o", "--output"],
            "FORMAT",
            "auto, table, json, ndjson or tsv; auto is a table on a terminal, TSV in a pipe.",
            FORMATS,
        ),
        _value(["--color"], "WHEN", "auto, always or never [env: NO_COLOR].", COLORS),
        _value(
            ["--aes-key-file"],
            "FILE",
            "Decrypt values with the key in this file [env: LANGGRAPH_AES_KEY].",
        ),
        _flag(["--redact"], "Show the type and size of each value in its place."),
        _flag(["--copy"], "Read a private copy of a SQLite file and its log."),
        _flag(["--no-pager"], "Do not page long answers."),
        _flag(["--utc"], "Show times in UTC, not in this machine's zone."),
        _flag(["-q", "--quiet"], "No notes on stderr."),
        _flag(["-v", "--verbose"], "Say on stderr what was opened."),
        _flag(["--debug"], "Show the traceback of an error."),
    ]


def _value(
    names: list[str], metavar: str, text: str, choices: tuple[str, ...] | None = None
) -> Parameter:
    def keep(ctx: Context, param: Parameter, value: str | None) -> None:
        if value is None:
            return
        if choices is not None and value not in choices:
            raise typer.BadParameter(f"'{value}' is not one of {', '.join(choices)}")
        _remember(ctx, param, value)

    return GlobalOption(
        param_decls=names, metavar=metavar, help=text, callback=keep, expose_value=False
    )


def _flag(names: list[str], text: str) -> Parameter:
    def keep(ctx: Context, param: Parameter, value: bool) -> None:
        if value:
            _remember(ctx, param, value)

    return GlobalOption(
        param_decls=names, is_flag=True, help=text, callback=keep, expose_value=False
    )


def _remember(ctx: Context, param: Parameter, value: Any) -> None:
    ctx.find_root().obj.settings[param.name] = value


Thread = Annotated[
    str,
    typer.Argument(metavar="THREAD[@REF]", help="Thread id, perhaps with a checkpoint."),
]
OptionalThread = Annotated[
    str | None,
    typer.Argument(metavar="[THREAD[@REF]]", help="Thread id, perhaps with a checkpoint."),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="REF", help="The checkpoint; THREAD is then never split at '@'."),
]
Namespace = Annotated[
    str | None,
    typer.Option("--ns", metavar="NAMESPACE", help="Checkpoint namespace; the root if not given."),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="TIME", help="The head as of then: 2h, yesterday, 2026-04-07."),
]
ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit 1 if anything was found, 0 if not.")
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="STORE",
        help="What is remembered of these threads, if not in the profile or beside them.",
    ),
]
Threads = Annotated[
    str | None,
    typer.Option(
        "--threads",
        metavar="STORE",
        help="Where the threads of this memory are, if its application does not tell.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def _storable(text: str | None) -> str | None:
    """A text that a store can hold. Raises `UsageError` for one that is not UTF-8."""
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("the text is not UTF-8") from None
    return text


Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", callback=_storable, help="Kept in the new metadata."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Even if the newest checkpoint lies in the future.")
]
