"""Opens payloads: decompresses them, and splits those of checkpoints.

The payload of a checkpoint is one value of the serializer with the entries `checkpoint` and
`metadata`; the bytes of each entry are taken out without decoding it. Compression, if any, is the
outermost layer, encryption the next one.
"""

from __future__ import annotations

import zlib

from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.codec.split import split
from ckpt_backends.model import TypedBytes

BODY, METADATA = "checkpoint", "metadata"
_GZIP = 31
"""The window of zlib for data with gzip's header."""
_MOST_MEMBERS = 1000
"""The saver stores one member."""
_FED = 1 << 16
"""Bytes that zlib gets at once. At the end of a member it copies the rest of them."""


def decompressed(data: bytes) -> bytes | None:
    """The content of gzip data; None if it is longer than `MOST_BYTES`. Raises ValueError."""
    found: list[bytes] = []
    left = MOST_BYTES + 1
    view, start, members = memoryview(data), 0, 0
    while start < len(view):
        members += 1
        if members > _MOST_MEMBERS:
            raise ValueError(f"gzip data of more than {_MOST_MEMBERS} members")
        machine = zlib.decompressobj(_GZIP)
        while not machine.eof:
            piece = view[start : start + _FED]
            if not piece:
                raise ValueError("gzip data that is cut off")
            try:
                found.append(machine.decompress(piece, left))
            except zlib.error:
                raise ValueError("not valid gzip data") from None
            left -= len(found[-1])
            if left <= 0:
                return None
            start += len(piece) - len(machine.unused_data)
    return b"".join(found)


def split_payload(value: TypedBytes) -> tuple[TypedBytes, TypedBytes]:
    """Body and metadata of the payload of a checkpoint; with the problem if it cannot be split."""
    if value.problem:
        return value, value
    if "+" in value.type:
        # They are encrypted together.
        return _part(value, BODY), _part(value, METADATA)
    try:
        parts = split(value)
        if BODY not in parts:
            raise ValueError("no checkpoint in it")
    except ValueError as error:
        broken = TypedBytes(value.type, value.data, problem=str(error))
        return broken, broken
    return parts[BODY], parts.get(METADATA, TypedBytes("json", b"{}"))


def _part(value: TypedBytes, name: str) -> TypedBytes:
    return TypedBytes(value.type, value.data, part=name)
