"""Faults of a SQLite file: missing keys, a journal that was left, a large log, unused pages."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ckpt_backends.changes import BACKUPS, FREED_BLOCKS, Remaining, Remains
from ckpt_backends.model import Fault, Progress, Space
from ckpt_backends.sql.database import Database, text
from ckpt_backends.sql.health import (
    TWICE,
    TableIndex,
    key_missing,
    keys_of,
    large_log,
    missing_indexes,
    unused_space,
)
from ckpt_backends.sqlite.journals import (
    code_of,
    in_shell,
    journal_of,
    log_of,
    quoted_name,
    recovery,
    truncate_log,
)

_KEYS = keys_of(
    {
        "checkpoints": ("thread_id", "checkpoint_ns", "checkpoint_id"),
        "writes": ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx"),
    }
)
_UNIQUE = """
    SELECT m.name, i.name, c.name FROM sqlite_master m, pragma_index_list(m.name) i,
        pragma_index_info(i.name) c
    WHERE m.type = 'table' AND m.name IN ('checkpoints', 'writes') AND i."unique" AND NOT i.partial
    ORDER BY 1, 2, c.seqno
"""


def key_faults(database: Database) -> Iterator[Fault]:
    """The saver's tables that lack their primary keys. Reads the schema only."""
    columns: dict[tuple[str, str], list[str]] = {}
    for table, index, column in database.rows(_UNIQUE, {}):
        columns.setdefault((text(table), text(index)), []).append(text(column))
    found = [
        TableIndex(table, tuple(names), index, is_unique=True)
        for (table, index), names in columns.items()
    ]
    for one in missing_indexes(found, _KEYS):
        listed = ", ".join(one.columns)
        fix = f"CREATE UNIQUE INDEX {one.table}_key ON {one.table} ({listed});"
        yield key_missing(database, one.table, one, fix, TWICE)


def file_faults(path: Path, space: Space, *, was_rolled_back: bool) -> Iterator[Fault]:
    """What is wrong with the files of a database at a path.

    `space` is that of the database, or of the copy that is read in its place; `was_rolled_back` is
    whether the copy had an unfinished transaction.
    """
    if was_rolled_back:
        detail = f"'{journal_of(path).name}' holds an unfinished transaction of a killed process"
        yield Fault("journal-hot", detail, fix=in_shell(path, ".tables"))
    size, log = space.size or 0, space.log or 0
    emptied = in_shell(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    yield from large_log(f"'{log_of(path).name}'", log, size - log, emptied)
    yield from unused_space("the file", space.free or 0, size - log, in_shell(path, "VACUUM"))


# Asks SQLite whether its file is sound, and says where it is not.
#
# `PRAGMA integrity_check` compares each index with its table, which `quick_check` does not. Both
# read the whole file: about 0.7 s for each gigabyte that is cached.


UP_TO = 256 << 20
"""Bytes of a file that is checked each time; a larger one takes more than a moment."""
_MOST = 100
"""Maximum number of messages of the engine, which is its own default."""
_NAMED = 8
"""Maximum number of pages that a text names."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR}
_OF_INDEX = re.compile(r"(missing from|wrong # of entries in|non-unique entry in) index ")
_PAGES = "SELECT pageno FROM dbstat WHERE pagetype = 'corrupted' ORDER BY 1"
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"


def file_damage(connection: sqlite3.Connection, path: Path, *, whole: bool) -> Sequence[Fault]:
    """The fault of a damaged file; nothing if it is sound, or large and not to be read `whole`.

    Raises a `sqlite3.Error` if it cannot be read for another reason.
    """
    ((size,),) = connection.execute(_SIZE).fetchall()
    if size > UP_TO and not whole:
        return ()
    said, is_complete = _said(connection, f"PRAGMA integrity_check({_MOST})")
    if is_complete and not said:
        return ()
    by_table = {
        name: lines
        for name in _names(connection)
        if (lines := _said(connection, f"PRAGMA integrity_check({quoted_name(name)})")[0])
    }
    said = said or [line for lines in by_table.values() for line in lines]
    if not said:
        return ()
    detail = _detail(said, list(by_table), _damaged_pages(connection))
    # No fix: the file itself stays as it is.
    return (Fault("file-damaged", f"{detail}; `{recovery(path)}` saves what is left"),)


def _said(connection: sqlite3.Connection, query: str) -> tuple[list[str], bool]:
    """What a check says, and whether it came to its end; nothing if all is well.

    An error that damage causes is the last line. A table of the application may need a collation or
    module that only it has, which is no damage, and ends the check.
    """
    said: list[str] = []
    is_complete = True
    try:
        for (line,) in connection.execute(query):
            said += _lines(text(line))
    except sqlite3.DatabaseError as error:
        if code_of(error) in _DAMAGED:
            said.append(str(error))
        elif code_of(error) != sqlite3.SQLITE_ERROR:
            raise
        is_complete = False
    return ([] if said == ["ok"] else said), is_complete


def _lines(message: str) -> Iterator[str]:
    """The faults in one message, without the line that names the database."""
    return (one for one in message.splitlines() if one and not one.startswith("***"))


def _names(connection: sqlite3.Connection) -> list[str]:
    """The tables that can be checked one by one: old releases check the whole file each time."""
    if sqlite3.sqlite_version_info < (3, 33):
        return []
    return [text(name) for (name,) in connection.execute(_TABLES)]


def _damaged_pages(connection: sqlite3.Connection) -> list[int]:
    """The numbers of pages that are no part of a tree, if this SQLite can tell."""
    pages: list[int] = []
    # It may have been built without `dbstat`, or stop at such a page.
    with suppress(sqlite3.DatabaseError):
        pages += (number for (number,) in connection.execute(_PAGES))
    return pages


def _detail(said: Sequence[str], tables: Sequence[str], pages: Sequence[int]) -> str:
    named = _listed([f"'{name}'" for name in tables])
    of = f"table{'' if len(tables) == 1 else 's'} {named}" if tables else "a table"
    if all(_OF_INDEX.search(one) for one in said):
        where = f"an index contradicts the rows of {of}"
    elif pages:
        numbers = _listed([*map(str, pages[:_NAMED])])
        more = f" and {len(pages) - _NAMED} more" if len(pages) > _NAMED else ""
        where = f"page{'' if len(pages) == 1 else 's'} {numbers}{more} of the file cannot be read"
        where += f", in {of}" if tables else ""
    else:
        where = f"the file is damaged, in {of}" if tables else "the file is damaged"
    number = f"{len(said)} faults, first: " if len(said) > 1 else ""
    return f"{where} (PRAGMA integrity_check: {number}{said[0]})"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# Erases removed rows from a SQLite file, its write-ahead log and its journal.
#
# Rows are overwritten with zeros when they are removed (`secure_delete`). Pages that an
# application freed without that are left out when VACUUM writes the file anew.


_SAMPLES = ("sqlite_stat3", "sqlite_stat4")
"""Tables in which ANALYZE stores keys of some rows."""


def erase_remains(connection: sqlite3.Connection, path: Path, progress: Progress) -> Remains:
    """Write the file anew and empty its log. Raises `sqlite3.Error` if it cannot be read."""
    ((mode,),) = connection.execute("PRAGMA journal_mode").fetchall()
    ((secure,),) = connection.execute("PRAGMA secure_delete").fetchall()
    done = ["secure_delete=ON"] if secure == 1 else []
    places: list[Remaining] = []
    for statement in ["ANALYZE", "VACUUM"] if _has_samples(connection) else ["VACUUM"]:
        progress(statement)
        try:
            connection.execute(statement)
            done.append(statement)
        except sqlite3.Error as error:
            reason = f"{statement} failed: {error}"
            places.append(Remaining(f"'{path.name}'", reason, is_reachable=True))
    if mode == "wal":
        # VACUUM has written to the log, too.
        statement = "wal_checkpoint(TRUNCATE)"
        progress(statement)
        if why := truncate_log(connection):
            where = f"'{path.name}' and '{log_of(path).name}'"
            places.append(Remaining(where, f"{statement} failed: {why}", is_reachable=True))
        else:
            done.append(statement)
    return Remains(tuple(done), (*places, FREED_BLOCKS, BACKUPS))


def _has_samples(connection: sqlite3.Connection) -> bool:
    marks = ", ".join("?" * len(_SAMPLES))
    query = f"SELECT 1 FROM sqlite_master WHERE name IN ({marks})"
    return bool(connection.execute(query, _SAMPLES).fetchall())
