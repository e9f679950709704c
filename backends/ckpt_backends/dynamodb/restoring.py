"""Restores archived checkpoints and writes exactly as they were stored.

All rows are compared with what exists before the first one is stored. Up to 100 items are stored in
one transaction; of more, the payloads and writes come first and the newest root checkpoint last. An
import that was killed is completed by the next one.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

from botocore.exceptions import ClientError

from ckpt_backends.changes.rows import Restored, Row, conflict
from ckpt_backends.dynamodb.archive import (
    CHECKPOINTS,
    StoredPair,
    checked_rows,
    pair_of,
    places_of_rivals,
)
from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection, Key
from ckpt_backends.dynamodb.driver_errors import is_conflict
from ckpt_backends.dynamodb.items import CHECKPOINT, CHUNK_SORT, PAYLOAD
from ckpt_backends.dynamodb.lease import DynamoLease, change_lease
from ckpt_backends.dynamodb.writer import (
    IS_NEW,
    DynamoAction,
    DynamoWriter,
    delete,
    fits_together,
    in_transactions,
    put,
)
from ckpt_backends.errors import Refused, StoreChanged

_AT_ONCE, _BYTES_AT_ONCE = 25, 4 << 20
"""Rows that are compared together; a single one may be longer."""


def restore_rows(connection: DynamoConnection, rows: Iterable[Row]) -> Restored:
    """Store the rows that do not exist yet, all of them or none.

    Raises `StoreChanged` if one exists with different contents, `Refused`, `Unsupported` and errors
    of boto3.
    """
    with _twice(rows) as again:
        first = next(again(), None)
        if first is None:
            return Restored(0, 0)
        thread_id = str(first.cells.get("thread_id"))
        with change_lease(connection, thread_id) as lease:
            restoring = RowRestoring(connection, thread_id, lease)
            restoring.run(checked_rows(connection, thread_id, again()), adds=False)
            return restoring.run(checked_rows(connection, thread_id, again()), adds=True)


class RowRestoring:
    """Stores rows of one thread."""

    def __init__(
        self,
        connection: DynamoConnection,
        thread_id: str,
        lease: DynamoLease,
        *,
        keeps_expired: bool = False,
    ) -> None:
        self._connection = connection
        self._thread_id = thread_id
        self._lease = lease
        self._keeps_expired = keeps_expired
        """Whether rows whose time has come are stored too; DynamoDB removes them when it likes."""
        self._writer = DynamoWriter(connection)
        self._stored: list[Key] = []
        """The items of the transactions that have been committed, if there are several."""
        self._objects: list[str] = []
        self._seen: set[int] = set()
        """Hashes of the keys of the rows and of their payloads in this pass."""

    def run(self, rows: Iterable[Row], *, adds: bool) -> Restored:
        """Compare checked rows with what exists; with `adds`, store the missing ones."""
        added = there = expired = 0
        hidden: list[DynamoAction] = []
        last: list[DynamoAction] = []
        now = time.time() * 1000
        self._seen.clear()
        for some in _batches(rows):
            self._lease.keep()
            kept = [one for one in some if self._keeps_expired or not _is_over(one, now)]
            expired += len(some) - len(kept)
            missing = list(self._missing(kept))
            added += len(missing)
            there += len(kept) - len(missing)
            if not adds:
                continue
            for row, pair in missing:
                if pair.object is not None:
                    self._objects.append(pair.object[0])
                    self._writer.put_object(*pair.object)
                if pair.chunk is not None:
                    hidden.append(put(pair.chunk, IS_NEW))
                (last if row.table == CHECKPOINTS else hidden).append(put(pair.item, IS_NEW))
            if not fits_together(hidden):
                self._store(hidden)
                hidden = []
        if fits_together([*hidden, *last]):
            self._writer.transact([*hidden, *last])
            return Restored(added, there, expired)
        self._store(hidden)
        last.sort(key=lambda one: (not one.key[1].rpartition("#")[0], one.key[1]))
        self._store(last)
        return Restored(added, there, expired)

    def _store(self, actions: Sequence[DynamoAction]) -> None:
        for some in in_transactions(actions):
            self._lease.keep()
            try:
                self._writer.transact(some)
            except ClientError as error:
                if self._stored and is_conflict(error):
                    raise StoreChanged(
                        f"thread '{self._thread_id}' changed meanwhile, and a part of it is stored",
                        hint="run the command again: the rest is added",
                    ) from None
                raise
            self._stored += [one.key for one in some]

    def take_back_hidden(self) -> None:
        """Remove what was stored so far, unless a checkpoint of it is visible already.

        Raises errors of boto3.
        """
        if any(key[0].startswith(CHECKPOINT) for key in self._stored):
            return
        self._writer.write([delete(key) for key in self._stored])
        self._writer.remove_objects(self._objects)

    def _missing(self, rows: Sequence[Row]) -> Iterator[tuple[Row, StoredPair]]:
        """The rows that do not exist, without payloads that are stored already.

        Raises `StoreChanged` if one has different contents, and `Refused` if a row comes twice, or
        if another thread has its keys.
        """
        pairs = [pair_of(one) for one in rows]
        for row, pair in zip(rows, pairs, strict=True):
            self._remember(row, pair)
        rivals = {place for one in rows for place in places_of_rivals(one)}
        keys: list[Key] = [one.key for one in pairs]
        keys += [(one.item["ref_key"]["S"], CHUNK_SORT) for one in pairs]
        stored = self._connection.get([*keys, *rivals])
        if not rivals.isdisjoint(stored):
            raise Refused(
                "a checkpoint of another thread has the same keys, because ids contain '#'"
            )
        for row, pair in zip(rows, pairs, strict=True):
            item = stored.get(pair.key)
            if item is None:
                yield row, self._without_stored(row, pair, stored)
            elif not self._is_same(pair, item, stored):
                raise conflict(row.table)

    def _remember(self, row: Row, pair: StoredPair) -> None:
        """Raise `Refused` if an earlier row of the archive has one of the keys of this one."""
        for key in (pair.key, pair.item["ref_key"]["S"]):
            mark = hash(key)
            if mark in self._seen:
                raise Refused(f"a row of '{row.table}' comes twice")
            self._seen.add(mark)

    def _without_stored(
        self, row: Row, pair: StoredPair, stored: dict[Key, Attributes]
    ) -> StoredPair:
        """The pair without a payload that is stored already, such as by an import that was killed.

        Raises `StoreChanged` if the stored one is different: it may be that of another thread.
        """
        ref_key = pair.item["ref_key"]["S"]
        if pair.object is not None:
            found = self._connection.object(ref_key)
            if found is None:
                return pair
            if found.data != pair.object[1]:
                raise conflict(row.table)
            return replace(pair, object=None)
        chunk = stored.get((ref_key, CHUNK_SORT))
        if chunk is None or pair.chunk is None:
            return pair
        if chunk.get(PAYLOAD) != pair.chunk.get(PAYLOAD):
            raise conflict(row.table)
        return replace(pair, chunk=None)

    def _is_same(self, pair: StoredPair, item: Attributes, stored: dict[Key, Attributes]) -> bool:
        """Whether a pair exists with the same contents, whenever it expires."""
        if _lasting(item) != _lasting(pair.item):
            return False
        ref_key = pair.item["ref_key"]["S"]
        if pair.object is not None:
            found = self._connection.object(ref_key)
            return found is not None and found.data == pair.object[1]
        chunk = stored.get((ref_key, CHUNK_SORT), {})
        return chunk.get(PAYLOAD) == (pair.chunk or {}).get(PAYLOAD)


def _lasting(item: Attributes) -> Attributes:
    return {name: one for name, one in item.items() if name != "ttl"}


def _is_over(row: Row, now: float) -> bool:
    expires_at = row.cells.get("expires_at")
    return isinstance(expires_at, int) and expires_at <= now


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sum(len(cell) for cell in row.cells.values() if isinstance(cell, str | bytes))
        if len(some) == _AT_ONCE or size > _BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some


@contextmanager
def _twice(rows: Iterable[Row]) -> Iterator[Callable[[], Iterator[Row]]]:
    """Make rows readable several times by storing them in a temporary file.

    Yields a function that returns an iterator over all rows.
    """
    with TemporaryFile() as file:
        for row in rows:
            cells = {name: _stored(cell) for name, cell in row.cells.items()}
            file.write(json.dumps([row.table, cells]).encode() + b"\n")

        def again() -> Iterator[Row]:
            file.seek(0)
            for line in file:
                table, cells = json.loads(line)
                yield Row(table, {name: _read(cell) for name, cell in cells.items()})

        yield again


def _stored(cell: object) -> object:
    return [b64encode(cell).decode()] if isinstance(cell, bytes) else cell


def _read(cell: Any) -> Any:
    return b64decode(cell[0]) if isinstance(cell, list) else cell
