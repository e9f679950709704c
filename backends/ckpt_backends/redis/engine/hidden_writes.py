"""Writes of a thread's head that RedisSaver, of Python or of LangGraph.js, does not read.

It reads them only if the field `has_writes` is true. `put` overwrites the field that `put_writes`
set, if a task is faster than the storing of its checkpoint. Then RedisSaver returns no writes
(AsyncRedisSaver does): a question is not shown, and a finished task runs again.

Source: `put_writes` and `_load_pending_writes_with_registry_check` in
`langgraph/checkpoint/redis/__init__.py`; `putWrites` and `loadCheckpointWithWrites` in `index.js`,
and `getTuple` in `shallow.js`, of @langchain/langgraph-checkpoint-redis 1.0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ckpt_backends.model import Fault
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, ThreadKeys, quoted, raw

_ERROR = b":-1"
"""The end of the key of a task's error: the idx of such a write."""
WritesByCheckpoint = Mapping[CheckpointEntry, Sequence[bytes]]
"""By checkpoint, the keys of its writes."""


def writes_by_checkpoint(layout: JsonDocuments, found: ThreadKeys) -> WritesByCheckpoint:
    """The stored writes of each checkpoint of a thread, by the names of keys."""
    names: dict[str, list[bytes]] = {}
    for write in found.writes:
        names.setdefault(write.checkpoint_id, []).append(write.name)
    by_checkpoint = {}
    for (_, own), one in found.places.items():
        # The same id may exist in a copy of the thread, such as `a:b` of `a`.
        start = raw(f"{layout.prefixes.write}:{layout.place(one.key)}:")
        by_checkpoint[one] = [name for name in names.get(own, ()) if name.startswith(start)]
    return by_checkpoint


def hidden_writes(
    connection: RedisConnection, writes: WritesByCheckpoint, is_set: bool | str = True
) -> Iterator[Fault]:
    """`index-stale`, if `has_writes` of a thread's head is not `is_set`, though it has writes.

    Errors do not count: a failed task runs again, whether its error is read or not. Heads of
    subgraphs do not count either: the task that called the subgraph runs again.
    """
    root = [one for one in writes if not one.key.checkpoint_ns]
    if not root:
        return
    head = max(root, key=lambda one: one.key)
    number = sum(not name.endswith(_ERROR) for name in writes[head])
    answer = connection.find("JSON.GET", head.name, "$.has_writes") if number else None
    if answer is not None and json.loads(answer) != [is_set]:
        key = head.key
        yield Fault(
            "index-stale",
            f"has_writes is not set, so the saver does not find {number} of its writes",
            key.thread_id,
            key.checkpoint_ns,
            key.checkpoint_id,
            fix=f"JSON.SET {quoted(head.name)} $.has_writes {quoted(raw(json.dumps(is_set)))}",
            is_info=True,
        )
