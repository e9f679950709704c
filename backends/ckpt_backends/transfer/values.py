"""Converts a value from one serializer's form to another's. Never changes what it means.

A value that the other serializer cannot hold raises `CannotHold`.

RedisSaver reads writes of type `msgpack`, too, so these keep their bytes on the way to Redis. Only
the values in a document must become JSON, which `as_type` does.
"""

from __future__ import annotations

import json

from ckpt_backends.codec.msgpack.lossless import Ext, pack_lossless, unpack_lossless
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Serializer
from ckpt_backends.transfer.unfit import NoEqualForm

_EXT = {bytes([0xD4 + n]): 1 for n in range(5)} | {b"\xc7": 2, b"\xc8": 3, b"\xc9": 5}
"""By first byte of msgpack's ext types, the place of the code."""
_ONE_ARGUMENT, _SNAPSHOT = 0, 7
_BYTEARRAY = "builtins", "bytearray"
_BYTEARRAY_CALL = b"\x00\x93\xa8builtins\xa9bytearray"
"""The beginning of the ext type that calls `bytearray`, which msgpack does not have."""
_BYTEARRAY_WITHIN = 8 + len(_BYTEARRAY_CALL)
_OF_BOTH = frozenset({"msgpack", "null", "bytes", "bytearray"})
"""Types that `JsonPlusSerializer` and `JsonPlusRedisSerializer` read alike."""
_UINT8_ARRAY = (
    b'{"lc":2,"type":"constructor","id":["Uint8Array"],"method":"from","args":[[%b]],"kwargs":{}}'
)
"""What LangGraph.js writes for bytes in a body: `_encodeConstructorArgs` in `serde/jsonplus.js`."""
_UINT8_NAME_WITHIN = 80
"""The name stands within so many bytes, also if the text has spaces."""
_MSGPACK_NONE = b"\xc0"


def converted_value(
    value: TypedBytes, source: Serializer, target: Serializer, where: str, *, in_body: bool = False
) -> TypedBytes:
    """A value in the form of another serializer.

    `where` names the value in messages. `in_body` says that the source stored it in a body, where
    RedisSaver reads some markers in another way. Raises `CannotHold`.
    """
    if source is target:
        return value
    if Serializer.JAVASCRIPT not in (source, target) and target is not Serializer.PICKLE:
        if value.type in _OF_BOTH:
            return value
        if value.type in ("json", "pickle", REDIS_JSON):
            return TypedBytes("msgpack", _msgpack(value, where, in_body=in_body))
    raise CannotHold(f"{where} has the type '{value.type}', which cannot be converted")


def as_type(
    value: TypedBytes, tag: str, where: str, serializer: Serializer = Serializer.TYPED
) -> TypedBytes:
    """A value of the same serializer with the type of the body that it becomes a part of.

    Raises `CannotHold` if this type has no equal value.
    """
    if value.type == tag:
        return value
    if tag == "json" and value.type == "null":
        return TypedBytes(tag, b"null")
    if tag == "json" and value.type == "bytes" and serializer is Serializer.JAVASCRIPT:
        return TypedBytes(tag, _UINT8_ARRAY % b",".join(b"%d" % byte for byte in value.data))
    if tag in ("msgpack", REDIS_JSON):
        data = _body_msgpack(value, where)
        if data is not None and tag == "msgpack":
            return TypedBytes(tag, data)
        if data is not None:
            return TypedBytes(tag, _redis_json(data, where))
    raise CannotHold(f"{where} has the type '{value.type}', which has no form in a {tag} body")


def _body_msgpack(value: TypedBytes, where: str) -> bytes | None:
    """The value as msgpack; None if it has no equal form."""
    match value.type:
        case "msgpack":
            return value.data
        case "null":
            return _MSGPACK_NONE
        case "bytes":
            return pack_lossless(value.data)
        case "bytearray":
            return pack_lossless(Ext(_ONE_ARGUMENT, pack_lossless([*_BYTEARRAY, value.data])))
        case "json" | "pickle":
            return _msgpack(value, where)
    return None


def _msgpack(value: TypedBytes, where: str, *, in_body: bool = False) -> bytes:
    try:
        if value.type == "pickle":
            from ckpt_backends.transfer.pickles import msgpack_of_pickle  # loads pickletools

            return msgpack_of_pickle(value.data)
        from ckpt_backends.transfer.json_objects import DOCUMENT, TYPED, WRITE, msgpack_of_json

        reader = TYPED if value.type == "json" else DOCUMENT if in_body else WRITE
        return msgpack_of_json(value.data, reader)
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None


def _redis_json(data: bytes, where: str) -> bytes:
    from ckpt_backends.transfer.redis_documents import redis_document

    try:
        return redis_document(data)
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None


def apart_type(value: TypedBytes) -> TypedBytes:
    """A value that was a part of a body, as its serializer stores it by itself.

    `JsonPlusSerializer` has types of its own for None and for bytes, LangGraph.js for bytes.
    """
    if value.type == "json" and b'"Uint8Array"' in value.data[:_UINT8_NAME_WITHIN]:
        match json.loads(value.data):
            case {"lc": 2, "id": ["Uint8Array"], "method": "from", "args": [[*items]]}:
                return TypedBytes("bytes", bytes(items))
    if value.type == "msgpack":
        if value.data == _MSGPACK_NONE:
            return TypedBytes("null", b"")
        if value.data[:1] in (b"\xc4", b"\xc5", b"\xc6"):
            width = 1 << (value.data[0] - 0xC4)
            return TypedBytes("bytes", value.data[1 + width :])
        if _BYTEARRAY_CALL in value.data[:_BYTEARRAY_WITHIN]:
            match unpack_lossless(value.data):
                case Ext(0, data):
                    return TypedBytes("bytearray", unpack_lossless(data)[2])
    return value


def is_snapshot(value: TypedBytes) -> bool:
    """Whether a value is the snapshot of a DeltaChannel: msgpack's ext type 7."""
    if value.type != "msgpack" or value.data[:1] not in _EXT:
        return False
    return value.data[_EXT[value.data[:1]]] == _SNAPSHOT
