"""Checks that archived keys belong to one thread, before they are restored.

A document names its thread, and its key must be the key that the saver gives such a document. All
other keys must be those of a namespace or checkpoint of the thread. Keys are not escaped: the
namespace `b:__empty__` of thread `a` has the keys of thread `a:b`. So a namespace may have a colon
only where LangGraph puts one, before the id of a task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from ckpt_backends.apps.plainredis.layout import Plain, timeline_of
from ckpt_backends.apps.plainredis.thread_keys import BLOBS, THREADS, TIMELINE, WRITES
from ckpt_backends.changes.rows import Row, no_table, not_of
from ckpt_backends.errors import Refused
from ckpt_backends.redis.engine.keyspace import UUID, Layout, raw, unique
from ckpt_backends.redis.engine.thread_keys import (
    APART,
    CHECKPOINT,
    DOCUMENT,
    HASH,
    MEMBER,
    STRING,
    ZSET,
)
from ckpt_backends.redis.hashes.layout import Hashes
from ckpt_backends.redis.official.documents import Documents, meant_ns, stored_ns

_SEGMENT = rf"[^:|]+(?::{UUID})?"
_NAMESPACE = re.compile(rf"(?:{_SEGMENT}(?:\|{_SEGMENT})*)?")
_PLACE_IN_LIST = re.compile(r"[^:]*:[^:]*:[^:]*")
"""The end of a write's key: checkpoint id, task id and idx."""
_YEAR_9999 = 253_370_764_800_000
"""Milliseconds since 1970. Redis refuses an expiry that is much later, after other commands ran."""
_HIGHEST = 1 << 48
"""No saver has stored as many checkpoints. A higher number would use up its counter."""


def own_keys(
    layout: Layout, types: Mapping[str, str], thread_id: str, rows: Iterable[Row]
) -> Iterator[Row]:
    """The rows, if all are keys of the thread. Raises `Refused`."""
    match layout:
        case Hashes():
            return _own_hashes(layout, types, thread_id, rows)
        case Plain():
            return _own_plain(layout, types, thread_id, rows)
        case Documents():
            return _own_documents(layout, types, thread_id, rows)
    raise TypeError(layout)


def _own_documents(
    layout: Documents, types: Mapping[str, str], thread_id: str, rows: Iterable[Row]
) -> Iterator[Row]:
    thread = layout.stored_thread(thread_id)
    spaces: set[str] = set()
    there: set[tuple[str, str]] = set()
    """Namespaces and checkpoints that a document names."""
    placeholders: set[tuple[str, str]] = set()
    listed: set[tuple[str, str]] = set()
    """Checkpoints whose key is in the archive, but may be of another thread."""
    pointed: set[str] = set()
    for row in rows:
        name = _name(row, types)
        if types[row.table] == DOCUMENT:
            document = _document(row)
            if row.table == CHECKPOINT and "thread_id" not in document:
                # `put_writes` stores `{"has_writes": true}` if there is no checkpoint yet.
                placeholders.add(_parted(row, name, f"{layout.prefixes.checkpoint}:{thread}:"))
            else:
                stored = document.get("thread_id")
                if not isinstance(stored, str) or layout.meant_thread(stored) != thread_id:
                    raise not_of(row.table, stored, thread_id)
                ns = _text(row, document, "checkpoint_ns")
                spaces.add(_namespace(row, meant_ns(ns)))
                if row.table != APART:
                    there.add((meant_ns(ns), _text(row, document, "checkpoint_id")))
                if name not in _names(layout, row, document):
                    raise Refused(f"a document of '{row.table}' has the key of another one: {name}")
        elif row.table == "write_keys_zset":
            ns, own = _parted(row, name, f"write_keys_zset:{thread}:")
            listed.add((meant_ns(ns), own))
            _check_members(row, layout, thread, ns, f"{own}:")
        elif row.table == "write_registry":
            ns, _ = _parted(row, name, f"write_registry:{thread}:", "shallow")
            pointed.add(meant_ns(ns))
            _check_members(row, layout, thread, ns, "")
        elif row.table == "checkpoint_latest":
            place, prefix = f"_latest:{thread}:", layout.prefixes.checkpoint
            start = f"{prefix}{place}" if name.startswith(prefix + place) else f"checkpoint{place}"
            ns = _rest(row, name, start)
            pointed.add(meant_ns(ns))
            named = row.cells["value"]
            head = raw(f"{prefix}:{thread}:{ns}:")
            if (
                not (isinstance(named, bytes) and named.startswith(head))
                or b":" in (named[len(head) :])
            ):
                raise Refused(f"a row of '{row.table}' names a checkpoint of another thread")
        yield row
    unknown = {(meant_ns(ns), own) for ns, own in placeholders} | listed
    if unknown - there or pointed - spaces:
        raise Refused(f"it has keys that no document of thread '{thread_id}' belongs to")


def _own_hashes(
    layout: Hashes, types: Mapping[str, str], thread_id: str, rows: Iterable[Row]
) -> Iterator[Row]:
    for row in rows:
        name = _name(row, types)
        key = layout.key_of(row.table, raw(name))
        if key is None or key.thread_id != thread_id:
            raise not_of(row.table, None if key is None else key.thread_id, thread_id)
        own = row.cells.get(f"{MEMBER}checkpoint_id")
        if isinstance(own, bytes) and own != raw(key.checkpoint_id):
            raise Refused(f"a hash of '{row.table}' has the key of another one: {name}")
        yield row


def _own_plain(
    layout: Plain, types: Mapping[str, str], thread_id: str, rows: Iterable[Row]
) -> Iterator[Row]:
    start = f"{layout.prefix}:{{}}:{thread_id}:".format
    spaces: set[str] = set()
    values: list[str] = []
    for row in rows:
        name = _name(row, types)
        if row.table == THREADS:
            _check_entry(layout, thread_id, row, name)
        elif row.table == TIMELINE:
            spaces.add(_namespace(row, _rest(row, name, start("idx"))))
        elif row.table == BLOBS:
            values.append(_rest(row, name, start("blob")))
        else:
            ns, _ = _parted(row, name, start("wr" if row.table == WRITES else "cp"))
            spaces.add(_namespace(row, ns))
        yield row
    for rest in values:
        if not any(rest.startswith(f"{ns}:") for ns in _beginnings(rest) & spaces):
            raise Refused(f"it has a value that belongs to no checkpoint of thread '{thread_id}'")


def _check_entry(layout: Plain, thread_id: str, row: Row, name: str) -> None:
    """Check an entry of the registry, which all threads share."""
    ((own, told),) = ((one, cell) for one, cell in row.cells.items() if one.startswith(MEMBER))
    found = timeline_of(raw(own.removeprefix(MEMBER)), told if isinstance(told, bytes) else b"")
    if raw(name) != layout.threads or found is None or found.thread_id != thread_id:
        raise not_of(row.table, None if found is None else found.thread_id, thread_id)
    if found.name != layout.timeline(thread_id, found.checkpoint_ns).name:
        raise Refused(f"a row of '{row.table}' names the key of another thread")
    _namespace(row, found.checkpoint_ns)


def _beginnings(rest: str) -> set[str]:
    """The namespaces that NS:CHANNEL:VERSION may begin with."""
    return {rest[: found.start()] for found in re.finditer(":", rest)}


_OF_TYPE: Mapping[str, Callable[[object], bool]] = {
    DOCUMENT: lambda cell: isinstance(cell, str),
    STRING: lambda cell: isinstance(cell, bytes),
    HASH: lambda cell: isinstance(cell, bytes),
    ZSET: lambda cell: isinstance(cell, str) and _is_score(cell),
}


def _is_score(text: str) -> bool:
    try:
        score = float(text)
    except ValueError:
        return False
    return isfinite(score) and abs(score) <= _HIGHEST


def _name(row: Row, types: Mapping[str, str]) -> str:
    """The key of a row that has the form of `owned.rows_of`."""
    if row.table not in types:
        raise no_table(row.table)
    kind, name = types[row.table], row.cells.get("key")
    at = row.cells.get("expires_at")
    contents = {one: cell for one, cell in row.cells.items() if one not in _ABOUT}
    whole = contents.keys() == {"value"}
    if kind in {HASH, ZSET}:
        whole = bool(contents) and all(one.startswith(MEMBER) for one in contents)
        if row.table == THREADS:
            whole = whole and len(contents) == 1
    if (
        not isinstance(name, str)
        or row.cells.get("type") != kind
        or not (at is None or (type(at) is int and 0 < at < _YEAR_9999))
        # The registry, which all threads share, never expires.
        or (row.table == THREADS and at is not None)
        or not whole
        or not all(map(_OF_TYPE[kind], contents.values()))
    ):
        raise Refused(f"a row of '{row.table}' is not a {kind}")
    return name


_ABOUT = frozenset({"key", "type", "expires_at"})


def _document(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(str(row.cells["value"]), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"a row of '{row.table}' is not a document")
    return found


def _names(layout: Documents, row: Row, document: Mapping[str, Any]) -> Iterator[str]:
    """The keys that this document may have. A namespace has two forms."""
    if row.table == CHECKPOINT:
        name = layout.name_of(document)
        yield from () if name is None else (name.decode("utf-8", "surrogateescape"),)
        return
    start, parts = layout.prefixes.write, ["checkpoint_id", "task_id", "idx"]
    if row.table == APART:
        start, parts = APART, ["channel", "version"]
    stored = document["checkpoint_ns"]
    for ns in {stored, stored_ns(stored), meant_ns(stored)}:
        rest = (str(document.get(part, "")) for part in parts)
        yield ":".join((start, document["thread_id"], ns, *rest))


def _check_members(row: Row, layout: Documents, thread: str, ns: str, start: str) -> None:
    """Check that a list names only writes of one namespace."""
    starts = tuple(
        f"{MEMBER}{layout.prefixes.write}:{thread}:{one}:"
        for one in {ns, stored_ns(ns), meant_ns(ns)}
    )
    for member in row.cells:
        if member.startswith(MEMBER):
            rest = next((member[len(one) :] for one in starts if member.startswith(one)), None)
            if rest is None or not _PLACE_IN_LIST.fullmatch(rest) or not rest.startswith(start):
                raise Refused(f"a row of '{row.table}' names a write of another thread")


def _text(row: Row, document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str):
        raise Refused(f"a document of '{row.table}' has no '{name}'")
    return found


def _namespace(row: Row, ns: str) -> str:
    if not _NAMESPACE.fullmatch(ns):
        raise Refused(f"a row of '{row.table}' has a namespace with keys of other threads: '{ns}'")
    return ns


def _rest(row: Row, name: str, start: str) -> str:
    if not name.startswith(start):
        raise Refused(f"a row of '{row.table}' has the key of another thread: {name}")
    return name[len(start) :]


def _parted(row: Row, name: str, start: str, end: str | None = None) -> tuple[str, str]:
    """Namespace and checkpoint id of a key."""
    ns, colon, own = _rest(row, name, start).rpartition(":")
    if not colon or end not in {None, own}:
        raise Refused(f"a row of '{row.table}' has the key of another thread: {name}")
    _namespace(row, meant_ns(ns))
    return ns, own
