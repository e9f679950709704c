"""Splits a pickled dict or list into its entries, each as a pickle of its own."""

from __future__ import annotations

from ckpt_backends.codec.limits import DEFAULT_LIMITS
from ckpt_backends.codec.pickle.machine import Dict, Machine, Node
from ckpt_backends.codec.pickle.set_keys import plain

_POP, _GET, _STOP = b"0", b"j", b"."


def split_pickle(data: bytes) -> dict[str | int, bytes]:
    """The entries by key or index. Raises ValueError if it is neither a dict nor a list.

    Each entry is a copy of the whole pickle with a new end: drop the root, push the entry.
    """
    machine = Machine(16 * DEFAULT_LIMITS.nodes)
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
            fetch = _plain(node) if place is None else _GET + place.to_bytes(4, "little")
            # POP has the same length as STOP, so the length of the last frame stays correct.
            found[name] = data[: -len(_STOP)] + _POP + fetch + _STOP
    return found


def _plain(node: Node) -> bytes:
    if isinstance(node, bytes):
        return b"B" + len(node).to_bytes(4, "little") + node
    return plain(node)
