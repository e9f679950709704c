"""Compares the parts that were sent to a store with the parts that are stored there.

A digest covers everything that a saver reads of a part. JSON texts are compared by their contents,
because engines such as PostgreSQL store them parsed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import Any

from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.transfer.parts import (
    CheckpointPart,
    Part,
    ValuePart,
    WritePart,
    part_key,
    part_size,
)

_BYTES = 16
_EXACT = 1 << 53
"""Integers up to this size are equal as floats, too."""


def part_digest(part: Part) -> bytes:
    """The digest of everything in a part but its time of expiry."""
    digest = blake2b(digest_size=_BYTES)
    fields: list[str]
    match part:
        case CheckpointPart():
            fields = ["" if part.parent is None else f"={part.parent}"]
            values = [part.body, part.metadata]
        case WritePart():
            fields, values = [part.task_path, part.channel], [part.value]
        case ValuePart():
            fields, values = [], [part.value]
    for text in (*part_key(part), *fields):
        _add(digest, text.encode("utf-8", "surrogatepass"))
    for value in values:
        _add(digest, value.type.encode("utf-8", "surrogatepass"))
        _add(digest, _canonical(value))
    return digest.digest()


def stored_digest(part: Part) -> bytes:
    """As `part_digest`, but of JSON texts as they are spelled.

    It takes a tenth of the time. Different digests need not mean different parts.
    """
    place: tuple[object, ...]
    values: tuple[TypedBytes, ...]
    match part:
        case WritePart():
            place = *_place(part.key), part.task_id, part.idx, part.task_path, part.channel
            values = (part.value,)
        case CheckpointPart():
            place = *_place(part.key), part.parent
            values = part.body, part.metadata
        case ValuePart():
            place = part.checkpoint_ns, part.channel, part.version
            values = (part.value,)
    sizes = [(value.type, len(value.data)) for value in values]
    digest = blake2b(repr((place, sizes)).encode("ascii", "backslashreplace"), digest_size=_BYTES)
    for value in values:
        digest.update(value.data)
    return digest.digest()


def stored_cells(part: Part) -> tuple[object, ...]:
    """Everything in a part but its time of expiry, with JSON texts as they are spelled.

    The first is the thread's id. Parts of different kinds have different numbers of cells, so equal
    cells are those of equal parts.
    """
    value: TypedBytes
    if isinstance(part, ValuePart):
        value = part.value
        named = part.thread_id, part.checkpoint_ns, part.channel, part.version
        return *named, value.type, value.data
    key = part.key
    place = key.thread_id, key.checkpoint_ns, key.checkpoint_id
    if isinstance(part, WritePart):
        value = part.value
        task = part.task_id, part.idx, part.task_path, part.channel
        return *place, *task, value.type, value.data
    body, metadata = part.body, part.metadata
    return *place, part.parent, body.type, body.data, metadata.type, metadata.data


def _place(key: CheckpointKey) -> tuple[str, str]:
    return key.checkpoint_ns, key.checkpoint_id


def _add(digest: Any, data: bytes) -> None:
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)


def _canonical(value: TypedBytes) -> bytes:
    """The bytes of a value; of a JSON text, the same for every spelling of it."""
    if value.type not in JSON_TYPES:
        return value.data
    try:
        found = json.loads(value.data, parse_int=_integer, parse_float=_float)
        return json.dumps(found, sort_keys=True).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return value.data


def _integer(text: str) -> int | float:
    """An integer; a large one as a float, since an engine may have stored a float as an integer."""
    if len(text) < 16 or abs(number := int(text)) <= _EXACT:
        return int(text)
    try:
        # PostgreSQL writes the digits of 1.5e300 and zeros, which are not exactly the float.
        same = number in (int(float(number)), int(Decimal(repr(float(number)))))
    except OverflowError:
        return number
    return float(number) if same else number


def _float(text: str) -> int | float:
    """A float; a whole one as an integer, since an engine may have stored it so."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


@dataclass(slots=True)
class PartsSum:
    """Numbers of parts, and a digest that does not depend on their order. Needs no memory for them.

    Two sums are equal if their numbers and digests are.
    """

    total: int = 0
    """Of the digests."""
    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    size: int = field(default=0, compare=False)
    """Bytes of the values."""
    newest: str = field(default="", compare=False)
    """The greatest checkpoint id."""

    def add(self, part: Part, digest: bytes = b"") -> None:
        """Add a part with its digest, if they are compared."""
        self.total = (self.total + int.from_bytes(digest, "big")) % (1 << 8 * _BYTES)
        self.size += part_size(part)
        if isinstance(part, CheckpointPart):
            self.checkpoints += 1
            self.newest = max(self.newest, part.key.checkpoint_id)
        elif isinstance(part, WritePart):
            self.writes += 1
        else:
            self.values += 1

    def add_all(self, other: PartsSum) -> None:
        """Add the numbers of others, without their digests."""
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
        self.size += other.size
        self.newest = max(self.newest, other.newest)

    @property
    def parts(self) -> int:
        """The number of parts of all kinds."""
        return self.checkpoints + self.writes + self.values


def key_digest(part: Part) -> bytes:
    """The digest of what identifies a part within its thread."""
    digest = blake2b(digest_size=_BYTES)
    for text in part_key(part):
        _add(digest, text.encode("utf-8", "surrogatepass"))
    return digest.digest()
