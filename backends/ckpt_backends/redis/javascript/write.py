"""Changes and removes threads of LangGraph.js in the same form as its saver."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from redis import exceptions

from ckpt_backends.changes.change import Change, NewBlob
from ckpt_backends.changes.removal import Inside
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.command_plan import expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.json_plan import JsonPlan
from ckpt_backends.redis.engine.key_plan import AddedWrite
from ckpt_backends.redis.engine.key_removal import KeyRemoval
from ckpt_backends.redis.engine.keyspace import APART
from ckpt_backends.redis.engine.thread_removal import KEYS_AT_ONCE, run, unlink
from ckpt_backends.redis.javascript.stored_values import (
    REFUSED,
    blob_name,
    checkpoint_document,
    value_document,
    versions_of,
    write_document,
)
from ckpt_backends.transfer.parts import CheckpointPart, WritePart

_STORING = timedelta(seconds=2)
"""The saver stores a checkpoint at once after its values. `gc --grace` keeps younger ones, too."""


class JavaScriptPlan(JsonPlan):
    """A change of documents, of the lists of writes, and of separate values."""

    def __init__(self, layout: JsonDocuments, change: Change) -> None:
        super().__init__(layout, change)
        thread_id = change.thread_id
        if REFUSED.search(thread_id):
            raise Unsupported(
                f"LangGraph.js rejects the thread id '{thread_id}' on Redis",
                hint="use an id without * ? [ ] and \\",
            )
        # The saver changes a head's document when one of its tasks stores a write.
        self.watched = [
            layout.checkpoint_name(CheckpointKey(thread_id, ns, head))
            for ns, head in change.heads.items()
        ]

    def flag(self, writes: int) -> str:
        return "true" if writes else "false"

    def score(self, number: int, one: AddedWrite) -> int:  # noqa: ARG002
        return number

    def metadata(self, metadata: TypedBytes) -> bytes:
        return metadata.data

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        part = CheckpointPart(
            one.key,
            one.parent_checkpoint_id,
            one.body or TypedBytes("json", b"{}"),
            one.metadata or TypedBytes("json", b"{}"),
        )
        now = time.time_ns() // 1_000_000
        name = self._layout.checkpoint_name(one.key)
        yield ("JSON.SET", name, "$", checkpoint_document(part, now, has_writes=writes > 0))

    def add_write(self, write: Write) -> Iterator[Command]:
        value = write.value or TypedBytes("json", b"null")
        # The saver's clock starts at 0 with its process, so this time sorts after its writes.
        now = time.time() * 1e6
        name = self.write_name(write.key, write.task_id, write.idx)
        part = WritePart(write.key, write.task_id, "", write.idx, write.channel, value)
        yield ("JSON.SET", name, "$", write_document(part, now + write.idx))

    def values(self) -> Iterator[Command]:
        change, thread_id = self._change, self._change.thread_id
        removed = {
            blob_name(CheckpointKey(thread_id, ns, ""), (channel, version))
            for ns, channel, version in change.removed_blobs
        }
        gone_with = (change.removed or {}).keys()
        if gone_with and all(one.key in gone_with for one in self._found.places.values()):
            of_thread = self._layout.blobs(self._found)
            removed.update(name for name, own, _, _ in of_thread if own == thread_id)
        if removed:
            yield ("UNLINK", *sorted(removed))
        yield from self._copied_values()
        for blob in change.blobs:
            if blob.value.type == "empty":
                continue  # A channel without a value has no key.
            owner = self._owner_of(blob)
            name = blob_name(owner, (blob.channel, blob.version))
            if name not in removed:
                self._make(name)
            yield self._added(name, owner, blob)
            yield from expiring(name, self._expiry_of_new(owner))

    def _copied_values(self) -> Iterator[Command]:
        """Copy the values that the copied checkpoints name, each once."""
        copies, thread_id = self._change.copies, self._change.thread_id
        versions = self._connection.ask_all(
            ("JSON.GET", self._layout.checkpoint_name(one.source), "$.checkpoint.channel_versions")
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
                    target = CheckpointKey(thread_id, copy.source.checkpoint_ns, "")
                    copied = self._make(blob_name(target, places[name]))
                    yield ("COPY", self._need(name, copy.source), copied)
                    yield ("JSON.SET", copied, "$.thread_id", json.dumps(thread_id))

    def _owner_of(self, blob: NewBlob) -> CheckpointKey:
        """The new checkpoint that names a value, or the head if the value is restored."""
        change, at = self._change, (blob.channel, blob.version)
        for one in change.checkpoints:
            if (
                one.key.checkpoint_ns == blob.checkpoint_ns
                and versions_of(one.body).get(blob.channel) == at
            ):
                return one.key
        head = change.heads.get(blob.checkpoint_ns, "")
        return CheckpointKey(change.thread_id, blob.checkpoint_ns, head)

    def _added(self, name: bytes, owner: CheckpointKey, blob: NewBlob) -> Command:
        stored = value_document(owner, blob.channel, blob.version, blob.value.data)
        return ("JSON.SET", name, "$", stored)


class JavaScriptRemoval(KeyRemoval):
    """The removal of one thread, or of a part of it."""

    def _run_last(self, inside: Inside | None, rows: Counter[str]) -> None:
        """Remove values, except those that an agent has stored again meanwhile.

        Two branches may use the same version of a channel, and a saver stores values before the
        checkpoint that names them. So the checkpoint id in each value is checked: a value of a
        newer checkpoint is kept for 2 seconds, in which the checkpoint would have been stored.
        """
        known = self.keys.blobs
        newest = max((one.key.checkpoint_id for one in self.keys.checkpoints), default=None)
        planned = [known[key] for key in (inside.blobs if inside else ()) if key in known]
        for start in range(0, len(planned), KEYS_AT_ONCE):
            names = planned[start : start + KEYS_AT_ONCE]
            self._lock.keep()
            with (
                suppress(exceptions.WatchError),  # they were stored again: keep them
                self._connection.transaction(names, loose=True) as pipe,
            ):
                pipe.watch(*names)
                told = self._connection.ask_all(
                    ("JSON.GET", name, "$.checkpoint_id") for name in names
                )
                came = [json.loads(one or b"[]") for one in told]
                old = [name for name, ids in zip(names, came, strict=True) if _is_old(ids, newest)]
                if old:
                    run(pipe, [unlink(APART, old)], rows)


def _is_old(ids: Sequence[object], newest: str | None) -> bool:
    limit = datetime.now(UTC) - _STORING
    for one in ids:
        if not isinstance(one, str):
            return False
        at = time_of(one)
        is_late = newest is None or one > newest
        if is_late and (at is None or at >= limit):
            return False
    return True
