"""Changes the objects of `ObjectStorageSaver`.

Object storage has no transactions. A change is collected first. Then it is recorded (`Unfinished`),
and its objects are stored, writes before checkpoints and the newest root checkpoint last; at last
objects are removed, and then the record. What a killed run left is completed or taken back by the
next one, and until then hidden from `ckpt`. Savers, which know of no record, see an earlier state
of the thread until the newest checkpoint is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile

from ckpt_backends.changes import BACKUPS, Remaining, Remains, moved
from ckpt_backends.errors import StoreUnavailable, Unsupported
from ckpt_backends.model import Progress, Record, silent
from ckpt_backends.objectstorage.engine.records import (
    KEY,
    PLACE,
    Name,
    name_of,
    object_of,
    path_of,
    row_of,
)
from ckpt_backends.objectstorage.engine.store import ObjectStore, open_objects
from ckpt_backends.overwriting import OldFiles
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import WritableRowStore
from ckpt_backends.rows import Cell, Row, conflict
from ckpt_backends.url import StoreUrl

_FILES = Remaining("versions of objects", "a bucket that keeps versions has what was changed here")


class WritableObjectStore(WritableRowStore):
    """A folder or a prefix of a bucket, opened for changing."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._reading, self._objects = store, store.objects
        self._new: dict[str, tuple[int, int]] = {}
        """By path, where the bytes to store are in the spool: their start and length."""
        self._gone: dict[str, Name] = {}

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._objects.lock(), TemporaryFile() as self._spool:
            for one in list(self._objects.unfinished()):
                self._objects.remove(one.removed if self._objects.is_done(one) else one.added)
                self._objects.remove([one.name])
            self._reading.refresh()
            self._new, self._gone = {}, {}
            yield
            self._commit()

    def insert(self, row: Row) -> None:
        path, data = path_of(row.cells), object_of(row)
        place = row.cells.get(PLACE)
        if place not in {None, "/".join(str(row.cells[name]) for name in KEY)}:
            raise Unsupported(
                "an object that its saver encrypted cannot be copied: its place is part of the key",
                hint="copy the thread with the saver, which has the key",
            )
        there = (one.path for one in self._reading.listed(str(row.cells["thread_id"])).names)
        if path in self._new or (path not in self._gone and path in there):
            raise conflict(row.table)
        self._new[path] = self._spool.tell(), len(data)
        self._spool.write(data)

    def delete(self, table: str, where: Mapping[str, Sequence[Cell]]) -> int:
        wanted = {name: set(some) for name, some in where.items()}
        found = {
            one.path: one
            for thread_id in where["thread_id"]
            for one in self._reading.listed(str(thread_id)).names
            if one.table == table and one.path not in self._gone
            if all(one.cells.get(name) in some for name, some in wanted.items())
        }
        self._gone |= found
        return len(found)

    def row_of(self, record: Record) -> Row:
        return row_of(record)

    def _commit(self) -> None:
        threads = sorted({path.partition("/")[0] for path in (*self._new, *self._gone)})
        for thread_id in threads:
            if self._names(thread_id) != {
                one.path for one in self._reading.listed(thread_id).names
            }:
                raise moved(thread_id)
        for thread_id in threads:
            self._change(thread_id)
        self._reading.refresh()

    def _names(self, thread_id: str) -> set[str]:
        """The objects of a thread as they are now."""
        return {path for path, _ in self._objects.find(f"{thread_id}/") if name_of(path)}

    def _before(self, thread_id: str) -> set[str]:
        """The same as they were when the change began."""
        return {one.path for one in self._reading.listed(thread_id).names}

    def _change(self, thread_id: str) -> None:
        """Carry out what was collected for a thread."""
        new = sorted((one for one in self._new if one.startswith(f"{thread_id}/")), key=_rank)
        before = self._before(thread_id)
        added = [path for path in new if path not in before]
        removed = sorted((one for one in self._gone if one.startswith(f"{thread_id}/")), key=_rank)
        removed = [path for path in removed if path not in self._new]
        record = self._objects.begin(added, removed) if len(added) + len(removed) > 1 else None
        try:
            self._store_all(added)
            strangers = self._names(thread_id) - before - {*added} if added else set()
            if any(_is_checkpoint(one) for one in strangers):
                raise moved(thread_id)
        except BaseException:
            with suppress(StoreUnavailable):
                self._objects.remove(reversed(added))
                self._objects.remove([] if record is None else [record.name])
            raise
        self._store_all(path for path in new if path in before)
        self._objects.remove(removed)
        self._objects.remove([] if record is None else [record.name])

    def _store_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            start, length = self._new[path]
            self._spool.seek(start)
            self._objects.write(path, self._spool.read(length))

    def begin_erasure(self) -> None:
        if self._objects.is_folder:
            self._objects.old = self._objects.old or OldFiles()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        if self._objects.old is None:
            return Remains(places=(_FILES, BACKUPS))
        progress("overwrite old files")
        return self._objects.old.remains()


def _rank(path: str) -> tuple[bool, bool, str]:
    """The order in which objects are stored and removed: the newest root checkpoint comes last."""
    name = name_of(path)
    assert name is not None  # noqa: S101
    return name.task is None, not name.key.checkpoint_ns, name.key.checkpoint_id


def _is_checkpoint(path: str) -> bool:
    name = name_of(path)
    return name is not None and name.task is None


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    return WritableObjectStore(ObjectStore(open_objects(url)))
