"""Changes single rows of a store by its driver, as a broken disk, a script or a person would."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

import ormsgpack
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.model import Checkpoint, CheckpointKey
from ckpt_backends.registry import open_store
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.graphs import chat

SERDE = JsonPlusSerializer()
KEY = b"0123456789abcdef"
"""The key of encrypted threads."""
SPOILT = b"\xc1 spoilt"
"""Bytes that no serializer writes; as msgpack and as JSON they cannot be decoded."""
ANY_VALUE = "00000000000000000000000000000099.0.1234567890123456"
"""A version that no checkpoint names."""
Typed = tuple[str, bytes]
"""The tag of a value, and its bytes."""
H = TypeVar("H", bound=Harness)


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str

    @property
    def config(self) -> Any:
        return {
            "configurable": {
                "thread_id": self.thread_id,
                "checkpoint_ns": self.checkpoint_ns,
                "checkpoint_id": self.checkpoint_id,
            }
        }

    def at(self, checkpoint_id: str) -> Self:
        return replace(self, checkpoint_id=checkpoint_id)


class Planter(ABC, Generic[H]):
    """Reads and changes the rows of a store, whose names and forms a subclass knows."""

    spoils_values: ClassVar[bool] = True
    """Whether a single value can be undecodable."""
    garbage: ClassVar[Any] = ormsgpack.Ext(5, b"\xc1")
    """A value that the saver's serializer writes, but cannot decode."""
    dangerous: ClassVar[Any] = ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "true")))
    """A value for which a decoder that trusts the store would call `os.system("true")`."""

    def __init__(self, harness: H) -> None:
        self.harness = harness

    def places(self, thread_id: str, checkpoint_ns: str = "") -> list[Place]:
        """Return the checkpoints of a namespace, the saver's head first."""
        return [Place(thread_id, checkpoint_ns, one) for one in self.ids(thread_id, checkpoint_ns)]

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        """Return the ids of a namespace, the saver's head first."""
        with open_store(self.harness.url) as store:
            found = store.checkpoints(thread_id, checkpoint_ns=checkpoint_ns)
            return [one.key.checkpoint_id for one in found]

    def namespaces(self, thread_id: str) -> list[str]:
        """Return the namespaces of a thread."""
        with open_store(self.harness.url) as store:
            return list({one.key.checkpoint_ns for one in store.checkpoints(thread_id)})

    def _read(self, place: Place) -> Checkpoint:
        with open_store(self.harness.url) as store:
            (found,) = store.checkpoints_at([CheckpointKey(*astuple(place))], metadata=True)
            return found

    # Checkpoints

    def body(self, place: Place) -> Any:
        """Return the stored checkpoint, decoded by the official serializer."""
        return SERDE.loads_typed(self.stored_body(place))

    def set_body(self, place: Place, body: Any) -> None:
        """Replace the body of a checkpoint."""
        self.store_body(place, SERDE.dumps_typed(body))

    def spoil_body(self, place: Place) -> None:
        """Make the body of a checkpoint undecodable."""
        self.store_body(place, ("msgpack", SPOILT))

    def stored_body(self, place: Place) -> Typed:
        raise NotImplementedError

    def store_body(self, place: Place, typed: Typed) -> None:
        raise NotImplementedError

    def spoil_metadata(self, place: Place) -> None:
        """Make the metadata of a checkpoint undecodable."""
        raise NotImplementedError

    @abstractmethod
    def remove(self, place: Place) -> None:
        """Remove a checkpoint, and nothing else."""

    def parent(self, place: Place) -> str | None:
        """Return the id of a checkpoint's parent."""
        return self._read(place).parent_checkpoint_id

    def writes_place(self, child: Place) -> Place:
        """Return the checkpoint with which the writes that produced another one are stored."""
        parent = self.parent(child)
        assert parent is not None
        return child.at(parent)

    def caller(self, place: Place) -> str:
        """Return the id of the root checkpoint whose task called a subgraph."""
        metadata = self._read(place).metadata
        assert metadata is not None
        found: Any = decode(metadata)
        return str(found["parents"][""])

    def forget_head(self, place: Place) -> None:
        """Remove the head as if its saver had never stored it: pointers lead to its parent."""
        self.remove(place)

    # Values

    def value(self, place: Place, channel: str) -> Any:
        """Return the value of a channel."""
        return self.body(place)["channel_values"][channel]

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        """Replace the value of a channel."""
        body = self.body(place)
        body["channel_values"][channel] = value
        self.set_body(place, body)

    def remove_value(self, place: Place, channel: str) -> None:
        """Remove the value of a channel."""
        body = self.body(place)
        del body["channel_values"][channel]
        self.set_body(place, body)

    def spoil_value(self, place: Place, channel: str) -> None:
        """Make the value of a channel undecodable."""
        self.set_value(place, channel, self.garbage)

    def add_value(self, place: Place, channel: str) -> None:
        """Store a value that no checkpoint names."""
        raise NotImplementedError

    # Writes

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        """Replace what a task of a checkpoint wrote to a channel. Return the id of the task."""

        def changed(typed: Typed) -> Typed:
            return SERDE.dumps_typed(change(SERDE.loads_typed(typed)))

        return self.edit_write(place, channel, changed)

    def spoil_write(self, place: Place, channel: str) -> str:
        """Make what a task wrote undecodable. Return the id of the task."""
        return self.edit_write(place, channel, lambda typed: (typed[0], SPOILT))

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        """Replace what a task wrote, as it is stored. Return the id of the task."""
        raise NotImplementedError

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        """Store writes by the official saver."""
        self.harness.kept_saver.put_writes(place.config, writes, task_id)

    def put_encrypted(self, thread_id: str) -> None:
        """Run a conversation through the official saver with a key."""
        saver = self.harness.kept_saver
        owner = getattr(saver, "serializer", saver)
        before, owner.serde = owner.serde, EncryptedSerializer.from_pycryptodome_aes(key=KEY)
        try:
            config = {"configurable": {"thread_id": thread_id}}
            chat(saver).invoke({"messages": [("user", "Hello?")]}, config, durability="sync")
        finally:
            owner.serde = before

    # A checkpoint more

    def put(self, parent: Place, checkpoint_id: str, source: str, **values: Any) -> Place:
        """Store a child of a checkpoint by the official saver, with some values replaced."""
        saver = self.harness.kept_saver
        above = saver.get_tuple(parent.config)
        versions = dict(above.checkpoint["channel_versions"])
        new = {one: saver.get_next_version(max(versions.values()), None) for one in values}
        body = {
            **above.checkpoint,
            "id": checkpoint_id,
            "ts": time_of(checkpoint_id).isoformat(),
            "channel_values": {**above.checkpoint["channel_values"], **values},
            "channel_versions": {**versions, **new},
        }
        metadata = {**above.metadata, "source": source, "step": above.metadata["step"] + 1}
        saver.put(parent.config, body, metadata, new)
        return parent.at(checkpoint_id)

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        """Store a child of the head that the saver does not load as the newest."""
        return self.put(head, checkpoint_id, "loop")

    def put_ahead(self, head: Place) -> Place:
        """Store a child of the head as on a machine whose clock is a day ahead."""
        return self.put(head, id_at(24 * 3600), "loop")


_EPOCH = 0x01B21DD213814000
"""The beginning of Unix time in units of 100 ns since 1582."""


def id_at(seconds: float, step: int = 0) -> str:
    """Return the id of a checkpoint that is stored so many seconds from now."""
    ticks = int((datetime.now(UTC).timestamp() + seconds) * 1e7) + _EPOCH
    low = int.from_bytes(os.urandom(6)) | 1 << 40
    high = (ticks >> 12 << 16) | 0x6000 | (ticks & 0xFFF)
    return str(UUID(int=high << 64 | (0x8000 | step) << 48 | low))


def id_before(checkpoint_id: str) -> str:
    """Return an id that is a millisecond older."""
    return _moved(checkpoint_id, -10_000)


def id_after(checkpoint_id: str) -> str:
    """Return an id that is a tenth of a millisecond newer."""
    return _moved(checkpoint_id, 1_000)


def _moved(checkpoint_id: str, by: int) -> str:
    number = UUID(checkpoint_id).int
    ticks = (number >> 80 << 12 | number >> 64 & 0xFFF) + by
    high = (ticks >> 12 << 16) | 0x6000 | (ticks & 0xFFF)
    return str(UUID(int=high << 64 | number & (1 << 64) - 1))


def time_of(checkpoint_id: str) -> datetime:
    """Return the time in the id of a checkpoint."""
    number = UUID(checkpoint_id).int
    ticks = number >> 80 << 12 | number >> 64 & 0xFFF
    return datetime.fromtimestamp((ticks - _EPOCH) / 1e7, UTC)
