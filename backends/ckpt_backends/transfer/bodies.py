"""Takes the body of a checkpoint apart into its fields and its values, and joins them again.

LangGraph writes the fields in the order of `_ORDER` (`langgraph/checkpoint/base`, `Checkpoint`).
RedisSaver adds two fields, which follow from the others (`_dump_checkpoint` in its `base.py`): the
type of its serializer, which no reader needs, and an empty `pending_sends`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.msgpack.cursor import MAP, Cursor, write_header
from ckpt_backends.codec.msgpack.lossless import pack_lossless, unpack_lossless
from ckpt_backends.codec.values import CHANNELS, JSON_TYPES, REDIS_JSON
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

_ORDER = (
    *("v", "ts", "id", CHANNELS, "channel_versions", "versions_seen"),
    *("pending_sends", "updated_channels"),
)
_TYPE, _SENDS = "type", "pending_sends"


@dataclass(slots=True)
class OpenBody:
    """A body that was taken apart."""

    fields: dict[str, Any]
    """All entries but the channel values, as `decode_lossless` gives them."""
    values: dict[str, TypedBytes]
    """The values in the body, each as stored."""

    def version_of(self, channel: str) -> str | None:
        """The version of a channel as a text; None if it has none."""
        versions = self.fields.get("channel_versions")
        found = versions.get(channel) if isinstance(versions, dict) else None
        return None if found is None else version_text(found)

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of each channel, as a text."""
        versions = self.fields.get("channel_versions")
        if not isinstance(versions, dict):
            return {}
        return {name: version_text(one) for name, one in versions.items() if one is not None}


def version_text(version: object) -> str:
    """A version as savers use it in keys: LangGraph.js has numbers, and Python had some, too."""
    if isinstance(version, float) and version.is_integer():
        return str(int(version))
    return str(version)


def open_body(body: TypedBytes, where: str) -> OpenBody:
    """Take a body apart. Raises `CannotHold`, with `where` in the message."""
    try:
        if body.type == "msgpack":
            return _open_msgpack(body)
        if body.type in JSON_TYPES:
            return _open_json(body)
        if body.type == "pickle":
            return _open_pickle(body)
    except (ValueError, IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise CannotHold(f"the body of {where} cannot be read: {error}") from None
    raise CannotHold(f"the body of {where} has the type '{body.type}', which cannot be taken apart")


def _open_msgpack(body: TypedBytes) -> OpenBody:
    cursor = Cursor(body.data)
    fields: dict[str, Any] = {}
    values: dict[str, TypedBytes] = {}
    for _ in range(cursor.enter(MAP)):
        name = cursor.text("surrogatepass")
        if name != CHANNELS:
            fields[name] = unpack_lossless(cursor.take())
        elif cursor.kind() == MAP:
            for _ in range(cursor.enter(MAP)):
                channel = cursor.text("surrogatepass")
                values[channel] = TypedBytes("msgpack", cursor.take())
        else:
            raise ValueError("its channel values are no map")
    return OpenBody(fields, values)


def _open_pickle(body: TypedBytes) -> OpenBody:
    from ckpt_backends.transfer.pickles import open_pickle  # loads pickletools

    fields, values = open_pickle(body.data)
    return OpenBody(fields, {name: TypedBytes("msgpack", one) for name, one in values.items()})


def _open_json(body: TypedBytes) -> OpenBody:
    fields = json.loads(body.data.decode("utf-8", "surrogatepass"))
    if not isinstance(fields, dict):
        raise ValueError("it is no object")
    stored = fields.pop(CHANNELS, None) or {}
    if body.type == REDIS_JSON:
        fields.pop(_TYPE, None)
        if not fields.get(_SENDS):
            fields.pop(_SENDS, None)
    dump = _dump_like(body.data)
    return OpenBody(
        fields, {name: TypedBytes(body.type, dump(one)) for name, one in stored.items()}
    )


def _dump_like(data: bytes) -> Any:
    """A function that writes JSON with the separators of a text."""
    tight = b'":"' in data or b'":{' in data
    separators = (",", ":") if tight else (", ", ": ")

    def dump(value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=False, separators=separators)
        return text.encode("utf-8", "surrogatepass")

    return dump


def close_body(found: OpenBody, tag: str, where: str, *, has_values: bool = True) -> TypedBytes:
    """Join a body of this type; each of its values has this type, too.

    Without `has_values`, the body has no entry for values. Raises `CannotHold` if a field has no
    such form.
    """
    names = [name for name in _ORDER if name in found.fields or (name == CHANNELS and has_values)]
    names += [name for name in found.fields if name not in _ORDER]
    for channel, value in found.values.items():
        if value.type != tag:
            raise CannotHold(f"channel '{channel}' of {where} has the type '{value.type}'")
    try:
        if tag == "msgpack":
            return TypedBytes(tag, _close_msgpack(found, names))
        if tag == REDIS_JSON:
            found = OpenBody({_TYPE: "json", _SENDS: []} | found.fields, found.values)
            names = [_TYPE, *(name for name in names if name not in {_TYPE, _SENDS}), _SENDS]
        return TypedBytes(tag, _close_json(found, names))
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotHold(f"the body of {where} cannot be written as {tag}: {error}") from None


def _close_msgpack(found: OpenBody, names: list[str]) -> bytes:
    out = [write_header(MAP, len(names))]
    for name in names:
        out.append(pack_lossless(name))
        if name != CHANNELS:
            out.append(pack_lossless(found.fields[name]))
            continue
        out.append(write_header(MAP, len(found.values)))
        for channel, value in found.values.items():
            out += [pack_lossless(channel), value.data]
    return b"".join(out)


def _close_json(found: OpenBody, names: list[str]) -> bytes:
    out = []
    for name in names:
        if name == CHANNELS:
            inner = b", ".join(
                _json(channel) + b": " + value.data for channel, value in found.values.items()
            )
            out.append(_json(name) + b": {" + inner + b"}")
        else:
            out.append(_json(name) + b": " + _json(found.fields[name]))
    return b"{" + b", ".join(out) + b"}"


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")
