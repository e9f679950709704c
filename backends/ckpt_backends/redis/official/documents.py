"""The layout of langgraph-checkpoint-redis 0.1 to 0.5: each checkpoint is a RedisJSON document.

    checkpoint:THREAD:NS:ID                  {thread_id, checkpoint_ns, checkpoint_id,
                                              parent_checkpoint_id, checkpoint: {...},
                                              metadata: "JSON text", has_writes, source, step, ...}
    checkpoint_latest:THREAD:NS              the key of the head
    checkpoint_write:THREAD:NS:ID:TASK:IDX   {thread_id, ..., task_id, task_path, idx, channel,
                                              type, blob}
    write_keys_zset:THREAD:NS:ID             the keys of a checkpoint's writes

Source: `put`, `put_writes` and `_make_redis_checkpoint_key` in `langgraph/checkpoint/redis`, 0.1.0
to 0.5.2. Keys are not escaped and may be ambiguous, so thread, namespace and id are read from the
document. An empty namespace is stored as `__empty__`, an empty id as the nil UUID. ckpt ignores
`has_writes`: `put` may overwrite the flag that `put_writes` set, and then the saver itself does not
see the writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckpt_backends.changes.change import Change
from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import CheckpointKey, Fault, Write
from ckpt_backends.redis.engine.connection import in_chunks
from ckpt_backends.redis.engine.document_fields import (
    LISTS,
    USUAL,
    fields_of,
    meant_id,
    meant_ns,
    stored_forms,
    stored_id,
    stored_ns,
)
from ckpt_backends.redis.engine.hidden_writes import hidden_writes, writes_by_checkpoint
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.json_keys import POINTERS, DocumentFinder
from ckpt_backends.redis.engine.keyspace import ThreadKeys, WriteEntry, raw
from ckpt_backends.redis.engine.server_faults import search_faults
from ckpt_backends.redis.engine.thread_faults import ThreadKey
from ckpt_backends.redis.official.declaration import BACKEND
from ckpt_backends.redis.official.prefixes import known_prefixes
from ckpt_backends.redis.official.stored_values import stored_value
from ckpt_backends.redis.official.thread_faults import (
    list_faults,
    members_of,
    other_head,
    pointer_fault,
)
from ckpt_backends.redis.official.write import DocumentPlan

if TYPE_CHECKING:
    from ckpt_backends.redis.engine.receiving import Reception
    from ckpt_backends.transfer.parts import Arrival

_WRITE: tuple[str, ...] = (
    "$.thread_id",
    "$.checkpoint_ns",
    "$.checkpoint_id",
    "$.task_id",
    "$.task_path",
)
_WRITE += ("$.idx", "$.channel", "$.type", "$.blob")


class Documents(JsonDocuments):
    """The layout of RedisSaver and AsyncRedisSaver, with the full history."""

    name = "redis"
    saver = "langgraph-checkpoint-redis 0.1 or later"
    capabilities = BACKEND.layouts["redis"]
    lists_additions = True
    dialect = REDIS_JSON
    value = "blob"

    def finder(self) -> DocumentFinder:
        return DocumentFinder(self)

    def plan(self, change: Change) -> DocumentPlan:
        return DocumentPlan(self, change)

    def reception(self, arrival: Arrival) -> Reception:
        from ckpt_backends.redis.official.receiving import DocumentReception

        return DocumentReception(self, arrival)

    def is_own(self, flags: Sequence[object]) -> bool:
        return str not in map(type, flags)

    def is_own_write(self, paths: Sequence[object]) -> bool:
        return bool(paths)

    def stored_thread(self, thread_id: str) -> str:
        return stored_id(thread_id)

    def meant_thread(self, stored: str) -> str:
        return meant_id(stored)

    def place(self, key: CheckpointKey) -> str:
        return f"{stored_id(key.thread_id)}:{stored_ns(key.checkpoint_ns)}:{key.checkpoint_id}"

    def lists(self, key: CheckpointKey) -> list[bytes]:
        """There may be two: until 0.1.2, an empty namespace was stored as `""` in these keys."""
        start, end = f"{LISTS}:{stored_id(key.thread_id)}", key.checkpoint_id
        return [raw(f"{start}:{ns}:{end}") for ns in stored_forms(key.checkpoint_ns)]

    @cached_property
    def other_prefixes(self) -> Collection[str]:
        return sorted(known_prefixes(self.connection).checkpoints - {self.prefixes.checkpoint})

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        """The keys of the pointers to a namespace's head.

        Before 0.5, the pointer always had the default prefix. If such a pointer exists and belongs
        to this saver, it is the last one.
        """
        place, prefix = f"{stored_id(thread_id)}:{stored_ns(ns)}", self.prefixes.checkpoint
        own, usual = (raw(f"{one}_latest:{place}") for one in (prefix, USUAL.checkpoint))
        if own == usual:
            return {POINTERS: [own]}
        named = self.connection.ask("GET", usual) or b""
        return {POINTERS: [own, usual] if named.startswith(raw(f"{prefix}:")) else [own]}

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        threads = {(one.key.thread_id, one.key.checkpoint_ns) for one in found.places.values()}
        for thread_id, ns in sorted(threads):
            for kind, names in self.pointers(thread_id, ns).items():
                yield from (ThreadKey(name, kind, ns) for name in names)

    def faults(self) -> Iterator[Fault]:
        return search_faults(self.connection, self.prefixes)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for ns in sorted({ns for ns, _ in found.places}):
            here = {own: one for (space, own), one in found.places.items() if space == ns}
            pointer = self.pointers(thread_id, ns)[POINTERS][-1]
            yield from pointer_fault(self.connection, pointer, here)
        writes = writes_by_checkpoint(self, found)
        names = [name for one in writes for name in self.lists(one.key)]
        members = dict(zip(names, members_of(self.connection, names), strict=True))
        for one, stored in writes.items():
            lists = {name: members[name] for name in self.lists(one.key)}
            yield from list_faults(self.connection, one, lists, stored)
        yield from hidden_writes(self.connection, writes)

    def unloaded_head(self, thread_id: str, found: ThreadKeys) -> str:
        here = {own: one for (ns, own), one in found.places.items() if not ns}
        pointers = self.pointers(thread_id, "").get(POINTERS)
        return other_head(self.connection, pointers[-1], here) if here and pointers else ""

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for some in in_chunks(places, self._sizes):
            # One command for many whole documents, which takes much less time in the driver.
            told = dict(self.fields([one.name for one, size in some if size <= MOST_BYTES], "$"))
            large = [one.name for one, size in some if size > MOST_BYTES]
            parts = self.connection.ask_all(("JSON.GET", name, *_WRITE[:-1]) for name in large)
            beginnings = dict(zip(large, map(fields_of, parts), strict=True))
            for place, size in some:
                fields = beginnings.get(place.name) or _paths_of(told.get(place.name))
                if (one := _write(fields, values, size)) is not None:
                    yield one


def _paths_of(documents: list[Any] | None) -> dict[str, Any]:
    """The fields of a document by path; empty for a missing one."""
    found = documents[0] if documents else None
    return {f"$.{name}": one for name, one in found.items()} if isinstance(found, dict) else {}


def _write(fields: dict[str, Any], values: bool | Collection[str], size: int) -> Write | None:
    thread, ns, own, task, path, idx, channel, tag, blob = (fields.get(one) for one in _WRITE)
    if not isinstance(thread, str) or not isinstance(channel, str) or path is None:
        return None  # removed meanwhile, or written by LangGraph.js
    value = unread(str(tag), size) if size > MOST_BYTES else stored_value(str(tag or ""), blob)
    read = values if isinstance(values, bool) else channel in values
    return Write(
        CheckpointKey(meant_id(thread), meant_ns(str(ns or "")), str(own or "")),
        str(task or ""),
        str(path or ""),
        idx if isinstance(idx, int) else 0,
        channel,
        len(value.data) if value.whole is None else value.whole,
        value if read else None,
    )
