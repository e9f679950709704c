"""Stores threads of other stores as ValkeySaver would.

All writes of a checkpoint are one text. They wait in a temporary file until all parts have come.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import BinaryIO

from ckpt_backends.changes.change import Change, moved
from ckpt_backends.model import CheckpointKey, Write
from ckpt_backends.redis.engine.command_plan import NO_EXPIRY
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import raw, text
from ckpt_backends.redis.engine.receiving import NewDocument, Reception, expiring_at
from ckpt_backends.redis.valkey.contents import ValkeyContents
from ckpt_backends.redis.valkey.key_names import key_of
from ckpt_backends.redis.valkey.stored_values import (
    checkpoint_text,
    stored_writes,
    write_fields,
    writes_text,
)
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import Arrival, CheckpointPart, Part, WritePart

_NAMES_AT_ONCE = 1000
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class _Expiry:
    """When a key expires that holds several things: with the last of them, if all of them do."""

    def __init__(self) -> None:
        self.at: int | None = 0

    def add(self, at: int | None) -> None:
        if self.at is not None:
            self.at = None if at is None else max(self.at, at)


class _WaitingWrites:
    """The writes of one checkpoint: the places of their texts in the file."""

    def __init__(self) -> None:
        self._places: list[tuple[tuple[str, str, int], int, int]] = []
        self._has_paths = False
        self.expiry = _Expiry()

    def add(self, part: WritePart, start: int, size: int) -> None:
        """Add a write, whose text is at this place in the file."""
        self._places.append(((part.order, part.task_id, part.idx), start, size))
        self._has_paths |= bool(part.order)
        self.expiry.add(part.expires_at)

    def in_order(self) -> Iterator[tuple[int, int]]:
        """The places in the order of the tasks, if it is known, or else as they came."""
        found = sorted(self._places) if self._has_paths else self._places
        yield from ((start, size) for _, start, size in found)


class ValkeyReception(Reception):
    """The texts of checkpoints and of their writes, and the lists of checkpoints."""

    def __init__(self, layout: ValkeyContents, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._contents = layout
        self._connection = layout.connection
        self._file: BinaryIO = TemporaryFile()  # noqa: SIM115 - closed with this object
        self._writes: dict[CheckpointKey, _WaitingWrites] = {}
        self._merged: list[CheckpointKey] = []
        """The checkpoints that have writes in the store already."""
        self._ids: dict[str, list[str]] = {}
        """By namespace, the checkpoints that come."""
        self._expiries: dict[str, _Expiry] = {}

    def documents(self, part: Part) -> Iterator[NewDocument]:
        if isinstance(part, CheckpointPart):
            yield self._checkpoint(part)
        elif isinstance(part, WritePart):
            self._add_write(part)
        else:
            raise CannotHold(f"ValkeySaver stores channel '{part.channel}' in checkpoints only")

    def _checkpoint(self, part: CheckpointPart) -> NewDocument:
        key = part.key
        name = self._contents.checkpoint_name(key)
        self._check_key(key, name)
        _check_metadata(part.metadata.data, f"the metadata of checkpoint '{key.checkpoint_id}'")
        self._ids.setdefault(key.checkpoint_ns, []).append(key.checkpoint_id)
        self._expiries.setdefault(key.checkpoint_ns, _Expiry()).add(part.expires_at)
        fields = {
            "thread_id": key.thread_id,
            "checkpoint_id": key.checkpoint_id,
            "parent_checkpoint_id": part.parent,
        }
        made = checkpoint_text(fields, part.body, part.metadata)
        return NewDocument(name, made, part.expires_at, is_string=True)

    def _add_write(self, part: WritePart) -> None:
        key = part.key
        self._check_key(key, self._contents.writes_name(key))
        size = len(part.value.data)
        fields = write_fields(
            Write(key, part.task_id, "", part.idx, part.channel, size, part.value)
        )
        data = json.dumps(fields, separators=(",", ":")).encode()
        waiting = self._writes.setdefault(key, _WaitingWrites())
        waiting.add(part, self._file.tell(), len(data))
        self._file.write(data)

    def _check_key(self, key: CheckpointKey, name: bytes) -> None:
        """Raise `CannotHold` if a key may be that of another thread, or cannot be written."""
        try:
            name.decode()
        except UnicodeDecodeError:
            raise CannotHold(f"'{text(name)}' has a lone surrogate") from None
        if "}:" in key.checkpoint_ns or key_of(name, key.thread_id) != key:
            raise CannotHold(f"the key '{text(name)}' may be one of another thread")

    def rest(self) -> Iterator[NewDocument]:
        for key, waiting in self._writes.items():
            name = self._contents.writes_name(key)
            if self.arrival.heads and self._connection.number_of([name]):
                self._merged.append(key)
            else:
                made = writes_text(self._elements(waiting))
                yield NewDocument(name, made, waiting.expiry.at, is_string=True)

    def _elements(self, waiting: _WaitingWrites) -> Iterator[object]:
        for start, size in waiting.in_order():
            self._file.seek(start)
            yield json.loads(self._file.read(size))

    def heads(self) -> dict[str, str]:
        # The lists tell them; finding all keys of a thread takes a SCAN over the database.
        names = [self._list_name(ns) for ns in self._spaces()]
        found = self._connection.ask_all(("LINDEX", name, 0) for name in names)
        return {ns: text(own) for ns, own in zip(self._spaces(), found, strict=True) if own}

    def watched(self) -> Sequence[bytes]:
        lists = map(self._list_name, self._spaces())
        return [*lists, *map(self._contents.writes_name, self._merged)]

    def _spaces(self) -> list[str]:
        return sorted({*self.arrival.heads, *self._ids} or {""})

    def _list_name(self, ns: str) -> bytes:
        return self._contents.list_name(self.arrival.thread_id, ns)

    def last(self) -> Iterator[Command]:
        for key in self._merged:
            yield from self._merging(key)
        for ns in sorted(self._ids, reverse=True):
            yield from self._listing(ns)

    def _merging(self, key: CheckpointKey) -> Iterator[Command]:
        """Add writes behind those that the store has."""
        name = self._contents.writes_name(key)
        stored = [one.fields for one in stored_writes(self._connection.ask("GET", name) or b"[]")]
        new = list(self._elements(self._writes[key]))
        places = [(one["task_id"], one["idx"]) for one in (*stored, *new)]
        if len({*places}) != len(places):
            raise moved(Change(key.thread_id, self.arrival.heads))
        yield ("SET", name, writes_text([*stored, *new]), "KEEPTTL")

    def _listing(self, ns: str) -> Iterator[Command]:
        """Put the new checkpoints into the list of a namespace, the newest in front."""
        name = self._list_name(ns)
        new = sorted(self._ids[ns])
        stored = [text(one) for one in self._connection.ask("LRANGE", name, 0, -1) or []]
        if stored and new[0] < stored[0]:
            # Older ones have expired here, and come again.
            new = sorted({*stored, *new})
            yield ("LTRIM", name, 1, 0)
        for start in range(0, len(new), _NAMES_AT_ONCE):
            yield ("LPUSH", name, *map(raw, new[start : start + _NAMES_AT_ONCE]))
        left = int(self._connection.ask("PTTL", name)) if stored else 0
        if left != NO_EXPIRY:
            expires_at = self._expiries[ns].at
            yield from [("PERSIST", name)] if expires_at is None else expiring_at(name, expires_at)


def _check_metadata(data: bytes, where: str) -> None:
    """Raise `CannotHold` if the saver's JSON library, orjson, refuses or changes a text."""
    try:
        found = json.loads(data, parse_constant=_refused, parse_int=_integer)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CannotHold(f"{where} cannot be stored for ValkeySaver: {error}") from None


def _refused(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _integer(digits: str) -> int:
    if not _LEAST <= (found := int(digits)) <= _MOST:
        raise ValueError("an integer has more than 64 bits")
    return found
