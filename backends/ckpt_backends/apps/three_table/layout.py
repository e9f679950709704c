"""Recognises this layout by the columns of the tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import md5
from typing import Any

from ckpt_backends.codec.lossless import merged
from ckpt_backends.codec.values import MOST_BYTES, typed, unread
from ckpt_backends.model import Blob, CheckpointKey, TypedBytes, Write, is_control
from ckpt_backends.rows import ChangeValue, Row
from ckpt_backends.sql.database import Database, text
from ckpt_backends.sql.records import edited_value
from ckpt_backends.sql.tables import (
    BLOBS,
    CHECKPOINTS,
    WRITES,
    SqlTable,
    SqlTables,
    TableSaver,
    missing_columns,
    unknown_columns,
    unknown_tables,
)

NAME, LATEST = "three-table", "three-table-latest"
HASH, VALUE, CREATED, MODIFIED = "checkpoint_ns_hash", "blob_data", "gmt_create", "gmt_modified"

NEEDED: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset(
        {"thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint_ns", HASH, CREATED}
    ),
    BLOBS: frozenset({"thread_id", HASH, "channel", "version", "type", VALUE}),
    WRITES: frozenset(
        {"thread_id", "checkpoint_id", HASH, "task_id", "idx", "channel", "type", VALUE}
    ),
}
SURROGATE = "id"
"""An auto-increment key. It has no meaning and is not copied or archived."""
_ALSO: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({MODIFIED, SURROGATE}),
    BLOBS: frozenset({CREATED, MODIFIED, SURROGATE, "checkpoint_ns"}),
    WRITES: frozenset({CREATED, MODIFIED, SURROGATE, "task_path", "checkpoint_ns"}),
}


def recognise(columns: Mapping[str, Set[str]]) -> TableSaver | None:
    """The saver of this layout if the tables look like it. A body column means another one."""
    found = columns.get(CHECKPOINTS, frozenset())
    if HASH not in found or CREATED not in found or "checkpoint" in found:
        return None
    room = "ckpt_backends.apps.three_table"
    return TableSaver(f"{room}.store:open_tables", f"{room}.write:open_writable_tables")


def detect(
    database: Database, columns: Mapping[str, Set[str]], where: str, schema: str | None = None
) -> tuple[SqlTables, tuple[str, ...]]:
    """The tables that look like this layout, and their columns that are not part of it.

    Raises `UnknownLayout` if columns are missing. `where` names the store in the error.
    """
    if missing := missing_columns(columns, NEEDED):
        raise unknown_tables(where, missing)
    unknown = unknown_columns(columns, _ALSO, NEEDED)
    prefix = "" if schema is None else f"{database.quoted(schema)}."

    def table(name: str, size: Mapping[str, str]) -> SqlTable:
        stored = sorted({*columns[name]} - {SURROGATE})
        quoted = {column: database.quoted(column) for column in stored}
        return SqlTable(name, prefix + database.quoted(name), quoted, size)

    value = {VALUE: f"COALESCE({database.bytes_of(VALUE)}, 0)"}
    tables = SqlTables(
        layout=NAME,
        names=tuple(name if schema is None else f"{schema}.{name}" for name in NEEDED),
        checkpoints=table(CHECKPOINTS, {"metadata": "0"}),
        writes=table(WRITES, value),
        blobs=table(BLOBS, value),
        task_path="task_path" in columns[WRITES],
        can_add=not unknown,
    )
    return tables, unknown


# Converts cells of tables that may hold unexpected types.


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 100_000_000_000
"""A time above this number is in milliseconds. In seconds, it would be in the year 5138."""


def data(value: object) -> bytes:
    """The cell as bytes; NULL gives `b""`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return b"" if value is None else text(value).encode("utf-8", "surrogateescape")


def number(value: object) -> int:
    """The cell as an integer; 0 if it is not one."""
    try:
        return int(text(value))
    except ValueError:
        return 0


def moment(value: object) -> datetime | None:
    """The cell as a time, taken as UTC if it has no time zone; None if it is not a time."""
    try:
        if isinstance(value, datetime):
            found = value
        elif isinstance(value, int | float):
            seconds = value / 1000 if value > _MILLISECONDS else value
            return _EPOCH + timedelta(seconds=seconds)
        else:
            found = datetime.fromisoformat(text(value).strip())
    except (ValueError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def like(value: object, at: datetime) -> object:
    """The time `at` in the same form as the stored time `value`: same type, unit and time zone."""
    if isinstance(value, datetime):
        return at if value.tzinfo is not None else at.replace(tzinfo=None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = (at - _EPOCH).total_seconds()
        scaled = seconds * 1000 if value > _MILLISECONDS else seconds
        return int(scaled) if isinstance(value, int) else scaled
    known = text(value)
    naive = at if "+" in known or known.endswith("Z") else at.replace(tzinfo=None)
    return naive.isoformat("T" if "T" in known else " ", "milliseconds")


def hash_text(value: object) -> str:
    """A hash in hex. It may be stored as text or as 16 bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return raw.hex() if len(raw) == 16 else text(raw)
    return text(value)


def digest(told: str) -> str:
    """The MD5 of a text, in hex."""
    return md5(told.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


# Finds out which checkpoint each value of a thread belongs to, and which values are inherited.


_TRIED = 3
"""Number of pairs of values that are compared for each channel."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A row of `checkpoints`."""

    key: CheckpointKey
    parent: str | None
    hash: str
    """In hex."""
    stored_hash: object
    """As the engine returns it."""
    at: datetime | None
    stored_at: object

    @property
    def order(self) -> tuple[datetime, int, str]:
        """By time, then by the number at the end of the id."""
        name = self.key.checkpoint_id
        return self.at or _NEVER, len(name), name


@dataclass(frozen=True, slots=True)
class BlobPart:
    """A row of `checkpoint_blobs`, without its value."""

    hash: str
    stored_hash: object
    channel: str
    version: int
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class ChannelParts:
    """A channel's value at a checkpoint: its parts, oldest first."""

    version: str
    """Used as the version: the hash of the last checkpoint that stores a part."""
    parts: tuple[BlobPart, ...]
    at: str = ""
    """The hash of the checkpoint."""
    is_cut: bool = False
    """Whether an earlier part is missing in the store."""

    @property
    def is_inherited(self) -> bool:
        """Whether a part of it is stored with an ancestor."""
        return any(part.hash != self.at for part in self.parts)


@dataclass
class ThreadRows:
    """All checkpoints of a thread."""

    places: dict[tuple[str, str], CheckpointRow] = field(default_factory=dict)
    """By namespace and id, newest first within each namespace, namespaces in order."""

    @cached_property
    def by_id(self) -> dict[str, list[CheckpointRow]]:
        found: dict[str, list[CheckpointRow]] = {}
        for (_, name), one in self.places.items():
            found.setdefault(name, []).append(one)
        return found

    @cached_property
    def by_hash(self) -> dict[str, CheckpointRow]:
        """By hash, the newest checkpoint with this hash. The values of the hash belong to it."""
        found: dict[str, CheckpointRow] = {}
        for one in sorted(self.places.values(), key=lambda one: one.order):
            found[one.hash] = one
        return found

    @cached_property
    def shared(self) -> set[str]:
        """Hashes that do not identify one checkpoint: the namespace's, or used by several."""
        counts = Counter(one.hash for one in self.places.values())
        return {
            one.hash
            for one in self.places.values()
            if counts[one.hash] > 1 or one.hash == digest(one.key.checkpoint_ns)
        }

    def heads(self) -> dict[str, CheckpointRow]:
        """The newest checkpoint of each namespace."""
        found: dict[str, CheckpointRow] = {}
        for (ns, _), one in self.places.items():
            found.setdefault(ns, one)
        return found


def index_of(places: Iterable[CheckpointRow]) -> ThreadRows:
    """The index of these checkpoints."""
    newest_first = sorted(places, key=lambda one: one.order, reverse=True)
    newest_first.sort(key=lambda one: one.key.checkpoint_ns)
    return ThreadRows({(one.key.checkpoint_ns, one.key.checkpoint_id): one for one in newest_first})


class Values:
    """The values of a thread's checkpoints, derived from the keys of its rows.

    A thread is incremental if its checkpoints store only changes. A checkpoint then inherits from
    its parent the channels that it does not store, and a stored list contains only new items.
    """

    def __init__(
        self,
        index: ThreadRows,
        parts: Iterable[BlobPart],
        written: Mapping[tuple[str, str], Iterable[str]],
        added: Iterable[str] = (),
    ) -> None:
        """Index the values.

        `written` maps (namespace, checkpoint id) to the channels that the tasks wrote to. `added`
        names channels of a thread that is not incremental that still store only their new items.
        """
        self.index = index
        self._own: dict[str, dict[str, list[BlobPart]]] = {}
        for part in sorted(parts, key=lambda one: one.version):
            self._own.setdefault(part.hash, {}).setdefault(part.channel, []).append(part)
        self._written = {key: set(names) for key, names in written.items()}
        self._channels = {name for own in self._own.values() for name in own}
        self._added = set(added)
        self._named: dict[tuple[str, str], dict[str, ChannelParts]] = {}
        places = index.places.values()
        self.is_incremental = any(map(self._leaves_out, places)) and not any(
            map(self._repeats, places)
        )

    def is_stored(self, place: CheckpointRow) -> bool:
        """Whether the values of a checkpoint still exist: no newer checkpoint has its hash."""
        return self.index.by_hash[place.hash] is place

    def own(self, place: CheckpointRow) -> Mapping[str, Sequence[BlobPart]]:
        """By channel, the values that are stored with a checkpoint itself."""
        return self._own.get(place.hash, {}) if self.is_stored(place) else {}

    @property
    def orphaned(self) -> dict[str, object]:
        """Hashes of values without a checkpoint: by hash in hex, the hash as stored."""
        return {part.hash: part.stored_hash for part in self.orphans()}

    def orphans(self) -> Iterable[BlobPart]:
        """The parts of values without a checkpoint."""
        return (
            part
            for name, own in self._own.items()
            if name not in self.index.by_hash
            for parts in own.values()
            for part in parts
        )

    def pairs(self) -> Iterable[tuple[str, BlobPart, BlobPart]]:
        """Up to `_TRIED` samples for each channel: (channel, the parent's part, the child's)."""
        seen: Counter[str] = Counter()
        for place in self.index.places.values():
            parent = self._parent(place)
            before = {} if parent is None else self.own(parent)
            for name, parts in self.own(place).items():
                if name in before and seen[name] < _TRIED:
                    seen[name] += 1
                    yield name, before[name][0], parts[0]

    def named(self, place: CheckpointRow) -> Mapping[str, ChannelParts]:
        """The values of a checkpoint by channel. A value without parts is missing in the store."""
        line: list[CheckpointRow] = []
        here: CheckpointRow | None = place
        while here is not None and _key(here) not in self._named and here not in line:
            line.append(here)
            here = self._parent(here)
        for one in reversed(line):
            parent = self._parent(one)
            known = {} if parent is None else self._named.get(_key(parent), {})
            self._named[_key(one)] = self._with(one, known)
        return self._named[_key(place)]

    def _with(
        self, place: CheckpointRow, inherited: Mapping[str, ChannelParts]
    ) -> dict[str, ChannelParts]:
        if not self.is_stored(place):
            return {}
        own, at = self.own(place), place.hash
        lost = self._lost(place, own)
        inherits = self.is_incremental or not own
        found = {
            name: replace(one, at=at)
            for name, one in inherited.items()
            if inherits and name not in lost and not _is_passing(name)
        }
        for name, parts in own.items():
            earlier = inherited.get(name) if self._goes_on(name) else None
            if earlier is None:
                found[name] = ChannelParts(at, tuple(parts), at)
            elif self._is_copy(place, name, parts):
                found[name] = ChannelParts(at, earlier.parts, at, earlier.is_cut)
            else:
                is_cut = earlier.is_cut or not earlier.parts
                found[name] = ChannelParts(at, (*earlier.parts, *parts), at, is_cut)
        return found | {name: ChannelParts(at, (), at) for name in lost}

    def _is_copy(self, place: CheckpointRow, channel: str, parts: Sequence[BlobPart]) -> bool:
        """Whether a rollback copied the value from the parent; otherwise a step added to it."""
        parent = self._parent(place)
        if parent is None or channel in self._written.get(_key(place), ()):
            return False
        return _alike(self.own(parent).get(channel, ()), parts)

    def is_pieced(self, place: CheckpointRow, channel: str) -> bool:
        """Whether a value is merged from parts of several checkpoints.

        Such a value cannot be copied to another checkpoint.
        """
        named = self.named(place).get(channel)
        return self._goes_on(channel) and (
            named is None or not named.parts or len({part.hash for part in named.parts}) > 1
        )

    def _goes_on(self, channel: str) -> bool:
        return self.is_incremental or channel in self._added

    def _lost(self, place: CheckpointRow, own: Mapping[str, object]) -> set[str]:
        """The channels that were written to but that the checkpoint does not store.

        A channel that no checkpoint of the thread stores is not part of the state and does not
        count, unless this checkpoint stores no channel at all.
        """
        written = self._written.get(_key(place), set()) - own.keys()
        return written & self._channels if own else written

    def _leaves_out(self, place: CheckpointRow) -> bool:
        """Whether it stores fewer channels than its parent, not counting missing values."""
        parent = self._parent(place)
        own = self.own(place)
        if parent is None or not own:
            return False
        left = self.own(parent).keys() - own.keys() - self._lost(place, own)
        return not all(map(_is_passing, left))

    def _repeats(self, place: CheckpointRow) -> bool:
        """Whether it stores a value that its step did not write, equal to the parent's value."""
        parent, written = self._parent(place), self._written.get(_key(place))
        if parent is None or not written:
            return False  # A rollback copies values without a step.
        own, before = self.own(place), self.own(parent)
        return any(
            name not in written and not _is_passing(name) and _alike(own[name], before[name])
            for name in own.keys() & before.keys()
        )

    def _parent(self, place: CheckpointRow) -> CheckpointRow | None:
        if place.parent is None:
            return None
        found = self.index.places.get((place.key.checkpoint_ns, place.parent))
        return found if found is not place else None


def _alike(one: Sequence[BlobPart], other: Sequence[BlobPart]) -> bool:
    """Whether parts may be equal, judged by their types and sizes."""
    return [(part.type, part.size) for part in one] == [(part.type, part.size) for part in other]


def _is_passing(channel: str) -> bool:
    """Whether a channel exists for one step only. If it is not stored, it is empty."""
    return channel == "__start__" or is_control(channel)


def _key(place: CheckpointRow) -> tuple[str, str]:
    return place.key.checkpoint_ns, place.key.checkpoint_id


# Converts the rows of this layout to the model: checkpoints get a body in LangGraph's form.


NOT_STORED = "not stored: its thread keeps the values of the newest checkpoint only"
_CUT = "items that come before are not stored"


def own_hash(key: CheckpointKey, parent: str) -> str:
    """The hash for a checkpoint that `ckpt` adds. It is unique, and `is_ours` recognises it."""
    return digest("\0".join(("ckpt", key.thread_id, key.checkpoint_ns, key.checkpoint_id, parent)))


def is_ours(place: CheckpointRow) -> bool:
    """Whether `ckpt` added a checkpoint."""
    return place.parent is not None and place.hash == own_hash(place.key, place.parent)


def fork_of(place: CheckpointRow) -> bytes:
    """The metadata, as JSON, that is shown for a checkpoint that `ckpt` added."""
    told = {"source": "fork", "forked_by": "ckpt", "forked_from": place.parent}
    return json.dumps(told).encode()


def body_of(
    place: CheckpointRow, named: Mapping[str, ChannelParts], *, is_stored: bool
) -> TypedBytes:
    if not is_stored:
        return TypedBytes("json", b"", problem=NOT_STORED)
    body = {
        "id": place.key.checkpoint_id,
        "ts": None if place.at is None else place.at.isoformat(),
        "channel_versions": {name: one.version for name, one in named.items()},
    }
    return TypedBytes("json", json.dumps(body).encode())


def blob_of(one: ChannelParts, fetched: Mapping[BlobPart, bytes] | None) -> Blob:
    """A value. One part is returned as stored; several parts have the type `merged`."""
    size = sum(part.size for part in one.parts)
    found = Blob(
        one.parts[0].type if len(one.parts) == 1 else "merged", size, inherited=one.is_inherited
    )
    if fetched is None:
        return found
    return found._replace(value=_value(one, found, fetched))


def _value(one: ChannelParts, found: Blob, fetched: Mapping[BlobPart, bytes]) -> TypedBytes:
    if one.is_cut:
        return TypedBytes(found.type, b"", problem=_CUT)
    if found.size > MOST_BYTES:
        return unread(found.type, found.size)
    parts = [typed(part.type, part.size, fetched.get(part)) for part in one.parts]
    return parts[0] if len(parts) == 1 else merged(parts)


def write_of(key: CheckpointKey, row: Sequence[Any], values: bool | Collection[str]) -> Write:
    _, _, task_id, path, idx, channel, tag, size, at, value = row
    name = text(channel)
    is_wanted = values if isinstance(values, bool) else name in values
    return Write(
        key,
        text(task_id),
        text(path),
        number(idx),
        name,
        int(size),
        typed(text(tag), int(size), data(value)) if is_wanted else None,
        node=text(task_id),
        at=moment(at),
    )


def cell_of(value: Any) -> Any:
    """A cell for an archive. Types other than numbers, text and bytes become text."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.isoformat(" ") if hasattr(value, "isoformat") else str(value)


def place_of(thread_id: str, row: Sequence[Any]) -> CheckpointRow:
    """A row of `checkpoints`."""
    checkpoint_id, parent, ns, raw, at = row
    key = CheckpointKey(thread_id, text(ns), text(checkpoint_id))
    above = text(parent) or None
    return CheckpointRow(key, above, hash_text(raw), raw, moment(at), at)


def space_of(index: ThreadRows, checkpoint_id: str, hashed: str) -> str:
    """The namespace of a write: of the checkpoint with this id and hash, or else with this id."""
    named = index.by_id.get(checkpoint_id, ())
    for one in named:
        if one.hash == hashed:
            return one.key.checkpoint_ns
    return named[0].key.checkpoint_ns if named else ""


# The SQL queries. The `{...}` fields are tables, columns and expressions of the `Database`.


class Queries:
    """The queries of one database."""

    def __init__(self, database: Database, tables: SqlTables, blobs: SqlTable) -> None:
        self._database = database
        self._tables = tables
        self.checkpoints, self.writes = tables.checkpoints.sql, tables.writes.sql
        self.blobs = blobs.sql
        self.of_thread = database.same("thread_id", "thread")
        self._size = blobs.size

    def threads(self, *, one: bool, limit: bool) -> str:
        """One thread or all threads with their times and counts, newest first."""
        thread, ns = self._database.exact("thread_id"), self._database.exact("checkpoint_ns")
        where = f"WHERE {self.of_thread}" if one else ""
        most = f" LIMIT {self._database.mark('limit')}" if limit else ""
        return (
            f"SELECT {thread} AS thread, MIN({CREATED}), MAX({CREATED}) AS newest, COUNT(*),"
            f" COUNT(DISTINCT {ns}) FROM {self.checkpoints} {where}"
            f" GROUP BY {thread} ORDER BY newest DESC, thread{most}"
        )

    def heads(self, among: str) -> str:
        """The newest checkpoint in the root namespace of the threads of a condition."""
        exact = self._database.exact
        number = self._database.characters("checkpoint_id")
        return (
            "SELECT thread, head FROM ("
            f"SELECT {exact('thread_id')} AS thread, checkpoint_id AS head,"
            f" ROW_NUMBER() OVER (PARTITION BY {exact('thread_id')} ORDER BY {CREATED} DESC,"
            f" {number} DESC, {exact('checkpoint_id')} DESC) AS place"
            f" FROM {self.checkpoints} WHERE {self._database.same('checkpoint_ns', 'root')}"
            f" AND {among}) heads WHERE place = 1"
        )

    def places(self) -> str:
        return (
            f"SELECT checkpoint_id, parent_checkpoint_id, checkpoint_ns, {HASH}, {CREATED}"
            f" FROM {self.checkpoints} WHERE {self.of_thread}"
        )

    def parts(self) -> str:
        return (
            f"SELECT {HASH}, channel, version, type, {self._size}"
            f" FROM {self.blobs} WHERE {self.of_thread}"
        )

    def written(self) -> str:
        return (
            f"SELECT DISTINCT checkpoint_id, {HASH}, channel"
            f" FROM {self.writes} WHERE {self.of_thread}"
        )

    def write_keys(self, value: str, only: str = "") -> str:
        """Writes in the order in which they were stored."""
        exact = self._database.exact
        path = "task_path" if self._tables.task_path else "''"
        at = CREATED if CREATED in self._tables.writes.columns else "NULL"
        return (
            f"SELECT checkpoint_id, {HASH}, task_id, {path}, idx, channel, type, {self._size},"
            f" {at}, {value} FROM {self.writes} WHERE {self.of_thread}{only}"
            f" ORDER BY {exact('checkpoint_id')}, {at if at != 'NULL' else 'idx * 0'},"
            f" {exact('task_id')}, idx"
        )

    def short(self, most: int) -> str:
        """The value, or NULL if it has more than `most` bytes."""
        return f"CASE WHEN {self._size} <= {most} THEN {VALUE} END"

    def values(self, hashes: Mapping[str, object], among: str, most: int) -> str:
        """The values of some hashes, by the names of parameters, and of channels in a condition."""
        marks = ", ".join(self.cell(name, value) for name, value in hashes.items())
        return (
            f"SELECT {HASH}, channel, version, {self.short(most)} FROM {self.blobs}"
            f" WHERE {self.of_thread} AND {HASH} IN ({marks}) AND {among}"
        )

    def cell(self, name: str, value: object) -> str:
        """The placeholder for a hash, which is text or bytes."""
        return self._database.text(name) if isinstance(value, str) else self._database.mark(name)

    def used_threads(self) -> str:
        """The thread ids in all three tables, sorted."""
        thread = self._database.exact("thread_id")
        each = " UNION ".join(
            f"SELECT {thread} AS thread FROM {table}"
            for table in (self.checkpoints, self.blobs, self.writes)
        )
        return f"SELECT thread FROM ({each}) every ORDER BY {self._database.exact('thread')}"

    def suspects(self) -> list[str]:
        """The threads with a parent that is missing or may be newer, and with orphaned writes."""
        exact, characters = self._database.exact, self._database.characters

        def join(*columns: tuple[str, str]) -> str:
            # The first comparison uses an index. A collation may take other ids for equal.
            pairs = [(f"c.{one}", f"p.{other}") for one, other in columns]
            same = [f"{one} = {other} AND {exact(one)} = {exact(other)}" for one, other in pairs]
            return f"LEFT JOIN {self.checkpoints} p ON {' AND '.join(same)}"

        thread, ns = ("thread_id", "thread_id"), ("checkpoint_ns", "checkpoint_ns")
        to_parent = join(thread, ns, ("parent_checkpoint_id", "checkpoint_id"))
        to_own = join(thread, ("checkpoint_id", "checkpoint_id"))
        found = f"SELECT DISTINCT {exact('c.thread_id')} FROM"
        parent, own = "p.checkpoint_id", "c.checkpoint_id"
        return [
            f"{found} {self.checkpoints} c {to_parent} WHERE c.parent_checkpoint_id <> ''"
            f" AND ({parent} IS NULL OR p.{CREATED} > c.{CREATED}"
            f" OR {characters(parent)} > {characters(own)} OR {exact(parent)} >= {exact(own)})",
            f"{found} {self.writes} c {to_own} WHERE {parent} IS NULL",
        ]

    def any_hash(self) -> str:
        return f"SELECT {HASH} FROM {self.checkpoints} LIMIT 1"

    def some_place(self, stored: object, *, own: bool) -> str:
        """Returns a row if a checkpoint of the root namespace has the hash of that namespace.

        With `own`, it returns a row if a checkpoint there has a different hash.
        """
        differs = "<>" if own else "="
        return (
            f"SELECT 1 FROM {self.checkpoints}"
            f" WHERE checkpoint_ns = '' AND {HASH} {differs} {self.cell('hash', stored)} LIMIT 1"
        )


# Changes the values in rows of the three-table layout. Its checkpoints have no body.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the value that `change` returns; the same row if it is equal."""
    return row if row.table == CHECKPOINTS else edited_value(row, VALUE, change)
