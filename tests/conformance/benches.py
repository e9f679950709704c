"""The stores that the conformance suite runs on. A new layout adds one class to `BENCHES`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol


class Bench(Protocol):
    """A place where an official saver can write and `ckpt` can read."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None: ...

    @property
    def url(self) -> str:
        """What `ckpt -s` opens it with."""
        ...

    def saver(self) -> AbstractContextManager[Any]:
        """The official saver of the layout, ready to use."""
        ...

    def fingerprint(self) -> object:
        """Equal before and after as long as nothing in the store changed."""
        ...


class SqliteBench:
    """langgraph-checkpoint-sqlite on a file."""

    name: ClassVar[str] = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.db"

    @property
    def url(self) -> str:
        return str(self.path)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.sqlite import SqliteSaver

        with closing(sqlite3.connect(self.path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def fingerprint(self) -> object:
        return self.path.read_bytes()


BENCHES: list[type[Bench]] = [SqliteBench]
