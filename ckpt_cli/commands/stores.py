"""`ckpt stores`: list stores with their layout and size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ckpt_backends.errors import CkptError
from ckpt_cli.config.trust import NotOurs
from ckpt_cli.queries.stores import FoundStore, broken, in_folder, inspect
from ckpt_cli.render.records import store_record
from ckpt_cli.render.terminal.table import Column
from ckpt_cli.render.terminal.units import size
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


def stores(session: Session) -> None:
    """List stores with their layout, size and saver.

    With -s or CKPT_STORE, only that store. Otherwise all profiles and the stores in this folder:
    SQLite files, the files of `langgraph dev`, and DeerFlow's memory.

    \b
      ckpt stores
      ckpt -s agent.db stores -o json
    """
    if session.names.store_name is not None:
        found = inspect(session.names.store_name, session.names.url_of(session.names.store_name))
        if len(found) == 1 and found[0].error is not None:
            raise found[0].error
        session.output.records(map(store_record, found), COLUMNS)
        return
    session.output.records(map(store_record, _all(session)), COLUMNS)
    session.note(f"listed {_profiles(session)}the stores in this folder; use -s for another store")


def _all(session: Session) -> Iterator[FoundStore]:
    try:
        profiles = session.names.profiles
    except NotOurs as error:
        # The stores in this folder need no configuration.
        yield broken(str(error.path), "", error)
    else:
        for name, profile in profiles.stores.items():
            try:
                url = session.names.url_in(profile)
            except CkptError as error:
                yield broken(name, profile.url, error)
            else:
                yield from inspect(name, url)
    yield from in_folder(Path.cwd())


def _profiles(session: Session) -> str:
    try:
        source = session.names.profiles.source
    except NotOurs:
        return ""
    return f"the profiles of '{os.path.relpath(source)}' and " if source else ""
