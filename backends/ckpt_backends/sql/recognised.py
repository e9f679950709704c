"""Databases of an SQL engine with the tables of another saver than LangGraph's.

A backend that declares `engine="sql"` names three functions. `columns` maps each table to the names
of its columns; `schema` is the tables' schema, in an engine that has schemas.

    recognise: (columns) -> bool
    checkpoints: (database, columns, url, schema) -> Store
    changes: (database, columns, url, schema) -> WritableStore
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from ckpt_backends.declaration import Backend
from ckpt_backends.discovery import declared_for, load


def recognised(columns: Mapping[str, Set[str]]) -> Backend | None:
    """The backend of these tables; None if they are LangGraph's, or unknown."""
    # LangGraph's savers store a body: the entry points of installed backends need not be read.
    if "checkpoint" in columns.get("checkpoints", ()):
        return None
    return next((one for one in declared_for("sql") if load(one.recognise)(columns)), None)
