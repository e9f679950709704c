"""Helpers for the names of keys, and what is known of a key by its name. Imports no driver."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import Refused
from ckpt_backends.model import BlobKey, CheckpointKey, TypedBytes, in_batches, in_chunks, time_of
from ckpt_backends.rows import Cell, Row, elements, no_table

if TYPE_CHECKING:
    from ckpt_backends.redis.engine.connection import Command, RedisConnection

CHECKPOINT, APART = "checkpoint", "checkpoint_blob"
"""The kinds of the keys of checkpoints and of separate values, as archives name them."""
DOCUMENT, HASH, ZSET, STRING, LIST = "ReJSON-RL", "hash", "zset", "string", "list"
"""The types of keys, as TYPE returns them."""
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CALL = rf"[^:|]+:{UUID}(?:\|[^:|]+:{UUID})*"
"""A pattern for the namespace of a subgraph's call. Such a namespace contains colons."""
_SPECIAL = re.compile(rb"([*?\[\]\\])")


def text(name: bytes) -> str:
    """A key or field as text. Bytes that are not UTF-8 survive a round trip with `raw`."""
    return name.decode("utf-8", "surrogateescape")


def raw(name: str) -> bytes:
    """A text as the bytes of a key or field."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no saver can store it, so it matches no key
        return name.encode("utf-8", "surrogatepass")


def literally(name: str) -> bytes:
    """A part of a SCAN pattern that matches exactly this text."""
    return _SPECIAL.sub(rb"\\\1", raw(name))


def beginning(names: Collection[str]) -> bytes:
    """A part of a SCAN pattern for the common beginning of all names, to receive fewer keys."""
    return literally(commonprefix(list(names)))  # noqa: RUF071  (characters are meant)


def quoted(name: bytes) -> str:
    """A key for redis-cli. Unprintable characters are written as hex."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in name
    )
    return f'"{shown}"'


class CheckpointEntry(NamedTuple):
    """A stored checkpoint."""

    key: CheckpointKey
    name: bytes
    """The key in Redis."""
    parent: str | None = None
    rank: float = 0.0
    """The saver sorts the checkpoints of a namespace by this number, then by id."""


@dataclass(frozen=True, slots=True)
class ListedNamespace:
    """A namespace of a thread, as listed: its oldest, newest and number of checkpoints."""

    thread_id: str
    checkpoint_ns: str
    oldest: str
    newest: str
    checkpoints: int
    head: str | None = None
    """The checkpoint that the saver loads, if it may differ from the newest; otherwise None."""


class WriteEntry(NamedTuple):
    """A stored write, known by its key only."""

    name: bytes
    checkpoint_id: str
    """The checkpoint id in the key. The document may contain another one, which counts."""


class ApartEntry(NamedTuple):
    """A separate value whose key tells what it is."""

    name: bytes
    thread_id: str
    key: BlobKey


@dataclass(slots=True)
class ThreadKeys:
    """The keys of one thread, or some keys of all threads."""

    places: dict[tuple[str, str], CheckpointEntry] = field(default_factory=dict)
    """By namespace and checkpoint id."""
    writes: list[WriteEntry] = field(default_factory=list)
    mixed: list[CheckpointEntry] = field(default_factory=list)
    """Checkpoints of several threads."""
    blobs: list[bytes] = field(default_factory=list)
    """Keys of separate values. Their thread is in their contents."""
    apart: list[ApartEntry] = field(default_factory=list)
    """Separate values whose thread is in their keys."""
    lists: dict[str, bytes] = field(default_factory=dict)
    """By namespace, the key of the list of its checkpoints, if the layout has such lists."""

    @property
    def checkpoints(self) -> list[CheckpointEntry]:
        """All checkpoints."""
        return [*self.places.values(), *self.mixed]


@dataclass(frozen=True, slots=True)
class CheckpointKeys:
    """A checkpoint with all its keys, or the orphaned writes of a missing checkpoint."""

    key: CheckpointKey
    names: dict[str, list[bytes]]
    """By kind, its keys, in the order of restoring. Some of the keys may not exist."""
    is_there: bool
    """Whether the checkpoint exists."""
    writes: list[bytes] = field(default_factory=list)
    """The keys of its complete writes. (Savers of hashes may set the fields one by one.)"""

    @property
    def at(self) -> tuple[str, str]:
        """Namespace and checkpoint id."""
        return self.key.checkpoint_ns, self.key.checkpoint_id


@dataclass(slots=True)
class KeysByCheckpoint:
    """The keys of a thread, grouped by checkpoint."""

    thread_id: str
    groups: dict[tuple[str, str], CheckpointKeys]
    """By namespace and checkpoint id."""
    shared: dict[str, dict[str, list[bytes]]]
    """By namespace and kind, the keys of pointers and lists."""
    blobs: dict[BlobKey, bytes] = field(default_factory=dict)
    """The keys of the separate values."""

    @property
    def checkpoints(self) -> list[CheckpointKeys]:
        return [one for one in self.groups.values() if one.is_there]

    @property
    def writes(self) -> int:
        """The number of complete writes."""
        return sum(len(one.writes) for one in self.groups.values())

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint in all namespaces."""
        ids = [one.key.checkpoint_id for one in self.checkpoints]
        return time_of(max(ids)) if ids else None

    @property
    def heads(self) -> dict[str, CheckpointKeys]:
        """By namespace, its newest checkpoint."""
        found: dict[str, CheckpointKeys] = {}
        for one in self.checkpoints:
            known = found.get(one.key.checkpoint_ns)
            if known is None or known.key < one.key:
                found[one.key.checkpoint_ns] = one
        return found

    def in_order(self) -> list[tuple[str, bytes]]:
        """(kind, key) of all keys, in the order of restoring.

        Separate values come first. Pointers to heads come last, the root's pointer at the very end.
        """
        groups = sorted(self.groups.values(), key=lambda one: (not one.key.checkpoint_ns, one.key))
        kinds = list(dict.fromkeys(kind for one in groups for kind in one.names))
        found = [(APART, name) for name in sorted(self.blobs.values())]
        found += [(kind, name) for kind in kinds for one in groups for name in one.names[kind]]
        for ns in sorted(self.shared, reverse=True):
            found += [(kind, name) for kind, names in self.shared[ns].items() for name in names]
        return found


# Reads many keys, with few bytes in memory at a time.


_AT_ONCE, _BYTES_AT_ONCE = 500, 4 << 20
"""Keys that are measured together, and bytes of contents that are read together."""
_Item = TypeVar("_Item")


def with_sizes(
    items: Sequence[_Item], measure: Callable[[Sequence[_Item]], Iterable[Any]]
) -> Iterator[list[tuple[_Item, int]]]:
    """The items with their sizes, in order, in batches of a few megabytes.

    `measure` returns the size of each item. A single item may exceed the size of a batch. Items
    that are too large to read, or have the size None, count as 0.
    """
    for part in in_chunks(items, _AT_ONCE):
        sizes = (int(told or 0) for told in measure(part))
        yield from in_batches(zip(part, sizes, strict=True), _bytes_read, _BYTES_AT_ONCE)


def with_contents(
    connection: RedisConnection,
    items: Sequence[_Item],
    measure: Callable[[_Item], Command],
    read: Callable[[_Item], Command],
) -> Iterator[tuple[_Item, int, Any]]:
    """The items with their sizes and contents, in order, by two commands for each.

    The contents are None for an item that is too large to read, or does not exist any more.
    """
    for some in with_sizes(items, lambda part: connection.ask_all(map(measure, part))):
        answers = connection.ask_all(read(item) for item, size in some if size <= MOST_BYTES)
        for item, size in some:
            yield item, size, next(answers) if size <= MOST_BYTES else None


def _bytes_read(item: tuple[Any, int]) -> int:
    return item[1] if item[1] <= MOST_BYTES else 0


# The names of the cells in which rows have the contents of keys; see `rows_of`.


ABOUT = frozenset({"key", "type", "expires_at"})
"""Cells of a row that describe its key; all others are its contents."""
MEMBER = "."
"""Prefix of the cell names for fields of a hash, members of a sorted set, and places in a list."""


# Checks that archived keys belong to one thread, before they are restored.
#
# Keys are not escaped: the namespace `b:__empty__` of thread `a` has the keys of thread `a:b`. So
# a namespace may have a colon only where LangGraph puts one, before the id of a task.


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


def name_of(row: Row) -> bytes:
    """The key of a row."""
    return raw(str(row.cells["key"]))


def row_name(row: Row, types: Mapping[str, str], of_all: Collection[str] = ()) -> str:
    """The key of a row that has the form of `rows_of`. Raises `Refused`.

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


# Converts the contents of keys to rows of an archive, and rows to commands that create keys.


_READ: Mapping[str, tuple[tuple[str, ...], tuple[str | int, ...]]] = {
    DOCUMENT: (("JSON.GET",), ()),
    HASH: (("HGETALL",), ()),
    ZSET: (("ZRANGE",), (0, -1, "WITHSCORES")),
    STRING: (("GET",), ()),
    LIST: (("LRANGE",), (0, -1)),
}
"""By type, the parts before and after the key of the command that reads the whole key."""


def rows_of(
    connection: RedisConnection, types: Mapping[str, str], names: Sequence[tuple[str, bytes]]
) -> Iterator[Row]:
    """One row for each key, given as (kind, key). The kind is the table of the row. Its cells:

        key         the name of the key
        type        the result of TYPE: `string`, `hash`, `zset`, `list` or `ReJSON-RL`
        expires_at  milliseconds since 1970, or None
        value       the JSON text of a document, or the bytes of a string
        .NAME       the bytes of a hash's field, or the score of a sorted set's member, as text
        .NUMBER     the bytes of a list's element, counted from 0

    Keys that were removed meanwhile are left out.
    """

    def sizes(some: Sequence[tuple[str, bytes]]) -> Iterator[Any]:
        return connection.ask_all(("MEMORY USAGE", name) for _, name in some)

    for some in with_sizes(names, sizes):
        kinds = [kind for (kind, _), _ in some]
        keys = [name for (_, name), _ in some]
        contents = contents_of(connection, [(types[kind], name) for (kind, name), _ in some])
        for kind, name, cells, expiry in zip(
            kinds, keys, contents, expiries_of(connection, keys), strict=True
        ):
            if cells is not None:
                about = {"key": text(name), "type": types[kind], "expires_at": expiry}
                yield Row(kind, {**about, **cells})


def contents_of(
    connection: RedisConnection, names: Sequence[tuple[str, bytes]]
) -> Iterator[dict[str, Cell] | None]:
    """The contents of keys, given as (type, key); None if a key is missing or of another type."""
    answers = connection.ask_all((*_READ[kind][0], name, *_READ[kind][1]) for kind, name in names)
    for (kind, _), answer in zip(names, answers, strict=True):
        yield cells_of(kind, answer)


def stored_of(connection: RedisConnection, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
    """The stored contents of these rows; None if a row does not exist."""
    names = [(str(row.cells["type"]), name_of(row)) for row in rows]
    for (_, name), cells in zip(names, contents_of(connection, names), strict=True):
        # A key of another type exists: return contents that differ from the row.
        yield {} if cells is None and connection.ask("EXISTS", name) else cells


def expiries_of(connection: RedisConnection, names: Sequence[bytes]) -> Iterator[int | None]:
    """When keys expire, in milliseconds since 1970; None if they do not expire."""
    moments = list(connection.ask_all(("PEXPIRETIME", name) for name in names))
    if None in moments:  # before Redis 7
        now = time_now(connection)
        left = connection.ask_all(("PTTL", name) for name in names)
        moments = [-1 if one is None or one < 0 else now + int(one) for one in left]
    for one in moments:
        yield int(one) if int(one) >= 0 else None


def time_now(connection: RedisConnection) -> int:
    """The server's clock, in milliseconds since 1970."""
    return int(connection.ask("INFO", "server")["server_time_usec"]) // 1000


def cells_of(kind: str, answer: Any) -> dict[str, Cell] | None:
    """The contents of a key of this type from the answer of its command; None if it is missing."""
    if not answer:
        # The key does not exist. (No saver stores an empty string.)
        return None
    if kind == DOCUMENT:
        return {"value": text(answer)}
    if kind == STRING:
        return {"value": bytes(answer)}
    if kind == HASH:
        return {MEMBER + text(name): bytes(value) for name, value in sorted(answer.items())}
    if kind == LIST:
        return {f"{MEMBER}{place}": bytes(value) for place, value in enumerate(answer)}
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return {MEMBER + text(name): text(score) for name, score in pairs}


def commands_of(
    kind: str, name: bytes, cells: Mapping[str, Cell], stored: Mapping[str, Cell] | None = None
) -> Iterator[Command]:
    """Commands that create a key with these contents, or add what a stored one lacks."""
    if kind == DOCUMENT:
        yield ("JSON.SET", name, "$", as_bytes(cells["value"]), "NX")
        return
    if kind == STRING:
        yield ("SET", name, as_bytes(cells["value"]), "NX")
        return
    if kind == LIST:
        yield from _list_commands(name, elements(cells), elements(stored or {}))
        return
    for field_name, value in cells.items():
        if field_name.startswith(MEMBER):
            own = raw(field_name.removeprefix(MEMBER))
            if kind == HASH:
                yield ("HSETNX", name, own, as_bytes(value))
            else:
                yield ("ZADD", name, "NX", as_bytes(value), own)


def _list_commands(
    name: bytes, wanted: Sequence[Cell], stored: Sequence[Cell]
) -> Iterator[Command]:
    """Commands that add the missing elements, in places that a saver's LPUSH does not move."""
    if not stored:
        # Behind what a saver may have added to a new list meanwhile.
        yield ("RPUSH", name, *map(as_bytes, wanted))
        return
    kept = 0
    for place, element in enumerate(wanted):
        if kept < len(stored) and element == stored[kept]:
            kept += 1
        elif place:
            yield ("LINSERT", name, "AFTER", as_bytes(wanted[place - 1]), as_bytes(element))
        else:
            yield ("LINSERT", name, "BEFORE", as_bytes(stored[0]), as_bytes(element))


def as_bytes(cell: Cell) -> bytes:
    """A cell as a command needs it."""
    return cell if isinstance(cell, bytes) else raw(str(cell))


# How savers of JSON documents store empty ids, and how fields are read and written.


EMPTY_NS, EMPTY_ID = "__empty__", "00000000-0000-0000-0000-000000000000"
LISTS = "write_keys_zset"
"""The beginning of the keys that list a checkpoint's writes, and their kind."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes of a saver's keys."""

    checkpoint: str = "checkpoint"
    write: str = "checkpoint_write"


USUAL = Prefixes()


def stored_ns(ns: str) -> str:
    return ns or EMPTY_NS


def meant_ns(stored: str) -> str:
    return "" if stored == EMPTY_NS else stored


def stored_forms(ns: str) -> list[str]:
    """The forms in which savers store a namespace in keys, the current one first."""
    return list(dict.fromkeys((stored_ns(meant_ns(ns)), meant_ns(ns))))


def stored_id(identity: str) -> str:
    return identity or EMPTY_ID


def meant_id(stored: str) -> str:
    return "" if stored == EMPTY_ID else stored


def fields_of(answer: Any) -> dict[str, Any]:
    """By path, the value from the answer of JSON.GET with several paths."""
    if not isinstance(answer, bytes):
        return {}
    found = json.loads(answer)
    return {path: values[0] for path, values in found.items() if values}


def fields_at(
    connection: RedisConnection, names: Iterable[bytes], fields: Sequence[str]
) -> Iterator[tuple[bytes, list[Any]]]:
    """The values of some fields of each of these documents; None where there is none."""
    asked, paths = list(names), [f"$.{one}" for one in fields]
    answers = connection.ask_all(("JSON.GET", name, *paths) for name in asked)
    for name, answer in zip(asked, answers, strict=True):
        found = fields_of(answer)
        yield name, [found.get(path) for path in paths]


def member(answer: bytes) -> bytes:
    """The value from the answer of JSON.GET with one path, with the server's exact bytes.

    Metadata is a JSON text inside a JSON string. A document without metadata gives `{}`.
    """
    if answer.startswith(b'["'):
        return bytes(json.loads(answer)[0].encode("utf-8", "surrogatepass"))
    return answer[1:-1] or b"{}"


def document(
    first: Mapping[str, object], parts: Mapping[str, bytes], last: Mapping[str, object]
) -> bytes:
    """A document with these members in this order. JSON in `parts` keeps its bytes."""
    inside = b"".join(b', "%b": %b' % (name.encode(), data) for name, data in parts.items())
    end = b", " + json.dumps(last)[1:].encode() if last else b"}"
    return json.dumps(first)[:-1].encode() + inside + end


def source_and_step(metadata: TypedBytes | None) -> dict[str, object]:
    """`source` and `step` of metadata, which savers copy to the document."""
    found = decode(metadata) if metadata is not None else {}
    fields = found if isinstance(found, dict) else {}
    return {
        name: fields[name] for name in ("source", "step") if isinstance(fields.get(name), str | int)
    }
