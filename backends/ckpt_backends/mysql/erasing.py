"""Erases removed rows from tables of MySQL and MariaDB, and names where they may still be.

InnoDB marks a removed row, and frees its space later without overwriting it. OPTIMIZE TABLE writes
the table to a new file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pymysql

from ckpt_backends.changes.progress import Progress
from ckpt_backends.changes.remains import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.mysql.connect import DENIED, UNSUPPORTED, MySQLConnection, code_of, server_words
from ckpt_backends.sql.database import Row
from ckpt_backends.url import StoreUrl

_UNKNOWN = UNSUPPORTED | DENIED | {1109, 1146}
"""What servers answer that do not support or permit a query, or lack its table."""
_QUOTED = re.compile("'[^']*'")
_FREE_SPACE = Remaining(
    "free space in tables and indexes",
    "InnoDB frees the space of removed rows later, and overwrites it when it reuses it;"
    " OPTIMIZE TABLE, or --rewrite, erases it",
    needs_rewrite=True,
)
_INNODB_LOGS = Remaining(
    "undo, redo and doublewrite files", "they hold removed rows until the server reuses their space"
)
_REPLICAS = ("SHOW REPLICAS", "SHOW SLAVE HOSTS")
_HISTOGRAMS = (
    "SELECT 1 FROM information_schema.column_statistics WHERE schema_name = DATABASE() LIMIT 1",
    "SELECT 1 FROM mysql.column_stats WHERE db_name = DATABASE() AND histogram IS NOT NULL LIMIT 1",
)
"""For MySQL, and for MariaDB."""


def erase_remains(
    connection: MySQLConnection,
    url: StoreUrl,
    tables: Sequence[str],
    *,
    rewrite: bool,
    progress: Progress,
) -> Remains:
    """With `rewrite`, write the tables anew. Raises `pymysql.Error` and `StoreUnavailable`."""
    done: list[str] = []
    places: list[Remaining] = [] if rewrite else [_FREE_SPACE]
    for table in tables if rewrite else ():
        statement = f"OPTIMIZE TABLE {table}"
        progress(statement)
        try:
            answers = connection.optimize(table)
            why = next((text for *_, kind, text in answers if kind.lower() == "error"), "")
            is_denied = False
        except pymysql.Error as error:
            if connection.is_lost:
                raise
            why, is_denied = server_words(error, url), code_of(error) in DENIED
        if why:
            # The server may quote a key.
            why = _QUOTED.sub("'...'", why)
            places.append(Remaining(f"table {table}", why, is_reachable=not is_denied))
        else:
            done.append(statement)
    return Remains(tuple(done), (*places, *_elsewhere(connection), FREED_BLOCKS, BACKUPS))


def _elsewhere(connection: MySQLConnection) -> Iterator[Remaining]:
    """The logs of the server, and what is made from them."""
    yield _INNODB_LOGS
    if _first(connection, ["SELECT @@innodb_file_per_table"]) == [(0,)]:
        yield Remaining(
            "shared tablespace (ibdata1)", "pages of tables in it are not overwritten when freed"
        )
    logs = _first(connection, ["SELECT @@log_bin"])
    if logs != [(0,)]:
        reason = "it holds what was stored until the server purges it"
        untold = "the server does not say whether it writes one; "
        yield Remaining("binary log", reason if logs else untold + reason)
    replicas = _first(connection, _REPLICAS)
    if replicas:
        reason = "each has logs and backups of its own"
        yield Remaining("replicas", f"it has {len(replicas)}; {reason}")
    elif replicas is None and logs != [(0,)]:
        yield Remaining("replicas", "the server does not say whether it has some")
    if _first(connection, _HISTOGRAMS):
        yield Remaining(
            "histograms of columns",
            "they hold samples; ANALYZE TABLE ... DROP HISTOGRAM removes them",
        )


def _first(connection: MySQLConnection, queries: Sequence[str]) -> list[Row] | None:
    """The rows of the first query that the server supports and permits; None if there is none."""
    for query in queries:
        found = connection.attempt(query, expected=_UNKNOWN)
        if found is not None:
            return found
    return None
