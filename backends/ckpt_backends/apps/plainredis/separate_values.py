"""Reads the separate values of langgraph-checkpoint-plainredis."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.apps.plainredis.stored_values import (
    HEAD_BYTES,
    TAIL_BYTES,
    told_of,
    unread_value,
    unwrapped,
)
from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.model import USERS, Blob
from ckpt_backends.redis.engine.connection import RedisConnection

EMPTY = "empty"
"""Type of the entry for a channel without a value."""
_CONTROL = ("__", "branch:", "join:", "start:")
_SMALL, _KEPT = 4096, 10_000
"""Values up to `_SMALL` bytes are read together and cached for the next checkpoints that have them.
The cache is cleared when it has more than `_KEPT` values."""


class SeparateValues:
    """Reads separate values that are asked for, and caches small ones."""

    def __init__(self, connection: RedisConnection, wanted: bool | Collection[str]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._heads: dict[bytes, tuple[str, int, int]] = {}
        """By key, the type, size of the value, and length of the text."""
        self._small: dict[bytes, Any] = {}

    def prepare(self, named: Sequence[Mapping[str, bytes]]) -> None:
        """Read the types and sizes of the values of several checkpoints, and small values."""
        if len(self._heads) > _KEPT:
            self._heads.clear()
            self._small.clear()
        every = {name for names in named for name in names.values()}
        new = sorted(every - self._heads.keys())
        self._heads.update(zip(new, measured(self._connection, new), strict=True))
        wanted = {
            name
            for names in named
            for channel, name in names.items()
            if self._is_wanted(channel) and 0 < self._heads[name][2] <= _SMALL
        }
        small = sorted(wanted - self._small.keys())
        found = self._connection.ask_all(("GET", name) for name in small)
        self._small.update(zip(small, found, strict=True))

    def blobs(self, names: Mapping[str, bytes]) -> dict[str, Blob]:
        """The values of one checkpoint, by channel."""
        found: dict[str, Blob] = {}
        for channel, name in names.items():
            tag, size, length = self._heads[name]
            if not length or tag == EMPTY:
                continue
            if not self._is_wanted(channel):
                found[channel] = Blob(tag, size)
            elif length > MOST_BYTES:
                found[channel] = Blob(tag, size, unread_value(length))
            else:
                kept = self._small.get(name) if name in self._small else None
                answer = kept or self._connection.ask("GET", name)
                if answer is not None:
                    value = unwrapped(answer)
                    found[channel] = Blob(value.type, len(value.data), value)
        return found

    def missing(self, names: Mapping[str, bytes]) -> frozenset[str]:
        """The channels of a checkpoint that have no entry, not even that of an empty channel."""
        return frozenset(channel for channel, name in names.items() if not self._heads[name][2])

    def _is_wanted(self, channel: str) -> bool:
        if channel.startswith(_CONTROL) and channel not in USERS:
            return True
        return self._wanted if isinstance(self._wanted, bool) else channel in self._wanted


def measured(connection: RedisConnection, names: Sequence[bytes]) -> Iterator[tuple[str, int, int]]:
    """For each key: type, size of the value, and length of the text (0 if it does not exist)."""
    commands = (
        command
        for name in names
        for command in (
            ("STRLEN", name),
            ("GETRANGE", name, 0, HEAD_BYTES - 1),
            ("GETRANGE", name, -TAIL_BYTES, -1),
        )
    )
    answers = connection.ask_all(commands)
    for _ in names:
        length, head, tail = (next(answers) for _ in range(3))
        yield (*told_of(length or 0, head or b"", tail or b""), length or 0)
