"""Which writes and values under a thread's keys belong to checkpoints of another layout.

Several savers may share a database, and then they share the beginnings of their keys:

* RedisSaver and ShallowRedisSaver both store `checkpoint_write:THREAD:...`, but one names a
  checkpoint `checkpoint:THREAD:NS:ID`, the other `checkpoint:THREAD:NS`;
* release 0.0 names it by the id of its parent, and its writes and values look like LangGraph.js's;
* two savers with different prefixes of checkpoints may have one prefix of writes.

A write without a checkpoint in one layout may be a question that waits in another one. So a write
without a checkpoint is a thread's own only if no document of any layout has that checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import Capability, CheckpointKey
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import Prefixes, meant_ns, stored_forms, stored_id
from ckpt_backends.redis.engine.keyspace import ThreadKeys, raw

_PLACE, _PARTS = '$["thread_id","checkpoint_ns","checkpoint_id"]', 3
_OWN_ID = "$.checkpoint.id"
"""The id in a checkpoint's body, which release 0.0 stores nowhere else."""


class DocumentLayout(Protocol):
    """What must be known of a layout of documents; see `JsonDocuments`."""

    connection: RedisConnection
    capabilities: Capability
    prefixes: Prefixes

    @property
    def other_prefixes(self) -> Collection[str]: ...

    def meant_thread(self, stored: str) -> str: ...

    def owners_of(self, names: Sequence[bytes]) -> Iterable[tuple[bytes, CheckpointKey, bool]]: ...

    def fields(self, names: Sequence[bytes], path: str) -> Iterable[tuple[bytes, list[Any]]]: ...


def leave_others(
    layout: DocumentLayout,
    found: Mapping[str, ThreadKeys],
    documents: Mapping[str, Sequence[bytes]],
) -> None:
    """Take out of `found` what belongs to other layouts.

    `documents` are the keys that begin as those of each thread's checkpoints do. Nothing more is
    read if each write has its checkpoint, and each document is of this layout.
    """
    _leave_writes(layout, found, documents)
    for thread_id, keys in found.items():
        own = {one.name for one in keys.places.values()}
        if keys.blobs and not own.issuperset(documents[thread_id]):
            keys.blobs = list(_own_values(layout, keys.blobs))


def _own_values(layout: DocumentLayout, names: Sequence[bytes]) -> Iterator[bytes]:
    """Those of LangGraph.js; release 0.0 of Python's saver stores the field `blob`."""
    types = layout.connection.ask_all(("JSON.TYPE", name, "$.blob") for name in names)
    return (name for name, kind in zip(names, types, strict=True) if not kind)


def _leave_writes(
    layout: DocumentLayout,
    found: Mapping[str, ThreadKeys],
    documents: Mapping[str, Sequence[bytes]],
) -> None:
    alone: dict[bytes, str] = {}
    """Writes without a checkpoint in this layout, with the thread that they were found for."""
    for thread_id, keys in found.items():
        ids = {own for _, own in keys.places}
        alone |= {one.name: thread_id for one in keys.writes if one.checkpoint_id not in ids}
    owners = {name: key for name, key, _ in layout.owners_of(list(alone))} if alone else {}
    owners = {name: key for name, key in owners.items() if key.thread_id == alone[name]}
    if not owners:
        return
    elsewhere = set(_elsewhere(layout, found, documents, list(owners.values())))
    kept = {name for name, key in owners.items() if _is_of_other(layout, key, found, elsewhere)}
    for keys in found.values():
        keys.writes = [one for one in keys.writes if one.name not in kept]


def _is_of_other(
    layout: DocumentLayout,
    key: CheckpointKey,
    found: Mapping[str, ThreadKeys],
    elsewhere: set[CheckpointKey],
) -> bool:
    """Whether a write of this checkpoint, which this layout does not have, is another layout's."""
    spaces = {one.checkpoint_ns for one in elsewhere if one.thread_id == key.thread_id}
    own = {ns for ns, _ in found[key.thread_id].places}
    if key in elsewhere or (spaces and not own):
        return True
    # A shallow saver leaves writes of checkpoints that it replaced, and lists them as its own. So
    # a layout without history has them, and one with history does not.
    has_history = Capability.HISTORY in layout.capabilities
    return key.checkpoint_ns in spaces and (has_history or key.checkpoint_ns not in own)


def _elsewhere(
    layout: DocumentLayout,
    found: Mapping[str, ThreadKeys],
    documents: Mapping[str, Sequence[bytes]],
    wanted: Sequence[CheckpointKey],
) -> Iterator[CheckpointKey]:
    """The checkpoints of other layouts among the threads of `wanted`."""
    threads = sorted({key.thread_id for key in wanted})
    own = {one.name for thread_id in threads for one in found[thread_id].places.values()}
    names = dict.fromkeys(name for thread_id in threads for name in documents[thread_id])
    # A search index may lack documents of savers that did not create it.
    prefix = layout.prefixes.checkpoint
    names |= dict.fromkeys(name for key in wanted for name in _names(prefix, key))
    yield from _read(layout, list(names), own)
    others = dict.fromkeys(
        name for prefix in layout.other_prefixes for key in wanted for name in _names(prefix, key)
    )
    try:
        yield from _read(layout, list(others), ())
    except StoreUnavailable:
        # A user without rights to the keys of other savers cannot tell, so nothing is an orphan.
        yield from wanted


def _read(
    layout: DocumentLayout, names: Sequence[bytes], own: Collection[bytes]
) -> Iterator[CheckpointKey]:
    """The checkpoints in these documents; of a layout's own ones, only those with another id."""
    ids = dict(layout.fields(names, _OWN_ID))
    for name, fields in layout.fields(names, _PLACE):
        if len(fields) != _PARTS or not all(isinstance(one, str) for one in fields):
            continue
        thread, ns, stored = fields
        key = CheckpointKey(layout.meant_thread(thread), meant_ns(ns), stored)
        for one in ids[name]:
            if isinstance(one, str) and one != stored:
                yield key._replace(checkpoint_id=one)
        if name not in own:
            yield key


def _names(prefix: str, key: CheckpointKey) -> Iterator[bytes]:
    """The keys that a checkpoint has in the layouts of documents."""
    for ns in stored_forms(key.checkpoint_ns):
        place = f"{prefix}:{stored_id(key.thread_id)}:{ns}"
        yield from map(raw, (f"{place}:{key.checkpoint_id}", place, f"{place}:shallow"))
