"""Changes rows of kagent's tables."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from typing import Any, ClassVar

from tests.kit.harness.kagent import KagentHarness
from tests.kit.planting.base import SERDE, SPOILT, Place
from tests.kit.planting.sql import SqlPlanter
from tests.kit.savers.kagent import encoded


class KagentPlanter(SqlPlanter[KagentHarness]):
    """Rows with texts in base64."""

    writes: ClassVar[str] = "lg_checkpoint_write"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s").replace("checkpoints", "lg_checkpoint")
        found = self.harness.connection.execute(text.encode(), values)
        return [] if found.description is None else [tuple(row.values()) for row in found]

    def body(self, place: Place) -> Any:
        query = "SELECT checkpoint_type, checkpoint FROM checkpoints"
        ((tag, text),) = self.run(*self._of(query, place))
        return SERDE.loads_typed((tag, b64decode(text)))

    def set_body(self, place: Place, body: Any) -> None:
        tag, data = SERDE.dumps_typed(body)
        update = "UPDATE checkpoints SET checkpoint_type = ?, checkpoint = ?"
        self.run(*self._of(update, place, tag, encoded(data)))

    def spoil_body(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET checkpoint = ?", place, encoded(SPOILT)))

    def spoil_metadata(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET metadata = ?", place, encoded(b"{spoilt")))

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        task_id, idx, tag, text = self._write(place, channel)
        tag, data = SERDE.dumps_typed(change(SERDE.loads_typed((tag, b64decode(text)))))
        self._store_write(place, task_id, idx, tag, data)
        return str(task_id)

    def _write(self, place: Place, channel: str) -> Any:
        query = f"SELECT task_id, write_idx, value_type, value FROM {self.writes}"
        statement, *values = self._of(query, place)
        return self.run(f"{statement} AND channel = ?", *values, channel)[0]

    def _store_write(self, place: Place, task_id: str, idx: int, tag: str, data: bytes) -> None:
        update = f"UPDATE {self.writes} SET value_type = ?, value = ?"
        statement, *values = self._of(update, place, tag, encoded(data))
        self.run(f"{statement} AND task_id = ? AND write_idx = ?", *values, task_id, idx)
