"""Adds the parts of threads to the tables of `langgraph dev`."""

from __future__ import annotations

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import conflict
from ckpt_backends.errors import Unsupported
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import BLOBS, WRITES
from ckpt_backends.langgraph_dev.layout import (
    BlobKey,
    StoredCheckpoint,
    StoredValue,
    StoredWrite,
    Version,
)
from ckpt_backends.langgraph_dev.rows import is_storable
from ckpt_backends.langgraph_dev.spool import Spool
from ckpt_backends.langgraph_dev.tables import Tables
from ckpt_backends.model import CheckpointKey
from ckpt_backends.sql.blob_tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.blob_tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.blob_tables import WRITES as WRITE_TABLE
from ckpt_backends.transfer.bodies import open_body, version_text
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, ValuePart, WritePart


def receive_thread(arrival: Arrival, tables: Tables, spool: Spool) -> set[str]:
    """Add a thread to the tables. Returns the names of the files that must be written.

    Raises `StoreChanged` and `Unsupported`.
    """
    if tables.checkpoints and BLOBS not in tables.files.opened:
        raise Unsupported(
            f"cannot add threads to '{tables.files.folder}': langgraph-checkpoint before 2.1 wrote"
            " it, which stores values in another form",
            hint="copy to a new folder with --create",
        )
    namespaces = tables.checkpoints.get(arrival.thread_id, {})
    if {ns: max(rows) for ns, rows in namespaces.items() if rows} != dict(arrival.heads):
        raise moved(Change(arrival.thread_id, arrival.heads))
    thread = _ArrivingThread(tables, spool)
    for part in arrival.parts:
        match part:
            case CheckpointPart():
                thread.add_checkpoint(part)
            case WritePart():
                thread.add_write(part)
            case ValuePart():
                thread.add_value(part)
    thread.end()
    return thread.touched


class _ArrivingThread:
    """A thread while its parts arrive."""

    def __init__(self, tables: Tables, spool: Spool) -> None:
        self._tables = tables
        self._spool = spool
        self._values: dict[BlobKey, StoredValue] = {}
        """By thread, namespace, channel, and version as a text."""
        self._versions: dict[BlobKey, Version] = {}
        """By the same, the version as the body has it: releases before 1.0 had numbers."""
        self.touched: set[str] = set()

    def add_checkpoint(self, part: CheckpointPart) -> None:
        key = part.key
        if not part.body.encrypted and not part.body.type.endswith("+aes"):
            self._note_versions(part)
        of_thread = self._tables.checkpoints.setdefault(key.thread_id, {})
        rows = of_thread.setdefault(key.checkpoint_ns, {})
        if key.checkpoint_id in rows:
            raise conflict(CHECKPOINT_TABLE)
        kept = self._spool.kept
        stored = StoredCheckpoint(kept(part.body), kept(part.metadata), part.parent)
        rows[key.checkpoint_id] = stored
        self.touched.add(CHECKPOINTS)

    def _note_versions(self, part: CheckpointPart) -> None:
        key = part.key
        where = f"checkpoint '{key.checkpoint_id}'"
        body = open_body(part.body, where)
        if body.values:
            raise CannotHold(f"{where} has values in its body, where the saver would not find them")
        for channel, version in (body.fields.get("channel_versions") or {}).items():
            if not isinstance(version, str | int | float) or not is_storable(version):
                raise CannotHold(f"the version of channel '{channel}' at {where} is too large")
            place = (key.thread_id, key.checkpoint_ns, channel, version_text(version))
            if self._versions.setdefault(place, version) != version:
                raise CannotHold(f"version '{version}' of channel '{channel}' has two types")

    def add_write(self, part: WritePart) -> None:
        key: CheckpointKey = part.key
        if not is_storable(part.idx):
            raise CannotHold(
                f"a write to '{part.channel}' at checkpoint '{key.checkpoint_id}' has the index"
                f" {part.idx}"
            )
        place = (key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        rows = self._tables.writes.setdefault(place, {})
        if (part.task_id, part.idx) in rows:
            raise conflict(WRITE_TABLE)
        value = self._spool.kept(part.value)
        rows[part.task_id, part.idx] = StoredWrite(part.channel, value, part.task_path)
        self.touched.add(WRITES)

    def add_value(self, part: ValuePart) -> None:
        place = (part.thread_id, part.checkpoint_ns, part.channel, part.version)
        self._values[place] = self._spool.kept(part.value)
        self.touched.add(BLOBS)

    def end(self) -> None:
        """Add the values, whose versions are known now."""
        for place, value in self._values.items():
            key = (*place[:3], self._versions.get(place, place[3]))
            if key in self._tables.blobs:
                raise conflict(BLOB_TABLE)
            self._tables.blobs[key] = value
