"""The queries. `{...}` are tables, columns and what the engine's `Database` puts there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckpt_backends.apart import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.threetable.database import Database
from ckpt_backends.threetable.layout import CREATED, HASH, VALUE, ThreeTables


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
        """Threads and their times, the newest first; one of them, or all."""
        thread, ns = self._database.exact("thread_id"), self._database.exact("checkpoint_ns")
        where = f"WHERE {self.of_thread}" if one else ""
        most = f" LIMIT {self._database.mark('limit')}" if limit else ""
        return (
            f"SELECT {thread} AS thread, MIN({CREATED}), MAX({CREATED}) AS newest, COUNT(*),"
            f" COUNT(DISTINCT {ns}) FROM {self.checkpoints} {where}"
            f" GROUP BY {thread} ORDER BY newest DESC, thread{most}"
        )

    def heads(self, threads: Sequence[str]) -> str:
        """The newest checkpoint in the root namespace of each of some threads, bound by name."""
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
        """The value, unless it is longer."""
        return f"CASE WHEN {self._size} <= {most} THEN {VALUE} END"

    def values(self, hashes: Mapping[str, object], channels: Sequence[str], most: int) -> str:
        """Values under some hashes, of some channels, both bound by name."""
        same = [self._database.same("channel", name) for name in channels]
        marks = ", ".join(self.cell(name, value) for name, value in hashes.items())
        return (
            f"SELECT {HASH}, channel, version, {self.short(most)} FROM {self.blobs}"
            f" WHERE {self.of_thread} AND {HASH} IN ({marks}) AND ({' OR '.join(same)})"
        )

    def cell(self, name: str, value: object) -> str:
        """What stands for a bound hash, which is text or bytes."""
        return self._database.text(name) if isinstance(value, str) else self._database.mark(name)

    def used(self, table: str) -> str:
        """What a thread's values or writes take."""
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
        """The threads of all three tables, in the order of their ids."""
        thread = self._database.exact("thread_id")
        each = " UNION ".join(
            f"SELECT {thread} AS thread FROM {table}"
            for table in (self.checkpoints, self.blobs, self.writes)
        )
        return f"SELECT thread FROM ({each}) every ORDER BY {self._database.exact('thread')}"

    def any_hash(self) -> str:
        return f"SELECT {HASH} FROM {self.checkpoints} LIMIT 1"

    def some_place(self, stored: object, *, own: bool) -> str:
        """Whether a checkpoint of the root has a hash of its own, or that of its namespace."""
        differs = "<>" if own else "="
        return (
            f"SELECT 1 FROM {self.checkpoints}"
            f" WHERE checkpoint_ns = '' AND {HASH} {differs} {self.cell('hash', stored)} LIMIT 1"
        )
