"""Makes the tables of LangGraph's saver in an empty database, as its newest release does.

The saver is langgraph-checkpoint-mysql 3.0. MySQL ends the transaction at each statement that makes
a table, so a run that was killed may leave some tables, all empty; the next run makes the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.mysql.connect import MySQLConnection, connect
from ckpt_backends.mysql.database import find_tables, transaction
from ckpt_backends.mysql.layout import FULL, MySQLTable, detect
from ckpt_backends.sql.database import MEMORY_TABLES, something_else
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

_MIGRATIONS = "checkpoint_migrations"
_KEY = "thread_id varchar(150) NOT NULL, checkpoint_ns varchar(2000) NOT NULL DEFAULT ''"
_ID = "checkpoint_id varchar(150) NOT NULL"
_HASH = "checkpoint_ns_hash binary(16) NOT NULL"
_TABLES = {
    BLOBS: f"{_KEY}, channel varchar(150) NOT NULL, version varchar(150) NOT NULL,"
    f" type varchar(150) NOT NULL, `blob` longblob, {_HASH},"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, channel, version),"
    " KEY checkpoint_blobs_thread_id_idx (thread_id)",
    WRITES: f"{_KEY}, {_ID}, task_id varchar(150) NOT NULL, idx int NOT NULL,"
    " channel varchar(150) NOT NULL, type varchar(150), `blob` longblob NOT NULL,"
    f" {_HASH}, task_path varchar(2000) NOT NULL DEFAULT '',"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, checkpoint_id, task_id, idx),"
    " KEY checkpoint_writes_thread_id_idx (thread_id)",
    CHECKPOINTS: f"{_KEY}, {_ID}, parent_checkpoint_id varchar(150), type varchar(150),"
    f" checkpoint json NOT NULL, metadata json NOT NULL DEFAULT ('{{}}'), {_HASH},"
    " PRIMARY KEY (thread_id, checkpoint_ns_hash, checkpoint_id),"
    " KEY checkpoints_thread_id_idx (thread_id), KEY checkpoints_checkpoint_id_idx (checkpoint_id)",
    _MIGRATIONS: "v int PRIMARY KEY",
}
_LAST_MIGRATION = 21


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make the tables in an empty database, unless they are there.

    Raises `Refused` if there are other tables, and `StoreUnavailable`.
    """
    if (wanted := url.params.get("layout", FULL)) != FULL:
        raise Unsupported(f"cannot make a store of the layout '{wanted}'")
    connection = connect(url, writable=True)
    try:
        tables = find_tables(connection)
        there = [name for name in _TABLES if name in tables]
        others = tables.keys() - _TABLES.keys() - MEMORY_TABLES
        if CHECKPOINTS in there and _has_rows(connection, there):
            _check(tables, others, url)
        elif others:
            raise something_else(str(url), others)
        else:
            _make(connection, url, there)
    finally:
        connection.close()


def _has_rows(connection: MySQLConnection, tables: Sequence[str]) -> bool:
    """Whether a saver set up these tables, so that at least its migrations have rows."""
    return any(connection.rows(f"SELECT 1 FROM {name} LIMIT 1") for name in tables)


def _check(tables: Mapping[str, MySQLTable], others: Collection[str], url: StoreUrl) -> None:
    """Raise `Refused` unless the tables are those of the saver."""
    try:
        found = detect(tables, None, None, str(url))
    except UnknownLayout:
        raise something_else(str(url), {*others, CHECKPOINTS}) from None
    if found.shallow:
        raise Refused(
            f"cannot make a store in '{url}': it has the tables of the shallow saver",
            hint="name an empty database",
        )


def _make(connection: MySQLConnection, url: StoreUrl, there: Sequence[str]) -> None:
    """Make the tables that are missing."""
    connection.restart()
    with transaction(connection, url):
        for name, columns in _TABLES.items():
            if name not in there:
                connection.change(f"CREATE TABLE {name} ({columns})")
        numbers = ", ".join(f"({number})" for number in range(_LAST_MIGRATION + 1))
        connection.change(f"INSERT INTO {_MIGRATIONS} (v) VALUES {numbers}")
