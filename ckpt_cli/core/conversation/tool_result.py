"""Make the result of a tool call that no tool answered, in the stored form of other messages.

LangGraph stores a message as a msgpack object, as an `lc` envelope in JSON, or as the dict that the
application made. The result takes the form of the message with the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt_backends.codec.lossless import decode_lossless, encode_lossless
from ckpt_backends.codec.msgpack.lossless import Ext
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

_OBJECTS = {4, 5}
"""Ext codes of Pydantic objects, versions 1 and 2: `[module, class, fields, method]`."""
_MODULE, _CLASS = "langchain_core.messages.tool", "ToolMessage"
_EMPTY: Mapping[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
_PATHS = (["langchain", "schema", "messages"], ["langchain_core", "messages"])
"""Where LangChain's envelopes say that messages are."""


def result_like(
    caller: TypedBytes, *, call_id: str, tool: str, content: str, message_id: str
) -> TypedBytes:
    """Return a stored result that says that a call failed.

    `caller` is the stored message with the call. Raises `Unsupported` if its form is not known.
    """
    said = {
        "content": content,
        "type": "tool",
        "name": tool,
        "id": message_id,
        "tool_call_id": call_id,
        "status": "error",
    }
    made = _like(decode_lossless(caller), said)
    return TypedBytes(caller.type, encode_lossless(caller.type, made, like=_spelling(caller)))


def _spelling(caller: TypedBytes) -> bytes:
    return b"" if caller.type == "msgpack" else caller.data


def _like(caller: Any, said: dict[str, Any]) -> Any:
    match caller:
        case Ext(code=code, data=data) if code in _OBJECTS:
            # The fourth part is the method of Pydantic that loads the fields.
            method = decode_lossless(TypedBytes("msgpack", data))[3:]
            parts = [_MODULE, _CLASS, {**said, **_EMPTY, "artifact": None}, *method]
            return Ext(code, encode_lossless("msgpack", parts))
        case {"lc": 1, "id": [*path, _], "kwargs": dict(fields)}:
            names = [*(path if path in _PATHS else _PATHS[0]), _CLASS]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"lc": 2, "id": list(), "kwargs": dict(fields)}:
            names = [*_MODULE.split("."), _CLASS]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"role": str()}:
            # APIs that take such dicts as they are may refuse other keys.
            keys = ["content", "tool_call_id", *(["id"] if "id" in caller else [])]
            return {"role": "tool", **{key: said[key] for key in keys}}
        case {"type": str()}:
            return said
    raise Unsupported("cannot add a result: the form of the message with the call is not known")


def _kwargs(said: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an envelope. LangGraph.js stores no type, but fields that are empty."""
    left_out = set() if "type" in fields else {"type"}
    empty = _EMPTY if "additional_kwargs" in fields else {}
    return {**{key: one for key, one in said.items() if key not in left_out}, **empty}
