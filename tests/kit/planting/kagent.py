"""Changes rows of kagent's tables."""

from base64 import b64decode
from typing import Any, ClassVar

from tests.kit.harness.kagent import KagentHarness
from tests.kit.planting.base import Place, Typed
from tests.kit.planting.sql import SqlPlanter
from tests.kit.savers.kagent import encoded


class KagentPlanter(SqlPlanter[KagentHarness]):
    """Rows with texts in base64."""

    writes: ClassVar[str] = "lg_checkpoint_write"
    idx: ClassVar[str] = "write_idx"
    tag: ClassVar[str] = "value_type"
    cell: ClassVar[str] = "value"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s").replace("checkpoints", "lg_checkpoint")
        found = self.harness.connection.execute(text.encode(), values)
        return [] if found.description is None else [tuple(row.values()) for row in found]

    def packed(self, data: bytes) -> str:
        return encoded(data)

    def unpacked(self, stored: str) -> bytes:
        return b64decode(stored)

    def stored_body(self, place: Place) -> Typed:
        query = "SELECT checkpoint_type, checkpoint FROM checkpoints"
        ((tag, text),) = self.run(*self._of(query, place))
        return tag, b64decode(text)

    def store_body(self, place: Place, typed: Typed) -> None:
        update = "UPDATE checkpoints SET checkpoint_type = ?, checkpoint = ?"
        self.run(*self._of(update, place, typed[0], encoded(typed[1])))

    def spoil_metadata(self, place: Place) -> None:
        self.run(*self._of("UPDATE checkpoints SET metadata = ?", place, encoded(b"{spoilt")))
