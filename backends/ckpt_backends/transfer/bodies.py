"""Takes the body of a checkpoint apart into its fields and its values, and joins them again.

LangGraph writes the fields in the order of `_ORDER` (`langgraph/checkpoint/base`, `Checkpoint`).
RedisSaver adds two fields, which follow from the others (`_dump_checkpoint` in its `base.py`): the
type of its serializer, which no reader needs, and an empty `pending_sends`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.msgpack.cursor import MAP, Cursor, write_header
from ckpt_backends.codec.msgpack.lossless import pack_lossless, unpack_lossless
from ckpt_backends.codec.values import CHANNELS, JSON_TYPES, REDIS_JSON
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.spelling import by_length, spelled, spelled_name

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


def open_body(
    body: TypedBytes, where: str, like: Mapping[str, TypedBytes] = MappingProxyType({})
) -> OpenBody:
    """Take a body apart. Raises `CannotHold`, with `where` in the message.

    `like` has values of an earlier body by channel. Equal values of this body are the same objects,
    and are found without a look at each of their parts.
    """
    try:
        if body.type == "msgpack":
            return _open_msgpack(body, like)
        if body.type in JSON_TYPES:
            return _open_json(body)
        if body.type == "pickle":
            return _open_pickle(body)
    except (ValueError, IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise CannotHold(f"the body of {where} cannot be read: {error}") from None
    raise CannotHold(f"the body of {where} has the type '{body.type}', which cannot be taken apart")


def _open_msgpack(body: TypedBytes, like: Mapping[str, TypedBytes]) -> OpenBody:
    cursor = Cursor(body.data)
    fields: dict[str, Any] = {}
    values: dict[str, TypedBytes] = {}
    left = cursor.enter(MAP)
    while left:
        left -= 1
        name = cursor.text("surrogatepass")
        if name != CHANNELS:
            fields[name] = unpack_lossless(cursor.take())
            continue
        if cursor.kind() != MAP:
            raise ValueError("its channel values are no map")
        values = _channel_values(cursor, like)
        if rest := _rest(cursor, left):
            fields |= rest
            break
    return OpenBody(fields, values)


def _channel_values(cursor: Cursor, like: Mapping[str, TypedBytes]) -> dict[str, TypedBytes]:
    values: dict[str, TypedBytes] = {}
    for _ in range(cursor.enter(MAP)):
        channel = cursor.text("surrogatepass")
        known = like.get(channel)
        # Msgpack says at its beginning where it ends, so the value is the known one.
        if known is not None and known.data and cursor.data.startswith(known.data, cursor.pos):
            cursor.pos += len(known.data)
            values[channel] = known
        else:
            values[channel] = TypedBytes("msgpack", cursor.take())
    return values


def _rest(cursor: Cursor, number: int) -> dict[str, Any] | None:
    """The fields up to the end of a body, decoded at once; None if that is not possible."""
    try:
        fields = unpack_lossless(write_header(MAP, number) + cursor.data[cursor.pos :])
    except ValueError:  # for example a lone surrogate in a name
        return None
    return fields if len(fields) == number and CHANNELS not in fields else None


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


def close_body(
    found: OpenBody, tag: str, where: str, *, has_values: bool = True, in_order: bool = False
) -> TypedBytes:
    """Join a body of this type; each of its values has this type, too.

    Without `has_values`, the body has no entry for values. With `in_order`, its JSON has the order
    of engines that parse it; see `transfer.spelling`. Raises `CannotHold` if a field has no
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
        if in_order:
            return TypedBytes(tag, _close_in_order(found, names))
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


def _close_in_order(found: OpenBody, names: list[str]) -> bytes:
    names = sorted(names, key=by_length)
    at = names.index(CHANNELS) if CHANNELS in names else len(names)
    out = [spelled({name: found.fields[name] for name in names[:at]})[1:-1]]
    if at < len(names):
        values = found.values
        inner = b", ".join(
            [spelled_name(one) + values[one].data for one in sorted(values, key=by_length)]
        )
        out.append(spelled_name(CHANNELS) + b"{" + inner + b"}")
        out.append(spelled({name: found.fields[name] for name in names[at + 1 :]})[1:-1])
    return b"{" + b", ".join(filter(None, out)) + b"}"


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")
