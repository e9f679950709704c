"""Creates commands that change the layout of `documents` in the same form as the saver."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

from ckpt_backends.changes.change import Change
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.command_plan import expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.json_plan import JsonPlan
from ckpt_backends.redis.engine.key_plan import AddedWrite
from ckpt_backends.redis.official.stored_values import (
    checkpoint_document,
    metadata_text,
    write_document,
)
from ckpt_backends.transfer.parts import CheckpointPart, WritePart


class DocumentPlan(JsonPlan):
    """A change of documents, of the pointer to each head, and of the lists of writes."""

    def __init__(self, layout: JsonDocuments, change: Change) -> None:
        super().__init__(layout, change)
        self.watched = [self._pointer(ns) for ns in sorted(change.heads) or [""]]
        self._order: dict[bytes, bytes] = {}
        """By key of a copied write, its place in the list of the original."""

    def _pointer(self, ns: str) -> bytes:
        (names,) = self._layout.pointers(self._change.thread_id, ns).values()
        return names[-1]

    def flag(self, writes: int) -> bool:
        return writes > 0

    def metadata(self, metadata: TypedBytes) -> str:
        return json.dumps(metadata_text(metadata))

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        part = CheckpointPart(
            one.key,
            one.parent_checkpoint_id,
            one.body or TypedBytes(REDIS_JSON, b"{}"),
            one.metadata or TypedBytes(REDIS_JSON, b"{}"),
        )
        stored = checkpoint_document(part, _stored_at(one.key), has_writes=self.flag(writes))
        name = self._layout.checkpoint_name(one.key)
        yield ("JSON.SET", name, "$", stored)

    def add_write(self, write: Write) -> Iterator[Command]:
        value = write.value or TypedBytes("null", b"")
        stored = write_document(
            WritePart(write.key, write.task_id, write.task_path, write.idx, write.channel, value)
        )
        name = self.write_name(write.key, write.task_id, write.idx)
        yield ("JSON.SET", name, "$", stored)

    def register(
        self, key: CheckpointKey, added: Sequence[AddedWrite], expiry: int
    ) -> Iterator[Command]:
        self._order = {}
        for source in {one.source for one in added if one.source is not None}:
            listed = self._layout.lists(source)[0]
            found = self._connection.ask("ZRANGE", listed, 0, -1, "WITHSCORES")
            self._order |= dict(zip(found[::2], found[1::2], strict=True))
        return super().register(key, added, expiry)

    def score(self, number: int, one: AddedWrite) -> bytes:
        return self._order.get(one.copied or b"", str(number).encode())

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:
        pointer = self._pointer(key.checkpoint_ns)
        if not there:
            yield ("UNLINK", pointer)
            return
        yield ("SET", pointer, self._layout.checkpoint_name(key))
        yield from expiring(pointer, expiry)


def _stored_at(key: CheckpointKey) -> float:
    """Return the time of a checkpoint in milliseconds: the same if it is added again."""
    at = time_of(key.checkpoint_id)
    return time.time() * 1000 if at is None else at.timestamp() * 1000
