"""Changes the documents of `FirestoreSaver`.

What a change reads is of one moment. What it adds and removes is stored in one transaction, which
looks first whether the documents of the thread are still the same: it locks these, and the place of
new ones among them, so that a saver waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from google.api_core.exceptions import Aborted, GoogleAPIError
from google.cloud import firestore

from ckpt_backends.changes import BACKUPS, Remaining, Remains, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.firestore.connect import FirestoreConnection, explained
from ckpt_backends.firestore.records import document_of, path_of, row_of
from ckpt_backends.firestore.store import FirestoreStore, opened
from ckpt_backends.model import Progress, Record, silent
from ckpt_backends.objects import CHECKPOINTS
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import WritableRowStore
from ckpt_backends.rows import Cell, Row, RowEdit, conflict
from ckpt_backends.servers import opening
from ckpt_backends.url import StoreUrl

_MOST, _OF_A_DOCUMENT = 9 << 20, 1 << 20
"""Bytes of the values in a change, of the 10 MiB of a request, and of a document."""
_VERSIONS = Remaining(
    "earlier versions",
    "Firestore keeps them for an hour, or for 7 days with point-in-time recovery",
)
_Path = tuple[str, ...]


class WritableFirestore(WritableRowStore):
    """A collection, opened for changing."""

    def __init__(self, store: FirestoreStore, connection: FirestoreConnection) -> None:
        super().__init__(store)
        self._reading, self._connection = store, connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._reading.refresh()
        self._new: dict[_Path, dict[str, Any]] = {}
        self._sizes: dict[_Path, int] = {}
        self._gone: set[_Path] = set()
        self._before: dict[tuple[str, str], set[_Path]] = {}
        """By table and thread, the documents that were there."""
        with explained(self._connection.url, "write to"):
            yield
            if self._new or self._gone:
                self._commit()
        self._reading.refresh()

    def insert(self, row: Row) -> None:
        path = tuple(path_of(row.cells))
        if path in self._new:
            raise conflict(row.table)
        self._new[path] = document_of(row)
        self._sizes[path] = 4 * row.size // 3  # values are base64
        if self._sizes[path] > _OF_A_DOCUMENT:
            raise Unsupported("Firestore stores at most 1 MiB in a document, in base64")
        self._see(CHECKPOINTS, str(row.cells["thread_id"]))

    def delete(self, table: str, where: Mapping[str, Sequence[Cell]]) -> int:
        wanted = {name: set(some) for name, some in where.items()}
        number = 0
        for thread_id in map(str, where["thread_id"]):
            self._see(CHECKPOINTS, thread_id)
            self._see(table, thread_id)
            for path, cells in self._stored(table, thread_id):
                if path not in self._gone and all(cells[one] in wanted[one] for one in wanted):
                    self._gone.add(path)
                    number += 1
        return number

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        some, size = list[RowEdit](), 0
        for one in edits:
            some.append(one)
            size += 4 * one.new.size // 3
            if size > _MOST - _OF_A_DOCUMENT:
                super().replace(thread_id, some)
                some, size = [], 0
        super().replace(thread_id, some)

    def _see(self, table: str, thread_id: str) -> None:
        """Remember what is there, unless it is known."""
        if (table, thread_id) not in self._before:
            found = {path for path, _ in self._stored(table, thread_id)}
            self._before[table, thread_id] = found

    def _stored(self, table: str, thread_id: str) -> Iterator[tuple[_Path, Mapping[str, Cell]]]:
        """The rows of a thread, each with its path and the cells of its key."""
        if table == CHECKPOINTS:
            for key in self._reading.keys(thread_id):
                yield tuple(path_of(key._asdict())), key._asdict()
        else:
            for path, cells in self._reading.written(thread_id):
                yield tuple(path.split("/")[1:]), cells

    def _commit(self) -> None:
        """Store what was collected: in one transaction, which begins only now, since Firestore
        keeps the locks of a killed run for a minute.

        What is too large comes in parts, writes before checkpoints and the newest root checkpoint
        last; they are removed again if the thread has changed meanwhile.
        """
        *parts, rest = self._parts()
        done: set[_Path] = set()

        def last(transaction: Any) -> None:
            self._connection.transaction = transaction
            self._reading.refresh()
            for (table, thread_id), before in self._before.items():
                if {path for path, _ in self._stored(table, thread_id)} - done != before:
                    raise moved(thread_id)
            for path in self._gone - self._new.keys():
                transaction.delete(self._connection.document(*path))
            self._add(transaction, rest)

        client = self._connection.client
        try:
            for part in parts:
                self._add(batch := client.batch(), part)
                batch.commit()
                done.update(part)
            firestore.transactional(last)(client.transaction(max_attempts=1))
        except BaseException as error:
            batch = client.batch()
            for path in done:
                batch.delete(self._connection.document(*path))
            with suppress(GoogleAPIError):
                batch.commit()
            # The driver says so of a transaction that is not tried again.
            if isinstance(error, ValueError) and isinstance(error.__cause__, Aborted):
                raise error.__cause__ from None
            raise
        finally:
            self._connection.transaction = None

    def _parts(self) -> list[list[_Path]]:
        """What is added, in the order in which it is stored; what is replaced is in the last part,
        as far as it has room.
        """
        parts, size = [list[_Path]()], 0
        for path in sorted(self._new, key=self._rank):
            size += self._sizes[path]
            if size > _MOST:
                parts.append([])
                size = self._sizes[path]
            parts[-1].append(path)
        return parts

    def _rank(self, path: _Path) -> tuple[bool, bool, bool, str]:
        partition, _, checkpoint_id, *write = path
        # The partitions of the root end with `_`.
        return path in self._gone, not write, partition.endswith("_"), checkpoint_id

    def _add(self, batch: Any, paths: Iterable[_Path]) -> None:
        for path in paths:
            add = batch.set if path in self._gone else batch.create
            add(self._connection.document(*path), self._new[path])

    def row_of(self, record: Record) -> Row:
        return row_of(record)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        return Remains(places=(_VERSIONS, BACKUPS))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    with opening(FirestoreConnection(url), url) as connection:
        return WritableFirestore(opened(connection, url), connection)
