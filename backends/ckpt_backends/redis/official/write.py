"""Creates commands that change the layout of `documents` in the same form as the saver."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.codec import decode
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.connect import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import Added, raw
from ckpt_backends.redis.official.documents import (
    DIALECT,
    USUAL,
    Documents,
    stored_id,
    stored_ns,
)


class DocumentWriter:
    """Writes documents, the pointer to each head, and the list of each checkpoint's writes."""

    def __init__(self, connection: RedisConnection, layout: Documents) -> None:
        self._connection = connection
        self._layout = layout

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        return self._layout.checkpoint_name(key)

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        parts = (self._layout.prefixes.write, *_place(key), task_id, str(idx))
        return raw(":".join(parts))

    def watched(self, thread_id: str, heads: Mapping[str, str]) -> list[bytes]:
        keys = [CheckpointKey(thread_id, ns, "") for ns in sorted(heads) or [""]]
        return [self._pointer(key) for key in keys]

    def _pointer(self, key: CheckpointKey) -> bytes:
        """The key of the pointer to a head.

        Since 0.5, it has the saver's prefix; before, it had the default prefix. If the pointer with
        the default prefix exists and belongs to this saver, it is used.
        """
        rest = ":".join(_place(key)[:2])
        names = (f"{self._layout.prefixes.checkpoint}_latest:", f"{USUAL.checkpoint}_latest:")
        own, usual = (raw(name + rest) for name in names)
        if own != usual and self._connection.ask("EXISTS", usual):
            start = raw(f"{self._layout.prefixes.checkpoint}:")
            if (self._connection.ask("GET", usual) or b"").startswith(start):
                return usual
        return own

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        metadata = fields_of_metadata(one.metadata)
        fields = {
            "thread_id": stored_id(one.key.thread_id),
            "run_id": "",
            "checkpoint_ns": stored_ns(one.key.checkpoint_ns),
            "checkpoint_id": one.key.checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id or "",
            "checkpoint_ts": time.time() * 1000,
        }
        last = {"metadata": _text(one.metadata), "has_writes": writes > 0}
        last |= {name: metadata[name] for name in ("source", "step") if name in metadata}
        # Insert the body as bytes, so that its values do not change.
        document = (
            json.dumps(fields)[:-1].encode()
            + b', "checkpoint": '
            + (one.body.data if one.body is not None else b"{}")
            + b", "
            + json.dumps(last)[1:].encode()
        )
        yield ("JSON.SET", self.checkpoint_name(one.key), "$", document)

    def add_write(self, write: Write) -> Iterator[Command]:
        value = write.value or TypedBytes("null", b"")
        document = {
            "thread_id": stored_id(write.key.thread_id),
            "checkpoint_ns": stored_ns(write.key.checkpoint_ns),
            "checkpoint_id": write.key.checkpoint_id,
            "task_id": write.task_id,
            "task_path": write.task_path,
            "idx": write.idx,
            "channel": write.channel,
            "type": "json" if value.type == DIALECT else value.type,
            "blob": b64encode(value.data).decode(),
        }
        name = self.write_name(write.key, write.task_id, write.idx)
        yield ("JSON.SET", name, "$", json.dumps(document))

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        name = self.checkpoint_name(key)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(stored_id(key.thread_id)))
        yield ("JSON.SET", name, "$.has_writes", json.dumps(writes > 0))
        if metadata is not None:
            yield ("JSON.SET", name, "$.metadata", json.dumps(_text(metadata)))
        if body is not None:
            yield ("JSON.SET", name, "$.checkpoint", body.data)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        yield ("JSON.SET", name, "$.thread_id", json.dumps(stored_id(key.thread_id)))
        yield ("JSON.SET", name, "$.checkpoint_id", json.dumps(key.checkpoint_id))

    def register(
        self, key: CheckpointKey, added: Sequence[Added], expiry: int
    ) -> Iterator[Command]:
        listed = self._registry(key)
        sources = {one.source for one in added if one.source is not None}
        order = {name: score for key in sources for name, score in self._listed(key)}
        for number, one in enumerate(added):
            score = order.get(one.copied or b"", str(number).encode())
            yield ("ZADD", listed, score, one.name)
        if expiry >= 0:
            yield ("PEXPIRE", listed, expiry)

    def _registry(self, key: CheckpointKey) -> bytes:
        return raw(":".join(("write_keys_zset", *_place(key))))

    def _listed(self, key: CheckpointKey) -> list[tuple[bytes, bytes]]:
        """The keys in the list of a checkpoint's writes, with their scores."""
        found = self._connection.ask("ZRANGE", self._registry(key), 0, -1, "WITHSCORES")
        return list(zip(found[::2], found[1::2], strict=True))

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        yield ("UNLINK", self.checkpoint_name(key), self._registry(key), *writes)

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:
        pointer = self._pointer(key)
        if not there:
            yield ("UNLINK", pointer)
            return
        yield ("SET", pointer, self.checkpoint_name(key))
        if expiry >= 0:
            yield ("PEXPIRE", pointer, expiry)


def _place(key: CheckpointKey) -> tuple[str, str, str]:
    return stored_id(key.thread_id), stored_ns(key.checkpoint_ns), key.checkpoint_id


def _text(metadata: TypedBytes | None) -> str:
    return "{}" if metadata is None else metadata.data.decode("utf-8", "surrogatepass")


def fields_of_metadata(metadata: TypedBytes | None) -> dict[str, object]:
    """The text and number fields of metadata. `source` and `step` are copied to the document."""
    found = decode(metadata) if metadata is not None else {}
    fields = found if isinstance(found, dict) else {}
    return {str(name): value for name, value in fields.items() if isinstance(value, str | int)}
