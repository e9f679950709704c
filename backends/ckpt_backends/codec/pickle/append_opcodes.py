"""Edits and splits pickles by appending opcodes: no stored byte changes but STOP.

A pickle ends with its value on the stack and the opcode STOP. STOP is replaced by POP, the opcodes
of the new value, and STOP: of a dict with other keys, or of one entry. What it keeps of the old
value is fetched from the memo by GET. POP has the same length as STOP, so the length of the last
frame stays correct. Stored objects and their classes stay as they are, and none is built here. The
bytes of a removed entry stay in the pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from ckpt_backends.codec.edits import Edit, Put
from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.codec.pickle.machine import Dict, Machine, Node

_POP, _GET, _STOP = b"0", b"j", b"."
_OPCODES = 16 * DEFAULT_LIMITS.nodes


def set_pickle_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The pickle with these keys set or removed. Raises ValueError if it is no dict of text keys.

    An edit may be a `Put`, None, or edits inside a dict, but no function of the stored bytes.
    """
    machine = _run(data)
    before = _items(machine.root)
    if not any(key in before or edit for key, edit in edits.items()):
        return data
    return _ending(data, _edited(_fetcher(machine), before, edits))


def split_pickle(data: bytes) -> dict[str | int, bytes]:
    """The entries by key or index. Raises ValueError if it is neither a dict nor a list.

    Each entry is a copy of the whole pickle with a new end.
    """
    machine = _run(data)
    root, fetch = machine.root, _fetcher(machine)
    if not isinstance(root, Dict | list | tuple):
        raise ValueError("neither a map nor a list")
    return {
        name: _ending(data, fetch(node))
        for name, node in (root.pairs if isinstance(root, Dict) else enumerate(root))
        if isinstance(name, str | int)
    }


def _run(data: bytes) -> Machine:
    machine = Machine(_OPCODES)
    try:
        machine.run(data)
    except (PastLimit, IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"not a pickle: {error}") from error
    return machine


def _items(node: Node) -> dict[str, Node]:
    if not isinstance(node, Dict) or not all(isinstance(key, str) for key, _ in node.pairs):
        raise ValueError("a checkpoint has to be a map")
    return dict(node.pairs)


def _ending(data: bytes, opcodes: bytes) -> bytes:
    """The pickle with another value, which these opcodes push."""
    return data[: -len(_STOP)] + _POP + opcodes + _STOP


def _edited(
    fetch: Callable[[Node], bytes], items: Mapping[str, Node], edits: Mapping[str, Edit]
) -> bytes:
    """The opcodes that push a dict with these items, of which some are edited."""
    entries = []
    for key in {**items, **edits}:
        match edits[key] if key in edits else fetch(items[key]):
            case bytes(opcodes):
                entries.append(plain(key) + opcodes)
            case Put(value=value):
                entries.append(plain(key) + plain(value))
            case Mapping() as inside if key in items or any(inside.values()):
                stored = _items(items.get(key, Dict()))
                entries.append(plain(key) + _edited(fetch, stored, inside))
            case Mapping() | None:
                pass
            case _:
                raise ValueError("an entry of a pickle can only be replaced as a whole")
    return b"}(" + b"".join(entries) + b"u"


def _fetcher(machine: Machine) -> Callable[[Node], bytes]:
    """A function that returns the opcodes which push a node of a pickle that was run."""
    places = machine.places()

    def fetch(node: Node) -> bytes:
        place = places.get(id(node))
        if place is not None:
            return _GET + place.to_bytes(4, "little")
        match node:
            case bytes():
                return b"B" + len(node).to_bytes(4, "little") + node
            case Dict(pairs=pairs):
                return b"}(" + b"".join(fetch(key) + fetch(one) for key, one in pairs) + b"u"
            case list():
                return b"](" + b"".join(map(fetch, node)) + b"e"
            case _:
                return plain(node)

    return fetch


def plain(value: object) -> bytes:
    """The opcodes that push a plain value. They are of protocol 1, which all later ones support.

    Raises ValueError for other types of values.
    """
    match value:
        case None:
            return b"N"
        case bool():
            return b"I01\n" if value else b"I00\n"
        case int() if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return b"L%dL\n" % value
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case ():
            return b")"
        case list():
            return b"](" + b"".join(map(plain, value)) + b"e"
        case dict():
            items = (plain(key) + plain(item) for key, item in value.items())
            return b"}(" + b"".join(items) + b"u"
    raise ValueError(f"cannot store a {type(value).__name__}")
