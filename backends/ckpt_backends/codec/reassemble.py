"""Builds new values from parts of stored values, without changing the bytes of any part.

For example, a merged list is built from the items of older lists. Because the bytes of each item
are copied, LangGraph reads it exactly as before, whatever class it has.
"""

from __future__ import annotations

import json
from typing import Any

from ckpt_backends.codec import decode
from ckpt_backends.codec.cursor import ARRAY, MAP, Cursor, write_header
from ckpt_backends.codec.values import JSON_TYPES, Cut, Opaque, Tagged, Value
from ckpt_backends.model import TypedBytes

_SET_CODE, _MESSAGE_CODE = 0, 5
"""Ext codes of objects made from one argument, and of objects of Pydantic 2
(`EXT_CONSTRUCTOR_SINGLE_ARG` and `EXT_PYDANTIC_V2` of JsonPlus)."""
_MESSAGES = "langchain_core.messages."
"""Start of the names of LangChain's messages."""


class Unbuildable(ValueError):
    """A value cannot be built from stored parts; the message says why."""


class Reassembly:
    """Decodes stored values part by part, and remembers the bytes of each part."""

    def __init__(self) -> None:
        self._whole: dict[int, tuple[Value, TypedBytes]] = {}
        self._parts: dict[int, tuple[Value, str, Any]] = {}
        # Keep a reference to each value, or Python could reuse its id() for another object.

    def read(self, typed: TypedBytes) -> Value:
        """Decode a stored value, and remember the bytes of its parts. Raises `Unbuildable`."""
        if typed.encrypted:
            raise Unbuildable("it is made of encrypted values")
        value = self._split(typed)
        self._whole[id(value)] = (value, typed)
        return value

    def write(self, value: Value, tag: str) -> TypedBytes:
        """Encode a value made of parts that were read, as msgpack or JSON. Raises `Unbuildable`."""
        if id(value) in self._whole:
            return self._whole[id(value)][1]
        if tag == "msgpack":
            return TypedBytes(tag, self._msgpack(value))
        if tag in JSON_TYPES:
            text = json.dumps(self._json(value, tag), ensure_ascii=False)
            return TypedBytes(tag, text.encode("utf-8", "surrogatepass"))
        raise Unbuildable(f"a value of type '{tag}' is not put together here")

    def _split(self, typed: TypedBytes) -> Value:
        whole = decode(typed)
        if isinstance(whole, Opaque | Cut):
            raise Unbuildable("it is made of values that cannot be read")
        if typed.type == "msgpack" and isinstance(whole, list | dict):
            return self._split_msgpack(typed.data)
        if typed.type in JSON_TYPES and isinstance(whole, list | dict):
            raw = json.loads(typed.data)
            if isinstance(raw, list):
                return [self._json_part(typed.type, item) for item in raw]
            if isinstance(whole, dict) and isinstance(raw, dict):
                return {key: self._json_part(typed.type, item) for key, item in raw.items()}
        return whole

    def _split_msgpack(self, data: bytes) -> Value:
        cursor = Cursor(data)
        is_map = cursor.kind() == MAP
        count = cursor.enter(MAP if is_map else ARRAY)
        taken = (cursor.take() for _ in range(count * 2 if is_map else count))
        parts = [self._part("msgpack", data, data) for data in taken]
        return dict(zip(parts[::2], parts[1::2], strict=True)) if is_map else parts

    def _json_part(self, tag: str, raw: Any) -> Value:
        return self._part(tag, json.dumps(raw).encode(), raw)

    def _part(self, tag: str, data: bytes, raw: Any) -> Value:
        value = decode(TypedBytes(tag, data))
        self._parts[id(value)] = (value, tag, raw)
        return value

    def _msgpack(self, value: Value) -> bytes:
        from ormsgpack import Ext, packb

        known = self._parts.get(id(value))
        if known is not None and known[1] == "msgpack":
            return bytes(known[2])
        whole = self._whole.get(id(value))
        if whole is not None and whole[1].type == "msgpack":
            return whole[1].data
        match value:
            case list():
                return write_header(ARRAY, len(value)) + b"".join(map(self._msgpack, value))
            case dict():
                pairs = [part for pair in value.items() for part in pair]
                return write_header(MAP, len(value)) + b"".join(map(self._msgpack, pairs))
            case Tagged(type="builtins.set" | "builtins.frozenset", payload=list(members)):
                name = [packb(part) for part in value.type.split(".")]
                inner = b"\x93" + b"".join(name) + self._msgpack(members)
                return packb(Ext(_SET_CODE, inner))
            case Tagged(type=name, payload=dict(fields)) if name.startswith(_MESSAGES):
                module, _, kind = name.rpartition(".")
                parts = [packb(module), packb(kind), self._msgpack(fields)]
                inner = b"\x94" + b"".join(parts) + packb("model_validate_json")
                return packb(Ext(_MESSAGE_CODE, inner))
            case str() | int() | float() | bool() | bytes() | None:
                return packb(value)
        raise Unbuildable("parts of it are of a kind that is not written here")

    def _json(self, value: Value, tag: str) -> Any:
        known = self._parts.get(id(value))
        if known is not None and known[1] == tag:
            return known[2]
        whole = self._whole.get(id(value))
        if whole is not None and whole[1].type in JSON_TYPES:
            return json.loads(whole[1].data)
        match value:
            case list():
                return [self._json(item, tag) for item in value]
            case dict() if all(isinstance(key, str) for key in value):
                return {key: self._json(item, tag) for key, item in value.items()}
            case str() | int() | float() | bool() | None:
                return value
        raise Unbuildable("parts of it are of a kind that is not written here")
