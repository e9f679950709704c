"""Find credentials in one thread: in its checkpoints, their metadata and their writes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.codec.limits import WHOLE_LIMITS
from ckpt_backends.codec.limits import unread as not_read
from ckpt_backends.codec.values import Cut, Value
from ckpt_backends.model import Blob, Checkpoint, TypedBytes, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import without_snapshot
from ckpt_cli.core.secrets.occurrences import LocatedSecret, SecretOccurrences, located
from ckpt_cli.core.secrets.scanner import Scanner, SecretPart
from ckpt_cli.core.secrets.unread import CANNOT_DECODE, why_unread
from ckpt_cli.core.state import read_body

_LENGTHS = re.compile(rb"[\xd9\x8c].|\xda..|[\xaa\xb5\xba]", re.DOTALL)
"""What msgpack and pickle write before a text. As characters, these bytes may be letters."""
_SENDS = "__pregel_tasks"
"""The channel of the Sends that old bodies hold themselves."""


@dataclass(frozen=True, slots=True)
class _SearchedValue:
    """A value of a channel, and what was found in it."""

    stored: TypedBytes | None
    """None if it is stored in the body."""
    value: Value
    found: tuple[LocatedSecret, ...]


class ThreadSecrets:
    """Reads a thread once. Of a channel, a value equal to that of the checkpoint before is not
    decoded or searched again.
    """

    def __init__(self, scanner: Scanner, thread_id: str, unread: Counter[str]) -> None:
        self.occurrences = SecretOccurrences()
        self._scanner = scanner
        self._thread_id = thread_id
        self._unread = unread
        """The number of values that could not be read, by reason."""
        self._ranks: dict[tuple[str, str], int] = {}
        self._ns: str | None = None
        self._last: dict[str, _SearchedValue] = {}

    def read(self, store: Store) -> None:
        """Search all that is stored for the thread. Raises what reading it raises."""
        for checkpoint in store.checkpoints(self._thread_id, body=True, metadata=True, values=True):
            self._search_checkpoint(checkpoint)
        self._last.clear()
        for write in store.writes(self._thread_id, values=True):
            if write.value is not None:
                self._search_write(write, write.value)

    def _search_checkpoint(self, checkpoint: Checkpoint) -> None:
        key = checkpoint.key
        if key.checkpoint_ns != self._ns:
            self._ns = key.checkpoint_ns
            self._last.clear()
        rank = self._ranks[key.checkpoint_ns, key.checkpoint_id] = len(self._ranks)
        blobs = checkpoint.blobs or {}
        inline = checkpoint if checkpoint.blobs is None else checkpoint._replace(blobs={})
        body = read_body(inline)
        if body.problem is None and any(isinstance(one, Cut) for one in body.values.values()):
            body = read_body(inline, partial(decode_checkpoint, limits=WHOLE_LIMITS))
        values = {**body.values, _SENDS: body.pending_sends} if body.pending_sends else body.values
        for channel, value in values.items():
            if channel not in blobs:
                found = self._inline(channel, without_snapshot(value), checkpoint.body)
                self.occurrences.add("value", channel, key, rank, found)
        for channel, blob in blobs.items():
            self.occurrences.add("value", channel, key, rank, self._apart(channel, blob))
        if body.problem is not None and checkpoint.body is not None:
            parts = self._parts(body.problem, checkpoint.body)
            self.occurrences.add("value", None, key, rank, located(None, parts))
        if checkpoint.metadata is not None:
            metadata = decode_whole(checkpoint.metadata)
            found = located(metadata, self._parts(metadata, checkpoint.metadata))
            self.occurrences.add("metadata", None, key, rank, found)

    def _search_write(self, write: Write, stored: TypedBytes) -> None:
        value = decode_whole(stored)
        found = located(value, self._parts(value, stored, write.channel))
        rank = self._ranks.get((write.key.checkpoint_ns, write.key.checkpoint_id))
        self.occurrences.add(
            "write",
            write.channel,
            write.key,
            len(self._ranks) if rank is None else rank,
            found,
            task_id=write.task_id,
            idx=write.idx,
        )

    def _inline(
        self, channel: str, value: Value, body: TypedBytes | None
    ) -> tuple[LocatedSecret, ...]:
        """Return what is in a value that the body of a checkpoint holds."""
        last = self._last.get(channel)
        if last is None or last.stored is not None or last.value != value:
            found = located(value, self._parts(value, body, channel))
            last = self._last[channel] = _SearchedValue(None, value, found)
        return last.found

    def _apart(self, channel: str, blob: Blob) -> tuple[LocatedSecret, ...]:
        """Return what is in a value that is stored outside of the body."""
        stored = blob.value or not_read(blob.type, blob.size)
        last = self._last.get(channel)
        if last is None or last.stored != stored:
            value = without_snapshot(decode_whole(stored))
            found = located(value, self._parts(value, stored, channel))
            last = self._last[channel] = _SearchedValue(stored, None, found)
        return last.found

    def _parts(
        self, value: Value, stored: TypedBytes | None, channel: str | None = None
    ) -> list[SecretPart]:
        """Return what is in a value and in the name of its channel, and count what is unread."""
        parts = searched_parts(self._scanner, self._unread, value, stored, channel)
        if channel is not None:
            parts += self._scanner.parts(channel)
        return parts


def decode_whole(stored: TypedBytes) -> Value:
    """Return a value, with more of it than is decoded to be shown."""
    value = decode(stored)
    return decode(stored, WHOLE_LIMITS) if isinstance(value, Cut) else value


def searched_parts(
    scanner: Scanner,
    unread: Counter[str],
    value: Value,
    stored: TypedBytes | None,
    key: str | None = None,
) -> list[SecretPart]:
    """Return the credentials in a value. Of one that could not be decoded, the stored bytes are
    searched too: texts stand in them as they are.
    """
    searched = scanner.scan(value, key)
    parts = list(searched.parts)
    if searched.is_whole:
        return parts
    why = why_unread(value)
    unread[why] += bool(why)
    if why == CANNOT_DECODE and stored is not None:
        apart = _LENGTHS.sub(lambda found: bytes(len(found[0])), stored.data)
        for data in (stored.data, apart):
            known = {one.text for one in parts}
            found = (one for one in scanner.parts(data) if one.text not in known)
            parts += [replace(one, path=()) for one in found]
    return parts
