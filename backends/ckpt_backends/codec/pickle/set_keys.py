"""Sets keys of a pickled dict by appending opcodes, so no stored byte changes except STOP.

A pickle ends with the dict on the stack and the opcode STOP. STOP is replaced by MARK, the new
items, SETITEMS and STOP; items that are set later override earlier ones. MARK has the same length
as STOP, so the length of the last frame stays correct. Stored objects and their classes stay as
they are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ckpt_backends.codec.edits import Edit, Put
from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.codec.pickle.machine import Dict, Machine

_MARK, _SETITEMS, _STOP = b"(", b"u", b"."
_OPCODES = 16 * DEFAULT_LIMITS.nodes


def set_pickle_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The pickle with these keys set. Raises ValueError if it is not a dict with text keys.

    Each edit has to be a `Put`.
    """
    items: dict[str, object] = {}
    for name, edit in edits.items():
        if not isinstance(edit, Put):
            raise ValueError("only whole entries of a pickle can be replaced")
        items[name] = edit.value
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
