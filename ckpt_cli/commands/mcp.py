"""`ckpt mcp`: let an agent look at a store."""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option

from ckpt_backends.errors import UsageError
from ckpt_backends.installing import install_command
from ckpt_cli import __version__
from ckpt_cli.options import not_huge
from ckpt_cli.session import Session

CONNECTIONS = 4


def mcp(
    ctx: Context,
    values: Annotated[
        bool, Option("--values", help="Show all values, not only types and sizes.")
    ] = False,
    channels: Annotated[
        str | None,
        Option(metavar="NAMES", help="Show the values of these channels, such as messages,plan."),
    ] = None,
    max_chars: Annotated[
        int,
        Option(
            metavar="N",
            help="Characters of an answer; the rest comes in pages.",
            min=2000,
            callback=not_huge,
        ),
    ] = 20_000,
    timeout: Annotated[
        float, Option(metavar="SECONDS", help="Stop a call after SECONDS.", min=1)
    ] = 60.0,
) -> None:
    """Serve the store to an agent, read-only (MCP).

    MCP is the Model Context Protocol. A client such as an editor or a coding agent starts this
    command and talks to it on standard input and output. No tool takes a path, a URL or SQL.
    Values are replaced by their types and sizes unless --values or --channels is given.

    ```
    ckpt -s agent.db mcp
    ckpt -s prod mcp --channels messages,plan
    claude mcp add ckpt -- ckpt -s prod mcp
    ```
    """
    session: Session = ctx.obj
    if session.settings.get("redact") and (values or channels):
        raise UsageError("--redact hides all values", hint="leave out --values and --channels")
    try:
        from ckpt_cli.mcp.server import AnswerLimits, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"mcp", "mcp_types"}:
            raise
        raise UsageError(
            "cannot serve: package 'mcp' is not installed",
            hint=install_command("langgraph-ckpt[mcp]"),
        ) from None
    from ckpt_cli.mcp.server import Connections, Served
    from ckpt_cli.mcp.tools import Permission

    # What cannot be opened is reported here, before a client waits.
    session.store.describe()
    session.store.close()
    allowed = Permission(values, tuple(filter(None, (channels or "").split(","))))
    served = Served(session.names, session.opening._replace(redact=not values), session.zone)
    connections = Connections(lambda: served.open(allowed), CONNECTIONS)
    try:
        serve(connections, AnswerLimits(__version__, max_chars, timeout))
    finally:
        connections.close()
