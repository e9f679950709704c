"""A Typer program with options of the same kinds and number as `ckpt`, that does nothing.

`import typer_program; typer_program.parse()` is the start of each baseline; as a program it prints
the help of 41 commands.
"""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Option, Typer
from typer.main import get_command

Text = str | None


def shared(
    store: Annotated[Text, Option("-s", "--store", metavar="URL", help="The store.")] = None,
    config: Annotated[Text, Option("--config", metavar="FILE", help="A file.")] = None,
    output: Annotated[Literal["auto", "json"] | None, Option("-o", help="A format.")] = None,
    color: Annotated[Literal["auto", "never"] | None, Option("--color", help="When.")] = None,
    key: Annotated[Text, Option("--key", metavar="FILE", help="A key.")] = None,
    reducer: Annotated[list[str] | None, Option("--reducer", help="A reducer.")] = None,
    library: Annotated[Text, Option("--library", help="A release.")] = None,
    audit: Annotated[Text, Option("--audit", help="A file.")] = None,
    redact: Annotated[bool, Option("--redact", help="A flag.")] = False,
    copy: Annotated[bool, Option("--copy", help="A flag.")] = False,
    no_pager: Annotated[bool, Option("--no-pager", help="A flag.")] = False,
    utc: Annotated[bool, Option("--utc", help="A flag.")] = False,
    quiet: Annotated[bool, Option("-q", "--quiet", help="A flag.")] = False,
    verbose: Annotated[bool, Option("-v", "--verbose", help="A flag.")] = False,
    debug: Annotated[bool, Option("--debug", help="A flag.")] = False,
) -> None:
    """Print checkpoints."""


def show(
    thread: Annotated[Text, Argument(metavar="THREAD", help="A thread.")] = None,
    ref: Annotated[Text, Argument(metavar="REF", help="A checkpoint.")] = None,
    at: Annotated[Text, Option("--at", metavar="REF", help="A checkpoint.")] = None,
    ns: Annotated[Text, Option("--ns", metavar="NS", help="A namespace.")] = None,
    as_of: Annotated[Text, Option("--as-of", metavar="TIME", help="A time.")] = None,
    channel: Annotated[list[str] | None, Option("--channel", help="A channel.")] = None,
    path: Annotated[Text, Option("--path", metavar="PATH", help="A path.")] = None,
    limit: Annotated[int, Option("--limit", metavar="N", help="A number.", min=1)] = 50,
    full: Annotated[bool, Option("--full", help="A flag.")] = False,
    writes: Annotated[bool, Option("--writes", help="A flag.")] = False,
    metadata: Annotated[bool, Option("--metadata", help="A flag.")] = False,
    raw: Annotated[bool, Option("--raw", help="A flag.")] = False,
    where: Annotated[bool, Option("--where", help="A flag.")] = False,
    tree: Annotated[bool, Option("--tree", help="A flag.")] = False,
    unfold: Annotated[bool, Option("--unfold", help="A flag.")] = False,
    all_ns: Annotated[bool, Option("--all-ns", help="A flag.")] = False,
) -> None:
    """Print one checkpoint."""


def nothing() -> None:
    """Print nothing."""


def program(others: int) -> Typer:
    """Return the program with `show` and other commands, which have no options."""
    app = Typer(callback=shared, add_completion=False, pretty_exceptions_enable=False)
    app.command()(show)
    for number in range(others):
        app.command(f"command-{number}")(nothing)
    return app


def parse() -> None:
    """Parse a command line, as each command of such a program does."""
    get_command(program(0)).main(["-s", "x", "show", "thread"], "peer", standalone_mode=False)


if __name__ == "__main__":
    program(40)()
