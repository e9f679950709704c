"""A pickled dict with other values for some of its keys, and no byte of it changed.

A pickle ends with the dict on the stack and the opcode STOP. In the place of STOP come the new
items and the opcode that puts them into the dict, where later ones win; then STOP. MARK is as long
as the STOP that it replaces, so that the last frame's length stays right. All that was stored
stays a prefix: objects, what they share, and what their classes are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from .limits import DEFAULT_LIMITS, PastLimit
from .picklestack import Dict, Machine

_MARK, _SETITEMS, _STOP = b"(", b"u", b"."
_OPCODES = 16 * DEFAULT_LIMITS.nodes


def overlay(data: bytes, items: Mapping[str, object]) -> bytes:
    """The pickle with these items. Raises ValueError for what is no pickled dict of texts."""
    before = _root(data)
    if not items:
        return data
    added = b"".join(plain(key) + plain(value) for key, value in items.items())
    made = data[: -len(_STOP)] + _MARK + added + _SETITEMS + _STOP
    after = _root(made)
    if len(after.pairs) != len(before.pairs) + len(items):
        raise ValueError("it does not end like a dict")
    return made


def _root(data: bytes) -> Dict:
    machine = Machine(_OPCODES)
    try:
        machine.run(data)
    except (PastLimit, IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"not a pickle: {error}") from error
    root = machine.root
    if not isinstance(root, Dict) or not all(isinstance(key, str) for key, _ in root.pairs):
        raise ValueError("a checkpoint has to be a map")
    return root


def plain(value: object) -> bytes:
    """The opcodes that push a value, in the form of protocol 1, which all later ones know.

    Raises ValueError for a value that is not plain.
    """
    match value:
        case None:
            return b"N"
        case bool():
            return b"I01\n" if value else b"I00\n"
        case int() if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case list():
            return b"](" + b"".join(map(plain, value)) + b"e"
        case dict():
            items = (plain(key) + plain(item) for key, item in value.items())
            return b"}(" + b"".join(items) + b"u"
    raise ValueError(f"cannot store a {type(value).__name__}")
