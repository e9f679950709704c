"""The layout of ShallowRedisSaver: a RedisJSON document with the newest checkpoint of a namespace.

    checkpoint:THREAD:NS    {thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata: {...}}

Writes are stored as in `documents`, and the writes of overwritten checkpoints stay. An empty
namespace is `""` in the key and `__empty__` in the document. Source: `shallow.py` of
langgraph-checkpoint-redis 0.1.0 to 0.5.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckpt_backends.model import CheckpointKey, Fault
from ckpt_backends.redis.engine.document_fields import (
    fields_of,
    meant_id,
    meant_ns,
    stored_forms,
    stored_id,
    stored_ns,
)
from ckpt_backends.redis.engine.hidden_writes import writes_by_checkpoint
from ckpt_backends.redis.engine.json_keys import REGISTRIES
from ckpt_backends.redis.engine.keyspace import (
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    literally,
    quoted,
    raw,
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.thread_listing import namespaces_of
from ckpt_backends.redis.official.declaration import BACKEND, SHALLOW
from ckpt_backends.redis.official.documents import Documents
from ckpt_backends.redis.official.thread_faults import list_faults, members_of

if TYPE_CHECKING:
    from ckpt_backends.redis.engine.receiving import Reception
    from ckpt_backends.transfer.parts import Arrival

_FIELDS = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id", "$.has_writes")


class ShallowDocuments(Documents):
    """The newest checkpoint of each namespace."""

    name = SHALLOW
    saver = "langgraph-checkpoint-redis, ShallowRedisSaver"
    capabilities = BACKEND.layouts[SHALLOW]

    def reception(self, arrival: Arrival) -> Reception:
        return RedisLayout.reception(self, arrival)

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        parts = (self.prefixes.checkpoint, stored_id(key.thread_id), key.checkpoint_ns)
        return raw(":".join(parts))

    def lists(self, key: CheckpointKey) -> list[bytes]:  # noqa: ARG002
        """Empty: a namespace has one list for the writes of all its checkpoints."""
        return []

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        """Until 0.1.x, an empty namespace was stored as `""` in these keys."""
        start = f"{REGISTRIES}:{stored_id(thread_id)}"
        return {REGISTRIES: [raw(f"{start}:{space}:shallow") for space in stored_forms(ns)]}

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from RedisLayout.thread_faults(self, thread_id, found)
        for one, stored in writes_by_checkpoint(self, found).items():
            names = self.pointers(thread_id, one.key.checkpoint_ns)[REGISTRIES]
            members = zip(names, members_of(self.connection, names), strict=True)
            yield from list_faults(self.connection, one, dict(members), stored, is_whole=False)

    def sources(self, key: CheckpointKey) -> list[str]:
        place = f"{stored_id(key.thread_id)}:{stored_ns(key.checkpoint_ns)}"
        start = literally(f"{self.prefixes.write}:{place}:{key.checkpoint_id}:")
        return [
            f"JSON.GET {quoted(self.checkpoint_name(key))}",
            f"ZRANGE {quoted(raw(f'write_registry:{place}:shallow'))} 0 -1",
            f"SCAN 0 MATCH {quoted(start + b'*')}",
        ]

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        names = self._names(prefix)
        return namespaces_of(place for some in names for place in self.entries(some))

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        answers = self.connection.ask_all(("JSON.GET", name, *_FIELDS) for name in names)
        for name, answer in zip(names, answers, strict=True):
            match [fields_of(answer).get(path) for path in _FIELDS]:
                case [str(thread), str(ns), str(own), flag] if self.is_own([flag]):
                    key = CheckpointKey(meant_id(thread), meant_ns(ns), own)
                    if self.checkpoint_name(key) == name:
                        yield CheckpointEntry(key, name)
