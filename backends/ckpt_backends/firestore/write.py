"""Changes the documents of `FirestoreSaver`, each change in one transaction of Firestore.

The documents that it reads are locked, and so is the place of new ones among them: a saver that
writes to the thread meanwhile waits, or this transaction is aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from google.api_core.exceptions import Aborted
from google.cloud import firestore

from ckpt_backends.changes import BACKUPS, Change, Remaining, Remains, Removal, Removed
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
        self._size = 0

    def _write(self, transaction: Any) -> None:
        """Add to the transaction what was collected."""
        document = self.connection.document
        for path in self._gone - self._new.keys():
            transaction.delete(document(*path))
        for path, fields in self._new.items():
            add = transaction.set if path in self._gone else transaction.create
            add(document(*path), fields)

    def _whole(self, change: Callable[[], _Found]) -> _Found:
        """Carry out a change in one transaction."""

        def act(transaction: Any) -> _Found:
            self._begin(transaction)
            found = change()
            self._write(transaction)
            return found

        with explained(self.connection.url, "write to"):
            try:
                # Once, since what a change adds can be read once.
                new = self.connection.client.transaction(max_attempts=1)
                found: _Found = firestore.transactional(act)(new)
                return found
            except ValueError as error:
                if isinstance(error.__cause__, Aborted):
                    raise error.__cause__ from None
                raise
            finally:
                self._begin(None)

    def apply(self, change: Change) -> None:
        self._whole(partial(super().apply, change))

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        self._whole(partial(super().receive, arrivals))

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        return self._whole(partial(super().remove, removals))

    def restore(self, rows: Iterable[Row]) -> Restored:
        return self._whole(partial(super().restore, rows))

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        self._whole(partial(super().replace, thread_id, edits))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """The one that `_whole` has begun."""
        yield

    def insert(self, row: Row) -> None:
        path, fields = tuple(path_of(row.cells)), document_of(row)
        if path in self._new:
            raise conflict(row.table)
        self._new[path] = fields
        # Values are base64.
        size = 4 * row.size // 3
        self._size += size
        if size > _OF_A_DOCUMENT:
            raise Unsupported("Firestore stores at most 1 MiB in a document, in base64")
        if self._size > _MOST:
            raise Unsupported(
                "the change is too large: Firestore takes at most 10 MiB in a transaction",
                hint="copy fewer checkpoints, such as with `ckpt copy THREAD --at REF --as NEW`",
            )

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
