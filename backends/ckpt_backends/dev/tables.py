"""What the files of one moment hold, each read when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ckpt_backends.closing import Closing
from ckpt_backends.codec import decode
from ckpt_backends.codec.picklefile import read_pickle_file
from ckpt_backends.dev.files import BLOBS, CHECKPOINTS, WRITES, Files, Stamp, open_files
from ckpt_backends.dev.layout import (
    BlobKey,
    Blobs,
    Checkpoints,
    Found,
    Stored,
    WriteKey,
    Writes,
    read_blobs,
    read_checkpoints,
    read_writes,
)
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.model import CheckpointKey, TypedBytes

_Table = TypeVar("_Table")


@dataclass(frozen=True, slots=True)
class Named:
    """What a body says of its channels."""

    is_old: bool
    """Whether it is of a format before 4."""
    places: dict[str, BlobKey]
    """By channel, where its value is."""


def named(key: CheckpointKey, body: TypedBytes) -> Named | None:
    """The values that a body names; None for one that cannot be read."""
    fields = decode(body)
    if not isinstance(fields, dict):
        return None
    versions = fields.get("channel_versions")
    return Named(
        fields.get("v") in {1, 2, 3},
        {
            channel: (key.thread_id, key.checkpoint_ns, channel, version)
            for channel, version in (versions if isinstance(versions, dict) else {}).items()
            if isinstance(channel, str) and isinstance(version, str | int | float)
        },
    )


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What a file holds."""

    stamp: Stamp
    table: Any
    odd: list[str]


_last: dict[str, _Parsed] = {}
"""By name, the file that was read last. A command that changes something opens the same files a
second time, the screen more often; they are read again when they were replaced."""


class Tables(Closing):
    """The three tables, without the values, which stay in the files. Nobody changes them: they may
    be those of other `Tables`, too."""

    def __init__(self, folder: Path) -> None:
        self.files: Files = open_files(folder)
        self.found = Found()

    def close(self) -> None:
        self.files.close()

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return self._read(CHECKPOINTS, read_checkpoints, {})

    @cached_property
    def writes(self) -> Writes:
        return self._read(WRITES, read_writes, {})

    @cached_property
    def blobs(self) -> Blobs:
        return self._read(BLOBS, read_blobs, {})

    @cached_property
    def writes_of(self) -> dict[str, list[WriteKey]]:
        """By thread."""
        found: dict[str, list[WriteKey]] = {}
        for key in self.writes:
            found.setdefault(key[0], []).append(key)
        return found

    @cached_property
    def blobs_of(self) -> dict[str, list[BlobKey]]:
        """By thread."""
        found: dict[str, list[BlobKey]] = {}
        for key in self.blobs:
            found.setdefault(key[0], []).append(key)
        return found

    def value(self, name: str, stored: Stored) -> TypedBytes:
        """A value of a file. Raises `StoreUnavailable`."""
        try:
            return stored.typed(self._file(name))
        except OSError as error:
            raise self._broken(name, error) from error

    def bytes(self, name: str, stored: Stored) -> bytes:
        """The bytes of a value of a file, however long. Raises `StoreUnavailable`."""
        try:
            return stored.bytes(self._file(name))
        except (OSError, ValueError) as error:
            raise self._broken(name, error) from error

    def _read(
        self, name: str, reader: Callable[[object, BinaryIO, Found], _Table], empty: _Table
    ) -> _Table:
        if name not in self.files.opened:
            return empty
        known = _last.get(name)
        if known is None or known.stamp != self.files.stamps[name]:
            known = _last[name] = self._parsed(name, reader)
        self.found.odd += known.odd
        table: _Table = known.table
        return table

    def _parsed(self, name: str, reader: Callable[[object, BinaryIO, Found], object]) -> _Parsed:
        file, found = self._file(name), Found()
        try:
            table = reader(read_pickle_file(file), file, found)
        except OSError as error:
            raise self._broken(name, error) from error
        except ValueError as error:
            raise UnknownLayout(
                f"'{self.files.folder / name}' is not as langgraph dev writes it: {error}",
                hint="nothing of it was run; a copy that was cut off cannot be read",
            ) from error
        return _Parsed(self.files.stamps[name], table, found.odd)

    def _file(self, name: str) -> BinaryIO:
        file = self.files.opened[name]
        if file.closed:
            raise StoreUnavailable(f"'{self.files.folder}' is closed")
        return file

    def _broken(self, name: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"cannot read '{self.files.folder / name}': {error}")
