"""`ckpt stores`: list stores with their layout and size."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

from typer import Context, Option

from ckpt_backends.discovery import DISTRIBUTION
from ckpt_backends.installing import install_command
from ckpt_backends.plugins import plugins
from ckpt_cli.api.store import all_stores, named_stores
from ckpt_cli.api.store import layouts as layout_answers
from ckpt_cli.config.trust import NotOurs
from ckpt_cli.queries.stores import all_name_conflicts
from ckpt_cli.render.table import Column, size
from ckpt_cli.session import Session

COLUMNS = (
    Column("NAME", "name", style="head"),
    Column("LAYOUT", "layout"),
    Column("SIZE", "size", size, right=True),
    Column("LOG", "log", lambda log: size(log) if log else "", right=True, drop=4),
    Column("SAVER", "saver", cut=True, drop=1),
    Column("ENGINE", "engine", drop=2),
    Column("URL", "url", drop=3),
    Column("ERROR", "error", style="error", drop=1),
)


def _limits(commands: Mapping[str, str]) -> str:
    """The commands that are not fully supported, by what they do instead."""
    limited: dict[str, list[str]] = {}
    for name, cell in commands.items():
        if cell != "yes":
            limited.setdefault(cell, []).append(name)
    return "; ".join(f"{cell}: {', '.join(names)}" for cell, names in limited.items())


LAYOUTS = (
    Column("LAYOUT", "layout", style="head"),
    Column("BACKEND", "backend", cut=True),
    Column("SCHEMES", "schemes", ", ".join, drop=2),
    Column("ENGINE", "engine", drop=4),
    Column("FILES", "file_names", ", ".join, drop=6),
    Column("PACKAGE", "package", lambda name: "" if name == DISTRIBUTION else name, drop=1),
    Column("CAPABILITIES", "capabilities", ", ".join, table=False),
    Column("MISSING", "needs", install_command, drop=3),
    Column("LIMITS", "commands", _limits, cut=True, least=24, drop=5),
    # Too long for a table: stderr has them.
    Column("NOTES", "notes", "; ".join, table=False),
    Column("ERROR", "error", table=False),
)


def stores(
    ctx: Context,
    layouts: Annotated[
        bool,
        Option("--layouts", help="List the layouts that ckpt can open, with what each supports."),
    ] = False,
) -> None:
    """List stores with their layout, size and saver.

    With -s or CKPT_STORE, only that store. Otherwise all profiles and the stores in this folder:
    SQLite files, the files of `langgraph dev` (also of LangGraph.js), DeerFlow's memory, and files
    of installed backends.

    ```
    ckpt stores
    ckpt -s agent.db stores -o json
    ckpt stores --layouts
    ```
    """
    session: Session = ctx.obj
    if layouts:
        records = (one.to_dict() for one in layout_answers())
        session.output.records(records, LAYOUTS, rest=_more)
        _tell_problems(session)
        return
    if session.names.store_name is not None:
        found = named_stores(session.names, session.names.store_name)
        if len(found) == 1 and (error := found[0].found.error) is not None:
            raise error
        session.output.records((one.to_dict() for one in found), COLUMNS)
        return
    session.output.records((one.to_dict() for one in all_stores(session.names)), COLUMNS)
    _tell_problems(session)
    session.note(f"listed {_profiles(session)}the stores in this folder; use -s for another store")


def _more() -> str:
    return "-o json lists all that each layout supports"


def _tell_problems(session: Session) -> None:
    """Print which plug-ins cannot be loaded and why, and which names are another backend's."""
    for plugin in plugins():
        if plugin.problem:
            session.warn(str(plugin))
    for text in all_name_conflicts():
        session.warn(text)


def _profiles(session: Session) -> str:
    try:
        source = session.names.profiles.source
    except NotOurs:
        return ""
    return f"the profiles of '{os.path.relpath(source)}' and " if source else ""
