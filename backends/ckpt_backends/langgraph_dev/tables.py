"""The contents of the files of one moment. Each file is parsed when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from ckpt_backends.closing import Closing
from ckpt_backends.codec import decode
from ckpt_backends.codec.pickle.file import read_pickle_file
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.langgraph_dev.declaration import CHECKPOINTS
from ckpt_backends.langgraph_dev.files import BLOBS, WRITES, Files, Stamp, open_files
from ckpt_backends.langgraph_dev.layout import (
    BlobKey,
    Blobs,
    Checkpoints,
    Ignored,
    StoredValue,
    WriteKey,
    Writes,
    read_blobs,
    read_checkpoints,
    read_writes,
)
from ckpt_backends.model import CheckpointKey, TypedBytes

_Table = TypeVar("_Table")


@dataclass(frozen=True, slots=True)
class NamedValues:
    """The channel values that a checkpoint body names."""

    is_old: bool
    """Whether the body has a checkpoint format before 4."""
    places: dict[str, BlobKey]
    """By channel, the key of its value."""


def named(key: CheckpointKey, body: TypedBytes) -> NamedValues | None:
    """The values that a body names; None if the body cannot be read."""
    fields = decode(body)
    if not isinstance(fields, dict):
        return None
    versions = fields.get("channel_versions")
    return NamedValues(
        fields.get("v") in {1, 2, 3},
        {
            channel: (key.thread_id, key.checkpoint_ns, channel, version)
            for channel, version in (versions if isinstance(versions, dict) else {}).items()
            if isinstance(channel, str) and isinstance(version, str | int | float)
        },
    )


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A parsed file."""

    stamp: Stamp
    table: Any
    ignored: Ignored


_last: dict[str, _Parsed] = {}
"""Cache: by file name, the file that was parsed last. Commands that change something open the same
files twice, and `ckpt ui` opens them often. A replaced file is parsed again."""


class Tables(Closing):
    """The three tables. Values stay in the files.

    Do not change the dicts in place: other `Tables` may share them.
    """

    def __init__(self, folder: Path) -> None:
        self.ignored: Ignored = []
        self.files = self._open(folder)

    def _open(self, folder: Path) -> Files:
        return open_files(folder)

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
        """By thread, the keys of `writes`."""
        found: dict[str, list[WriteKey]] = {}
        for key in self.writes:
            found.setdefault(key[0], []).append(key)
        return found

    @cached_property
    def blobs_of(self) -> dict[str, list[BlobKey]]:
        """By thread, the keys of `blobs`."""
        found: dict[str, list[BlobKey]] = {}
        for key in self.blobs:
            found.setdefault(key[0], []).append(key)
        return found

    def value(self, name: str, stored: StoredValue) -> TypedBytes:
        """A value of the file `name`. Raises `StoreUnavailable` if the file cannot be read."""
        try:
            return stored.typed(self._file(name))
        except OSError as error:
            raise self._broken(name, error) from error

    def bytes(self, name: str, stored: StoredValue) -> bytes:
        """The bytes of a value of the file `name`, of any length. Raises `StoreUnavailable`."""
        try:
            return stored.bytes(self._file(name))
        except (OSError, ValueError) as error:
            raise self._broken(name, error) from error

    def _read(
        self, name: str, reader: Callable[[object, BinaryIO, Ignored], _Table], empty: _Table
    ) -> _Table:
        if name not in self.files.opened:
            return empty
        known = _last.get(name)
        if known is None or known.stamp != self.files.stamps[name]:
            known = _last[name] = self._parsed(name, reader)
        self.ignored += known.ignored
        table: _Table = known.table
        return table

    def _parsed(self, name: str, reader: Callable[[object, BinaryIO, Ignored], object]) -> _Parsed:
        file = self._file(name)
        ignored: Ignored = []
        try:
            table = reader(read_pickle_file(file), file, ignored)
        except OSError as error:
            raise self._broken(name, error) from error
        except ValueError as error:
            raise UnknownLayout(
                f"'{self.files.folder / name}' is not as langgraph dev writes it: {error}",
                hint="the file may be an incomplete copy; no code of it was run",
            ) from error
        return _Parsed(self.files.stamps[name], table, ignored)

    def _file(self, name: str) -> BinaryIO:
        file = self.files.opened[name]
        if file.closed:
            raise StoreUnavailable(f"'{self.files.folder}' is closed")
        return file

    def _broken(self, name: str, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"cannot read '{self.files.folder / name}': {error}")
