"""Changes LangGraph's SQLite layout, and makes its tables.

`BEGIN IMMEDIATE` takes SQLite's write lock, so the checked rows cannot change before the writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory import COLUMNS, STORE
from ckpt_backends.protocol import WritableStore
from ckpt_backends.sql.database import MEMORY_TABLES, THREAD_TABLES, something_else
from ckpt_backends.sql.tables import RENAMED, not_changed, recognised
from ckpt_backends.sql.write import WritableSqlStore
from ckpt_backends.sqlite.database import (
    SqliteDatabase,
    open_for_creating,
    open_for_writing,
    opening,
)
from ckpt_backends.sqlite.store import detect, only_read_of, tables_of
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl


class WritableSqliteStore(WritableSqlStore):
    """A SQLite file, opened for changing."""

    def __init__(
        self, database: SqliteDatabase, url: StoreUrl, tables: Mapping[str, Set[str]]
    ) -> None:
        layout = detect(tables, str(url), url.params.get("layout"))
        if reason := only_read_of(layout, database):
            raise not_changed(str(url), reason)
        super().__init__(database, url, tables_of(layout, tables))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a file for changing. Raises `StoreUnavailable` or `UnknownLayout`."""
    if "tables" in url.params:
        raise not_changed(str(url), RENAMED)
    with opening(SqliteDatabase(open_for_writing(url), url)) as (database, tables):
        if saver := recognised(tables):
            return saver.open_writable(database, tables, url)
        return WritableSqliteStore(database, url, tables)


def _create(
    url: StoreUrl,
    statements: Iterable[str],
    are_there: Callable[[Mapping[str, Set[str]]], bool],
    mode: str = "",
) -> None:
    """Make tables in a missing file or a database, unless they are there."""
    database = SqliteDatabase(open_for_creating(url), url)
    try:
        if are_there(database.tables()):
            return
        if mode:
            # It can only be set outside of a transaction.
            database.rows(f"PRAGMA journal_mode = {mode}", {})
        with database.transaction():
            for statement in () if are_there(database.tables()) else statements:
                database.change(statement, {})
    finally:
        database.close()


# Makes an empty file with the tables of LangGraph's saver, as its newest release does.
#
# The saver is langgraph-checkpoint-sqlite 3.1.2 or @langchain/langgraph-checkpoint-sqlite 1.0.


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

    def are_there(tables: Mapping[str, Set[str]]) -> bool:
        try:
            detect(tables, str(url))
        except UnknownLayout:
            if others := tables.keys() - MEMORY_TABLES:
                raise something_else(str(url), others) from None
            return False
        return True

    # Both savers set this mode.
    path = _TASK_PATH[language]
    _create(url, [one.format(task_path=path) for one in _TABLES], are_there, "WAL")


# Makes the table of SqliteStore (langgraph-checkpoint-sqlite 3.1.2), without vectors.


_STATEMENTS = (
    "CREATE TABLE store_migrations (v INTEGER PRIMARY KEY)",
    "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL,"
    " created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
    " expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key))",
    "CREATE INDEX store_prefix_idx ON store (prefix)",
    "CREATE INDEX idx_store_expires_at ON store (expires_at) WHERE expires_at IS NOT NULL",
    "INSERT INTO store_migrations (v) VALUES (0), (1), (2), (3), (4)",
)


def create_memory(url: StoreUrl) -> None:
    """Make the table in a missing file, or in one with nothing or threads, unless it is there.

    Raises `Refused` if there is anything else, and `StoreUnavailable`.
    """

    def is_there(tables: Mapping[str, Set[str]]) -> bool:
        if tables.get(STORE, frozenset()) >= COLUMNS:
            return True
        if others := tables.keys() - THREAD_TABLES:
            raise something_else(str(url), others)
        return False

    _create(url, _STATEMENTS, is_there)
