"""`ckpt mcp`: let an agent look at a store."""

from __future__ import annotations

from typing import Annotated

from ckpt_backends.errors import UsageError
from ckpt_backends.installing import install_command
from ckpt_cli import __version__
from ckpt_cli.options import flag, option
from ckpt_cli.session import Session

CONNECTIONS = 4


def mcp(
    session: Session,
    values: Annotated[bool, flag("Show all values, not only types and sizes.")] = False,
    channels: Annotated[
        str | None, option("NAMES", "Show the values of these channels, such as messages,plan.")
    ] = None,
    max_chars: Annotated[
        int, option("N", "Characters of an answer; the rest comes in pages.", min=2000)
    ] = 20_000,
    timeout: Annotated[float, option("SECONDS", "Stop a call after SECONDS.", min=1)] = 60.0,
) -> None:
    """Serve the store to an agent, read-only (MCP).

    MCP is the Model Context Protocol. A client such as an editor or a coding agent starts this
    command and talks to it on standard input and output. No tool takes a path, a URL or SQL.
    Values are replaced by their types and sizes unless --values or --channels is given.

    \b
      ckpt -s agent.db mcp
      ckpt -s prod mcp --channels messages,plan
      claude mcp add ckpt -- ckpt -s prod mcp
    """
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
    from ckpt_cli.mcp.asking import Permission
    from ckpt_cli.mcp.connections import Connections, Served

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
