"""The queries for threads whose keys may contradict each other. They read no body and no value."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.sql.database import Database
from ckpt_backends.sql.queries import SqlTables


def suspect_queries(database: Database, tables: SqlTables) -> Iterator[str]:
    """The queries for such threads; an id may appear in the results of several.

    Nothing contradicts in a shallow layout: it stores no parents, and writes of a checkpoint
    before.
    """
    if tables.shallow:
        return
    checkpoints, exact = tables.checkpoints.source, database.exact
    (ns,) = tables.namespace("")
    # The first comparisons use the primary key. A collation may take other ids for equal.
    in_thread = f"p.{ns} = c.{ns} AND {exact('p.thread_id')} = {exact('c.thread_id')}"
    of_parent = (
        f"p.thread_id = c.thread_id AND p.checkpoint_id = c.parent_checkpoint_id AND {in_thread}"
    )
    of_writes = " AND ".join(
        f"p.{name} = {database.as_in(tables.checkpoints.name, name, f'c.{name}')}"
        for name in ("thread_id", "checkpoint_id")
    )
    own, parent = exact("c.checkpoint_id"), exact("p.checkpoint_id")
    # Also finds heads that have a child: no id is greater than theirs.
    yield (
        f"SELECT DISTINCT {exact('c.thread_id')} FROM {checkpoints} c"
        f" LEFT JOIN {checkpoints} p ON {of_parent} WHERE c.parent_checkpoint_id IS NOT NULL"
        f" AND (p.checkpoint_id IS NULL OR {parent} >= {own})"
    )
    yield (
        f"SELECT DISTINCT {exact('c.thread_id')} FROM"
        f" (SELECT DISTINCT thread_id, {ns}, checkpoint_id FROM {tables.writes.source}) c"
        f" LEFT JOIN {checkpoints} p ON {of_writes} AND {in_thread}"
        " WHERE p.checkpoint_id IS NULL"
    )
