"""Creates commands that change the layout of `hashes` in the same form as the saver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.connect import Command
from ckpt_backends.redis.engine.keyspace import Added, raw
from ckpt_backends.redis.hashes.layout import Hashes


class HashWriter:
    """Writes checkpoints and writes as hashes. There are no other keys."""

    def __init__(self, layout: Hashes) -> None:
        self._layout = layout

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        return self._layout.checkpoint_name(key)

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        return self._layout.write_name(key, task_id, idx)

    def watched(self, thread_id: str, heads: Mapping[str, str]) -> list[bytes]:  # noqa: ARG002
        return []

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        name = self.checkpoint_name(one.key)
        if origin is not None:
            # Copy the whole hash, to keep fields that other savers add.
            yield from self._layout.copied(origin, name)
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
            yield ("HSET", self.checkpoint_name(key), *values)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:  # noqa: ARG002
        yield from ()

    def register(
        self,
        key: CheckpointKey,  # noqa: ARG002
        added: Sequence[Added],  # noqa: ARG002
        expiry: int,  # noqa: ARG002
    ) -> Iterator[Command]:
        yield from ()

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        yield ("UNLINK", self.checkpoint_name(key), *writes)

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:  # noqa: ARG002
        yield from ()


def _values(metadata: TypedBytes | None, body: TypedBytes | None) -> list[bytes | str]:
    values: list[bytes | str] = []
    if body is not None:
        values += ["type", body.type, "checkpoint", body.data]
    if metadata is not None:
        values += ["metadata", metadata.data]
        if metadata.type != "json":
            values += ["metadata_type", metadata.type]
    return values
