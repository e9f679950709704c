"""The SQL queries. The `{...}` fields are tables, columns and expressions of the `Database`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends.apps.three_table.layout import CREATED, HASH, VALUE, ThreeTables
from ckpt_backends.sql.blob_tables import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.sql.database import Database


class Queries:
    """The queries of one database."""

    def __init__(self, database: Database, tables: ThreeTables) -> None:
        self._database = database
        self._tables = tables
        self.checkpoints, self.blobs, self.writes = (
            tables.names[name] for name in (CHECKPOINTS, BLOBS, WRITES)
        )
        self.of_thread = database.same("thread_id", "thread")
        self._size = f"COALESCE({database.bytes_of(VALUE)}, 0)"

    def threads(self, *, one: bool, limit: bool) -> str:
        """One thread or all threads with their times and counts, newest first."""
        thread, ns = self._database.exact("thread_id"), self._database.exact("checkpoint_ns")
        where = f"WHERE {self.of_thread}" if one else ""
        most = f" LIMIT {self._database.mark('limit')}" if limit else ""
        return (
            f"SELECT {thread} AS thread, MIN({CREATED}), MAX({CREATED}) AS newest, COUNT(*),"
            f" COUNT(DISTINCT {ns}) FROM {self.checkpoints} {where}"
            f" GROUP BY {thread} ORDER BY newest DESC, thread{most}"
        )

    def heads(self, threads: Sequence[str]) -> str:
        """The newest checkpoint in the root namespace of several threads.

        `threads` are the names of the parameters with the thread ids.
        """
        exact = self._database.exact
        number = self._database.characters("checkpoint_id")
        marks = " OR ".join(self._database.same("thread_id", name) for name in threads)
        return (
            "SELECT thread, head FROM ("
            f"SELECT {exact('thread_id')} AS thread, checkpoint_id AS head,"
            f" ROW_NUMBER() OVER (PARTITION BY {exact('thread_id')} ORDER BY {CREATED} DESC,"
            f" {number} DESC, {exact('checkpoint_id')} DESC) AS place"
            f" FROM {self.checkpoints} WHERE {self._database.same('checkpoint_ns', 'root')}"
            f" AND ({marks})) heads WHERE place = 1"
        )

    def places(self) -> str:
        return (
            f"SELECT checkpoint_id, parent_checkpoint_id, checkpoint_ns, {HASH}, {CREATED}"
            f" FROM {self.checkpoints} WHERE {self.of_thread}"
        )

    def parts(self) -> str:
        return (
            f"SELECT {HASH}, channel, version, type, {self._size}"
            f" FROM {self.blobs} WHERE {self.of_thread}"
        )

    def written(self) -> str:
        return (
            f"SELECT DISTINCT checkpoint_id, {HASH}, channel"
            f" FROM {self.writes} WHERE {self.of_thread}"
        )

    def write_keys(self, value: str, only: str = "") -> str:
        """Writes in the order in which they were stored."""
        exact = self._database.exact
        has = self._tables.has
        path = "task_path" if has(WRITES, "task_path") else "''"
        at = CREATED if has(WRITES, CREATED) else "NULL"
        return (
            f"SELECT checkpoint_id, {HASH}, task_id, {path}, idx, channel, type, {self._size},"
            f" {at}, {value} FROM {self.writes} WHERE {self.of_thread}{only}"
            f" ORDER BY {exact('checkpoint_id')}, {at if at != 'NULL' else 'idx * 0'},"
            f" {exact('task_id')}, idx"
        )

    def short(self, most: int) -> str:
        """The value, or NULL if it has more than `most` bytes."""
        return f"CASE WHEN {self._size} <= {most} THEN {VALUE} END"

    def values(self, hashes: Mapping[str, object], channels: Sequence[str], most: int) -> str:
        """The values of some hashes and channels; both are given as names of parameters."""
        same = [self._database.same("channel", name) for name in channels]
        marks = ", ".join(self.cell(name, value) for name, value in hashes.items())
        return (
            f"SELECT {HASH}, channel, version, {self.short(most)} FROM {self.blobs}"
            f" WHERE {self.of_thread} AND {HASH} IN ({marks}) AND ({' OR '.join(same)})"
        )

    def cell(self, name: str, value: object) -> str:
        """The placeholder for a hash, which is text or bytes."""
        return self._database.text(name) if isinstance(value, str) else self._database.mark(name)

    def used(self, table: str) -> str:
        """Rows and bytes of a thread's values or writes, grouped by hash, channel and type."""
        exact = self._database.exact
        of = "''" if table == self.blobs else "checkpoint_id"
        groups = f"{HASH}, {exact('channel')}, {exact('type')}"
        id_group = "" if table == self.blobs else ", checkpoint_id"
        return (
            f"SELECT {groups}, {of}, COUNT(*), SUM({self._size}) FROM {table}"
            f" WHERE {self.of_thread} GROUP BY {groups}{id_group}"
        )

    def sizes(self, table: str, threads: Sequence[str]) -> str:
        """Rows and bytes of a table by thread."""
        thread = self._database.exact("thread_id")
        size = "0" if table == self.checkpoints else f"SUM({self._size})"
        marks = " OR ".join(self._database.same("thread_id", name) for name in threads)
        return (
            f"SELECT {thread} AS thread, COUNT(*), {size} FROM {table} WHERE {marks}"
            f" GROUP BY {thread}"
        )

    def used_threads(self) -> str:
        """The thread ids in all three tables, sorted."""
        thread = self._database.exact("thread_id")
        each = " UNION ".join(
            f"SELECT {thread} AS thread FROM {table}"
            for table in (self.checkpoints, self.blobs, self.writes)
        )
        return f"SELECT thread FROM ({each}) every ORDER BY {self._database.exact('thread')}"

    def suspects(self) -> list[str]:
        """The threads with a parent that is missing or may be newer, and with orphaned writes."""
        exact, characters = self._database.exact, self._database.characters

        def join(*columns: tuple[str, str]) -> str:
            # The first comparison uses an index. A collation may take other ids for equal.
            pairs = [(f"c.{one}", f"p.{other}") for one, other in columns]
            same = [f"{one} = {other} AND {exact(one)} = {exact(other)}" for one, other in pairs]
            return f"LEFT JOIN {self.checkpoints} p ON {' AND '.join(same)}"

        thread, ns = ("thread_id", "thread_id"), ("checkpoint_ns", "checkpoint_ns")
        to_parent = join(thread, ns, ("parent_checkpoint_id", "checkpoint_id"))
        to_own = join(thread, ("checkpoint_id", "checkpoint_id"))
        found = f"SELECT DISTINCT {exact('c.thread_id')} FROM"
        parent, own = "p.checkpoint_id", "c.checkpoint_id"
        return [
            f"{found} {self.checkpoints} c {to_parent} WHERE c.parent_checkpoint_id <> ''"
            f" AND ({parent} IS NULL OR p.{CREATED} > c.{CREATED}"
            f" OR {characters(parent)} > {characters(own)} OR {exact(parent)} >= {exact(own)})",
            f"{found} {self.writes} c {to_own} WHERE {parent} IS NULL",
        ]

    def any_hash(self) -> str:
        return f"SELECT {HASH} FROM {self.checkpoints} LIMIT 1"

    def some_place(self, stored: object, *, own: bool) -> str:
        """Returns a row if a checkpoint of the root namespace has the hash of that namespace.

        With `own`, it returns a row if a checkpoint there has a different hash.
        """
        differs = "<>" if own else "="
        return (
            f"SELECT 1 FROM {self.checkpoints}"
            f" WHERE checkpoint_ns = '' AND {HASH} {differs} {self.cell('hash', stored)} LIMIT 1"
        )
