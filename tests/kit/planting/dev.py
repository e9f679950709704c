"""Changes the files of `langgraph dev`."""

from collections.abc import Callable
from typing import Any

from tests.kit.harness.langgraph_dev import DevHarness
from tests.kit.planting.base import ANY_VALUE, SERDE, SPOILT, Place, Planter, Typed


class DevPlanter(Planter[DevHarness]):
    """The dicts of the in-memory saver, which are stored before `ckpt` reads them."""

    def _rows(self, place: Place) -> Any:
        return self.harness.kept_saver.storage[place.thread_id][place.checkpoint_ns]

    def remove(self, place: Place) -> None:
        del self._rows(place)[place.checkpoint_id]
        self._store()

    def _store(self) -> None:
        assert self.harness.url

    def _set(self, place: Place, at: int, typed: tuple[str, bytes]) -> None:
        row = list(self._rows(place)[place.checkpoint_id])
        row[at] = typed
        self._rows(place)[place.checkpoint_id] = tuple(row)
        self._store()

    def stored_body(self, place: Place) -> Typed:
        found: Typed = self._rows(place)[place.checkpoint_id][0]
        return found

    def store_body(self, place: Place, typed: Typed) -> None:
        self._set(place, 0, typed)

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, 1, ("msgpack", SPOILT))

    def _blob(self, place: Place, channel: str) -> tuple[str, str, str, str]:
        version = self.body(place)["channel_versions"][channel]
        return place.thread_id, place.checkpoint_ns, channel, version

    def value(self, place: Place, channel: str) -> Any:
        return SERDE.loads_typed(self.harness.kept_saver.blobs[self._blob(place, channel)])

    def _set_blob(self, name: tuple[Any, ...], typed: tuple[str, bytes]) -> None:
        self.harness.kept_saver.blobs[name] = typed
        self._store()

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        self._set_blob(self._blob(place, channel), SERDE.dumps_typed(value))

    def remove_value(self, place: Place, channel: str) -> None:
        del self.harness.kept_saver.blobs[self._blob(place, channel)]
        self._store()

    def spoil_value(self, place: Place, channel: str) -> None:
        self._set_blob(self._blob(place, channel), ("msgpack", SPOILT))

    def add_value(self, place: Place, channel: str) -> None:
        name = (*self._blob(place, channel)[:3], ANY_VALUE)
        self._set_blob(name, SERDE.dumps_typed(self.value(place, channel)))

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        key = place.thread_id, place.checkpoint_ns, place.checkpoint_id
        writes = self.harness.kept_saver.writes[key]
        task, row = next((task, row) for task, row in writes.items() if row[1] == channel)
        writes[task] = (*row[:2], change(row[2]), *row[3:])
        self._store()
        return str(task[0])

    def put(self, parent: Place, checkpoint_id: str, source: str, **values: Any) -> Place:
        child = super().put(parent, checkpoint_id, source, **values)
        self._store()
        return child

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        super().put_writes(place, writes, task_id)
        self._store()
