"""The records of a thread in KaFlow's documents. Needs no driver.

KaFlow's order is that of the times of storing, and other layouts order checkpoints by their ids.
So a thread can only become records if its last checkpoint has the greatest id. A checkpoint without
a parent gets the one before it in time, as in `read`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ckpt_backends.codec.bson import decode_bson
from ckpt_backends.codec.values import DEFAULT_LIMITS, PastLimit
from ckpt_backends.model import Record, TypedBytes
from ckpt_backends.mongodb.engine.records import MongoDocument
from ckpt_backends.rows import ChangeValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

_FIELDS = {"_id", "thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint_data"}
_FIELDS |= {"metadata", "username", "created_at", "updated_at"}


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The records that the documents of one thread hold, which come oldest first.

    Raises `CannotHold` and `Unreadable`.
    """
    before, last_at, greatest = "", 0, ""
    for row in rows:
        fields = MongoDocument(row)
        fields.check_fields(_FIELDS)
        key, at = fields.key(), fields.milliseconds("created_at")
        if at < last_at:
            raise CannotHold(f"checkpoint '{key.checkpoint_id}' is older than the one before it")
        _check_user(fields.text("username"), key.thread_id)
        parent = fields.text("parent_checkpoint_id") or before or None
        body = TypedBytes("pickle", fields.binary("checkpoint_data"))
        yield Record.checkpoint(key, parent, body, _metadata(fields, key.checkpoint_id))
        before, last_at = key.checkpoint_id, at
        greatest = max(greatest, before)
    if before != greatest:
        raise CannotHold(
            f"its newest checkpoint '{before}' has a smaller id than '{greatest}', which other"
            " layouts would load in its place"
        )


def _check_user(user: str, thread_id: str) -> None:
    """Raise `CannotHold` for a user who is not named in the thread id.

    KaFlow takes the user from the thread id, `user_uuid_config`. Other layouts have no place for
    another one.
    """
    if user and user != thread_id.partition("_")[0]:
        raise CannotHold(f"its user '{user}' is not part of the thread id")


def _metadata(fields: MongoDocument, checkpoint_id: str) -> TypedBytes:
    where = f"the metadata of checkpoint '{checkpoint_id}'"
    stored = fields.document("metadata")
    if stored is None:
        raise CannotHold(f"{where} is no document")
    try:
        found: Any = decode_bson(stored, DEFAULT_LIMITS, None)
        text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError, PastLimit):
        raise CannotHold(f"{where} has a value that is not plain JSON") from None
    return TypedBytes("json", text.encode("utf-8", "surrogatepass"))


# Changes the values in documents of KaFlow. Needs no driver.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal.

    Raises `Unreadable` for a row that is no document.
    """
    found = MongoDocument(row)
    found.edit("checkpoint_data", ValueKind.BODY, change, tag="pickle")
    found.edit("metadata", ValueKind.METADATA, change, tag="json", document_tag="bson-plain")
    return found.row()
