"""`ckpt stores`: list stores with their layout and size."""

from __future__ import annotations

import os
from typing import Annotated

from typer import Context, Option

from ckpt_backends.plugins import plugins
from ckpt_cli.api.stores import all_stores, named_stores
from ckpt_cli.api.stores import layouts as layout_answers
from ckpt_cli.config.trust import NotOurs
from ckpt_cli.queries.stores import all_name_conflicts
from ckpt_cli.render.stores import LAYOUT_COLUMNS, STORE_COLUMNS
from ckpt_cli.session import Session


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
        session.show_list(layout_answers(), LAYOUT_COLUMNS, rest=_more)
        _tell_problems(session)
        return
    if session.names.store_name is not None:
        found = named_stores(session.names, session.names.store_name)
        if len(found) == 1 and (error := found[0].found.error) is not None:
            raise error
        session.show_list(found, STORE_COLUMNS)
        return
    session.show_list(all_stores(session.names), STORE_COLUMNS)
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
