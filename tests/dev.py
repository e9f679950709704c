"""LangGraph's in-memory saver on files, as `langgraph dev` sets it up."""

from __future__ import annotations

import os
from pathlib import Path
from threading import RLock
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver, PersistentDict


class FileSaver(InMemorySaver):
    """Stores its files at each `put`, as the server does every 10 seconds."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._lock = RLock()
        self._names = iter((1, 2, 3))
        super().__init__(factory=self._make)  # type: ignore[arg-type]

    def _make(self, *args: Any) -> PersistentDict:
        name = self.folder / f".langgraph_checkpoint.{next(self._names)}.pckl"
        made = PersistentDict(*args, filename=os.fspath(name))
        if name.exists():
            made.load()
        return made

    @property
    def tables(self) -> list[PersistentDict]:
        """The three files."""
        return [self.storage, self.writes, self.blobs]  # type: ignore[list-item]

    def sync(self) -> None:
        """Store all files, as at the end of the server."""
        with self._lock:
            for table in self.tables:
                table.sync()

    def put(self, *args: Any, **named: Any) -> Any:
        with self._lock:
            done = super().put(*args, **named)
            self.sync()
        return done

    def put_writes(self, *args: Any, **named: Any) -> None:
        with self._lock:
            super().put_writes(*args, **named)


def stored(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
