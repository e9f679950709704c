"""Sets keys of pickles and splits pickles by appending opcodes: no stored byte changes except STOP.

A pickle ends with its value on the stack and the opcode STOP. To set keys, STOP is replaced by
MARK, the new items, SETITEMS and STOP; items that are set later override earlier ones. To get one
entry, it is replaced by POP, the entry and STOP. MARK and POP have the same length as STOP, so the
length of the last frame stays correct. Stored objects and their classes stay as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ckpt_backends.codec.edits import Edit, Put
from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.codec.pickle.machine import Dict, Machine, Node

_MARK, _SETITEMS, _POP, _GET, _STOP = b"(", b"u", b"0", b"j", b"."
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


def split_pickle(data: bytes) -> dict[str | int, bytes]:
    """The entries by key or index. Raises ValueError if it is neither a dict nor a list.

    Each entry is a copy of the whole pickle with a new end.
    """
    machine = Machine(_OPCODES)
    try:
        machine.run(data)
    except AttributeError as error:
        raise ValueError(f"not a pickle: {error}") from error
    root = machine.root
    if not isinstance(root, Dict | list | tuple):
        raise ValueError("neither a map nor a list")
    found: dict[str | int, bytes] = {}
    for name, node in root.pairs if isinstance(root, Dict) else enumerate(root):
        if isinstance(name, str | int):
            place = machine.place_of(node)
            fetch = _plain_node(node) if place is None else _GET + place.to_bytes(4, "little")
            found[name] = data[: -len(_STOP)] + _POP + fetch + _STOP
    return found


def _plain_node(node: Node) -> bytes:
    if isinstance(node, bytes):
        return b"B" + len(node).to_bytes(4, "little") + node
    return plain(node)


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
