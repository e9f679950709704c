"""Options that several commands share, and those of all commands."""

# Without `annotations` of `__future__`: each of them would be compiled twice at every start.
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, CallbackParam, Context, Exit, Option

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status
from ckpt_cli import __version__, color

_Text = str | None
_AUTO, _VERSION = "table on a terminal, TSV in a pipe", "Print the version and exit."
_LARGEST = 999_999_999
"""Products of two such numbers fit into the 64 bits that databases and iterators take."""


def not_huge(value: int | None) -> int | None:
    """Return a number of at most nine digits. Raises `BadParameter`."""
    if value is not None and abs(value) > _LARGEST:
        raise BadParameter(f"{value} is too large")
    return value


def _keep(ctx: Context, param: CallbackParam, value: Any) -> None:
    """Store a global option in the settings of the run. Of two values, the last one holds."""
    if value in (None, False, []):
        return
    settings = ctx.find_root().obj.settings
    # Reducers before and after the command are of different channels.
    settings[param.name] = [*settings.get(param.name, ()), *value] if param.multiple else value
    if param.name == "color":
        # Progress bars are drawn where no session is at hand.
        color.chosen.set(value)


def _shared(metavar: str, text: str, *names: str, default: str | bool = True) -> Any:
    """Return an option of every command, allowed before and after its name."""
    return Option(
        *names,
        metavar=metavar,
        help=text,
        show_default=default,
        callback=_keep,
        expose_value=False,
        rich_help_panel="Global options",
    )


def _show_version(value: bool) -> None:
    if value:
        print(f"ckpt {__version__}")  # noqa: T201
        raise Exit


def global_options(
    store: Annotated[
        _Text,
        _shared("URL", "SQLite file, store URL or profile [env: CKPT_STORE].", "-s", "--store"),
    ] = None,
    config: Annotated[_Text, _shared("FILE", "Read profiles from this file.", "--config")] = None,
    output: Annotated[
        Literal["auto", "table", "json", "ndjson", "tsv"] | None,
        _shared("FORMAT", "auto, table, json, ndjson or tsv.", "-o", "--output", default=_AUTO),
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
            "VERSION", "Rebuild values as this LangGraph does.", "--library", default="the newest"
        ),
    ] = None,
    redact: Annotated[
        bool, _shared("", "Show the type and size of values instead of the values.", "--redact")
    ] = False,
    audit: Annotated[
        _Text, _shared("FILE", "Append each change to FILE, as a chain of hashes.", "--audit")
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
        bool,
        Option(
            "--version", callback=_show_version, is_eager=True, expose_value=False, help=_VERSION
        ),
    ] = False,
) -> None:
    """Options of every command. Callbacks keep them, since they may stand behind its name."""


Thread = Annotated[
    str, Argument(metavar="THREAD[@REF]", help="Thread id, optionally with a checkpoint.")
]
OptionalThread = Annotated[
    str | None, Argument(metavar="THREAD[@REF]", help="Thread id, optionally with a checkpoint.")
]
MoreThreads = Annotated[
    list[str] | None,
    Argument(metavar="THREAD[@REF]", help="More threads; then each word is a thread."),
]
At = Annotated[
    str | None,
    Option("--at", metavar="REF", help="Checkpoint; use it if the thread id contains '@'."),
]
Namespace = Annotated[
    str | None,
    Option("--ns", metavar="NAMESPACE", help="Checkpoint namespace. [default: the root]"),
]
AsOf = Annotated[
    str | None,
    Option(
        "--as-of", metavar="TIME", help="The head at TIME, such as 2h, yesterday or 2026-04-07."
    ),
]
Match = Annotated[
    str | None,
    Option("--match", metavar="GLOB", help="Only thread ids matching GLOB, such as 'user-*'."),
]
Where = Annotated[
    list[str] | None,
    Option(
        "--where",
        metavar="FILTER",
        help="Only threads that match FILTER, such as 'status = error'; repeatable.",
    ),
]
Statuses = Annotated[
    list[Status] | None,
    Option(
        "--status",
        metavar="STATUS",
        help=f"Only threads with this status: {', '.join(Status)}; repeatable.",
    ),
]
Channels = Annotated[
    list[str] | None, Option("--channel", metavar="CHANNEL", help="Only this channel; repeatable.")
]
Jobs = Annotated[int, Option("--jobs", metavar="N", help="Use N processes.", min=1, max=64)]
Cluster = Annotated[
    str | None,
    Option("--cluster", metavar="ADDRESS", help="Use the workers of this Dask scheduler."),
]
ExitCode = Annotated[bool, Option("--exit-code", help="Exit with 1 if anything is found.")]
Summary = Annotated[
    bool, Option("--summary", help="Print one line with the numbers, for a chat or a cron job.")
]
Memory = Annotated[
    str | None,
    Option(
        "--memory",
        metavar="STORE",
        help="Long-term memory of these threads. [default: from the profile or DeerFlow]",
    ),
]
Threads = Annotated[
    str | None,
    Option(
        "--threads",
        metavar="STORE",
        help="Store of the threads of this memory. [default: from the profile or DeerFlow]",
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="Show the plan; write nothing.")]
Yes = Annotated[bool, Option("--yes", help="Do not ask for confirmation.")]


def _storable(text: str | None) -> str | None:
    """Return the text. Raises `UsageError` if it is not UTF-8 and so cannot be stored."""
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UsageError("cannot store the text: it is not UTF-8") from None
    return text


Reason = Annotated[
    str | None,
    Option("--reason", metavar="TEXT", help="Record TEXT as the reason.", callback=_storable),
]
Force = Annotated[
    bool, Option("--force", help="Proceed even if the newest checkpoint is dated in the future.")
]
