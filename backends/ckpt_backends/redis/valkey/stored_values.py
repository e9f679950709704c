"""Reads and writes the JSON texts of ValkeySaver.

A checkpoint is an object, the writes of a checkpoint are one list of objects:

    {"thread_id", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata"}
    [{"task_id", "idx", "channel", "type", "value"}, ...]

`checkpoint`, `metadata` and `value` are base64: of the serializer's bytes, of which `type` is the
type, and of JSON in `metadata`, which is never encrypted. Source: `_serialize_checkpoint_data` and
`_serialize_writes_data` in `checkpoint/valkey/base.py` of langgraph-checkpoint-aws 1.2.6. The saver
loads nothing if a text is not JSON.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes, Write

UNKNOWN = "?"
"""The channel of a write that cannot be read."""
START_BYTES = 512
"""The ids and the type of a checkpoint are within this many bytes, in addition to its thread id."""
ESCAPED = 6
"""A byte of an id takes at most this many bytes in JSON."""
_TEXT = rb'"(?:[^"\\]|\\.)*"'
_START = re.compile(
    rb'\{"thread_id":(%b),"checkpoint_id":%b,"parent_checkpoint_id":(null|%b),"type":(%b),'
    % (_TEXT, _TEXT, _TEXT, _TEXT),
    re.DOTALL,
)
_FORM = "not in the form of ValkeySaver"


@dataclass(frozen=True, slots=True)
class CheckpointStart:
    """The ids and the type that a checkpoint's text contains; None if they cannot be read."""

    thread_id: str | None
    parent: str | None
    tag: str | None


@dataclass(frozen=True, slots=True)
class CheckpointText:
    """The contents of a checkpoint's key."""

    start: CheckpointStart
    body: TypedBytes
    metadata: TypedBytes
    fields: Mapping[str, Any]
    """The JSON object as stored; empty if the text is not JSON."""


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """One element of a list of writes."""

    task_id: str
    idx: int
    channel: str
    value: TypedBytes
    length: int
    """Length of the stored text of the value."""
    fields: Any
    """The element as stored."""


def start_of(text: bytes) -> CheckpointStart | None:
    """What a checkpoint's text begins with; None if it has another form than the saver's."""
    found = _START.match(text)
    if found is None:
        return None
    try:
        thread_id, parent, tag = (json.loads(one) for one in found.groups())
    except ValueError:
        return None
    return CheckpointStart(thread_id, parent or None, tag)


def stored_checkpoint(text: bytes) -> CheckpointText:
    """A checkpoint; with a `problem` in the parts that cannot be read."""
    fields = _json(text)
    if not isinstance(fields, dict):
        broken = TypedBytes("", text, problem=_FORM)
        return CheckpointText(CheckpointStart(None, None, None), broken, broken, {})
    tag = _str(fields.get("type"))
    start = CheckpointStart(
        _str(fields.get("thread_id")), _str(fields.get("parent_checkpoint_id")) or None, tag
    )
    body = _bytes(tag, fields.get("checkpoint"))
    # The saver reads an empty text as an empty object.
    metadata = _bytes("json", fields.get("metadata"))
    if not metadata.data and not metadata.problem:
        metadata = TypedBytes("json", b"{}")
    return CheckpointText(start, body, metadata, fields)


def stored_writes(text: bytes) -> list[WriteRecord]:
    """The writes of a checkpoint in the order of arrival. One that cannot be read has no task."""
    found = _json(text)
    if not isinstance(found, list):
        return [_unreadable(text, len(text), None)]
    return [_write(one) for one in found]


def _write(one: Any) -> WriteRecord:
    match one:
        case {"task_id": str(task_id), "idx": int(idx), "channel": str(channel), **rest}:
            value = rest.get("value")
            length = len(value) if isinstance(value, str) else 0
            return WriteRecord(
                task_id, idx, channel, _bytes(_str(rest.get("type")), value), length, one
            )
    text = _shown(one)
    return _unreadable(text, len(text), one)


def _unreadable(text: bytes, length: int, fields: Any) -> WriteRecord:
    return WriteRecord("", 0, UNKNOWN, TypedBytes("", text, problem=_FORM), length, fields)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shown(found: Any) -> bytes:
    try:
        return json.dumps(found).encode()
    except RecursionError:
        return b""


def _str(found: Any) -> str | None:
    return found if isinstance(found, str) else None


def _bytes(tag: str | None, found: Any) -> TypedBytes:
    """A value from its base64; with a `problem` if it is none."""
    if tag is None or not isinstance(found, str):
        return TypedBytes(tag or "", _shown(found), problem=_FORM)
    try:
        return TypedBytes(tag, b64decode(found, validate=True))
    except (ValueError, Error):
        return TypedBytes(tag, found.encode("utf-8", "surrogatepass"), problem="not valid base64")


# What the saver would store


def checkpoint_text(
    fields: Mapping[str, Any], body: TypedBytes | None, metadata: TypedBytes | None
) -> bytes:
    """A checkpoint with these fields, and with another body or other metadata unless None.

    Raises `Unsupported` if the metadata are not JSON.
    """
    parts = dict(fields)
    if body is not None:
        parts |= {"type": body.type, "checkpoint": b64encode(body.data).decode()}
    if metadata is not None:
        if metadata.type != "json":
            raise Unsupported(f"cannot write metadata of type '{metadata.type}' here")
        parts["metadata"] = b64encode(metadata.data).decode()
    return _dumped(parts)


def write_fields(write: Write) -> dict[str, Any]:
    """A write as an element of the list."""
    value = write.value or TypedBytes("null", b"")
    return {
        "task_id": write.task_id,
        "idx": write.idx,
        "channel": write.channel,
        **value_fields(value),
    }


def value_fields(value: TypedBytes) -> dict[str, str]:
    """The fields of a write's value."""
    return {"type": value.type, "value": b64encode(value.data).decode()}


def writes_text(elements: Iterable[Any]) -> bytes:
    """A list of writes."""
    return _dumped(list(elements))


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(value, separators=(",", ":")).encode()
