"""Stores threads of other stores as LangGraph.js would.

A value is stored under its version, which all checkpoints of the namespace share, and in the body
of the first checkpoint that comes with it. Versions are numbers, so branches may use the same
version for different values. Such a thread is refused: the saver would read the value of another
branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.document_fields import meant_ns
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.json_members import joined, members_of
from ckpt_backends.redis.engine.receiving import ListOfWrites, NewDocument, Reception
from ckpt_backends.redis.engine.unfit_json import exact_json
from ckpt_backends.redis.javascript.stored_values import (
    REFUSED,
    blob_name,
    checkpoint_document,
    value_document,
    write_document,
)
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, WritePart

_ABSENT = b""
"""In place of the digest of a value: the version has none."""


class JavaScriptReception(Reception):
    """Documents of checkpoints, writes and values, and the lists of writes."""

    def __init__(self, layout: JsonDocuments, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._documents = layout
        self._lists: dict[CheckpointKey, ListOfWrites] = {}
        self._next: dict[CheckpointKey, float] = {}
        """By checkpoint, the place of its next write in the order of arrival."""
        self._values: dict[tuple[str, str, str], bytes] = {}
        """By namespace, channel and version, the digest of the value."""
        self._checkpoints: set[CheckpointKey] = set()
        self._there: set[CheckpointKey] = set()
        """Checkpoints that come, and those that the thread already has."""
        if REFUSED.search(arrival.thread_id):
            raise CannotHold(f"LangGraph.js rejects the thread id '{arrival.thread_id}' on Redis")

    def documents(self, part: Part) -> Iterator[NewDocument]:
        if isinstance(part, CheckpointPart):
            yield from self._checkpoint(part)
        elif isinstance(part, WritePart):
            yield self._write(part)
        else:
            raise CannotHold(f"the value of channel '{part.channel}' came without its checkpoint")

    def _checkpoint(self, part: CheckpointPart) -> Iterator[NewDocument]:
        key, where = part.key, f"checkpoint '{part.key.checkpoint_id}'"
        ns = key.checkpoint_ns
        if REFUSED.search(ns + key.checkpoint_id) or meant_ns(ns) != ns:
            raise CannotHold(f"LangGraph.js cannot store {where} of namespace '{ns}' on Redis")
        self._checkpoints.add(key)
        body = exact_json(part.body, where)
        fields = members_of(body.data.decode("utf-8", "surrogatepass"))
        inside = members_of(fields.get("channel_values", "{}"))
        versions = json.loads(fields.get("channel_versions", "{}"))
        for channel, version in versions.items():
            named = f"channel '{channel}' of {where}"
            place = (ns, channel, version_text(version))
            value = inside.get(channel)
            if not self._is_new(key, place, value, named):
                inside.pop(channel, None)
            elif value is not None:
                data = value.encode("utf-8", "surrogatepass")
                document = value_document(key, *place[1:], data)
                yield NewDocument(blob_name(key, place[1:]), document, part.expires_at)
        fields["channel_values"] = joined(inside)
        stored = TypedBytes("json", joined(fields).encode("utf-8", "surrogatepass"))
        metadata = exact_json(part.metadata, f"the metadata of {where}")
        at = time_of(key.checkpoint_id)
        document = checkpoint_document(
            replace(part, body=stored, metadata=metadata),
            0.0 if at is None else at.timestamp() * 1000,
            has_writes=False,
        )
        yield NewDocument(self._documents.checkpoint_name(key), document, part.expires_at)

    def _is_new(
        self, key: CheckpointKey, place: tuple[str, str, str], value: str | None, named: str
    ) -> bool:
        """Whether a version is new. Raises `CannotHold` if it has another value."""
        digest = _digest(value)
        known = self._values.get(place)
        is_new = known is None
        if known is None and self.arrival.heads:
            known = self._stored(key, place)
            is_new = known is None
        if known is None:
            known = digest
        self._values[place] = known
        if known != digest:
            raise CannotHold(
                f"{named} has another value than version '{place[2]}' elsewhere in the thread"
            )
        return is_new

    def _stored(self, key: CheckpointKey, place: tuple[str, str, str]) -> bytes | None:
        """The digest of the value that the thread already has for a version."""
        (found,) = self._documents.connection.ask_all(
            [("JSON.GET", blob_name(key, place[1:]), "$.value")]
        )
        if found is None:
            return None
        text = bytes(found)[1:-1].decode("utf-8", "surrogatepass")
        return _digest(text or None)

    def _write(self, part: WritePart) -> NewDocument:
        where = f"the write to '{part.channel}' at checkpoint '{part.key.checkpoint_id}'"
        if part.value.type != "json":
            raise CannotHold(f"{where} has the type '{part.value.type}', and Redis needs JSON")
        if REFUSED.search(part.task_id):
            raise CannotHold(f"LangGraph.js rejects the task id of {where} on Redis")
        number = self._next.get(part.key)
        if number is None:
            number = self._first_free(part.key) if self.arrival.heads else 0.0
            name = self._documents.checkpoint_name(part.key)
            if self.arrival.heads and self._documents.connection.number_of([name]):
                self._there.add(part.key)
        self._next[part.key] = number + 1
        name = self._documents.write_name(part.key, part.task_id, part.idx)
        self._lists.setdefault(part.key, ListOfWrites()).add(name, number, part.expires_at)
        exact = replace(part, value=exact_json(part.value, where))
        return NewDocument(name, write_document(exact, number), part.expires_at)

    def _first_free(self, key: CheckpointKey) -> float:
        """The place after the writes that a checkpoint already has."""
        (listed,) = self._documents.lists(key)
        scores = self._documents.connection.ask("ZRANGE", listed, 0, -1, "WITHSCORES")[1::2]
        return max(map(float, scores), default=-1.0) + 1

    def watched(self) -> Sequence[bytes]:
        # The saver changes a head's document when one of its tasks stores a write.
        thread_id = self.arrival.thread_id
        return [
            self._documents.checkpoint_name(CheckpointKey(thread_id, ns, head))
            for ns, head in self.arrival.heads.items()
        ]

    def last(self) -> Iterator[Command]:
        for key, some in self._lists.items():
            yield from some.commands(self._documents.lists(key)[0])
            if key in self._checkpoints or key in self._there:
                name = self._documents.checkpoint_name(key)
                yield ("JSON.SET", name, "$.has_writes", json.dumps("true"))


def _digest(value: str | None) -> bytes:
    """A digest of a JSON text that does not depend on its spelling."""
    if value is None:
        return _ABSENT
    canonical = json.dumps(json.loads(value), sort_keys=True)
    return blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()
