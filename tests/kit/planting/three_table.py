"""Changes rows of the three-table layout."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kit.harness.three_table import ThreeTableHarness
from tests.kit.planting.base import SERDE, SPOILT, Place, Planter, Typed
from tests.kit.savers.three_table import MARKS, connected, engine_of


class ThreeTablePlanter(Planter[ThreeTableHarness]):
    """Rows of checkpoints, writes and values, without bodies and metadata."""

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement with `?` for values, and return its rows."""
        mark = MARKS[engine_of(self.harness.url)]
        with connected(self.harness.url) as execute:
            found = execute(statement.replace("?", mark), list(values))
            return [] if found.description is None else list(found.fetchall())

    def _of(self, column: str, place: Place) -> Any:
        query = f"SELECT {column} FROM checkpoints WHERE thread_id = ? AND checkpoint_id = ?"
        ((found,),) = self.run(query, place.thread_id, place.checkpoint_id)
        return found

    def copy(self, thread_id: str, new_id: str) -> None:
        super().copy(thread_id, new_id)
        # The saver gives each row a millisecond of its own, and so gets ahead of the clock.
        ahead = max(self.harness._saver.times[new_id]) - datetime.now(UTC)
        time.sleep(max(ahead.total_seconds(), 0))

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        """Give the head the time of the first checkpoint."""
        first = self.places(head.thread_id)[-1]
        self._stored_at(head, self._of("gmt_create", first))
        return head

    def put_ahead(self, head: Place) -> Place:
        """Give the head the time of tomorrow."""
        at = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
        is_text = isinstance(self._of("gmt_create", head), str)
        self._stored_at(head, at.isoformat(" ", "milliseconds") if is_text else at)
        return head

    def _stored_at(self, place: Place, at: Any) -> None:
        update = "UPDATE checkpoints SET gmt_create = ? WHERE thread_id = ? AND checkpoint_id = ?"
        self.run(update, at, place.thread_id, place.checkpoint_id)

    def writes_place(self, child: Place) -> Place:
        return child

    def remove(self, place: Place) -> None:
        delete = "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_id = ?"
        self.run(delete, place.thread_id, place.checkpoint_id)

    def _blob(self, statement: str, place: Place, channel: str, *values: Any) -> Any:
        key = self._of("checkpoint_ns_hash", place)
        where = "thread_id = ? AND checkpoint_ns_hash = ? AND channel = ?"
        return self.run(f"{statement} WHERE {where}", *values, place.thread_id, key, channel)

    def value(self, place: Place, channel: str) -> Any:
        ((tag, data),) = self._blob("SELECT type, blob_data FROM checkpoint_blobs", place, channel)
        return SERDE.loads_typed((tag, bytes(data)))

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        update = "UPDATE checkpoint_blobs SET type = ?, blob_data = ?"
        self._blob(update, place, channel, *SERDE.dumps_typed(value))

    def spoil_value(self, place: Place, channel: str) -> None:
        self._blob("UPDATE checkpoint_blobs SET blob_data = ?", place, channel, SPOILT)

    def add_value(self, place: Place, channel: str) -> None:
        tag, data = SERDE.dumps_typed("left")
        key = "0" * 32 if isinstance(self._of("checkpoint_ns_hash", place), str) else b"0" * 16
        self.run(
            "INSERT INTO checkpoint_blobs"
            " (thread_id, checkpoint_ns_hash, channel, version, type, blob_data)"
            " VALUES (?, ?, ?, 0, ?, ?)",
            *(place.thread_id, key, channel, tag, data),
        )

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        where = "WHERE thread_id = ? AND checkpoint_id = ? AND channel = ?"
        address = place.thread_id, place.checkpoint_id, channel
        query = f"SELECT task_id, type, blob_data FROM checkpoint_writes {where}"
        ((task_id, tag, data),) = self.run(query, *address)
        typed = change((tag, bytes(data)))
        update = f"UPDATE checkpoint_writes SET type = ?, blob_data = ? {where}"
        self.run(update, *typed, *address)
        return str(task_id)

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        for idx, (channel, value) in enumerate(writes):
            tag, data = SERDE.dumps_typed(value)
            hashed = self._of("checkpoint_ns_hash", self.places(place.thread_id)[0])
            self.run(
                "INSERT INTO checkpoint_writes (thread_id, checkpoint_id, checkpoint_ns_hash,"
                " task_id, idx, channel, type, blob_data, task_path, gmt_create)"
                " SELECT ?, ?, ?, ?, ?, ?, ?, ?, '()', gmt_create FROM checkpoints"
                " WHERE thread_id = ? LIMIT 1",
                *(place.thread_id, place.checkpoint_id, hashed, task_id, idx, channel, tag, data),
                place.thread_id,
            )
