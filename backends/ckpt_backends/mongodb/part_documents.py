"""Makes documents of parts, as the newest releases of LangGraph's savers store them.

What a part does not hold is derived from its key, so that the same part always becomes the same
document.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from hashlib import blake2b

from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.mongodb.engine.layout import CHECKPOINTS, WRITES, MongoLayout
from ckpt_backends.mongodb.engine.receiving import Document
from ckpt_backends.mongodb.recognise import JAVASCRIPT
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart, part_key

_INT32 = 1 << 31


class PartDocuments:
    """Makes the documents of one layout."""

    def __init__(self, layout: MongoLayout, stamped: Collection[str]) -> None:
        """`stamped` are the tables whose documents have the time of storing."""
        self._layout = layout
        self._is_javascript = layout.name == JAVASCRIPT
        self._stamped = stamped

    def of_part(self, part: Part) -> tuple[str, Document]:
        """The table and the document of a part. Raises `CannotHold` and `Unsupported`."""
        if isinstance(part, ValuePart):
            raise Unsupported("MongoDB stores values in bodies")
        if isinstance(part, CheckpointPart):
            table = CHECKPOINTS
            fields: Document = {
                "parent_checkpoint_id": part.parent,
                "type": part.body.type,
                "checkpoint": part.body.data,
                **self._metadata(part.metadata, part.key),
            }
        else:
            table = WRITES
            fields = {
                "task_id": part.task_id,
                **({} if self._is_javascript else {"task_path": part.task_path}),
                "idx": part.idx,
                "channel": part.channel,
                "type": part.value.type,
                "value": part.value.data,
            }
        if table in self._stamped:
            made_at = time_of(part.key.checkpoint_id) or datetime.now(UTC)
            fields[self._layout.saver.time_field] = made_at
        return table, {"_id": _object_id(part), **_place(part.key), **fields}

    def _metadata(self, given: TypedBytes, key: CheckpointKey) -> Document:
        if not self._is_javascript:
            if given.type != "bson":
                raise Unsupported(f"MongoDB cannot store metadata of the type '{given.type}'")
            return {"metadata": RawBSONDocument(given.data)}
        try:
            found = json.loads(given.data, parse_int=_integer, parse_float=_float)
        except ValueError:
            raise CannotHold(
                f"the metadata of checkpoint '{key.checkpoint_id}' is no JSON text"
            ) from None
        return {"metadata": given.data, "metadata_search": found}


def _place(key: CheckpointKey) -> Document:
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def _object_id(part: CheckpointPart | WritePart) -> ObjectId:
    """An id with the time of the checkpoint, and a digest in place of a random number."""
    made_at = time_of(part.key.checkpoint_id)
    seconds = 0 if made_at is None else int(made_at.timestamp())
    digest = blake2b(digest_size=8)
    for text in (part.key.thread_id, *part_key(part)):
        word = text.encode("utf-8", "surrogatepass")
        digest.update(len(word).to_bytes(4, "big") + word)
    return ObjectId((seconds & 0xFFFFFFFF).to_bytes(4, "big") + digest.digest())


def _integer(text: str) -> int | float:
    """An integer as MongoDB's JavaScript driver stores it: large ones become floats."""
    number = int(text)
    return number if -_INT32 <= number < _INT32 else float(text)


def _float(text: str) -> int | float:
    """A float as this driver stores it: small whole ones become integers."""
    number = float(text)
    return int(number) if number.is_integer() and -_INT32 <= number < _INT32 else number
