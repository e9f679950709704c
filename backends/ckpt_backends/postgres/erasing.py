"""Erases removed rows from tables of PostgreSQL, and names where they may still be.

VACUUM frees the space of removed rows without overwriting it; VACUUM FULL writes the tables anew.
Both keep a row that an older transaction may still see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import psycopg

from ckpt_backends.changes.progress import Progress
from ckpt_backends.changes.remains import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.postgres.connect import Notice, PostgresConnection, first_line
from ckpt_backends.url import StoreUrl

_STATISTICS = "pg_catalog.pg_statistic"
"""Holds samples of the columns of all tables. ANALYZE replaces those of a table."""
_KEPT = re.compile(r"(\d+) (?:dead row versions? cannot be removed|are dead but not yet removable)")
_ARCHIVE_MODE = "SELECT pg_catalog.current_setting('archive_mode')"
_READERS_OF_THE_LOG = (
    (
        "standby servers",
        "SELECT count(*) FROM pg_catalog.pg_stat_replication",
        "each has a log and backups of its own",
    ),
    (
        "replication slots",
        "SELECT count(*) FROM pg_catalog.pg_replication_slots",
        "the log is kept until their readers have read it, and these have copies",
    ),
)
_LOCK_SECONDS = 5
_FREE_SPACE = Remaining(
    "free space in tables and indexes",
    "VACUUM does not overwrite the space of removed rows; the server does when it reuses it;"
    " VACUUM FULL, or --rewrite, erases it",
    needs_rewrite=True,
)
_OLDER = "older transactions may still see {number} removed rows; they are erased after these end"
_UNTOLD = "the server does not say whether older transactions still see removed rows"


def erase_remains(
    connection: PostgresConnection,
    url: StoreUrl,
    tables: Sequence[str],
    *,
    rewrite: bool,
    progress: Progress,
) -> Remains:
    """Vacuum the tables, and with `rewrite` write them anew. Raises `psycopg.Error`."""
    done, places = [], []
    options = "FULL, ANALYZE" if rewrite else "ANALYZE"
    for table in [*tables, _STATISTICS]:
        statement = f"VACUUM ({options}) {table}"
        progress(statement)
        try:
            if rewrite and table != _STATISTICS:
                _check_lock(connection, table)
            notices = connection.alone(f"VACUUM (VERBOSE, {options}) {table}")
        except psycopg.Error as error:
            if connection.is_lost:
                raise
            places.append(Remaining(f"table {table}", first_line(error, url), is_reachable=True))
            continue
        refusal = _refusal(notices)
        if refusal:
            places.append(Remaining(f"table {table}", refusal))
        else:
            done.append(statement)
            if why := _still_seen(notices):
                places.append(Remaining(f"table {table}", why, is_reachable=True))
    if not rewrite:
        places.append(_FREE_SPACE)
    return Remains(tuple(done), (*places, *_elsewhere(connection), FREED_BLOCKS, BACKUPS))


def _check_lock(connection: PostgresConnection, table: str) -> None:
    """Raise `psycopg.Error` if another session holds a lock on a table.

    VACUUM FULL would wait for it, and block all others meanwhile.
    """
    try:
        connection.change(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
        connection.change(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    finally:
        connection.restart_quietly()


def _refusal(notices: Sequence[Notice]) -> str:
    """Why VACUUM skipped a table; `''` if it did not. A missing right is a warning only."""
    return next((one.text for one in notices if one.is_warning), "")


def _still_seen(notices: Sequence[Notice]) -> str:
    """Why removed rows were kept; `''` if they were not."""
    numbers = [int(number) for one in notices for number in _KEPT.findall(one.text)]
    if not numbers:
        return _UNTOLD
    return _OLDER.format(number=sum(numbers)) if any(numbers) else ""


def _elsewhere(connection: PostgresConnection) -> Iterator[Remaining]:
    """The log of the server, and what is made from it."""
    reason = "it holds removed rows until the server recycles its files"
    for (mode,) in connection.attempt(_ARCHIVE_MODE) or [("unknown",)]:
        if mode != "off":
            reason += f"; its archive keeps them longer (archive_mode: {mode})"
    yield Remaining("write-ahead log", reason)
    for place, query, reason in _READERS_OF_THE_LOG:
        found = connection.attempt(query)
        if found is None:
            yield Remaining(place, f"the server does not say whether it has some; {reason}")
        elif found[0][0]:
            yield Remaining(place, f"it has {found[0][0]}; {reason}")
