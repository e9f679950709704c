"""Splits a stored map or list into its entries, each as a separate stored value.

Used for layouts that store a checkpoint together with its metadata, or a write with its channel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.codec.msgpack.scan import ARRAY, MAP, STR, head, scan
from ckpt_backends.codec.pickle.machine import Dict, Machine, Node
from ckpt_backends.codec.pickle.set_keys import plain
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.model import TypedBytes

Parts: TypeAlias = "Mapping[str | int, TypedBytes]"
"""By the key of a map, or by the index in a list."""
_POP, _GET, _STOP = b"0", b"j", b"."


def parts_of(typed: TypedBytes) -> Parts:
    """The parts of a map or list. Raises ValueError for other values and unknown types."""
    try:
        if typed.type == "msgpack":
            return _of_msgpack(typed.data)
        if typed.type in JSON_TYPES:
            return _of_json(typed)
        if typed.type == "pickle":
            return _of_pickle(typed.data)
    except (IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise ValueError(f"cut off or invalid: {error}") from error
    raise ValueError(f"values of type '{typed.type}' cannot be split")


def _of_msgpack(data: bytes) -> Parts:
    kind, pos, length = head(data, 0)
    if kind not in (ARRAY, MAP):
        raise ValueError("neither a map nor a list")
    found: dict[str | int, TypedBytes] = {}
    for number in range(length):
        name: str | int = number
        if kind == MAP:
            key, start, size = head(data, pos)
            if key != STR:
                raise ValueError("a map with keys that are not text")
            pos = start + size
            name = data[start:pos].decode("utf-8", "surrogatepass")
        end = scan(data, pos).end
        found[name] = TypedBytes("msgpack", data[pos:end])
        pos = end
    if pos != len(data):
        raise ValueError("trailing data")
    return found


def _of_json(typed: TypedBytes) -> Parts:
    value = json.loads(typed.data)
    items = value.items() if isinstance(value, dict) else enumerate(_listed(value))
    return {name: TypedBytes(typed.type, json.dumps(one).encode()) for name, one in items}


def _of_pickle(data: bytes) -> Parts:
    """Each part as a copy of the whole pickle with a new end: drop the root, push the part."""
    machine = Machine(16 * DEFAULT_LIMITS.nodes)
    try:
        machine.run(data)
    except AttributeError as error:
        raise ValueError(f"not a pickle: {error}") from error
    root = machine.root
    items = root.pairs if isinstance(root, Dict) else list(enumerate(_listed(root)))
    found: dict[str | int, TypedBytes] = {}
    for name, node in items:
        if isinstance(name, str | int):
            place = machine.place_of(node)
            fetch = _plain(node) if place is None else _GET + place.to_bytes(4, "little")
            # POP has the same length as STOP, so the length of the last frame stays correct.
            found[name] = TypedBytes("pickle", data[: -len(_STOP)] + _POP + fetch + _STOP)
    return found


def _plain(node: Node) -> bytes:
    if isinstance(node, bytes):
        return b"B" + len(node).to_bytes(4, "little") + node
    return plain(node)


def _listed(value: object) -> list[Node] | tuple[Node, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("neither a map nor a list")
    return value
