"""Replaces values in the tables of `langgraph dev`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import BLOBS, WRITES
from ckpt_backends.langgraph_dev.layout import StoredValue
from ckpt_backends.langgraph_dev.spool import Spool
from ckpt_backends.langgraph_dev.tables import Tables
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.parts import CheckpointPart, PartRewrite, ValuePart, WritePart


def rewrite_thread(
    thread_id: str, rewrites: Iterable[PartRewrite], tables: Tables, spool: Spool
) -> set[str]:
    """Replace values of a thread. Returns the names of the files that must be written.

    Raises `StoreChanged` if a value is not as it was read, and `Unsupported`.
    """
    if tables.checkpoints and BLOBS not in tables.files.opened:
        raise Unsupported(
            f"cannot change values in '{tables.files.folder}': langgraph-checkpoint before 2.1"
            " wrote it, which stores values in another form",
            hint="copy it to a new folder with `ckpt copy --create`",
        )
    thread = _RewrittenThread(thread_id, tables, spool)
    for one in rewrites:
        try:
            thread.replace(one)
        except KeyError:
            raise moved(Change(thread_id, {})) from None
    return thread.touched


class _RewrittenThread:
    def __init__(self, thread_id: str, tables: Tables, spool: Spool) -> None:
        self._thread_id = thread_id
        self._tables = tables
        self._spool = spool
        self._places = {
            (*key[:3], version_text(key[3])): key for key in tables.blobs_of.get(thread_id, ())
        }
        """By thread, namespace, channel and version as a text, the key of a value."""
        self.touched: set[str] = set()

    def replace(self, one: PartRewrite) -> None:
        """Replace the values of one part. Raises `KeyError` if there is no such part."""
        new = one.new
        if isinstance(one.stored, ValuePart) and isinstance(new, ValuePart):
            place = self._places[(new.thread_id, new.checkpoint_ns, new.channel, new.version)]
            found = self._tables.blobs[place]
            self._tables.blobs[place] = self._new(BLOBS, found, one.stored.value, new.value)
        elif isinstance(one.stored, WritePart) and isinstance(new, WritePart):
            rows = self._tables.writes[
                (new.key.thread_id, new.key.checkpoint_ns, new.key.checkpoint_id)
            ]
            write = rows[new.task_id, new.idx]
            value = self._new(WRITES, write.value, one.stored.value, new.value)
            rows[new.task_id, new.idx] = replace(write, value=value)
        elif isinstance(one.stored, CheckpointPart) and isinstance(new, CheckpointPart):
            old = self._tables.checkpoints[new.key.thread_id][new.key.checkpoint_ns]
            row = old[new.key.checkpoint_id]
            old[new.key.checkpoint_id] = replace(
                row,
                body=self._new(CHECKPOINTS, row.body, one.stored.body, new.body),
                metadata=self._new(CHECKPOINTS, row.metadata, one.stored.metadata, new.metadata),
            )

    def _new(
        self, name: str, stored: StoredValue, read: TypedBytes, new: TypedBytes
    ) -> StoredValue:
        if stored.type != read.type or self._tables.bytes(name, stored) != read.data:
            raise moved(Change(self._thread_id, {}))
        if new == read:
            return stored
        self.touched.add(name)
        return self._spool.kept(new)
