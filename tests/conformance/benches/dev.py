"""Folders of `langgraph dev`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.conformance.benches.bench import Bench
from tests.dev import FileSaver, stored
from tests.servers import Server


class DevBench(Bench):
    """The in-memory saver, with its dicts in files."""

    name: ClassVar[str] = "langgraph-dev"
    server: ClassVar[str | None] = None

    def __init__(self, folder: Path, server: Server | None) -> None:
        self.path = folder / ".langgraph_api"

    @property
    def url(self) -> str:
        return str(self.path)

    @contextmanager
    def saver(self) -> Iterator[Any]:
        # Do not store at each `put` during the first fill, which would take long.
        saver = FileSaver(self.path, at_each_put=self.path.exists())
        yield saver
        saver.sync()

    def forget(self, saver: Any, thread_id: str) -> None:
        saver.delete_thread(thread_id)
        saver.sync()

    def fingerprint(self) -> object:
        return stored(self.path)

    def close(self) -> None:
        """The folder is removed by pytest."""
