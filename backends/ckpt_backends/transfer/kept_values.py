"""Keeps the values of a thread until the checkpoints come that name them, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ckpt_backends.files.temporary_folder import TemporaryFolder
from ckpt_backends.model import TypedBytes

if TYPE_CHECKING:
    import sqlite3

_IN_MEMORY = 64 << 20
"""Bytes that are kept in memory; further values go to a temporary file."""

Place: TypeAlias = tuple[str, str, str]
"""Namespace, channel and version."""


class KeptValues:
    """Values by namespace, channel and version."""

    def __init__(self) -> None:
        self._values: dict[Place, TypedBytes] = {}
        self._size = 0
        self._folder: TemporaryFolder | None = None
        self._file: sqlite3.Connection | None = None

    def put(self, place: Place, value: TypedBytes) -> None:
        """Keep a value."""
        if self._size + len(value.data) <= _IN_MEMORY:
            self._size += len(value.data)
            self._values[place] = value
            return
        if self._file is None:
            import sqlite3  # few threads need it

            self._folder = TemporaryFolder()
            self._file = sqlite3.connect(self._folder.path / "values.db", isolation_level=None)
            self._file.execute("PRAGMA journal_mode = OFF")
            self._file.execute(
                "CREATE TABLE kept (ns TEXT, channel TEXT, version TEXT, type TEXT, data BLOB,"
                " PRIMARY KEY (ns, channel, version)) WITHOUT ROWID"
            )
        query = "INSERT OR REPLACE INTO kept VALUES (?, ?, ?, ?, ?)"
        self._file.execute(query, (*_bytes(place), value.type, value.data))

    def get(self, place: Place) -> TypedBytes | None:
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
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


def _bytes(place: Place) -> tuple[bytes, ...]:
    # SQLite's texts cannot hold surrogates.
    return tuple(text.encode("utf-8", "surrogatepass") for text in place)
