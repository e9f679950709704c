"""Changes the documents of `FirestoreSaver`, each change in one transaction of Firestore.

The documents that it reads are locked, and so is the place of new ones among them: a saver that
writes to the thread meanwhile waits, or this transaction is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from google.api_core.exceptions import Aborted, GoogleAPIError
from google.cloud import firestore

from ckpt_backends.changes import BACKUPS, Change, Remaining, Remains, Removal, Removed, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.firestore.connect import FirestoreConnection, explained
from ckpt_backends.firestore.records import document_of, path_of, row_of
from ckpt_backends.firestore.store import FirestoreStore, opened
from ckpt_backends.model import Progress, Record, silent
from ckpt_backends.objects import CHECKPOINTS
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import WritableRowStore
from ckpt_backends.rows import Cell, Restored, Row, RowEdit, conflict
from ckpt_backends.servers import opening
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.url import StoreUrl

_MOST, _OF_A_DOCUMENT = 9 << 20, 1 << 20
"""Bytes of the values in a change, of the 10 MiB of a request, and of a document."""
_VERSIONS = Remaining(
    "earlier versions",
    "Firestore keeps them for an hour, or for 7 days with point-in-time recovery",
)
_Found = TypeVar("_Found")
_Path = tuple[str, ...]


class WritableFirestore(WritableRowStore):
    """A collection, opened for changing."""

    def __init__(self, store: FirestoreStore, connection: FirestoreConnection) -> None:
        super().__init__(store)
        self._reading, self.connection = store, connection
        self._begin(None)

    def _begin(self, transaction: Any) -> None:
        """Read in this transaction from now on; None for none."""
        self.connection.transaction = transaction
        self._reading.refresh()
        self._new: dict[_Path, dict[str, Any]] = {}
        self._gone: set[_Path] = set()
        self._sizes: dict[_Path, int] = {}
        self._threads: dict[str, set[_Path]] = {}
        """By thread to which rows are added, its checkpoints before."""

    def _whole(self, change: Callable[[], _Found]) -> _Found:
        """Carry out a change in one transaction; in several if it is too large."""

        def act(transaction: Any) -> _Found:
            self._begin(transaction)
            found = change()
            if sum(self._sizes.values()) <= _MOST:
                self._write(transaction, self._new)
            return found

        with explained(self.connection.url, "write to"):
            try:
                found = self._transact(act)
                if sum(self._sizes.values()) > _MOST:
                    self._in_parts()
                return found
            finally:
                self._begin(None)

    def _transact(self, act: Callable[[Any], _Found]) -> _Found:
        try:
            # Once, since what a change adds can be read once.
            new = self.connection.client.transaction(max_attempts=1)
            found: _Found = firestore.transactional(act)(new)
            return found
        except ValueError as error:
            if isinstance(error.__cause__, Aborted):
                raise error.__cause__ from None
            raise

    def _write(self, batch: Any, added: Iterable[_Path], *, removes: bool = True) -> None:
        """Let a batch or a transaction add documents, and remove others."""
        for path in self._gone - self._new.keys() if removes else ():
            batch.delete(self.connection.document(*path))
        for path in added:
            add = batch.set if path in self._gone else batch.create
            add(self.connection.document(*path), self._new[path])

    def _in_parts(self) -> None:
        """Add documents in several batches, writes before checkpoints and the newest root
        checkpoint last. If the thread changes meanwhile, they are removed again.
        """
        parts, size = [list[_Path]()], 0
        for path in sorted(self._new, key=self._rank):
            size += self._sizes[path]
            if size > _MOST:
                parts.append([])
                size = self._sizes[path]
            parts[-1].append(path)
        done: set[_Path] = set()

        def last(transaction: Any) -> None:
            self.connection.transaction = transaction
            self._reading.refresh()
            for thread_id, before in self._threads.items():
                if self._checkpoints(thread_id) - done != before:
                    raise moved(thread_id)
            self._write(transaction, parts[-1])

        try:
            for part in parts[:-1]:
                batch = self.connection.client.batch()
                self._write(batch, part, removes=False)
                batch.commit()
                done.update(part)
            self._transact(last)
        except BaseException:
            batch = self.connection.client.batch()
            for path in done - self._gone:
                batch.delete(self.connection.document(*path))
            with suppress(GoogleAPIError):
                batch.commit()
            raise

    def _rank(self, path: _Path) -> tuple[bool, bool, bool, str]:
        """The order in which documents are stored: partitions of the root end with `_`."""
        partition, _, checkpoint_id, *write = path
        return path in self._gone, not write, partition.endswith("_"), checkpoint_id

    def _checkpoints(self, thread_id: str) -> set[_Path]:
        return {tuple(path_of(one._asdict())) for one in self._reading.keys(thread_id)}

    def apply(self, change: Change) -> None:
        self._whole(partial(super().apply, change))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        self._whole(partial(super().receive, arrivals))

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        return self._whole(partial(super().remove, removals))

    def restore(self, rows: Iterable[Row]) -> Restored:
        return self._whole(partial(super().restore, rows))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        some, size = list[RowEdit](), 0
        for one in edits:
            some.append(one)
            size += 4 * one.new.size // 3
            if size > _MOST - _OF_A_DOCUMENT:
                self._whole(partial(super().replace, thread_id, some))
                some, size = [], 0
        self._whole(partial(super().replace, thread_id, some))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The one that `_whole` has begun."""
        yield

    def insert(self, row: Row) -> None:
        path, thread_id = tuple(path_of(row.cells)), str(row.cells["thread_id"])
        if path in self._new:
            raise conflict(row.table)
        self._new[path] = document_of(row)
        self._sizes[path] = 4 * row.size // 3  # values are base64
        if self._sizes[path] > _OF_A_DOCUMENT:
            raise Unsupported("Firestore stores at most 1 MiB in a document, in base64")
        if thread_id not in self._threads:
            self._threads[thread_id] = self._checkpoints(thread_id)

    def delete(self, table: str, where: Mapping[str, Sequence[Cell]]) -> int:
        wanted = {name: set(some) for name, some in where.items()}
        number = 0
        for thread_id in map(str, where["thread_id"]):
            for path, cells in self._stored(table, thread_id):
                if path not in self._gone and all(cells[one] in wanted[one] for one in wanted):
                    self._gone.add(path)
                    number += 1
        return number

    def _stored(self, table: str, thread_id: str) -> Iterator[tuple[_Path, Mapping[str, Cell]]]:
        """The rows of a thread, each with its path and the cells of its key."""
        if table == CHECKPOINTS:
            for key in self._reading.keys(thread_id):
                yield tuple(path_of(key._asdict())), key._asdict()
        else:
            for path, cells in self._reading.written(thread_id):
                yield tuple(path.split("/")[1:]), cells

    def row_of(self, record: Record) -> Row:
        return row_of(record)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        return Remains(places=(_VERSIONS, BACKUPS))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    with opening(FirestoreConnection(url), url) as connection:
        return WritableFirestore(opened(connection, url), connection)
