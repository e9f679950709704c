"""Adds the parts of threads to a table.

What a checkpoint needs, its payload and its writes, is stored before its item. So a thread of up to
100 checkpoints becomes visible in one transaction. A longer one becomes visible 100 checkpoints at
a time, subgraphs first and the newest root checkpoint last: until the end, a saver sees an earlier
state of the thread. A killed run is completed by the next one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.changes.rows import Row
from ckpt_backends.dynamodb.archive import CHECKPOINTS, WRITES, checked_rows
from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.index import heads_of, read_thread
from ckpt_backends.dynamodb.items import GZIP, is_partition, partition_of
from ckpt_backends.dynamodb.lease import change_lease
from ckpt_backends.dynamodb.plan import LONGEST, cells_of, checkpoint_payload, placed_row
from ckpt_backends.dynamodb.restoring import RowRestoring
from ckpt_backends.errors import CkptError, Refused, StoreUnavailable, Unsupported
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, ValuePart, WritePart

_SECOND = 1000


def receive_thread(connection: DynamoConnection, arrival: Arrival) -> None:
    """Add a thread, or what is missing of it.

    Raises `StoreChanged`, `CannotHold` and errors of boto3; nothing new is visible then, unless the
    thread has more than 100 new checkpoints.
    """
    thread_id = arrival.thread_id
    if not is_partition(partition_of(thread_id)):
        raise CannotHold(f"DynamoDB cannot store the thread id '{thread_id}'")
    with change_lease(connection, thread_id) as lease:
        present = read_thread(connection, thread_id)
        if heads_of(present) != dict(arrival.heads):
            raise moved(Change(thread_id, arrival.heads))
        rows = (_row(connection, part) for part in arrival.parts)
        adding = RowRestoring(connection, thread_id, lease, keeps_expired=True)
        try:
            adding.run(checked_rows(connection, thread_id, rows), adds=True)
        except CkptError as error:
            with suppress(ClientError, BotoCoreError, OSError, StoreUnavailable):
                adding.take_back_hidden()
            if isinstance(error, Refused | Unsupported):
                raise CannotHold(error.message, hint=error.hint) from None
            raise


def _row(connection: DynamoConnection, part: Part) -> Row:
    """A part as a row. Raises `Unsupported`."""
    match part:
        case CheckpointPart():
            cells: dict[str, Any] = {**cells_of(part.key)}
            if part.parent:
                cells["parent_checkpoint_id"] = part.parent
            table = CHECKPOINTS
        case WritePart():
            cells = {**cells_of(part.key), "task_id": part.task_id}
            cells |= {"idx": part.idx, "channel": part.channel}
            if part.task_path:
                cells["task_path"] = part.task_path
            table = WRITES
        case _:
            raise _no_values()
    cells["type"], data = payload_of(part)
    if part.expires_at is not None:
        cells["expires_at"] = cells["payload_expires_at"] = part.expires_at
    if len(data) > LONGEST and connection.bucket is None:
        # The saver reads this, whether it compresses itself or not.
        cells["compression"] = GZIP
    return placed_row(connection, table, cells, data)


def payload_of(part: Part) -> tuple[str, bytes]:
    """The type and the bytes of a part's payload, before compression. Raises `Unsupported`."""
    if isinstance(part, ValuePart):
        raise _no_values()
    if isinstance(part, WritePart):
        return part.value.type, part.value.data
    return checkpoint_payload(part.body, part.metadata)


def _no_values() -> Unsupported:
    return Unsupported("layout 'dynamodb' stores no values outside of checkpoints")
