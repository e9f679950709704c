"""Makes an empty file with the tables of LangGraph's saver, as its newest release does.

The saver is langgraph-checkpoint-sqlite 3.1.2 or @langchain/langgraph-checkpoint-sqlite 1.0.
"""

from __future__ import annotations

import sqlite3

from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.sql.creating import MEMORY_TABLES, something_else
from ckpt_backends.sqlite.errors import writing
from ckpt_backends.sqlite.layout import detect, tables_of
from ckpt_backends.sqlite.open import open_for_creating, transaction
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_KEY = (
    "thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL"
)
_TASK_PATH = {Language.PYTHON: "task_path TEXT NOT NULL DEFAULT '', ", Language.JAVASCRIPT: ""}
_TABLES = (
    f"CREATE TABLE checkpoints ({_KEY}, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB,"
    " metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
    f"CREATE TABLE writes ({_KEY}, task_id TEXT NOT NULL, {{task_path}}idx INTEGER NOT NULL,"
    " channel TEXT NOT NULL, type TEXT, value BLOB,"
    " PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
)


def create_store(url: StoreUrl, language: Language) -> None:
    """Make the tables in a missing file or an empty database, unless they are there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """
    layout = url.params.get("layout", "sqlite")
    if layout != "sqlite":
        raise Unsupported(f"cannot make a store of the layout '{layout}'")
    connection = open_for_creating(url)
    try:
        with writing(url):
            if _is_there(connection, url):
                return
            # Both savers set this mode. It can only be set outside of a transaction.
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            with transaction(connection):
                if not _is_there(connection, url):
                    for statement in _TABLES:
                        connection.execute(statement.format(task_path=_TASK_PATH[language]))
    finally:
        connection.close()


def _is_there(connection: sqlite3.Connection, url: StoreUrl) -> bool:
    """Whether the file has the tables. Raises `Refused` if it has others."""
    tables = tables_of(connection)
    try:
        detect(tables, str(url))
    except UnknownLayout:
        if others := tables.keys() - MEMORY_TABLES:
            raise something_else(str(url), others) from None
        return False
    return True
