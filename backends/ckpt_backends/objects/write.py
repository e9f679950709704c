"""Changes stores of objects.

They have no transactions. A change is collected first. Then it is recorded (`Unfinished`), and its
objects are stored, writes before checkpoints and the newest root checkpoint last; at last objects
are removed, and then the record. What a killed run left is completed or taken back by the next one,
and until then hidden from `ckpt`. Savers, which know of no record, see an earlier state of the
thread until the newest checkpoint is there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile

from ckpt_backends.changes import moved
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.objects import PARENT, Name, Objects
from ckpt_backends.objects.store import ObjectStore
from ckpt_backends.records import WritableRowStore
from ckpt_backends.rows import Cell, Row, conflict


class WritableObjectStore(WritableRowStore):
    """Objects, opened for changing."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._reading, self._objects = store, store.objects
        self._new: dict[str, tuple[int, int]] = {}
        """By path, where the bytes to store are in the spool: their start and length."""
        self._gone: dict[str, Name] = {}

    @abstractmethod
    def object_of(self, row: Row) -> tuple[str, bytes]:
        """The path and the bytes of the object of a row. Raises `Unsupported`."""

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

    def begin_erasure(self) -> None:
        """Complete what killed runs left: what they were removing, an erasure does not find."""
        with self.transaction():
            pass

    def insert(self, row: Row) -> None:
        path, data = self.object_of(row)
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

    def _commit(self) -> None:
        new = [_named(self._objects, path) for path in self._new]
        threads = sorted({one.key.thread_id for one in (*new, *self._gone.values())})
        for thread_id in threads:
            if self._names(thread_id) != self._before(thread_id):
                raise moved(thread_id)
        for thread_id in threads:
            self._change(thread_id, [one for one in new if one.key.thread_id == thread_id])
        self._reading.refresh()

    def _names(self, thread_id: str) -> set[str]:
        """The objects of a thread as they are now."""
        return {one.path for one in self._objects.names(thread_id)}

    def _before(self, thread_id: str) -> set[str]:
        """The same as they were when the change began."""
        return {one.path for one in self._reading.listed(thread_id).names}

    def _change(self, thread_id: str, names: Iterable[Name]) -> None:
        """Carry out what was collected for a thread."""
        new = [one.path for one in sorted(names, key=_rank)]
        before = self._before(thread_id)
        added = [path for path in new if path not in before]
        gone = (one for one in self._gone.values() if one.key.thread_id == thread_id)
        removed = [one.path for one in sorted(gone, key=_rank) if one.path not in self._new]
        record = self._objects.begin(added, removed) if len(added) + len(removed) > 1 else None
        try:
            self._store_all(added)
            if added:
                self._check_nothing_came(thread_id, before, added)
        except BaseException:
            with suppress(StoreUnavailable):
                self._objects.remove(reversed(added))
                self._objects.remove([] if record is None else [record.name])
            raise
        self._store_all(path for path in new if path in before)
        self._objects.remove(removed)
        self._objects.remove([] if record is None else [record.name])

    def _check_nothing_came(self, thread_id: str, before: Set[str], added: Sequence[str]) -> None:
        """Raise `StoreChanged` if a saver added a checkpoint, unless it went on from a new one."""
        came, new = (
            [one for one in (_named(self._objects, path) for path in paths) if one.task is None]
            for paths in (self._names(thread_id) - before - {*added}, added)
        )
        ids = {one.key.checkpoint_id for one in new}
        fields = (self._reading.opened(data)[0] for _, data in self._reading.read(came))
        if came and not any(one.get(PARENT) in ids for one in fields):
            raise moved(thread_id)

    def _store_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            start, length = self._new[path]
            self._spool.seek(start)
            self._objects.write(path, self._spool.read(length))


def _named(objects: Objects, path: str) -> Name:
    found = objects.name_of(path)
    assert found is not None  # noqa: S101
    return found


def _rank(name: Name) -> tuple[bool, bool, str]:
    """The order in which objects are stored and removed: the newest root checkpoint comes last.

    Writes stay in their order, which a saver without task paths may read them in.
    """
    if name.task is not None:
        return False, False, ""
    return True, not name.key.checkpoint_ns, name.key.checkpoint_id
