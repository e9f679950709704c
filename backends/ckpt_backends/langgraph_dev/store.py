"""Reads the files of `langgraph dev`, of its servers for Python and for LangGraph.js.

No file is unpickled. `codec.pickle` parses each file once without running its code, and long
values stay in the file until they are needed. Listings use only the keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from ckpt_backends.base import BaseStore
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.langgraph_dev import files as server
from ckpt_backends.langgraph_dev.declaration import BACKEND, JAVASCRIPT, JAVASCRIPT_LAYOUT, LAYOUT
from ckpt_backends.langgraph_dev.files import (
    FILES,
    NAMES,
    EntryKey,
    JavaScriptTables,
    StoredCheckpoint,
    StoredWrite,
    Tables,
    grouped,
    named,
    place_of,
    stamps,
)
from ckpt_backends.langgraph_dev.records import COLUMNS, row_of
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Fault,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
    is_wanted,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    Store,
    WriteOptions,
    WriteQuery,
)
from ckpt_backends.rows import Row
from ckpt_backends.sql.tables import BLOBS as BLOB_TABLE
from ckpt_backends.sql.tables import CHECKPOINTS as CHECKPOINT_TABLE
from ckpt_backends.sql.tables import WRITES as WRITE_TABLE
from ckpt_backends.url import StoreUrl

_OF_VALUES = ("a checkpoint's writes", "a write", "a value")
_SHOWN = 3


class DevStore(BaseStore):
    """A folder of `langgraph dev`, opened for reading."""

    sums_sizes = True
    layout = LAYOUT
    engine = "pickle files"
    columns = COLUMNS
    names: Collection[str] = NAMES
    servers_files: Collection[str] = server.SERVERS_FILES
    """Those that its server writes more often."""
    reader: type[Tables] = Tables

    def __init__(self, url: StoreUrl, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._open: Tables | None = self._opened()
        self._grouped: tuple[str | None, dict[EntryKey, Any]] = (None, {})
        """The writes of the thread that was read last; see `_by_checkpoint`."""

    def _opened(self) -> Tables:
        """The tables as they are now, with the checkpoints parsed."""
        found = self.reader(self._folder)
        try:
            found.of(CHECKPOINT_TABLE)
        except BaseException:
            found.close()
            raise
        return found

    def _saver(self) -> str:
        apart = self._tables.has(BLOB_TABLE)
        return (
            f"langgraph-checkpoint {'2.1 or later' if apart else 'before 2.1'},"
            " InMemorySaver of langgraph dev"
        )

    def describe(self) -> StoreInfo:
        found = self._tables.stamps
        return StoreInfo(
            layout=self.layout,
            url=str(self._url),
            engine=self.engine,
            saver=self._saver(),
            capabilities=BACKEND.layouts[self.layout],
            tables=tuple(name for name in self.names if name in found),
            size=sum(size for _, _, size, _ in found.values()),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        found = []
        if reason := server.running(self._folder, self.servers_files):
            found.append(
                f"langgraph dev may be running ({reason}): checkpoints that it has not saved yet"
                " are missing here"
            )
        ignored = self._tables.ignored
        found += [f"ignored an entry that no saver writes: {one}" for one in ignored[:_SHOWN]]
        if more := len(ignored[_SHOWN:]):
            found.append(f"ignored {more} more entries")
        return found

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        found = [
            (max(own for _, _, own in rows), thread_id)
            for thread_id, rows in self._tables.of(CHECKPOINT_TABLE).items()
            if rows
        ]
        found.sort(key=lambda one: one[1])
        found.sort(key=lambda one: one[0], reverse=True)
        for _, thread_id in found[:limit]:
            yield _thread(thread_id, self._tables.of(CHECKPOINT_TABLE)[thread_id])

    def thread(self, thread_id: str) -> Thread | None:
        rows = self._entries(CHECKPOINT_TABLE, thread_id)
        return _thread(thread_id, rows) if rows else None

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for key, row in self._entries(CHECKPOINT_TABLE, thread_id).items():
            yield CheckpointKey(*key), ThreadSize(1, 0, row.body.size + row.metadata.size)
        for key, write in self._entries(WRITE_TABLE, thread_id).items():
            yield CheckpointKey(*key[:3]), ThreadSize(0, 1, write.value.size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        tables = self._tables
        # Also threads that have only values or writes.
        asked = {thread for table in FILES for thread in tables.of(table)}
        for one in sorted(asked) if thread_id is None else [thread_id]:
            yield from super().usage(one)

    def _lengths(
        self, thread_id: str
    ) -> Iterator[tuple[tuple[str, str, str, str | None, str], int]]:
        for (_, ns, _), row in self._entries(CHECKPOINT_TABLE, thread_id).items():
            for column, part in (("checkpoint", row.body), ("metadata", row.metadata)):
                yield (CHECKPOINT_TABLE, column, ns, None, part.type), part.size
        for (_, ns, channel, _), blob in self._entries(BLOB_TABLE, thread_id).items():
            yield (BLOB_TABLE, "blob", ns, channel, blob.type), blob.size
        for key, write in self._entries(WRITE_TABLE, thread_id).items():
            yield (WRITE_TABLE, "blob", key[1], write.channel, write.value.type), write.value.size

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({ns for _, ns, _ in self._entries(CHECKPOINT_TABLE, thread_id)})

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        rows = self._entries(CHECKPOINT_TABLE, thread_id)
        for key in _chosen(rows, thread_id, asked.checkpoint_ns, asked.checkpoint_ids):
            yield self._checkpoint(CheckpointKey(*key), rows[key], asked)

    def _checkpoint(
        self, key: CheckpointKey, row: StoredCheckpoint, asked: CheckpointQuery
    ) -> Checkpoint:
        value = self._tables.value
        found = Checkpoint(
            key,
            row.parent,
            value(CHECKPOINT_TABLE, row.body) if asked.body else None,
            value(CHECKPOINT_TABLE, row.metadata) if asked.metadata else None,
        )
        return self.with_named_values(found, asked.values)

    def with_named_values(
        self, checkpoint: Checkpoint, values: bool | Collection[str]
    ) -> Checkpoint:
        if checkpoint.body is None or not self._tables.has(BLOB_TABLE):
            return checkpoint
        blobs, missing = self._blobs(checkpoint.key, checkpoint.body, values)
        return checkpoint._replace(blobs=blobs, missing=missing)

    def _blobs(
        self, key: CheckpointKey, body: TypedBytes, values: bool | Collection[str]
    ) -> tuple[dict[str, Blob], frozenset[str]]:
        """The values that a checkpoint names, by channel, and the channels without any entry."""
        tables = self._tables
        names = named(key, body)
        if names is None:
            return {}, frozenset()
        is_old, places = names
        there = self._entries(BLOB_TABLE, key.thread_id)
        found = {}
        missing = set()
        for channel, place in places.items():
            stored = there.get(place)
            if stored is None:
                missing.add(channel)
                continue
            if stored.type == "empty":
                continue
            blob = Blob(stored.type, stored.size)
            if is_wanted(channel, blob, values, is_old=is_old):
                blob = blob._replace(value=tables.value(BLOB_TABLE, stored))
            found[channel] = blob
        return found, frozenset(missing)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        values, writes = asked.values, self._by_checkpoint(thread_id)
        keys = _chosen(writes, thread_id, asked.checkpoint_ns, asked.checkpoint_ids)
        for key in sorted(keys):
            rows = [
                (write.task_path or "", task_id, idx, write)
                for (*_, task_id, idx), write in writes[key]
                if asked.channels is None or write.channel in asked.channels
            ]
            for path, task_id, idx, write in sorted(rows, key=lambda row: row[:3]):
                is_read = values if isinstance(values, bool) else write.channel in values
                yield Write(
                    CheckpointKey(*key),
                    task_id,
                    path,
                    idx,
                    write.channel,
                    write.value.size,
                    self._tables.value(WRITE_TABLE, write.value) if is_read else None,
                )

    def _by_checkpoint(self, thread_id: str) -> dict[EntryKey, list[tuple[EntryKey, StoredWrite]]]:
        """The writes of a thread, of which the checkpoints are often asked for one by one."""
        if self._grouped[0] != thread_id:
            self._grouped = thread_id, grouped(self._entries(WRITE_TABLE, thread_id), 3)
        return self._grouped[1]

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        for (_, ns, channel, version), value in self._entries(BLOB_TABLE, thread_id).items():
            yield BlobKey(ns, channel, str(version)), value.size

    def rows(self, thread_id: str) -> Iterator[Row]:
        for table in reversed(FILES):
            for key, entry in self._entries(table, thread_id).items():
                yield row_of(table, key, entry, self._tables)

    def sources(self, key: CheckpointKey) -> list[str]:
        thread, ns, one = key.thread_id, key.checkpoint_ns, key.checkpoint_id
        places = {
            CHECKPOINT_TABLE: f"[{thread!r}][{ns!r}][{one!r}]",
            WRITE_TABLE: f"[{thread!r}, {ns!r}, {one!r}]",
            BLOB_TABLE: f"[{thread!r}, {ns!r}, CHANNEL, VERSION]",
        }
        return [
            f"{self._folder / FILES[table]} {place}"
            for table, place in places.items()
            if self._tables.has(table)
        ]

    def faults(self) -> Iterator[Fault]:
        """A fault for each entry of a file that has another form than the saver's."""
        for table in FILES:
            self._tables.of(table)
        for entry in self._tables.ignored:
            code = "value-unreadable" if entry.startswith(_OF_VALUES) else "body-unreadable"
            yield Fault(code, f"an entry that no saver writes: {entry}")

    def suspect_threads(self) -> Iterator[str]:
        every, writes = self._tables.of(CHECKPOINT_TABLE), self._tables.of(WRITE_TABLE)
        for thread_id in {**every, **writes}:
            checkpoints = every.get(thread_id, {})
            parents = (
                ((*key[:2], row.parent), key[2])
                for key, row in checkpoints.items()
                if row.parent is not None
            )
            if any(parent not in checkpoints or parent[2] >= own for parent, own in parents) or any(
                key[:3] not in checkpoints for key in writes.get(thread_id, ())
            ):
                yield thread_id

    def refresh(self) -> None:
        if stamps(self._folder, self.names) == self._tables.stamps:
            return
        fresh = self._opened()
        self._grouped = (None, {})
        self.close()
        self._open = fresh

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _entries(self, table: str, thread_id: str) -> dict[EntryKey, Any]:
        return self._tables.of(table).get(thread_id, {})

    @property
    def _tables(self) -> Tables:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open


def _thread(thread_id: str, keys: Iterable[EntryKey]) -> Thread:
    ids = [own for _, _, own in keys]
    head = max((own for _, ns, own in keys if not ns), default=None)
    return Thread(thread_id, head, min(ids), max(ids), len(ids), len({ns for _, ns, _ in keys}))


def _chosen(
    keys: Collection[EntryKey],
    thread_id: str,
    checkpoint_ns: str | None,
    checkpoint_ids: Collection[str] | None,
) -> list[EntryKey]:
    """Those of a thread's checkpoints that are asked for, by namespace and from new to old."""
    if checkpoint_ns is not None and checkpoint_ids is not None:
        named = {(thread_id, checkpoint_ns, one) for one in checkpoint_ids}
        found = [key for key in named if key in keys]
    else:
        ids = None if checkpoint_ids is None else set(checkpoint_ids)
        found = [
            key
            for key in keys
            if checkpoint_ns in {None, key[1]} and (ids is None or key[2] in ids)
        ]
    found.sort(key=lambda key: key[2], reverse=True)
    return sorted(found, key=lambda key: key[1])


class JavaScriptDevStore(DevStore):
    """A folder of the dev server of LangGraph.js, opened for reading."""

    layout = JAVASCRIPT_LAYOUT
    engine = "JSON file"
    names = (JAVASCRIPT,)
    servers_files = server.JAVASCRIPT_FILES
    reader = JavaScriptTables

    def _saver(self) -> str:
        has_paths = any(
            write.task_path is not None
            for rows in self._tables.of(WRITE_TABLE).values()
            for write in rows.values()
        )
        since = " 1.2 or later" if has_paths else ""
        return f"LangGraph.js checkpoint{since}, MemorySaver of its dev server"

    def sources(self, key: CheckpointKey) -> list[str]:
        path = self._folder / JAVASCRIPT
        place = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
        names = "".join(f"[{json.dumps(one, ensure_ascii=False)}]" for one in key)
        return [
            f"{path} .json.storage{names}",
            f"{path} .json.writes[{json.dumps(place, ensure_ascii=False)}]",
        ]


def open_store(url: StoreUrl) -> Store:
    """Open a folder for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    folder, layout = place_of(url)
    return (JavaScriptDevStore if layout == JAVASCRIPT_LAYOUT else DevStore)(url, folder)
