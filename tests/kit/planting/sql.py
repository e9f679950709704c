"""Changes rows of LangGraph's tables in SQLite, PostgreSQL and MySQL."""

import json
from collections.abc import Callable
from typing import Any, ClassVar

from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.planting.base import ANY_VALUE, SERDE, SPOILT, H, Place, Planter, Typed


class SqlPlanter(Planter[H]):
    """What the tables of all engines have in common. Statements have `?` for values."""

    writes: ClassVar[str] = "checkpoint_writes"
    cell: ClassVar[str] = "`blob`"
    """The column with the value of a write."""

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        raise NotImplementedError

    def remove(self, place: Place) -> None:
        self.run(*self._of("DELETE FROM checkpoints", place))

    def spoil_metadata(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET metadata = '\"spoilt\"'", place))

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        query = f"SELECT task_id, idx, type, {self.cell} FROM {self.writes}"
        statement, *values = self._of(query, place)
        (task_id, idx, tag, stored), *_ = self.run(f"{statement} AND channel = ?", *values, channel)
        update = f"UPDATE {self.writes} SET type = ?, {self.cell} = ?"
        statement, *values = self._of(update, place, *change((tag, bytes(stored))))
        self.run(f"{statement} AND task_id = ? AND idx = ?", *values, task_id, idx)
        return str(task_id)

    def _of(self, statement: str, place: Place, *values: Any) -> tuple[str, *tuple[Any, ...]]:
        """Return a statement about the rows of one checkpoint, and its values."""
        where = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
        return (
            f"{statement} WHERE {where}",
            *values,
            *(place.thread_id, place.checkpoint_ns, place.checkpoint_id),
        )


class SqlitePlanter(SqlPlanter[SqliteHarness]):
    """Files of SQLite."""

    writes: ClassVar[str] = "writes"
    cell: ClassVar[str] = "value"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.harness.connection as connection:
            return connection.execute(statement, values).fetchall()

    def stored_body(self, place: Place) -> Typed:
        ((tag, data),) = self.run(*self._of("SELECT type, checkpoint FROM checkpoints", place))
        return tag, data

    def store_body(self, place: Place, typed: Typed) -> None:
        self.run(*self._of("UPDATE checkpoints SET type = ?, checkpoint = ?", place, *typed))

    def spoil_metadata(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET metadata = ?", place, b"{spoilt"))


class BlobTablesPlanter(SqlPlanter[H]):
    """Tables with values apart from checkpoints, and checkpoints as JSON."""

    def body(self, place: Place) -> Any:
        ((body,),) = self.run(*self._of("SELECT checkpoint FROM checkpoints", place))
        return body if isinstance(body, dict) else json.loads(body)

    def set_body(self, place: Place, body: Any) -> None:
        self.run(*self._of("UPDATE checkpoints SET checkpoint = ?", place, json.dumps(body)))

    def spoil_body(self, place: Place) -> None:
        self.set_body(place, "spoilt")

    def value(self, place: Place, channel: str) -> Any:
        ((tag, data),) = self._blob("SELECT type, `blob` FROM checkpoint_blobs", place, channel)
        return SERDE.loads_typed((tag, bytes(data)))

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        update = "UPDATE checkpoint_blobs SET type = ?, `blob` = ?"
        self._blob(update, place, channel, *SERDE.dumps_typed(value))

    def remove_value(self, place: Place, channel: str) -> None:
        self._blob("DELETE FROM checkpoint_blobs", place, channel)

    def spoil_value(self, place: Place, channel: str) -> None:
        self._blob("UPDATE checkpoint_blobs SET `blob` = ?", place, channel, SPOILT)

    def add_value(self, place: Place, channel: str) -> None:
        columns = self._columns()
        chosen = columns.replace("version", "?")
        insert = f"INSERT INTO checkpoint_blobs ({columns}) SELECT {chosen} FROM checkpoint_blobs"
        self._blob(insert, place, channel, ANY_VALUE)

    def _columns(self) -> str:
        return "thread_id, checkpoint_ns, channel, version, type, `blob`"

    def _blob(self, statement: str, place: Place, channel: str, *values: Any) -> Any:
        version = str(self.body(place)["channel_versions"][channel])
        where = "thread_id = ? AND checkpoint_ns = ? AND channel = ? AND version = ?"
        place_of = (place.thread_id, place.checkpoint_ns, channel, version)
        return self.run(f"{statement} WHERE {where}", *values, *place_of)


class PostgresPlanter(BlobTablesPlanter[PostgresHarness]):
    """Databases of PostgreSQL."""

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s").replace("`", '"')
        found = self.harness.connection.execute(text.encode(), values)
        return [] if found.description is None else [tuple(row.values()) for row in found]

    def spoil_metadata(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET metadata = '[]'", place))


class MySQLPlanter(BlobTablesPlanter[MySQLHarness]):
    """Databases of MySQL and MariaDB."""

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.harness.connection.cursor() as cursor:
            cursor.execute(statement.replace("?", "%s"), values)
            self.harness.connection.commit()
            return list(cursor.fetchall())

    def _columns(self) -> str:
        return f"{super()._columns()}, checkpoint_ns_hash"
