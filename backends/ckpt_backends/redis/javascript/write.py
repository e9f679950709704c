"""Creates commands that change the layout of `javascript` in the same form as LangGraph.js."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.changes.change import Change, CopyOfCheckpoint, NewBlob
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.connect import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import Added, raw
from ckpt_backends.redis.javascript.documents import JavaScriptDocuments, blob_name, versions_of
from ckpt_backends.redis.official.documents import stored_ns
from ckpt_backends.redis.official.write import fields_of_metadata

_REFUSED = re.compile(r"[*?[\]\\]")
"""Characters that the saver refuses in ids. Source: `assertSafeKeyComponent` in its `utils.js`."""


class JavaScriptWriter:
    """Writes documents, the list of each checkpoint's writes, and separate values."""

    def __init__(self, connection: RedisConnection, layout: JavaScriptDocuments) -> None:
        self._connection = connection
        self._layout = layout

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        return self._layout.checkpoint_name(key)

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        place = (key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        return raw(":".join((self._layout.prefixes.write, *place, task_id, str(idx))))

    def blob_name(self, thread_id: str, ns: str, channel: str, version: str) -> bytes:
        return blob_name(CheckpointKey(thread_id, ns, ""), (channel, version))

    def watched(self, thread_id: str, heads: Mapping[str, str]) -> list[bytes]:
        """The heads: the saver changes a head's document when one of its tasks stores a write."""
        if _REFUSED.search(thread_id):
            raise Unsupported(
                f"LangGraph.js rejects the thread id '{thread_id}' on Redis",
                hint="use an id without * ? [ ] and \\",
            )
        return [
            self.checkpoint_name(CheckpointKey(thread_id, ns, head)) for ns, head in heads.items()
        ]

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        first = {
            "thread_id": one.key.thread_id,
            "checkpoint_ns": stored_ns(one.key.checkpoint_ns),
            "checkpoint_id": one.key.checkpoint_id,
            "parent_checkpoint_id": one.parent_checkpoint_id,
        }
        metadata = fields_of_metadata(one.metadata)
        last = {"checkpoint_ts": time.time_ns() // 1_000_000, "has_writes": _flag(writes)}
        last |= {name: metadata[name] for name in ("source", "step") if name in metadata}
        # Insert body and metadata as bytes, so that their values do not change.
        document = (
            json.dumps(first)[:-1].encode()
            + b', "checkpoint": '
            + (one.body.data if one.body is not None else b"{}")
            + b', "metadata": '
            + (one.metadata.data if one.metadata is not None else b"{}")
            + b", "
            + json.dumps(last)[1:].encode()
        )
        yield ("JSON.SET", self.checkpoint_name(one.key), "$", document)

    def add_write(self, write: Write) -> Iterator[Command]:
        value = write.value or TypedBytes("json", b"null")
        # The saver's clock starts at 0 with its process, so this time sorts after its writes.
        now = time.time() * 1e6
        fields = {
            "thread_id": write.key.thread_id,
            "checkpoint_ns": write.key.checkpoint_ns,
            "checkpoint_id": write.key.checkpoint_id,
            "task_id": write.task_id,
            "idx": write.idx,
            "channel": write.channel,
            "type": "json" if value.data[:1] in {b"{", b"[", b"n"} else "string",
            "timestamp": now,
            "global_idx": now + write.idx,
        }
        document = json.dumps(fields)[:-1].encode() + b', "value": ' + value.data + b"}"
        yield ("JSON.SET", self.write_name(write.key, write.task_id, write.idx), "$", document)

    def owner_of(self, blob: NewBlob, change: Change) -> CheckpointKey:
        """The new checkpoint that names a value, or the head if the value is restored."""
        for one in change.checkpoints:
            named = versions_of(one.body).get(blob.channel)
            if one.key.checkpoint_ns == blob.checkpoint_ns and named == (
                blob.channel,
                blob.version,
            ):
                return one.key
        head = change.heads.get(blob.checkpoint_ns, "")
        return CheckpointKey(change.thread_id, blob.checkpoint_ns, head)

    def add_blob(self, name: bytes, owner: CheckpointKey, blob: NewBlob) -> Iterator[Command]:
        fields = {
            "thread_id": owner.thread_id,
            "checkpoint_ns": stored_ns(owner.checkpoint_ns),
            "checkpoint_id": owner.checkpoint_id,
            "channel": blob.channel,
            "version": blob.version,
            "type": "json",
        }
        document = json.dumps(fields)[:-1].encode() + b', "value": ' + blob.value.data + b"}"
        yield ("JSON.SET", name, "$", document)

    def values_of(
        self, copies: Sequence[CopyOfCheckpoint], thread_id: str
    ) -> Iterator[tuple[CheckpointKey, bytes, bytes]]:
        """The values to copy, each as (a checkpoint that names it, its key, the copy's key)."""
        versions = self._connection.ask_all(
            ("JSON.GET", self.checkpoint_name(one.source), "$.checkpoint.channel_versions")
            for one in copies
        )
        known: set[bytes] = set()
        for copy, answer in zip(copies, list(versions), strict=True):
            named = TypedBytes("json", b'{"channel_versions":' + (answer or b"[{}]")[1:-1] + b"}")
            places = {blob_name(copy.source, one): one for one in versions_of(named).values()}
            new = [name for name in places if name not in known]
            known.update(new)
            there = self._connection.ask_all(("EXISTS", name) for name in new)
            for name, is_there in zip(new, list(there), strict=True):
                if is_there:
                    ns = copy.source.checkpoint_ns
                    yield copy.source, name, self.blob_name(thread_id, ns, *places[name])

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        name = self.checkpoint_name(key)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(key.thread_id))
        yield ("JSON.SET", name, "$.has_writes", json.dumps(_flag(writes)))
        if metadata is not None:
            yield ("JSON.SET", name, "$.metadata", metadata.data)
        if body is not None:
            yield ("JSON.SET", name, "$.checkpoint", body.data)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        yield ("JSON.SET", name, "$.thread_id", json.dumps(key.thread_id))
        yield ("JSON.SET", name, "$.checkpoint_id", json.dumps(key.checkpoint_id))

    def register(
        self, key: CheckpointKey, added: Sequence[Added], expiry: int
    ) -> Iterator[Command]:
        (listed,) = self._layout.registries(key)
        for number, one in enumerate(added):
            yield ("ZADD", listed, number, one.name)
        if expiry >= 0:
            yield ("PEXPIRE", listed, expiry)

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        names = (self.checkpoint_name(key), *self._layout.registries(key), *writes)
        yield ("UNLINK", *names)

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:  # noqa: ARG002
        """Empty: this layout has no pointers to heads."""
        yield from ()


def _flag(writes: int) -> str:
    return "true" if writes else "false"
