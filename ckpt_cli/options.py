"""Options that several commands share, and those of all commands."""

# Without `annotations` of `__future__`: each of them would be compiled twice at every start.
from functools import partial
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, CallbackParam, Context, Exit, Option

from ckpt_backends.model import Status
from ckpt_cli import __version__
from ckpt_cli.render.text import color_chosen

_Text = str | None
_AUTO, _VERSION = "table on a terminal, TSV in a pipe", "Print the version and exit."
_LARGEST = 999_999_999
"""Products of two such numbers fit into the 64 bits that databases and iterators take."""


def not_huge(value: int | None) -> int | None:
    """Return a number of at most nine digits. Raises `BadParameter`."""
    if value is not None and abs(value) > _LARGEST:
        raise BadParameter(f"{value} is too large")
    return value


def number(text: str, *names: str) -> Any:
    """Return an option that takes a number from 1 on, by its line in the help and its names."""
    return Option(*names, metavar="N", help=text, min=1, callback=not_huge)


def _keep(ctx: Context, param: CallbackParam, value: Any) -> None:
    """Store a global option in the settings of the run. Of two values, the last one holds."""
    if value in (None, False, []):
        return
    settings = ctx.find_root().obj.settings
    # Reducers before and after the command are of different channels.
    settings[param.name] = [*settings.get(param.name, ()), *value] if param.multiple else value
    if param.name == "color":
        # Progress bars are drawn where no session is at hand.
        color_chosen.set(value)


def _option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    """Return an option by what it takes, its line in the help, and its names."""
    return Option(*names, metavar=metavar, help=text, **more)


_shared = partial(_option, callback=_keep, expose_value=False, rich_help_panel="Global options")
"""Makes an option of every command, allowed before and after its name."""


def _show_version(value: bool) -> None:
    if value:
        print(f"ckpt {__version__}")  # noqa: T201
        raise Exit


def global_options(
    ctx: Context,
    store: Annotated[
        _Text,
        _shared("URL", "SQLite file, store URL or profile [env: CKPT_STORE].", "-s", "--store"),
    ] = None,
    config: Annotated[_Text, _shared("FILE", "Read profiles from this file.", "--config")] = None,
    output: Annotated[
        Literal["auto", "table", "json", "ndjson", "tsv"] | None,
        _shared(
            "FORMAT", "auto, table, json, ndjson or tsv.", "-o", "--output", show_default=_AUTO
        ),
    ] = None,
    color: Annotated[
        Literal["auto", "always", "never"] | None,
        _shared("WHEN", "auto, always or never [env: NO_COLOR].", "--color"),
    ] = None,
    aes_key_file: Annotated[
        _Text, _shared("FILE", "Decrypt with this key [env: LANGGRAPH_AES_KEY].", "--aes-key-file")
    ] = None,
    reducer: Annotated[
        list[str] | None,
        _shared("CHANNEL=NAME", "Reducer of a channel, not inferred; repeatable.", "--reducer"),
    ] = None,
    library: Annotated[
        _Text,
        _shared(
            "VERSION",
            "Rebuild values as this LangGraph does.",
            "--library",
            show_default="the newest",
        ),
    ] = None,
    user_key: Annotated[
        _Text,
        _shared(
            "PATH",
            "Where the user is: metadata.KEY or values.CHANNEL.",
            "--user-key",
            show_default="the usual keys",
        ),
    ] = None,
    redact: Annotated[
        bool, _shared("", "Show the type and size of values instead of the values.", "--redact")
    ] = False,
    audit: Annotated[
        _Text, _shared("FILE", "Append each change to FILE; see `ops verify`.", "--audit")
    ] = None,
    copy: Annotated[
        bool, _shared("", "Read a private copy of a SQLite file and its log.", "--copy")
    ] = False,
    no_pager: Annotated[bool, _shared("", "Do not use a pager.", "--no-pager")] = False,
    utc: Annotated[bool, _shared("", "Show times in UTC, not in local time.", "--utc")] = False,
    quiet: Annotated[bool, _shared("", "Print no notes on stderr.", "-q", "--quiet")] = False,
    verbose: Annotated[
        bool, _shared("", "Print on stderr which store was opened.", "-v", "--verbose")
    ] = False,
    debug: Annotated[bool, _shared("", "Print the traceback of an error.", "--debug")] = False,
    version: Annotated[
        bool, _shared("", _VERSION, "--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Options of every command. Callbacks keep them, since they may stand behind its name."""
    if ctx.invoked_subcommand is None:
        from ckpt_cli.commands.overview import overview

        overview(ctx)


Thread = Annotated[
    str, Argument(metavar="THREAD[@REF]", help="Thread id, optionally with a checkpoint.")
]
OptionalThread = Annotated[
    _Text, Argument(metavar="THREAD[@REF]", help="Thread id, optionally with a checkpoint.")
]
At = Annotated[_Text, _option("REF", "Checkpoint; use it if the thread id contains '@'.", "--at")]
Namespace = Annotated[
    _Text, _option("NAMESPACE", "Checkpoint namespace. [default: the root]", "--ns")
]
AsOf = Annotated[
    _Text,
    _option(
        "TIME",
        "Read the store as it was at TIME: 2h, friday 14:00.",
        "--as-of",
        callback=_keep,
        expose_value=False,
    ),
]
"""The store of the run, and its clock, are then those of that time."""
NewGraph = Annotated[
    _Text,
    _option(
        "NEW",
        "The graph to be deployed, as `ckpt compat --help` says.",
        "--compat",
        callback=_keep,
        expose_value=False,
    ),
]
OldGraph = Annotated[
    _Text,
    _option(
        "OLD",
        "With --compat: the deployed graph.",
        "--compat-from",
        callback=_keep,
        expose_value=False,
    ),
]
HeadAt = Annotated[
    _Text, _option("TIME", "The head at TIME, such as 2h, yesterday or 2026-04-07.", "--as-of")
]
Match = Annotated[
    _Text, _option("GLOB", "Only thread ids matching GLOB, such as 'user-*'.", "--match")
]
Where = Annotated[
    list[str] | None,
    _option(
        "FILTER", "Only threads that match FILTER, such as 'status = error'; repeatable.", "--where"
    ),
]
User = Annotated[_Text, _option("NAME", "Only threads of this user.", "--user")]
Statuses = Annotated[
    list[Status] | None,
    _option(
        "STATUS", f"Only threads with this status: {', '.join(Status)}; repeatable.", "--status"
    ),
]
Channels = Annotated[
    list[str] | None, _option("CHANNEL", "Only this channel; repeatable.", "--channel")
]
Jobs = Annotated[int, _option("N", "Use N processes.", "--jobs", min=1, max=64)]
Cluster = Annotated[
    _Text, _option("ADDRESS", "Use the workers of this Dask scheduler.", "--cluster")
]
ExitCode = Annotated[bool, _option("", "Exit with 1 if anything is found.", "--exit-code")]
Summary = Annotated[
    bool, _option("", "Print one line with the numbers, for a chat or a cron job.", "--summary")
]
Memory = Annotated[
    _Text, _option("STORE", "Where the threads' memory is. [default: from the profile]", "--memory")
]
Threads = Annotated[
    _Text,
    _option("STORE", "Where the memory's threads are. [default: from the profile]", "--threads"),
]
DryRun = Annotated[bool, _option("", "Show the plan; write nothing.", "--dry-run")]
Yes = Annotated[bool, _option("", "Do not ask for confirmation.", "--yes")]


Force = Annotated[
    bool, _option("", "Proceed even if the newest checkpoint is dated in the future.", "--force")
]


def with_user(where: list[str] | None, user: str | None) -> list[str]:
    """Return the filters of --where and --user."""
    if user is None:
        return where or []
    # Late: most runs have no filter.
    from ckpt_cli.core.filters import equal, format_filter

    return [*(where or ()), format_filter(equal("user", user))]
