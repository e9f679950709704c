"""Checks that archived keys belong to one thread, before they are restored.

Keys are not escaped: the namespace `b:__empty__` of thread `a` has the keys of thread `a:b`. So a
namespace may have a colon only where LangGraph puts one, before the id of a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from math import isfinite

from ckpt_backends.changes.rows import Row, no_table
from ckpt_backends.errors import Refused
from ckpt_backends.redis.engine.keyspace import DOCUMENT, HASH, LIST, STRING, UUID, ZSET
from ckpt_backends.redis.engine.row_cells import ABOUT, MEMBER

_SEGMENT = rf"[^:|]+(?::{UUID})?"
_NAMESPACE = re.compile(rf"(?:{_SEGMENT}(?:\|{_SEGMENT})*)?")
_YEAR_9999 = 253_370_764_800_000
"""Milliseconds since 1970. Redis refuses an expiry that is much later, after other commands ran."""
_HIGHEST = 1 << 48
"""No saver has stored as many checkpoints. A higher number would use up its counter."""


def _is_score(text: str) -> bool:
    try:
        score = float(text)
    except ValueError:
        return False
    return isfinite(score) and abs(score) <= _HIGHEST


_OF_TYPE: Mapping[str, Callable[[object], bool]] = {
    DOCUMENT: lambda cell: isinstance(cell, str),
    STRING: lambda cell: isinstance(cell, bytes),
    HASH: lambda cell: isinstance(cell, bytes),
    LIST: lambda cell: isinstance(cell, bytes),
    ZSET: lambda cell: isinstance(cell, str) and _is_score(cell),
}


def row_name(row: Row, types: Mapping[str, str], of_all: Collection[str] = ()) -> str:
    """The key of a row that has the form of `key_rows.rows_of`. Raises `Refused`.

    `of_all` names the kinds that are one field of a hash that all threads share. Such a hash never
    expires.
    """
    if row.table not in types:
        raise no_table(row.table)
    kind, name = types[row.table], row.cells.get("key")
    at = row.cells.get("expires_at")
    contents = {one: cell for one, cell in row.cells.items() if one not in ABOUT}
    whole = contents.keys() == {"value"}
    if kind in {HASH, ZSET}:
        whole = bool(contents) and all(one.startswith(MEMBER) for one in contents)
        if row.table in of_all:
            whole = whole and len(contents) == 1
    elif kind == LIST:
        whole = bool(contents) and contents.keys() == {
            f"{MEMBER}{place}" for place in range(len(contents))
        }
    if (
        not isinstance(name, str)
        or row.cells.get("type") != kind
        or not (at is None or (type(at) is int and 0 < at < _YEAR_9999))
        or (row.table in of_all and at is not None)
        or not whole
        or not all(map(_OF_TYPE[kind], contents.values()))
    ):
        raise Refused(f"a row of '{row.table}' is not a {kind}")
    return name


def namespace_of(row: Row, ns: str) -> str:
    """The namespace. Raises `Refused` if its keys may be those of other threads."""
    if not _NAMESPACE.fullmatch(ns):
        raise Refused(f"a row of '{row.table}' has a namespace with keys of other threads: '{ns}'")
    return ns


def rest_of(row: Row, name: str, start: str) -> str:
    """The end of a key that must begin with `start`. Raises `Refused`."""
    if not name.startswith(start):
        raise Refused(f"a row of '{row.table}' has the key of another thread: {name}")
    return name[len(start) :]


def parted(
    row: Row, name: str, start: str, meant: Callable[[str], str] = str, end: str | None = None
) -> tuple[str, str]:
    """Namespace and checkpoint id of a key. Raises `Refused`.

    `meant` returns the namespace that a stored one stands for; the key must end with `end`.
    """
    ns, colon, own = rest_of(row, name, start).rpartition(":")
    if not colon or end not in {None, own}:
        raise Refused(f"a row of '{row.table}' has the key of another thread: {name}")
    namespace_of(row, meant(ns))
    return ns, own
