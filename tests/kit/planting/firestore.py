"""Changes documents of FirestoreSaver."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from tests.kit.harness.firestore import COLLECTION, FirestoreHarness
from tests.kit.planting.base import SPOILT, Place, Planter, Typed


class FirestorePlanter(Planter[FirestoreHarness]):
    """Documents in an emulator."""

    def _room(self, thread_id: str, checkpoint_ns: str) -> Any:
        place = self.harness.client.document(COLLECTION, f"{thread_id}_{checkpoint_ns}")
        return place.collection("checkpoints")

    def _document(self, place: Place) -> Any:
        return self._room(place.thread_id, place.checkpoint_ns).document(place.checkpoint_id)

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = self._room(thread_id, checkpoint_ns).stream()
        return sorted((one.id for one in found), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        config = {"configurable": {"thread_id": thread_id}}
        return list(self.harness.kept_saver.namespaces(config))

    def parent(self, place: Place) -> str | None:
        return self._document(place).get().get("parent_checkpoint_id") or None

    def remove(self, place: Place) -> None:
        self._document(place).delete()

    def stored_body(self, place: Place) -> Typed:
        found = self._document(place).get()
        return found.get("type"), b64decode(found.get("checkpoint"))

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._document(place).update({"type": tag, "checkpoint": b64encode(data).decode()})

    def spoil_metadata(self, place: Place) -> None:
        self._document(place).update({"metadata": ["msgpack", b64encode(SPOILT).decode()]})

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        for one in self._document(place).collection("writes").stream():
            if one.get("channel") == channel:
                tag, data = change((one.get("type"), b64decode(one.get("value"))))
                one.reference.update({"type": tag, "value": b64encode(data).decode()})
                return str(one.get("task_id"))
        raise LookupError(channel)
