"""Changes rows of SupabaseSaver's tables."""

from base64 import b64decode, b64encode
from typing import Any, ClassVar

from tests.kit.harness.supabase import SupabaseHarness
from tests.kit.planting.base import Place, Typed
from tests.kit.planting.sql import SqlPlanter

_TYPED = "{} = jsonb_build_object('type', ?::text, 'data', ?::text)"


class SupabasePlanter(SqlPlanter[SupabaseHarness]):
    """Rows with types and base64 texts in JSON."""

    writes: ClassVar[str] = "langgraph_checkpoint_writes"
    tag: ClassVar[str] = "write ->> 'type' AS tag"
    cell: ClassVar[str] = "write ->> 'data' AS cell"

    @property
    def typed_cell(self) -> str:
        return _TYPED.format("write")

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        text = statement.replace("?", "%s").replace(" checkpoints", " langgraph_checkpoints")
        found = self.harness.connection.execute(text.encode(), values)
        return [] if found.description is None else [tuple(row.values()) for row in found]

    def packed(self, data: bytes) -> str:
        return b64encode(data).decode()

    def unpacked(self, stored: str) -> bytes:
        return b64decode(stored)

    def stored_body(self, place: Place) -> Typed:
        query = (
            "SELECT checkpoint ->> 'type' AS tag, checkpoint ->> 'data' AS data FROM checkpoints"
        )
        ((tag, text),) = self.run(*self._of(query, place))
        return tag, b64decode(text)

    def store_body(self, place: Place, typed: Typed) -> None:
        update = f"UPDATE checkpoints SET {_TYPED.format('checkpoint')}"
        self.run(*self._of(update, place, typed[0], self.packed(typed[1])))
