"""Namespaces of long-term memory as one text: the labels, joined by dots. No label has a dot.

Source: `_namespace_to_text` and `_decode_ns` in `langgraph/store/sqlite/base.py` (3.1.2),
`postgres/base.py` (3.2.0) and `redis/base.py` (0.5.2).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING

from ckpt_backends.errors import Refused

if TYPE_CHECKING:
    from ckpt_backends.changes.rows import Row
    from ckpt_backends.memory.protocol import ItemKey, Namespace

DOT = "."
STORE, VECTORS = "store", "store_vectors"
"""Table names of a Store, and the default prefixes of its keys."""
COLUMNS = frozenset({"prefix", "key", "value", "created_at", "updated_at"})
LATER = frozenset({"expires_at", "ttl_minutes"})
"""Columns that a later release added, together with times to live."""


def why_unchangeable(columns: Set[str]) -> str:
    """The reason why a table of items is read-only; `''` if it can be changed."""
    unknown = sorted(columns - COLUMNS - LATER)
    return f"unknown columns: {', '.join(unknown)}" if unknown else ""


def joined(namespace: Namespace) -> str | None:
    """A namespace as it is stored; None if it cannot be stored."""
    return None if any(DOT in label for label in namespace) else DOT.join(namespace)


def parted(text: str) -> Namespace:
    """The labels of a stored namespace."""
    return tuple(text.split(DOT))


def key_of_row(row: Row, columns: Mapping[str, Collection[str]]) -> ItemKey:
    """The key of the item of an archived row. Raises `Refused` and `Unsupported`."""
    # Late, since stores of checkpoints need only the names above.
    from ckpt_backends.changes.rows import check_columns
    from ckpt_backends.memory.protocol import ItemKey

    check_columns(row, columns, {"prefix", "key"})
    # The library of SQLite stores some texts as bytes.
    prefix, key = (
        cell.decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else cell
        for cell in (row.cells["prefix"], row.cells["key"])
    )
    if not isinstance(prefix, str) or not isinstance(key, str):
        raise Refused(f"a row of '{row.table}' is not an item")
    return ItemKey(parted(prefix), key)


def below(text: str) -> tuple[str, str]:
    """The range of texts that begin with a namespace and a dot: from the first, before the last."""
    return f"{text}{DOT}", f"{text}{chr(ord(DOT) + 1)}"
