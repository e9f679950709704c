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
from ckpt_cli.core.conversation.pairing import CallForm

_OBJECTS = {4, 5}
"""Ext codes of Pydantic objects, versions 1 and 2: `[module, class, fields, method]`."""
_CLASSES = {
    "tool": ("langchain_core.messages.tool", "ToolMessage"),
    "function": ("langchain_core.messages.function", "FunctionMessage"),
}
"""Module and class of results, by their type."""
_EMPTY: Mapping[str, Any] = {"additional_kwargs": {}, "response_metadata": {}}
_FAILED: Mapping[str, Any] = {"is_error": True}
_PATHS = (["langchain", "schema", "messages"], ["langchain_core", "messages"])
"""Where LangChain's envelopes say that messages are."""


def result_like(
    caller: TypedBytes,
    *,
    call_id: str,
    tool: str,
    content: str,
    message_id: str,
    form: CallForm = CallForm.TOOL,
) -> TypedBytes:
    """Return a stored result that says that a call failed.

    `caller` is the stored message with the call. Raises `Unsupported` if its form is not known.
    """
    said: dict[str, Any] = {"content": content, "type": "tool", "name": tool, "id": message_id}
    if form is CallForm.FUNCTION:
        said["type"] = "function"
    else:
        said |= {"tool_call_id": call_id, "status": "error"}
    if form is CallForm.CUSTOM:
        # `_make_custom_tool_output_from_message` in `langchain_openai/chat_models/base.py`.
        said["content"] = [{"type": "custom_tool_call_output", "output": content}]
    made = _like(decode_lossless(caller), said)
    return TypedBytes(caller.type, encode_lossless(caller.type, made, like=_spelling(caller)))


def _spelling(caller: TypedBytes) -> bytes:
    return b"" if caller.type == "msgpack" else caller.data


def _like(caller: Any, said: dict[str, Any]) -> Any:
    module, name = _CLASSES[said["type"]]
    match caller:
        case Ext(code=code, data=data) if code in _OBJECTS:
            # The fourth part is the method of Pydantic that loads the fields.
            method = decode_lossless(TypedBytes("msgpack", data))[3:]
            own = {"artifact": None} if said["type"] == "tool" else {}
            parts = [module, name, {**said, **_EMPTY, **own}, *method]
            return Ext(code, encode_lossless("msgpack", parts))
        case {"lc": 1, "id": [*path, _], "kwargs": dict(fields)}:
            names = [*(path if path in _PATHS else _PATHS[0]), name]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"lc": 2, "id": list(), "kwargs": dict(fields)}:
            names = [*module.split("."), name]
            return {**caller, "id": names, "kwargs": _kwargs(said, fields)}
        case {"role": str(), "content": [*blocks]} if _has_call(blocks, said):
            # Anthropic's API has no messages of tools.
            answered = {"tool_use_id": said["tool_call_id"], "content": said["content"]}
            return {"role": "user", "content": [{"type": "tool_result", **answered, **_FAILED}]}
        case {"role": str()}:
            # APIs that take such dicts as they are may refuse other keys.
            called = "name" if said["type"] == "function" else "tool_call_id"
            keys = ["content", called, *(["id"] if "id" in caller else [])]
            return {"role": said["type"], **{key: said[key] for key in keys}}
        case {"type": str()}:
            return said
    raise Unsupported("cannot add a result: the form of the message with the call is not known")


def _has_call(blocks: list[Any], said: Mapping[str, Any]) -> bool:
    """Return whether the call is a block in Anthropic's form."""
    return any(
        isinstance(one, dict)
        and one.get("type") == "tool_use"
        and one.get("id") == said.get("tool_call_id")
        for one in blocks
    )


def _kwargs(said: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an envelope. LangGraph.js stores no type, but fields that are empty."""
    left_out = set() if "type" in fields else {"type"}
    empty = _EMPTY if "additional_kwargs" in fields else {}
    return {**{key: one for key, one in said.items() if key not in left_out}, **empty}
