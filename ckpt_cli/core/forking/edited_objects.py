"""Write objects in a value that was edited as JSON in the form that the store uses.

No class is known here. An object that the value already contained keeps its stored form. A changed
or new object is written in the form of a stored object of its class, then decoded and compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ckpt_backends.codec import (
    Tagged,
    Value,
    decode,
    to_json,
)
from ckpt_backends.codec.bson.documents import map_leaves
from ckpt_backends.codec.lossless import decode_lossless, encode_lossless
from ckpt_backends.codec.msgpack.lossless import Ext
from ckpt_backends.codec.values import JSON_TYPES, TUPLE
from ckpt_backends.errors import Unsupported, UsageError
from ckpt_backends.model import Checkpoint, TypedBytes
from ckpt_cli.core.forking.edit_state import value_type
from ckpt_cli.core.state import Body
from ckpt_cli.core.values.equality import same


def objects_of(checkpoint: Checkpoint, body: Body) -> StoredObjects:
    """Return the objects in a checkpoint and in those of its values that were read."""
    tag = value_type(checkpoint, body)
    values = [blob.value for blob in (checkpoint.blobs or {}).values()]
    stored = [one for one in (checkpoint.body, *values) if one is not None]
    if tag == "bson":
        tag, documents, stored = "msgpack", stored, []

        def keep(leaf: TypedBytes) -> TypedBytes:
            stored.append(leaf)
            return leaf

        for one in documents:
            map_leaves(one.data, keep)
    return StoredObjects(tag, (one for one in stored if one.type == tag))


class StoredObjects:
    """The objects in some stored values, in their stored form."""

    def __init__(self, tag: str, stored: Iterable[TypedBytes]) -> None:
        """`stored` are values with the same type tag as the edited value."""
        self._tag = tag
        self._whole: dict[str, Any] = {}
        """Stored objects by the JSON form of their decoded value."""
        self._by_class: dict[str, list[Any]] = {}
        """Stored objects by class: one of each shape."""
        for node in (node for one in stored for node in _nodes(one)):
            value = self._decoded(node)
            if node == value:
                continue
            self._whole.setdefault(_form(value), node)
            if isinstance(value, Tagged):
                shapes = self._by_class.setdefault(value.type, [])
                if not any(_shape(one) == _shape(node) for one in shapes):
                    shapes.append(node)

    def encodable(self, value: Value) -> Any:
        """Return the value for `encode_lossless`. Raises `UsageError` if it cannot be written."""
        found = self._written(value)
        try:
            encode_lossless(self._tag, found)
        except Unsupported as error:
            raise UsageError(error.message) from None
        return found

    def _written(self, value: Value) -> Any:
        if isinstance(value, list):
            return [self._written(item) for item in value]
        if isinstance(value, str | int | float | None):
            return value
        if (known := self._whole.get(_form(value))) is not None:
            return known
        if isinstance(value, dict):
            return {_key(key): self._written(item) for key, item in value.items()}
        if isinstance(value, bytes):
            return value
        if not isinstance(value, Tagged):
            raise UsageError("a value that is cut or cannot be read cannot be written back")
        for sample in self._by_class.get(value.type, ()):
            for node in self._like(sample, self._written(value.payload)):
                if same(self._decoded(node), value):
                    return node
        raise UsageError(
            f"cannot write an object of class '{value.type}'",
            hint="objects are written like those that the value already holds",
        )

    def _decoded(self, node: Any) -> Value:
        return decode(TypedBytes(self._tag, encode_lossless(self._tag, node)))

    def _like(self, sample: Any, payload: Any) -> Iterator[Any]:
        """Yield an object like the sample with another payload, in each possible form."""
        if isinstance(sample, Ext):
            parts = _inside(sample)
            if isinstance(parts, list) and len(parts) > 2:
                parts = [*parts[:2], payload, *parts[3:]]
                yield Ext(sample.code, encode_lossless("msgpack", parts))
            yield Ext(sample.code, encode_lossless("msgpack", payload))
            return
        for name in ("kwargs", "args"):
            if name in sample:
                yield {**sample, name: payload}
                yield {**sample, name: [payload]}


def _nodes(stored: TypedBytes) -> Iterator[Any]:
    """Yield every map and object of a stored value, including those inside objects."""
    try:
        todo = [decode_lossless(stored)]
    except Unsupported:
        return
    for item in todo:
        if isinstance(item, dict):
            todo += item.values()
            if stored.type in JSON_TYPES:
                yield item
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, Ext):
            yield item
            todo.append(_inside(item))


def _inside(node: Ext) -> Any:
    """Return the contents of an object; its bytes if their form is not known."""
    try:
        return decode_lossless(TypedBytes("msgpack", node.data))
    except Unsupported:
        return node.data


def _shape(node: Any) -> Any:
    """Return what identifies the form of a stored object, apart from its contents."""
    if isinstance(node, Ext):
        parts = _inside(node)
        rest = parts[3:] if isinstance(parts, list) else None
        return node.code, rest
    return sorted(node)


def _key(key: Value) -> Any:
    if isinstance(key, Tagged) and key.type == TUPLE and isinstance(key.payload, list):
        return tuple(map(_key, key.payload))
    return key


def _form(value: Value) -> str:
    return json.dumps(to_json(value), sort_keys=True)
