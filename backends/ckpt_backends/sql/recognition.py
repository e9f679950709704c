"""Finds out which application's saver made the tables of a database.

A backend that declares `engine="sql"` names a function `recognise(tables)`, whose parameter maps
each table to its columns. It returns a `TableSaver`, or None if the tables are not its own. An
engine asks before it looks for the tables of LangGraph's own saver.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping, Set
from typing import NamedTuple

from ckpt_backends.discovery import declared_for, load
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.sql.database import Database, WritableDatabase
from ckpt_backends.url import StoreUrl

Tables = Mapping[str, Set[str]]
"""The columns of each table."""


class TableSaver(NamedTuple):
    """The saver of an application that keeps its checkpoints in any SQL engine."""

    store: str
    """`module:function(database, tables, url, schema) -> Store`."""
    writable: str
    """`module:function(database, tables, url, schema) -> WritableStore`."""

    def open(
        self, database: Database, tables: Tables, url: StoreUrl, schema: str | None = None
    ) -> Store:
        """Open for reading. Raises `UnknownLayout`."""
        store: Store = load(self.store)(database, tables, url, schema)
        return store

    def open_writable(
        self, database: WritableDatabase, tables: Tables, url: StoreUrl, schema: str | None = None
    ) -> WritableStore:
        """Open for changing. Raises `UnknownLayout`."""
        store: WritableStore = load(self.writable)(database, tables, url, schema)
        return store


def recognised(tables: Tables) -> TableSaver | None:
    """The application's saver that made these tables; None if it is LangGraph's, or unknown."""
    # LangGraph's savers store a body. Without it, asking installed packages may take a while.
    if "checkpoint" in tables.get("checkpoints", ()):
        return None
    for backend in declared_for("sql"):
        saver: TableSaver | None = load(backend.recognise)(tables)
        if saver is not None:
            return saver
    return None
