"""Converts the records of a thread from the form of one layout to the form of another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

from ckpt_backends.codec.lossless import Ext, load_lossless, pack_lossless, unpack_lossless
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.encryption import (
    has_encrypted_parts,
    is_encrypted,
    map_parts,
    opened_metadata,
    sealed_metadata,
)
from ckpt_backends.model import CheckpointKey, Encryption, Kind, Record, TypedBytes
from ckpt_backends.transfer.bodies import (
    OpenBody,
    close_body,
    converted_metadata,
    from_plain_json,
    open_body,
    plain_json,
    respelled,
)
from ckpt_backends.transfer.form import CannotHold, Form, Language, Place, Serializer
from ckpt_backends.transfer.sealing import Sealing, place_of, sealed_together
from ckpt_backends.transfer.values import apart_type, as_type, converted_value, is_snapshot

if TYPE_CHECKING:
    import sqlite3


# Compares values of msgpack without regard to the order of the members of sets.
#
# A set that is loaded and stored again may have its members in another order, so the same version
# of a channel can have other bytes in each body.


_SINGLE_ARGUMENT = 0
"""msgpack's ext type of objects that are made from one argument: module, name, argument."""
_SETS = frozenset({"set", "frozenset"})


def without_order(value: TypedBytes) -> bytes:
    """The bytes of a value with the members of all its sets sorted."""
    if b"builtins" not in value.data:
        return value.data
    if value.type in JSON_TYPES:
        return _json_without_order(value.data)
    if value.type != "msgpack":
        return value.data
    try:
        return pack_lossless(_sorted(unpack_lossless(value.data)))
    except (ValueError, TypeError, RecursionError):
        return value.data


def _json_without_order(data: bytes) -> bytes:
    """As `without_order`, of values that releases before msgpack wrote."""

    def of_object(found: dict[str, Any]) -> dict[str, Any]:
        match found:
            case {"type": "constructor", "id": ["builtins", name], "args": [[*members]]} if (
                name in _SETS
            ):
                return {**found, "args": [sorted(members, key=json.dumps)]}
        return found

    try:
        return json.dumps(json.loads(data, object_hook=of_object)).encode()
    except (ValueError, RecursionError):
        return data


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if not isinstance(value, Ext):
        return value
    try:
        inner = _sorted(unpack_lossless(value.data))
    except ValueError:  # the payload is no msgpack
        return value
    match value.code, inner:
        case (code, ["builtins", name, [*members]]) if code == _SINGLE_ARGUMENT and name in _SETS:
            inner = ["builtins", name, sorted(members, key=pack_lossless)]
    return Ext(value.code, pack_lossless(inner))


# Finds writes that a layout would return in another order than they are stored in.
#
# Some layouts keep the order in which writes arrived. The others order them by task path, task id
# and index. This matters for DeltaChannels only, whose values are rebuilt from the writes in this
# order.


class ArrivalOrder:
    """The writes of a thread in the order of arrival. Those of one checkpoint come together."""

    def __init__(self) -> None:
        self._key: CheckpointKey | None = None
        self._last: dict[str, Record] = {}
        """By channel, the last write of the current checkpoint."""
        self._moving: dict[tuple[str, str], set[str]] = {}
        """By namespace and checkpoint id, the channels whose writes would change places."""
        self._stored: set[tuple[str, str, str]] = set()
        """By namespace, channel and version, the values that are stored apart from bodies."""

    def add_value(self, record: Record) -> None:
        """Add a value that is stored apart: it need not be rebuilt."""
        if record.value.type != EMPTY:
            self._stored.add((record.key.checkpoint_ns, record.channel, record.version))

    def add(self, record: Record) -> None:
        """Add the next write."""
        if record.key != self._key:
            self._key = record.key
            self._last.clear()
        last = self._last.get(record.channel)
        self._last[record.channel] = record
        if last is None or (last.task_id, last.idx) < (record.task_id, record.idx):
            return
        if last.value != record.value:
            at = record.key.checkpoint_ns, record.key.checkpoint_id
            self._moving.setdefault(at, set()).add(record.channel)

    def may_matter(self, record: Record) -> bool:
        """Whether writes to the parent of a checkpoint would change places."""
        return (record.key.checkpoint_ns, record.parent or "") in self._moving

    def check(self, record: Record, found: OpenBody) -> None:
        """Raise `CannotHold` if a value of a checkpoint must be rebuilt from such writes."""
        channels = self._moving.get((record.key.checkpoint_ns, record.parent or ""), set())
        for channel in sorted(channels - found.values.keys()):
            version = found.version_of(channel)
            place = record.key.checkpoint_ns, channel, version or ""
            if version is not None and place not in self._stored:
                raise CannotHold(
                    f"parallel tasks wrote to channel '{channel}' at checkpoint '{record.parent}'"
                    " in an order that the target does not keep"
                )


# Converts the versions of channels between the two forms that savers for Python count in.
#
# Some savers count with integers, the default of `BaseCheckpointSaver.get_next_version`, which
# refuses texts. Others count with texts, which sort as numbers do: 32 digits, a dot, and a random
# number. They accept integers, but return a text for the next version, and LangGraph compares it
# with the others. So a thread can only go on if all its versions have the form of its saver.


_NUMBER = re.compile(r"[0-9]{1,31}")
_DIGITS = 10**16


def convert_versions(found: OpenBody, target: Form, where: str, *, by_value: bool) -> None:
    """Convert the versions in a body to the form of a layout. Raises `CannotHold`.

    With `by_value`, integers become different texts if the values in the body differ: two branches
    of a thread have the same integers, but one layout may store one value for each version.
    """
    if target.language is not Language.PYTHON:
        return
    now, seen = found.fields.get("channel_versions"), found.fields.get("versions_seen")
    if not isinstance(now, dict):
        return
    maps = [now, *seen.values()] if isinstance(seen, dict) else [now]
    if not target.counts_with_integers and _are_texts(maps):
        return
    made = {
        channel: converted_version(
            version, target, where, found.values.get(channel) if by_value else None
        )
        for channel, version in now.items()
        if version is not None
    }
    found.fields["channel_versions"] = now | made
    if isinstance(seen, dict):
        found.fields["versions_seen"] = {
            node: {
                channel: made[channel]
                if channel in made and version == now[channel]
                else converted_version(version, target, where)
                for channel, version in versions.items()
            }
            for node, versions in seen.items()
        }


def _are_texts(maps: Iterable[object]) -> bool:
    """Whether all versions in some maps have the form of savers that count with texts."""
    found: set[object] = set()
    for versions in maps:
        if not isinstance(versions, dict):
            return False
        try:
            found.update(versions.values())
        except TypeError:  # a list, in a damaged store
            return False
    for one in found:  # noqa: SIM110 - `all` takes three times as long
        if one.__class__ is not str or "." not in one:
            return False
    return True


def converted_version(
    version: Any, target: Form, where: str, value: TypedBytes | None = None
) -> Any:
    """One version in the form of a layout. Raises `CannotHold`."""
    if version.__class__ is str and not target.counts_with_integers and "." in version:
        return version
    if target.language is not Language.PYTHON:
        return version
    is_number = isinstance(version, float) and version.is_integer()
    if is_number or (isinstance(version, str) and _NUMBER.fullmatch(version)):
        # Keys have integers as texts.
        version = int(version)
    if target.counts_with_integers and isinstance(version, str):
        number = version.partition(".")[0]
        if number.isdecimal() and number.isascii():
            return int(number)
        raise CannotHold(f"{where} has the version '{version}', which is no number")
    if not target.counts_with_integers and type(version) is int:
        return f"{version:032}.0.{_fraction(value):016}"
    if isinstance(version, str) or type(version) is int:
        return version
    raise CannotHold(f"{where} has a version that is neither a text nor an integer: {version}")


def absent_version(version: str) -> str | None:
    """A version with the same number, for a channel without a value; None if there is none.

    It differs in the part that savers choose at random.
    """
    number, dot, rest = version.partition(".")
    return f"{number}.{rest}0" if dot else None


def replace_version(found: OpenBody, channel: str, old: str, new: str) -> None:
    """Give a channel of a body another version, as the one that it has and as the one seen."""
    found.fields["channel_versions"] = found.fields["channel_versions"] | {channel: new}
    seen = found.fields.get("versions_seen")
    if isinstance(seen, dict):
        found.fields["versions_seen"] = {
            node: versions | {channel: new} if versions.get(channel) == old else versions
            for node, versions in seen.items()
        }


def _fraction(value: TypedBytes | None) -> int:
    """Sixteen digits that follow from a value, in place of the random number of a saver."""
    if value is None:
        return 0
    digest = blake2b(value.type.encode("utf-8", "surrogatepass"), digest_size=8)
    digest.update(b"\0" + value.data)
    return int.from_bytes(digest.digest(), "big") % _DIGITS


# Keeps the values of a thread until the checkpoints come that name them, in bounded memory.


_IN_MEMORY = 64 << 20
"""Bytes that are kept in memory; further values go to a temporary file."""

ValuePlace: TypeAlias = tuple[str, str, str]
"""Namespace, channel and version."""


class KeptValues:
    """Values by namespace, channel and version."""

    def __init__(self) -> None:
        self._values: dict[ValuePlace, TypedBytes] = {}
        self._size = 0
        self._file: sqlite3.Connection | None = None

    def put(self, place: ValuePlace, value: TypedBytes) -> None:
        """Keep a value."""
        if self._size + len(value.data) <= _IN_MEMORY:
            self._size += len(value.data)
            self._values[place] = value
            return
        if self._file is None:
            import sqlite3  # few threads need it

            # Without a name, SQLite makes a file that nobody else finds, and removes it.
            self._file = sqlite3.connect("", isolation_level=None)
            self._file.execute("PRAGMA journal_mode = OFF")
            self._file.execute(
                "CREATE TABLE kept (ns TEXT, channel TEXT, version TEXT, type TEXT, data BLOB,"
                " PRIMARY KEY (ns, channel, version)) WITHOUT ROWID"
            )
        query = "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)"
        self._file.execute(query, (*_bytes(place), value.type, value.data))

    def get(self, place: ValuePlace) -> TypedBytes | None:
        """A value that was kept; None if there is none."""
        found = self._values.get(place)
        if found is not None or self._file is None:
            return found
        query = "SELECT type, data FROM kept WHERE ns = ? AND channel = ? AND version = ?"
        row = self._file.execute(query, _bytes(place)).fetchone()
        return None if row is None else TypedBytes(*row)

    def close(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._size = 0
        if self._file is not None:
            self._file.close()
            self._file = None


def _bytes(place: ValuePlace) -> tuple[bytes, ...]:
    # SQLite's texts cannot hold surrogates.
    return tuple(text.encode("utf-8", "surrogatepass") for text in place)


# Moves the pending sends of checkpoints in formats before 4.
#
# LangGraph's SQLite saver stored them in the body of the checkpoint that runs them. Savers that
# store values apart look them up in the writes of its parent, which all savers store. From format
# 4, they are the value of a channel.


TASKS = "__pregel_tasks"
"""The channel of sends."""
_FIELD = "pending_sends"
_Order = tuple[str, str, int]
"""Task path, task id and idx: the order in which savers read the sends of a checkpoint."""


class PendingSends:
    """The sends that the writes of a thread hold. Writes come before the checkpoints."""

    def __init__(self, kept: KeptValues, opened: Callable[[TypedBytes, str], TypedBytes]) -> None:
        """`opened` decrypts a value; the text names it in messages."""
        self._kept = kept
        self._opened = opened
        self._orders: dict[tuple[str, str], list[_Order]] = {}
        """By namespace and checkpoint."""

    def note(self, record: Record) -> None:
        """Remember a write to the channel `TASKS`."""
        key, order = record.key, (record.task_path, record.task_id, record.idx)
        self._orders.setdefault((key.checkpoint_ns, key.checkpoint_id), []).append(order)
        self._kept.put(_place(key.checkpoint_ns, key.checkpoint_id, order), record.value)

    def leave_out(self, record: Record, found: OpenBody, where: str) -> None:
        """Remove the sends from a body, for a saver that reads them from the parent's writes.

        Raises `CannotHold` if these are others.
        """
        if not _is_old(found) or not found.fields.get(_FIELD):
            return
        if self._of_parent(record, where) != found.fields[_FIELD]:
            raise CannotHold(f"{where} has pending sends that the writes of its parent do not have")
        found.fields[_FIELD] = []

    def put_in(self, record: Record, found: OpenBody, where: str) -> None:
        """Add the sends of the parent's writes to a body, for a saver that reads them from there.

        The first releases for PostgreSQL stored them in the body, too, as a type and base64.
        """
        if _is_old(found):
            found.fields[_FIELD] = self._of_parent(record, where)

    def _of_parent(self, record: Record, where: str) -> list[Any]:
        if record.parent is None:
            return []
        ns = record.key.checkpoint_ns
        orders = sorted(self._orders.get((ns, record.parent), ()))
        values = [self._kept.get(_place(ns, record.parent, order)) for order in orders]
        try:
            named = f"a pending send of {where}"
            return [_decoded(self._opened(one, named)) for one in values if one is not None]
        except ValueError as error:
            raise CannotHold(f"a pending send of {where} cannot be read: {error}") from None


def _is_old(found: OpenBody) -> bool:
    """Whether a body has a format before 4. A damaged store may have anything in its place."""
    return found.fields.get("v") in [1, 2, 3]


def _place(ns: str, checkpoint_id: str, order: _Order) -> tuple[str, str, str]:
    """Where a send is kept. No channel has this name, and no version is a tuple."""
    return ns, TASKS, repr((checkpoint_id, *order))


def _decoded(value: TypedBytes) -> Any:
    if value.type == "msgpack":
        return unpack_lossless(value.data)
    if value.type in JSON_TYPES:
        return load_lossless(value.data)
    raise ValueError(f"it has the type '{value.type}'")


# What was seen of a thread while its records are converted.


EMPTY = "empty"
"""The type of a mark for a channel without a value."""
_APART = b""
"""In place of the digest of a value that the source stores apart."""
_ROOM = 8 << 20
"""Bytes of the values that are kept to compare them. Most are records that are kept anyway."""


class LastValues:
    """The last value of each channel of a namespace, and what became of it."""

    def __init__(self) -> None:
        self.stored: dict[str, TypedBytes] = {}
        self.stays: dict[str, TypedBytes | None] = {}
        """By channel, the value that stays in the body."""
        self._versions: dict[str, str] = {}

    def is_same(self, channel: str, stored: TypedBytes, version: str | None) -> bool:
        """Whether the last value is the same object with the same version."""
        return self.stored.get(channel) is stored and self._versions[channel] == version

    def note(
        self, channel: str, stored: TypedBytes, version: str, stays: TypedBytes | None
    ) -> None:
        """Remember a value."""
        self.stored[channel], self.stays[channel] = stored, stays
        self._versions[channel] = version


class SeenThread:
    """What was seen of a thread so far."""

    def __init__(self, kept: KeptValues, target: Form, sealing: Sealing) -> None:
        self.kept = kept
        self._is_javascript = target.language is Language.JAVASCRIPT
        self.sends = PendingSends(kept, sealing.opened)
        self._last: dict[str, LastValues] = {}
        self.order = ArrivalOrder()
        self._seen: dict[ValuePlace, TypedBytes | bytes] = {}
        """By namespace, channel and version, the value; of those without room, the digest."""
        self._room = _ROOM
        self._valued: set[ValuePlace] = set()
        """Versions whose value is stored apart, and so belongs to each checkpoint that names them.
        This is right for the snapshots of DeltaChannels, which are not among them."""
        self._absent: dict[ValuePlace, str] = {}
        """By namespace, channel and version of a channel without a value, the thread's id."""

    def note_apart(self, place: ValuePlace) -> None:
        """Remember that the source stores a value apart, so that it wins over any in a body."""
        self._seen[place] = _APART

    def values_of(self, checkpoint_ns: str) -> LastValues:
        """The last values of a namespace."""
        if (last := self._last.get(checkpoint_ns)) is None:
            last = self._last[checkpoint_ns] = LastValues()
        return last

    def is_new(
        self, place: ValuePlace, value: TypedBytes, named: str, *, is_apart: bool = True
    ) -> bool:
        """Whether a value is new. Raises `CannotHold` if its version has another value, or has none
        elsewhere and the target stores it apart.
        """
        known = self._seen.get(place)
        if known is None:
            self._room -= len(value.data)
            self._seen[place] = value if self._room > 0 else _digest(value)
            if is_apart and not _is_delta(value):
                if place in self._absent:
                    raise CannotHold(
                        f"{named} has a value, but version '{place[2]}' elsewhere none"
                    )
                self._valued.add(place)
            return True
        if known not in (value, _APART) and _digest(known) != _digest(value):
            raise CannotHold(f"{named} has another value than version '{place[2]}' elsewhere")
        return False

    def note_absent(self, key: CheckpointKey, found: OpenBody) -> None:
        """Remember the channels of a body that have a version, but no value in the body.

        LangGraph 0.2 took None for no value when it loaded a checkpoint, so that it left the
        channel out of the next one, with the same version. Where a version has one value for
        all checkpoints, such a channel gets a version of its own. Branches of LangGraph.js may use
        the same numbers; they are refused.
        """
        versions, values = found.versions, found.values
        for channel in [one for one in versions if one not in values]:
            version = versions[channel]
            place = key.checkpoint_ns, channel, version
            if place in self._valued:
                own = None if self._is_javascript else absent_version(version)
                if own is None:
                    raise CannotHold(
                        f"channel '{channel}' of {checkpoint_words(key)} has no value, but version"
                        f" '{version}' elsewhere"
                    )
                replace_version(found, channel, version, own)
                place = key.checkpoint_ns, channel, own
            self._absent[place] = key.thread_id

    def end(self, target: Form) -> Iterator[Record]:
        """The marks of channels without a value, which are known at the end only.

        The snapshot of a DeltaChannel is stored with one of the checkpoints of its version.
        """
        if not target.marks_absent:
            return
        for place, thread_id in self._absent.items():
            if place not in self._seen:
                yield Record.apart(thread_id, *place, TypedBytes(EMPTY, b""))


def checkpoint_words(key: CheckpointKey) -> str:
    """A checkpoint in a message."""
    return f"checkpoint '{key.checkpoint_id}'"


def _digest(value: TypedBytes | bytes) -> bytes:
    """The digest of a value without regard to the order of sets; a digest as it is."""
    if isinstance(value, bytes):
        return value
    data = value.type.encode("utf-8", "surrogatepass") + b"\0" + without_order(value)
    return blake2b(data, digest_size=8).digest()


def _is_delta(value: TypedBytes) -> bool:
    """Whether a value is the snapshot of a DeltaChannel.

    It is stored with one of the checkpoints of its version, and is right for all of them.
    """
    return is_snapshot(value) or b'"DeltaSnapshot"' in value.data[:64]


class Conversion:
    """Converts threads from one form to another."""

    def __init__(self, source: Form, target: Form, sealing: Sealing) -> None:
        self._source = source
        self._target = target
        self._sealing = sealing
        self.unexpiring = 0
        """Parts so far that expire in the source, and never in the target."""
        self._keeps_writes = (
            source.serializer is target.serializer
            and target.has_task_paths
            and not sealing.changes()
        )
        self._loses_order = source.keeps_write_order and not target.keeps_write_order
        self._keeps_json = target.metadata_type == "json" and not (
            target.encrypts_metadata or target.encrypts_together
        )
        """Whether metadata in JSON is JSON in the target, too, and not encrypted."""
        self._respells_json = target.parses_json and not source.parses_json
        self._keeps_bodies = (
            source.serializer is target.serializer
            and source.values is target.values
            and source.counts_with_integers is target.counts_with_integers
            and set(source.body_types) <= set(target.body_types)
            and source.encrypts_together is target.encrypts_together
        )

    def of_thread(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records of one thread in the form of the target.

        Raises `CannotHold` at the first record that the target cannot hold as it is.
        """
        if self._source == self._target and not self._sealing.changes():
            yield from records
            return
        with closing(KeptValues()) as kept:
            thread = SeenThread(kept, self._target, self._sealing)
            for record in records:
                if record.kind is Kind.WRITE:
                    if record.channel == TASKS:
                        thread.sends.note(record)
                    if self._loses_order:
                        thread.order.add(record)
                    yield self._write(record)
                elif record.kind is Kind.VALUE:
                    yield from self._value(record, thread)
                else:
                    yield from self._checkpoint(record, thread)
            yield from thread.end(self._target)

    def _write(self, record: Record) -> Record:
        if self._keeps_writes and record.expires_at is None:
            return record
        where = f"the write to '{record.channel}' at {checkpoint_words(record.key)}"
        has_path = self._target.has_task_paths
        if record.task_path and not has_path and not self._target.keeps_write_order:
            raise CannotHold(f"the target has no column for the task path of {where}")
        return record._replace(
            task_path=record.task_path if has_path else "",
            order="" if has_path else record.task_path,
            value=self._moved(record, where),
            expires_at=self._expiry(record),
        )

    def _moved(self, record: Record, where: str) -> TypedBytes:
        """A value that is stored by itself here and there."""
        source, target = self._source.serializer, self._target.serializer
        if source is target and not self._sealing.changes():
            return record.value
        opened = self._sealing.opened(record.value, where)
        moved = converted_value(opened, source, target, where)
        return self._sealed(moved, record, where, was_encrypted=opened.encrypted)

    def _sealed(
        self, value: TypedBytes, record: Record, where: str, *, was_encrypted: bool | Encryption
    ) -> TypedBytes:
        """A value of a record, encrypted if it is to be."""
        is_plain = not (was_encrypted or value.encrypted or self._sealing.changes())
        if value.type == EMPTY or is_plain:
            return value
        sealed = self._sealing.sealed(value, place_of(record), was_encrypted=was_encrypted)
        if is_encrypted(sealed) and self._target.serializer is not Serializer.TYPED:
            raise CannotHold(
                f"{where} is encrypted, which the target cannot hold; --decrypt copies it decrypted"
            )
        return sealed

    def _value(self, record: Record, thread: SeenThread) -> Iterator[Record]:
        """A value that the source stores apart from bodies."""
        where = f"version '{record.version}' of channel '{record.channel}'"
        if self._loses_order:
            thread.order.add_value(record)
        if self._target.values is Place.BODY:
            # Encrypted values stay so: kept values may go to a file.
            thread.kept.put(
                (record.key.checkpoint_ns, record.channel, record.version), record.value
            )
            return
        if record.value.type == EMPTY and not self._target.marks_absent:
            return
        version = record.version
        if not self._keeps_bodies:
            version = str(converted_version(version, self._target, where))
        thread.note_apart((record.key.checkpoint_ns, record.channel, version))
        yield record._replace(
            version=version, value=self._moved(record, where), expires_at=self._expiry(record)
        )

    def _checkpoint(self, record: Record, thread: SeenThread) -> Iterator[Record]:
        where = checkpoint_words(record.key)
        metadata = self._metadata(record, where)
        expires_at = self._expiry(record)
        loses_order = self._loses_order and thread.order.may_matter(record)
        if self._keeps_bodies and not loses_order:
            made = Record.checkpoint(record.key, record.parent, record.value, metadata, expires_at)
            yield self._resealed(made, where)
            return
        body = self._sealing.opened(record.value, f"the body of {where}")
        known = thread.values_of(record.key.checkpoint_ns)
        found = open_body(body, where, known.stored)
        if loses_order:
            thread.order.check(record, found)
        was_encrypted = body.encrypted
        if self._source.values is not Place.BODY:
            gathered = self._gather(record, found, thread)
            was_encrypted = was_encrypted or gathered
        is_parted = self._source.values is Place.BODY and self._target.values is not Place.BODY
        convert_versions(found, self._target, where, by_value=is_parted)
        self._move_sends(record, found, thread, where)
        thread.note_absent(record.key, found)
        if self._target.values is Place.BODY:
            closed = self._joined(found, where)
        else:
            for value in self._parted(record, found, thread, known, where):
                sealed = self._sealed(value.value, value, where, was_encrypted=was_encrypted)
                yield value if sealed is value.value else value._replace(value=sealed)
            closed = self._closed(found, self._target.body_types[0], where)
        made = Record.checkpoint(record.key, record.parent, closed, metadata, expires_at)
        yield self._sealed_body(made, where, was_encrypted=was_encrypted)

    def _closed(self, found: OpenBody, tag: str, where: str) -> TypedBytes:
        target = self._target
        has_values = target.values is not Place.APART
        in_order = target.parses_json
        return close_body(found, tag, where, has_values=has_values, in_order=in_order)

    def _move_sends(self, record: Record, found: OpenBody, thread: SeenThread, where: str) -> None:
        source, target = self._source, self._target
        is_typed = source.serializer is target.serializer is Serializer.TYPED
        if is_typed and (source.values is Place.BODY) != (target.values is Place.BODY):
            move = thread.sends.put_in if target.values is Place.BODY else thread.sends.leave_out
            move(record, found, where)

    def _resealed(self, record: Record, where: str) -> Record:
        """A checkpoint whose body fits as it is, encrypted or decrypted if it is to be."""
        if not (self._sealing.changes() and self._target.encrypts_body):
            return record
        body = self._sealing.opened(record.value, f"the body of {where}")
        made = record._replace(value=body)
        return self._sealed_body(made, where, was_encrypted=body.encrypted)

    def _sealed_body(
        self, record: Record, where: str, *, was_encrypted: bool | Encryption
    ) -> Record:
        """A checkpoint with its body encrypted if it is to be."""
        if not self._target.encrypts_body:
            return record

        def sealed(value: TypedBytes) -> TypedBytes:
            return self._sealed(value, record, where, was_encrypted=was_encrypted)

        if not self._target.encrypts_together:
            body = sealed(record.value)
            return record if body is record.value else record._replace(value=body)
        body, metadata = sealed_together(record.value, record.metadata, sealed)
        return record._replace(value=body, metadata=metadata)

    def _expiry(self, record: Record) -> int | None:
        """When a record expires in the target, in milliseconds since 1970."""
        if record.expires_at is not None and not self._target.expires:
            self.unexpiring += 1
            return None
        return record.expires_at

    def _metadata(self, record: Record, where: str) -> TypedBytes:
        source, target = self._source, self._target
        if self._keeps_json and record.metadata.type == "json":
            if has_encrypted_parts(record.metadata) and self._sealing.changes():
                return map_parts(record.metadata, lambda one: self._field(one, record, where))
            return self._spelled(record.metadata)
        fits = source.metadata_type == target.metadata_type and target.encrypts_metadata
        fits &= source.encrypts_together is target.encrypts_together
        if fits and source.encrypts_metadata and not self._sealing.changes():
            return record.metadata
        named = f"the metadata of {where}"
        stored = opened_metadata(record.metadata, lambda one: self._sealing.opened(one, named))
        converted = converted_metadata(stored, target, where)
        if converted.type == "json":
            converted = self._spelled(converted)
        if not target.encrypts_metadata or target.encrypts_together:
            return converted
        was = stored.encrypted or is_encrypted(record.value)
        return sealed_metadata(
            converted, lambda one: self._sealed(one, record, named, was_encrypted=was)
        )

    def _field(self, field: TypedBytes, record: Record, where: str) -> TypedBytes:
        """An encrypted field of metadata in JSON."""
        opened = self._sealing.opened(field, f"the metadata of {where}")
        return self._sealing.sealed(opened, place_of(record), was_encrypted=opened.encrypted)

    def _spelled(self, metadata: TypedBytes) -> TypedBytes:
        """Metadata in JSON as the target spells it."""
        return TypedBytes("json", respelled(metadata.data)) if self._respells_json else metadata

    def _gather(self, record: Record, found: OpenBody, thread: SeenThread) -> bool | Encryption:
        """Add the values that are stored apart to an open body, if the target has them in bodies.

        Returns whether one of them was encrypted, and in which form.
        """
        if self._target.values is not Place.BODY:
            return False
        was_encrypted: bool | Encryption = False
        values: dict[str, TypedBytes] = {}
        for channel, version in found.versions.items():
            value = thread.kept.get((record.key.checkpoint_ns, channel, version))
            if value is not None and value.type != EMPTY:
                value = self._sealing.opened(value, f"version '{version}' of channel '{channel}'")
                was_encrypted = was_encrypted or value.encrypted
                values[channel] = value
            elif channel in found.values:
                values[channel] = found.values[channel]
        found.values = found.values | values
        return was_encrypted

    def _joined(self, found: OpenBody, where: str) -> TypedBytes:
        """A body with all values in it."""
        tag = self._target.body_types[0]
        kinds = {value.type for value in found.values.values()}
        if kinds <= {"json", "null"} and "json" in self._target.body_types:
            # Old releases wrote values as JSON. Some of its objects have no equal form in msgpack.
            objects = any(value.data[:1] in (b"{", b"[") for value in found.values.values())
            tag = "json" if objects else tag
        source, target = self._source.serializer, self._target.serializer
        for channel, value in found.values.items():
            named = f"channel '{channel}' of {where}"
            plain = from_plain_json(value) if tag == "msgpack" else None
            moved = plain or converted_value(value, source, target, named, in_body=True)
            found.values[channel] = as_type(moved, tag, named, target)
        return self._closed(found, tag, where)

    def _parted(
        self, record: Record, found: OpenBody, thread: SeenThread, known: LastValues, where: str
    ) -> Iterator[Record]:
        """The values of a body that are stored apart in the target, each version once.

        What stays in the body remains in `found`. `known` has the last values of the namespace.
        """
        stays: dict[str, TypedBytes] = {}
        versions = found.versions
        source, target = self._source, self._target
        here, there = source.serializer, target.serializer
        for channel, stored in found.values.items():
            if known.is_same(channel, stored, versions.get(channel)):
                if (stayed := known.stays[channel]) is not None:
                    stays[channel] = stayed
                continue
            named = f"channel '{channel}' of {where}"
            place = (record.key.checkpoint_ns, channel, versions.get(channel, ""))
            plain = plain_json(stored) if target.values is Place.APART_BUT_PLAIN else None
            if plain is not None:
                stays[channel] = plain
                if channel in versions:
                    thread.is_new(place, plain, named, is_apart=False)
                    known.note(channel, stored, versions[channel], plain)
                continue
            if channel not in versions and here is Serializer.JAVASCRIPT:
                # The first value of a channel, which no step has set. LangGraph.js makes it anew,
                # and its own savers that store values apart leave it out.
                continue
            if channel not in versions and target.language is Language.JAVASCRIPT:
                continue  # LangGraph.js stores the start value of a channel that nobody has written
            if channel not in versions:
                raise CannotHold(f"{named} has a value, but no version")
            was_plain = from_plain_json(stored) if source.values is Place.APART_BUT_PLAIN else None
            value = apart_type(was_plain or stored)
            if here is not there:
                value = apart_type(converted_value(value, here, there, named, in_body=True))
            if thread.is_new(place, value, named):
                yield Record.apart(
                    record.key.thread_id,
                    *place,
                    value,
                    record.expires_at if target.expires else None,
                )
            if is_snapshot(value) and target.values is Place.APART_BUT_PLAIN:
                stays[channel] = TypedBytes("json", b"true")
            known.note(channel, stored, versions[channel], stays.get(channel))
        found.values = stays
