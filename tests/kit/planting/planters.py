"""Changes single rows of a store by its driver, as a broken disk, a script or a person would.

A layout of each kind that the doctor reads has a planter.
"""

import json
import os
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, Self, TypeVar

import ormsgpack
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends import model
from ckpt_backends.codec import decode
from ckpt_backends.model import Checkpoint, CheckpointKey, make_id, ticks_at, ticks_of
from ckpt_backends.registry import open_store
from ckpt_backends.testing.filling import quiet, run_scenarios
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.scenarios.graphs import chat
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.mysql import MySQLHarness
from tests.kit.harness.postgres import PostgresHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.harness.sqlite import SqliteHarness

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


def id_at(seconds: float, step: int = 0) -> str:
    """Return the id of a checkpoint that is stored so many seconds from now."""
    ticks = ticks_at(datetime.now(UTC) + timedelta(seconds=seconds))
    return make_id(ticks, step, int.from_bytes(os.urandom(6)) | 1 << 40)


def id_before(checkpoint_id: str) -> str:
    """Return an id that is a millisecond older."""
    return _moved(checkpoint_id, -10_000)


def id_after(checkpoint_id: str) -> str:
    """Return an id that is a tenth of a millisecond newer."""
    return _moved(checkpoint_id, 1_000)


def _moved(checkpoint_id: str, by: int) -> str:
    ticks = ticks_of(checkpoint_id)
    assert ticks is not None
    # The step and the random number stay.
    return make_id(ticks + by, 0, 0)[:18] + checkpoint_id[18:]


def time_of(checkpoint_id: str) -> datetime:
    """Return the time in the id of a checkpoint."""
    found = model.time_of(checkpoint_id)
    assert found is not None
    return found


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


class MongoPlanter(Planter[MongoHarness]):
    """Documents of langgraph-checkpoint-mongodb."""

    @property
    def _checkpoints(self) -> Any:
        return self.harness.database["checkpoints"]

    @property
    def _writes(self) -> Any:
        return self.harness.database["checkpoint_writes"]

    def remove(self, place: Place) -> None:
        self._checkpoints.delete_one(self._key(place))

    def spoil_body(self, place: Place) -> None:
        self._set(place, {"checkpoint": SPOILT})

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, {"metadata.source": ["msgpack", SPOILT]})

    def stored_body(self, place: Place) -> Typed:
        one = self._one(place)
        return one["type"], one["checkpoint"]

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._set(place, {"type": tag, "checkpoint": data})

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        one = self._write(place, channel)
        tag, data = change((one["type"], one["value"]))
        self._writes.update_one({"_id": one["_id"]}, {"$set": {"type": tag, "value": data}})
        return str(one["task_id"])

    def _key(self, place: Place) -> dict[str, str]:
        return dict(place.config["configurable"])

    def _one(self, place: Place) -> Any:
        return self._checkpoints.find_one(self._key(place))

    def _write(self, place: Place, channel: str) -> Any:
        return self._writes.find_one({**self._key(place), "channel": channel})

    def _set(self, place: Place, fields: dict[str, Any]) -> None:
        self._checkpoints.update_one(self._key(place), {"$set": fields})


BY_CALL = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"]}
"""The JSON of an object that a trusting decoder makes by `os.system("true")`."""


class RedisPlanter(Planter[RedisHarness]):
    """Documents of langgraph-checkpoint-redis, with a pointer to each head."""

    spoils_values: ClassVar[bool] = False
    dangerous: ClassVar[Any] = BY_CALL

    @property
    def client(self) -> Any:
        return self.harness.client

    def name(self, at: Place) -> str:
        return f"checkpoint:{at.thread_id}:{at.checkpoint_ns or '__empty__'}:{at.checkpoint_id}"

    def stored(self, name: str | bytes) -> Any:
        return json.loads(self.client.execute_command("JSON.GET", name))

    def store(self, name: str | bytes, path: str, value: Any) -> None:
        self.client.execute_command("JSON.SET", name, path, json.dumps(value))

    def remove(self, at: Place) -> None:
        self.client.delete(self.name(at))

    def body(self, at: Place) -> Any:
        return self.stored(self.name(at))["checkpoint"]

    def set_body(self, at: Place, body: Any) -> None:
        self.store(self.name(at), "$.checkpoint", body)

    def spoil_body(self, at: Place) -> None:
        self.set_body(at, "spoilt")

    def spoil_metadata(self, at: Place) -> None:
        self.store(self.name(at), "$.metadata", "{spoilt")

    def set_write(self, at: Place, channel: str, change: Callable[[Any], Any]) -> str:
        def changed(typed: Typed) -> Typed:
            return typed[0], json.dumps(change(json.loads(typed[1]))).encode()

        return self.edit_write(at, channel, changed)

    def edit_write(self, at: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        name, one = self._write(at, channel)
        _, data = change(("json", b64decode(one["blob"])))
        self.store(name, "$.blob", b64encode(data).decode())
        return str(one["task_id"])

    def _write(self, at: Place, channel: str) -> tuple[bytes, Any]:
        start = self.name(at).replace("checkpoint:", "checkpoint_write:", 1)
        for name in self.client.scan_iter(f"{start}:*", 10_000):
            one = self.stored(name)
            if one["channel"] == channel:
                return name, one
        raise LookupError(channel)

    def forget_head(self, place: Place) -> None:
        parent = self.parent(place)
        assert parent is not None
        self.remove(place)
        self._point_to(place.at(parent))

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        self._point_to(head)
        return child

    def _point_to(self, head: Place) -> None:
        ns = head.checkpoint_ns or "__empty__"
        self.client.set(f"checkpoint_latest:{head.thread_id}:{ns}", self.name(head))


def fill(harness: Harness, threads: frozenset[str]) -> None:
    """Run some scenarios on the store."""
    chosen = threads - harness.skipped_scenarios - harness.failing_scenarios
    if harness.recording is not None:
        harness.restore_recording(chosen)
        return
    with quiet(), harness.saver() as saver:
        # Without "sync", a task may store its writes before the checkpoint is stored. The doctor
        # says of RedisSaver, rightly, that it then does not read them.
        run_scenarios(harness, saver, chosen, durability="sync")


PLANTERS: dict[str, type[Planter[Any]]] = {
    "sqlite": SqlitePlanter,
    "postgres": PostgresPlanter,
    "mysql": MySQLPlanter,
    "mongodb": MongoPlanter,
    "redis": RedisPlanter,
}
"""By the name of the harness."""
