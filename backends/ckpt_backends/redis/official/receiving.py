"""Stores threads of other stores as langgraph-checkpoint-redis would.

RedisSaver reads the writes of a checkpoint only if its field `has_writes` is true. A copied one
always has it, so that the same checkpoint becomes the same document, whether its writes come with
it or later. RedisSaver finds the head of a thread by its pointer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.document_fields import meant_id, meant_ns
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.receiving import ListOfWrites, NewDocument, Reception, expiring_at
from ckpt_backends.redis.engine.unfit_json import exact_json
from ckpt_backends.redis.official.stored_values import checkpoint_document, write_document
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, WritePart

_READ = frozenset({REDIS_JSON, "msgpack", "null", "bytes", "bytearray"})
"""The types of writes that RedisSaver reads."""


class DocumentReception(Reception):
    """Documents, the lists of writes, and the pointers to heads."""

    def __init__(self, layout: JsonDocuments, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._documents = layout
        self._lists: dict[CheckpointKey, ListOfWrites] = {}
        self._heads: dict[str, tuple[CheckpointKey, int | None]] = {}
        """By namespace, the newest checkpoint that comes, and when it expires."""
        if meant_id(arrival.thread_id) != arrival.thread_id:
            raise CannotHold(f"RedisSaver takes the id '{arrival.thread_id}' for an empty one")

    def documents(self, part: Part) -> Iterator[NewDocument]:
        if isinstance(part, CheckpointPart):
            yield self._checkpoint(part)
        elif isinstance(part, WritePart):
            yield self._write(part)
        else:
            raise CannotHold(f"RedisSaver stores channel '{part.channel}' in checkpoints only")

    def _checkpoint(self, part: CheckpointPart) -> NewDocument:
        key = part.key
        if meant_ns(key.checkpoint_ns) != key.checkpoint_ns:
            raise CannotHold(f"RedisSaver takes the namespace '{key.checkpoint_ns}' for the root")
        known = self._heads.get(key.checkpoint_ns)
        if known is None or known[0] < key:
            self._heads[key.checkpoint_ns] = key, part.expires_at
        exact = replace(part, body=exact_json(part.body, f"checkpoint '{key.checkpoint_id}'"))
        at = time_of(key.checkpoint_id)
        stored = checkpoint_document(
            exact, 0.0 if at is None else at.timestamp() * 1000, has_writes=True
        )
        return NewDocument(self._documents.checkpoint_name(key), stored, part.expires_at)

    def _write(self, part: WritePart) -> NewDocument:
        if part.value.type not in _READ:
            raise CannotHold(
                f"RedisSaver cannot read a write to '{part.channel}' of type '{part.value.type}'"
                f" at checkpoint '{part.key.checkpoint_id}'"
            )
        name = self._documents.write_name(part.key, part.task_id, part.idx)
        # The saver's number is the place in a call of `put_writes`, which `idx` is for most writes.
        self._lists.setdefault(part.key, ListOfWrites()).add(
            name, max(part.idx, 0), part.expires_at
        )
        return NewDocument(name, write_document(part), part.expires_at)

    def watched(self) -> Sequence[bytes]:
        spaces = sorted({*self.arrival.heads, *self._heads})
        return [self._pointer(ns) for ns in spaces]

    def last(self) -> Iterator[Command]:
        for key, some in self._lists.items():
            yield from some.commands(self._documents.lists(key)[0])
        old: Mapping[str, str] = self.arrival.heads
        for ns in sorted(self._heads, reverse=True):
            head, expires_at = self._heads[ns]
            if head.checkpoint_id > old.get(ns, ""):
                pointer = self._pointer(ns)
                yield ("SET", pointer, self._documents.checkpoint_name(head))
                yield from expiring_at(pointer, expires_at)

    def _pointer(self, ns: str) -> bytes:
        (names,) = self._documents.pointers(self.arrival.thread_id, ns).values()
        return names[-1]
