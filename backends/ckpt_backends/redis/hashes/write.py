"""Creates commands that change the layout of hashes in the same form as the saver."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.changes.change import Change
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.key_plan import KeyPlan
from ckpt_backends.redis.engine.keyspace import raw
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.hashes.keys import WRITES


class HashPlan(KeyPlan[RedisLayout]):
    """A change of hashes, in the same form as the saver. There are no other keys."""

    def __init__(self, layout: RedisLayout, separator: str, change: Change) -> None:
        super().__init__(layout, change)
        self._separator = separator

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        place = (WRITES, key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        return raw(self._separator.join((*place, task_id, str(idx))))

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        name = self._layout.checkpoint_name(one.key)
        if origin is not None:
            # Copy the whole hash, to keep fields that other savers add.
            yield from self._copied(origin, name)
        fields: list[bytes | str] = ["checkpoint_id", raw(one.key.checkpoint_id)]
        fields += ["parent_checkpoint_id", raw(one.parent_checkpoint_id or "")]
        yield ("HSET", name, *fields, *_values(one.metadata, one.body))

    def add_write(self, write: Write) -> Iterator[Command]:
        value = write.value or TypedBytes("null", b"")
        name = self.write_name(write.key, write.task_id, write.idx)
        yield ("HSET", name, "channel", raw(write.channel), "type", value.type, "value", value.data)

    def change_copy(
        self,
        key: CheckpointKey,
        metadata: TypedBytes | None,
        body: TypedBytes | None,
        writes: int,  # noqa: ARG002
    ) -> Iterator[Command]:
        if values := _values(metadata, body):
            yield ("HSET", self._layout.checkpoint_name(key), *values)

    def _copied(self, source: bytes, target: bytes) -> Iterator[Command]:
        """Commands that copy a hash. COPY cannot copy to another server of a cluster."""
        if not self._connection.is_cluster:
            yield ("COPY", source, target)
            return
        fields = self._connection.ask("HGETALL", source)
        yield ("HSET", target, *(part for pair in sorted(fields.items()) for part in pair))


def _values(metadata: TypedBytes | None, body: TypedBytes | None) -> list[bytes | str]:
    values: list[bytes | str] = []
    if body is not None:
        values += ["type", body.type, "checkpoint", body.data]
    if metadata is not None:
        values += ["metadata", metadata.data]
        if metadata.type != "json":
            values += ["metadata_type", metadata.type]
    return values
