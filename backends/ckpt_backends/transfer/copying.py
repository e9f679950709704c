"""The records of a thread in the form of one layout, between its rows and those of another layout.

The records of a thread come in any number of values, writes and checkpoints. Values come before the
checkpoints that name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import blake2b
from typing import Any, TypeAlias, cast

from ckpt_backends.codec.cursor import MAP, Cursor, write_header
from ckpt_backends.codec.lossless import pack_lossless
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.declaration import Backend, backend_of, known_backends, load
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability, Kind, Record, TypedBytes
from ckpt_backends.rows import ChangeValue, EditRow, Row, RowEdit
from ckpt_backends.transfer.form import Form, Language
from ckpt_backends.url import StoreUrl

RecordsOfRows: TypeAlias = Callable[[str, Iterable[Row]], Iterator[Record]]
"""Maps the name of a layout and the rows of one thread to the records that they hold."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A thread, or what is missing of it, to be added to a store."""

    thread_id: str
    records: Iterable[Record]
    """In the form of the store. Read once, and only while the store adds them."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """By namespace, the id of the newest checkpoint that the store has; empty for a new thread."""


def record_key(record: Record) -> tuple[str, ...]:
    """What identifies a record within its thread."""
    _, ns, checkpoint_id = record.key
    if record.kind is Kind.VALUE:
        return record.kind, ns, record.channel, record.version
    if record.kind is Kind.WRITE:
        return record.kind, ns, checkpoint_id, record.task_id, str(record.idx)
    return record.kind, ns, checkpoint_id


def record_size(record: Record) -> int:
    """The bytes of a record's values."""
    return len(record.value.data) + len(record.metadata.data)


# Compares the records that were sent to a store with the records that are stored there.
#
# A digest covers everything that a saver reads of a record. JSON texts are compared by their
# contents, because engines such as PostgreSQL store them parsed. These engines keep no order of
# keys either, so a checkpoint that comes back from one is compared in any order of its keys.


_BYTES = 16
_EXACT = 1 << 53
"""Integers up to this size are equal as floats, too."""
_UNORDERED = {
    pack_lossless(name): levels
    for name, levels in (("channel_values", 1), ("channel_versions", 1), ("versions_seen", 2))
}
"""The maps in a checkpoint in which the order of the keys says nothing, and on how many levels."""


def record_digest(record: Record, *, any_order: bool = False) -> bytes:
    """The digest of everything in a record but its time of expiry; with `any_order`, the same for
    every order of the keys of a checkpoint.
    """
    digest = blake2b(digest_size=_BYTES)
    parent = "" if record.parent is None else f"={record.parent}"
    for text in (*record_key(record), parent, record.task_path, record.channel):
        _add(digest, text.encode("utf-8", "surrogatepass"))
    for value in (record.value, record.metadata):
        is_body = any_order and record.kind is Kind.CHECKPOINT and value is record.value
        _add(digest, value.type.encode("utf-8", "surrogatepass"))
        _add(digest, _canonical_body(value) if is_body else _canonical(value))
    return digest.digest()


def _add(digest: Any, data: bytes) -> None:
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)


def _canonical(value: TypedBytes) -> bytes:
    """The bytes of a value; of a JSON text, the same for every spelling of it."""
    if value.type not in JSON_TYPES:
        return value.data
    try:
        found = json.loads(value.data, parse_int=_integer, parse_float=_float)
        return json.dumps(found, sort_keys=True).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return value.data


def _canonical_body(value: TypedBytes) -> bytes:
    """The bytes of a checkpoint, the same for every order of its keys."""
    if value.type != "msgpack":
        return _canonical(value)
    cursor = Cursor(value.data)
    try:
        keys = range(cursor.enter(MAP))
        pairs = [(key := cursor.take(), _in_order(cursor, _UNORDERED.get(key, 0))) for _ in keys]
    except ValueError:
        return value.data
    return _joined(pairs) + cursor.data[cursor.pos :]


def _in_order(cursor: Cursor, levels: int) -> bytes:
    """Take a value; a map with its keys in order, on some levels."""
    if not levels or cursor.kind() != MAP:
        return cursor.take()
    keys = range(cursor.enter(MAP))
    return _joined([(cursor.take(), _in_order(cursor, levels - 1)) for _ in keys])


def _joined(pairs: list[tuple[bytes, bytes]]) -> bytes:
    return write_header(MAP, len(pairs)) + b"".join(key + part for key, part in sorted(pairs))


def _integer(text: str) -> int | float:
    """An integer; a large one as a float, since an engine may have stored a float as an integer."""
    if len(text) < 16 or abs(number := int(text)) <= _EXACT:
        return int(text)
    try:
        # PostgreSQL writes the digits of 1.5e300 and zeros, which are not exactly the float.
        same = number in (int(float(number)), int(Decimal(repr(float(number)))))
    except OverflowError:
        return number
    return float(number) if same else number


def _float(text: str) -> int | float:
    """A float; a whole one as an integer, since an engine may have stored it so."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


@dataclass(slots=True)
class RecordsSum:
    """Numbers of records, and a digest that does not depend on their order.

    Needs no memory for them. Two sums are equal if their numbers and digests are.
    """

    total: int = 0
    """Of the digests."""
    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    size: int = field(default=0, compare=False)
    """Bytes of the values."""
    newest: str = field(default="", compare=False)
    """The greatest checkpoint id."""

    def add(self, record: Record, digest: bytes = b"") -> None:
        """Add a record with its digest, if they are compared."""
        self.total = (self.total + int.from_bytes(digest, "big")) % (1 << 8 * _BYTES)
        self.size += record_size(record)
        if record.kind is Kind.CHECKPOINT:
            self.checkpoints += 1
            self.newest = max(self.newest, record.key.checkpoint_id)
        elif record.kind is Kind.WRITE:
            self.writes += 1
        else:
            self.values += 1

    def add_all(self, other: RecordsSum) -> None:
        """Add the numbers of others, without their digests."""
        self.checkpoints += other.checkpoints
        self.writes += other.writes
        self.values += other.values
        self.size += other.size
        self.newest = max(self.newest, other.newest)

    @property
    def records(self) -> int:
        """The number of records of all kinds."""
        return self.checkpoints + self.writes + self.values


def key_digest(record: Record) -> bytes:
    """The digest of what identifies a record within its thread."""
    digest = blake2b(digest_size=_BYTES)
    for text in record_key(record):
        _add(digest, text.encode("utf-8", "surrogatepass"))
    return digest.digest()


# Which layouts threads can be copied between, by the declarations of their backends.


@dataclass(frozen=True, slots=True)
class Route:
    """The forms of threads on both sides."""

    source: Form
    target: Form


_BY_ARCHIVE = "`ckpt export` and `ckpt import` carry threads to another store of this layout"


def route(source: str, target: str, language: Language) -> Route:
    """The forms for copying threads from one layout to another.

    Raises `Unsupported` with the reason if this cannot be done.
    """
    if reason := refusal(source, target, language):
        raise Unsupported(
            f"cannot copy from '{source}' to '{target}': {reason}",
            hint=_BY_ARCHIVE if source == target and _backend(target).changes else None,
        )
    return Route(_forms(source)[language], _forms(target)[language])


def refusal(source: str, target: str, language: Language) -> str:
    """Why threads cannot be copied from one layout to another; `''` if they can."""
    here, there = _forms(source), _forms(target)
    if language not in here:
        if Capability.VALUES_ONLY in _backend(source).layouts[source]:
            return "it stores no channel versions and no metadata, which savers need to go on"
        if not here:
            return "its adapter does not describe its rows"
        return f"it stores no threads of {_TITLES[language]}"
    if not there:
        return "threads cannot be copied into this layout"
    if language not in there:
        return f"the target stores no threads of {_TITLES[language]}"
    if not there[language].receives:
        return "threads cannot be copied into this layout"
    return ""


def records_of_rows(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. The layout has a form."""
    return _parser(layout)(layout, rows)


def edited_rows(layout: str, rows: Iterable[Row], change: ChangeValue) -> Iterator[RowEdit]:
    """The rows of one thread, each with what it becomes if its values are changed.

    Raises `Unsupported` if the backend does not describe its rows.
    """
    backend = _backend(layout)
    if not backend.edits:
        raise Unsupported(
            f"values in a store of layout '{layout}' cannot be changed",
            hint="its adapter does not describe its rows",
        )
    edit = cast("EditRow", load(backend.edits))
    return (RowEdit(row, edit(layout, row, change)) for row in rows)


def languages_of(layout: str) -> tuple[Language, ...]:
    """The languages whose threads a layout may store."""
    return tuple(_forms(layout))


def form_of(layout: str, language: Language) -> Form | None:
    """The form in which a layout stores the threads of a language; None if it has none."""
    return _forms(layout).get(language)


def created_layout(url: StoreUrl, language: Language) -> str:
    """The layout that is made at a URL for threads of a language. Raises `Unsupported`."""
    backend = backend_of(url.scheme)
    if backend is None or language not in backend.creates:
        raise Unsupported(f"cannot make a store for threads of {_TITLES[language]} in '{url}'")
    return backend.creates[language]


def keeps_history(layout: str) -> bool:
    """Whether a layout keeps more than the newest checkpoint of each namespace."""
    return Capability.HISTORY in _backend(layout).layouts[layout]


_TITLES = {Language.PYTHON: "LangGraph for Python", Language.JAVASCRIPT: "LangGraph.js"}


def _parser(layout: str) -> RecordsOfRows:
    return cast("RecordsOfRows", load(_backend(layout).records))


def _forms(layout: str) -> dict[Language, Form]:
    return {one.language: one for one in _backend(layout).forms.get(layout, ())}


def _backend(layout: str) -> Backend:
    for backend in known_backends():
        if layout in backend.layouts:
            return backend
    raise Unsupported(f"no backend has the layout '{layout}'")
