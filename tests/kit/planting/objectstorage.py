"""Changes objects of ObjectStorageSaver."""

from collections.abc import Callable
from typing import Any

import ormsgpack

from tests.kit.harness.objectstorage import ObjectStorageHarness
from tests.kit.planting.base import SPOILT, Place, Planter, Typed


class ObjectStoragePlanter(Planter[ObjectStorageHarness]):
    """Objects in a folder or a bucket."""

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = self.harness.files.find(
            f"{self.harness.root}/{_room(thread_id, checkpoint_ns)}checkpoints"
        )
        ids = (one.rpartition("/")[2].removesuffix(".msgpack") for one in found)
        return sorted(ids, reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        config = {"configurable": {"thread_id": thread_id}}
        return list(self.harness.kept_saver.namespaces(config))

    def _path(self, place: Place) -> str:
        start = _room(place.thread_id, place.checkpoint_ns)
        return f"{start}checkpoints/{place.checkpoint_id}.msgpack"

    def _fields(self, path: str) -> dict[str, Any]:
        data = self.harness.files.cat_file(f"{self.harness.root}/{path}")
        found: dict[str, Any] = ormsgpack.unpackb(data)
        return found

    def _set(self, path: str, **fields: Any) -> None:
        self.harness.put(path, ormsgpack.packb({**self._fields(path), **fields}))

    def parent(self, place: Place) -> str | None:
        found: str | None = self._fields(self._path(place))["parent_checkpoint_id"]
        return found

    def remove(self, place: Place) -> None:
        self.harness.files.rm_file(f"{self.harness.root}/{self._path(place)}")

    def stored_body(self, place: Place) -> Typed:
        tag, data = self._fields(self._path(place))["checkpoint"]
        return tag, data

    def store_body(self, place: Place, typed: Typed) -> None:
        self._set(self._path(place), checkpoint=list(typed))

    def spoil_metadata(self, place: Place) -> None:
        self._set(self._path(place), metadata=["msgpack", SPOILT])

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        start = _room(place.thread_id, place.checkpoint_ns)
        for path in self.harness.objects(f"{start}writes/{place.checkpoint_id}"):
            fields = self._fields(path)
            if fields["channel"] == channel:
                tag, data = change((fields["type"], fields["value"]))
                self._set(path, type=tag, value=data)
                return str(fields["task_id"])
        raise LookupError(channel)


def _room(thread_id: str, checkpoint_ns: str) -> str:
    """What the paths of a namespace begin with."""
    return f"{thread_id}/{checkpoint_ns}/" if checkpoint_ns else f"{thread_id}/"
