"""The layout of LangGraph's savers that keep values in a table of blobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ckpt_backends.sql.blob_tables import why_only_read

Table = TypeVar("Table", bound=Any)


@dataclass(frozen=True, slots=True)
class BlobLayout(Generic[Table]):
    """The layout as found in one database."""

    checkpoints: Table
    blobs: Table
    writes: Table
    shallow: bool
    """Whether it stores only the newest state, without checkpoint ids and versions."""
    unknown: tuple[str, ...]
    """What no known saver creates, such as `table.column`. A newer saver may have done so."""

    required: tuple[str, ...]
    """Of the unknown columns, those that have no default and must have a value."""

    @property
    def only_read(self) -> str:
        """Why `ckpt` adds nothing to the tables; `''` if it does."""
        return why_only_read(self.unknown, self.required)

    @property
    def task_path(self) -> bool:
        """Whether the writes have the column `task_path`."""
        return bool("task_path" in self.writes.columns)

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.checkpoints, self.blobs, self.writes
