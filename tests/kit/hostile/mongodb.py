"""A man in the middle between `ckpt` and MongoDB, and servers that only pretend to be MongoDB."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import bson

from tests.kit.hostile import standin
from tests.kit.hostile.standin import Answer

MESSAGE, QUERY, REPLY, COMPRESSED = 2013, 2004, 1, 2012
"""Opcodes."""
Said = Mapping[str, Any] | bytes | None
"""A document, or a whole message as bytes, or None to close the connection."""
HELLO = {"hello", "ismaster", "isMaster"}


@dataclass(frozen=True)
class Request:
    """What the driver asks."""

    number: int
    opcode: int
    document: dict[str, Any]
    raw: bytes = b""

    @property
    def name(self) -> str:
        return next(iter(self.document))

    def answered(self, said: Said) -> bytes | None:
        """What is sent of an answer."""
        return said if said is None or isinstance(said, bytes) else self.packed(said)

    def packed(self, said: Mapping[str, Any] | bytes, **header: int) -> bytes:
        """An answer with this document, or the bytes of one; `header` replaces parts."""
        body = said if isinstance(said, bytes) else bson.encode(said)
        if self.opcode == QUERY:
            return _message(struct.pack("<iqii", 8, 0, 0, 1) + body, REPLY, self.number, **header)
        return _message(struct.pack("<ib", 0, 0) + body, MESSAGE, self.number, **header)


def _message(
    body: bytes, opcode: int, answered: int, *, length: int | None = None, code: int | None = None
) -> bytes:
    size = 16 + len(body) if length is None else length
    return struct.pack("<iiii", size, 1, answered, opcode if code is None else code) + body


def serving(reply: Callable[[Request], Said]) -> Answer:
    """Answer every command as `reply` says."""
    return standin.serving(_request, lambda asked: asked.answered(reply(asked)))


def between(port: int, change: Callable[[Request, bytes], Said]) -> Answer:
    """Pass commands on to the server at a port, and its answers back as `change` returns them."""
    return standin.between(
        *(port, _request, lambda asked: asked.raw, _whole),
        lambda asked, told: asked.answered(change(asked, told)),
    )


def honest(request: Request) -> dict[str, Any]:
    """The answers of a server with the collection `checkpoints`, which holds nothing."""
    if request.name in HELLO:
        return hello()
    listed = [{"name": "checkpoints", "type": "collection", "options": {}}]
    batch = {"listCollections": listed}.get(request.name, [])
    if request.name in {"listCollections", "listIndexes", "aggregate", "getMore"}:
        return cursor(batch)
    return {"ok": 1, "version": "8.0.0"}


def hello(**others: object) -> dict[str, Any]:
    """What a standalone server says of itself."""
    return {
        **{"ok": 1, "ismaster": True, "isWritablePrimary": True, "helloOk": True},
        **{"maxBsonObjectSize": 16 << 20, "maxMessageSizeBytes": 48_000_000},
        **{"maxWriteBatchSize": 100_000, "minWireVersion": 0, "maxWireVersion": 25},
        **{"logicalSessionTimeoutMinutes": 30, "connectionId": 1},
        **others,
    }


def cursor(batch: object, number: object = bson.Int64(0)) -> dict[str, Any]:
    """The first documents of a result."""
    return {"ok": 1, "cursor": {"id": number, "ns": "x.checkpoints", "firstBatch": batch}}


def _whole(stream: BufferedReader) -> bytes:
    head = stream.read(4)
    if not head:
        raise EOFError
    return head + stream.read(struct.unpack("<i", head)[0] - 4)


def _request(stream: BufferedReader) -> Request:
    whole = _whole(stream)
    _, number, _, opcode = struct.unpack("<iiii", whole[:16])
    body = whole[21:]
    if opcode == QUERY:
        body = whole[whole.index(b"\0", 20) + 9 :]
    (size,) = struct.unpack("<i", body[:4])
    return Request(number, opcode, bson.decode(body[:size]), whole)
