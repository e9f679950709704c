"""What the layouts in tables of SQL have in common."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, Refusal, StoredRows

BLOBS = "checkpoint_blobs"


class SqlHarness(Harness):
    """A layout whose threads have rows in tables."""

    TABLES: tuple[str, ...] = ("checkpoints", BLOBS, "checkpoint_writes")
    """The first has the checkpoints."""
    of_thread: ClassVar[str] = "thread_id = %s"
    """Chooses the rows of a thread, whose id is a value of the query."""
    as_text: ClassVar[str] = "{}"
    """How a column is read so that equal rows are equal tuples."""
    size_of_body: ClassVar[str]
    """The bytes of a checkpoint with its metadata, in SQL."""
    size_of_value: ClassVar[str]
    """The bytes of a value in another table."""

    @abstractmethod
    def run(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Run a statement on a connection of its own. Return its rows."""

    @abstractmethod
    def columns(self, table: str) -> list[str]:
        """Return the columns of a table but the thread's id, as a query names them."""

    def rows(self, thread_id: str) -> StoredRows:
        return {
            table: self.run(
                f"SELECT {', '.join(map(self.as_text.format, self.columns(table)))} FROM {table}"
                f" WHERE {self.of_thread} ORDER BY 1, 2, 3, 4",
                thread_id,
            )
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            columns = ", ".join(self.columns(table))
            only = "" if table == BLOBS else f" AND checkpoint_id <= '{until}'"
            mark = self.of_thread.rpartition(" ")[2]
            self.run(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT {mark}, {columns} FROM {table} WHERE {self.of_thread}{only}",
                new_id,
                thread_id,
            )

    def forget(self, thread_id: str) -> None:
        for table in self.TABLES:
            self.run(f"DELETE FROM {table} WHERE {self.of_thread}", thread_id)

    def count(self) -> Count | None:
        found = Count()
        for table in self.TABLES:
            size = self.size_of_body if table == self.TABLES[0] else self.size_of_value
            ((rows, total),) = self.run(f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}")
            kind = {self.TABLES[0]: "checkpoints", BLOBS: "blobs"}.get(table, "writes")
            found.add(table, kind, int(total), rows)
        return found


class Shallow(SqlHarness):
    """A saver that keeps only the newest checkpoint of each namespace."""

    has_history: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely"}
    )
    """There is no history to go back to."""
    scenario_errors: ClassVar[Refusal] = StopIteration
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    """A `put` removes the writes of all other checkpoints. If the graph does not wait for it, it
    may come late and remove the writes of the next checkpoint.
    """
