"""Replaces payloads of a table, one after the other.

An item and its payload in the table are replaced in one transaction, which requires that the
payload is as it was read.
"""

from __future__ import annotations

from collections.abc import Iterable

from botocore.exceptions import ClientError

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.dynamodb.archive import StoredPair, checkpoint_row, pair_of, write_row
from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.driver_errors import code_of
from ckpt_backends.dynamodb.items import (
    CHUNK_SORT,
    IN_S3,
    PAYLOAD,
    CheckpointItem,
    DynamoItem,
    checkpoint_item,
    checkpoint_place,
    write_item,
    writes_partition,
)
from ckpt_backends.dynamodb.lease import change_lease
from ckpt_backends.dynamodb.parts import parts_of
from ckpt_backends.dynamodb.payloads import payloads
from ckpt_backends.dynamodb.plan import placed_row
from ckpt_backends.dynamodb.receiving import payload_of
from ckpt_backends.dynamodb.writer import IS_THERE, DynamoWriter, delete, put
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.transfer.parts import CheckpointPart, Part, PartRewrite, ValuePart


def rewrite_thread(
    connection: DynamoConnection, thread_id: str, rewrites: Iterable[PartRewrite]
) -> None:
    """Replace payloads of a thread. Raises `StoreChanged`, `Unsupported` and errors of boto3."""
    with change_lease(connection, thread_id) as lease:
        rewriting = _Rewriting(connection, thread_id)
        for one in rewrites:
            lease.keep()
            rewriting.replace(one)


class _Rewriting:
    def __init__(self, connection: DynamoConnection, thread_id: str) -> None:
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._thread_id = thread_id

    def replace(self, one: PartRewrite) -> None:
        """Replace the payload of one part."""
        item = self._item(one.stored)
        ((_, payload),) = payloads(self._connection, [item])
        if isinstance(item, CheckpointItem):
            row = checkpoint_row(item, payload)
        else:
            row = write_row(item, payload)
        if next(parts_of("dynamodb", [row])) != one.stored:
            raise self._moved()
        tag, data = payload_of(one.new)
        cells = {**row.cells, "type": tag}
        made = pair_of(placed_row(self._connection, row.table, cells, data))
        try:
            self._store(item, payload.data, made)
        except ClientError as error:
            if code_of(error) != "TransactionCanceledException":
                raise
            raise self._moved() from None

    def _item(self, part: Part) -> DynamoItem:
        if isinstance(part, ValuePart):
            raise Unsupported("layout 'dynamodb' stores no values outside of checkpoints")
        key = part.key
        if isinstance(part, CheckpointPart):
            place = checkpoint_place(key)
        else:
            place = (writes_partition(key), f"{part.task_id}#{part.idx}")
        found = self._connection.get([place]).get(place)
        if found is None:
            raise self._moved()
        if isinstance(part, CheckpointPart):
            return checkpoint_item(found)
        return write_item(key, found)

    def _store(self, item: DynamoItem, old: bytes, made: StoredPair) -> None:
        """Store an item anew with its payload, which may move between table and bucket."""
        was_in_s3 = item.ref.location == IN_S3
        if made.object is not None:
            if was_in_s3 and made.item != item.attributes:
                raise Unsupported(
                    f"the payload of checkpoint '{item.key.checkpoint_id}' is in S3, where it and"
                    " its type cannot be replaced together",
                    hint="copy the thread to another table with `ckpt copy`",
                )
            self._writer.put_object(*made.object)
        actions = [put(made.item, IS_THERE)]
        as_read = {":old": {"B": old}}
        if made.chunk is not None:
            condition = "" if was_in_s3 else f"{PAYLOAD} = :old"
            actions.append(put(made.chunk, condition, {} if was_in_s3 else as_read))
        elif not was_in_s3:
            actions.append(delete((item.ref.key, CHUNK_SORT)))
        self._writer.transact(actions)
        if was_in_s3 and made.object is None:
            self._writer.remove_objects([item.ref.key])

    def _moved(self) -> StoreChanged:
        return moved(Change(self._thread_id, {}))
