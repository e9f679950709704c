"""Find the names of classes and functions that a saver's decoder would import or call.

Nothing is imported or called here. The bytes are read, not the decoded values: those leave out
what people need not see, such as a malformed object that a saver would still build.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ckpt_backends.codec.merged import MERGED, packed_parts
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.named_types import KNOWN, NONE, Names


def type_names(typed: TypedBytes) -> Names:
    """Return what a value names. Raises `PastLimit`, and ValueError if it cannot be read."""
    _check(typed)
    found = KNOWN.get(typed.type, typed.data)
    if found is None:
        found = _read(typed)
        if found:
            KNOWN.put(typed.type, typed.data, found)
    return found


def body_names(body: TypedBytes) -> Names:
    """Return what a whole checkpoint body names; much faster than `names_by_channel`.

    Raises the errors of `type_names`.
    """
    _check(body)
    return _read(body)  # Not remembered: no two bodies are equal.


def gather_names(data: bytes) -> Names:
    """Return what msgpack names, while bodies are decoded; raises the errors of `type_names`."""
    from ckpt_cli.core.doctor.msgpack_names import msgpack_names

    return msgpack_names(data)


def names_by_channel(body: TypedBytes) -> Mapping[str | None, Names]:
    """Return what each channel value of a checkpoint body names, and under None what the rest does.

    Channels without names are left out. Raises the errors of `type_names`.
    """
    _check(body)
    if body.type == "msgpack":
        from ckpt_cli.core.doctor.msgpack_names import body_parts, names_nothing

        if names_nothing(body.data):
            return {}
        parts = ((name, TypedBytes("msgpack", part)) for name, part in body_parts(body.data))
        return _gathered((name, type_names(part)) for name, part in parts)
    if body.type in JSON_TYPES:
        from ckpt_cli.core.doctor.json_names import json_body_names

        return _gathered(json_body_names(body.data))
    if body.type == "pickle":
        from ckpt_cli.core.doctor.pickle_names import pickle_body_names

        return _gathered(pickle_body_names(body.data))
    return _gathered([(None, type_names(body))])


def _check(typed: TypedBytes) -> None:
    if typed.problem:
        raise ValueError(typed.problem)


def _read(typed: TypedBytes) -> Names:
    match typed.type:
        case "msgpack":
            from ckpt_cli.core.doctor.msgpack_names import msgpack_names

            return msgpack_names(typed.data)
        case "json" | "redis-json":
            from ckpt_cli.core.doctor.json_names import json_names

            return json_names(typed.data)
        case "pickle":
            from ckpt_cli.core.doctor.pickle_names import pickle_names

            return pickle_names(typed.data)
        case "bson":
            from ckpt_backends.codec.bson.documents import binaries

            # Up to langgraph-checkpoint-mongodb 0.2.1, a leaf is a JSON text without a tag.
            leaves = (TypedBytes(tag or "json", data) for _, tag, data in binaries(typed.data))
            return _joined(type_names(leaf) for leaf in leaves)
        case one if one == MERGED:
            return _joined(type_names(part) for part in packed_parts(typed.data))
    return NONE


def _joined(found: Iterable[Names]) -> Names:
    return NONE.union(*found)


def _gathered(found: Iterable[tuple[str | None, Names]]) -> dict[str | None, Names]:
    gathered: dict[str | None, Names] = {}
    for channel, names in found:
        if names:
            gathered[channel] = gathered.get(channel, NONE) | names
    return gathered
