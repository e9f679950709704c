"""Adds the parts of threads to the tables of LangGraph's savers, many rows with one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ckpt_backends.errors import Unsupported
from ckpt_backends.sql.database import Loaded, RowRefused, WritableDatabase
from ckpt_backends.sql.queries import SqlTable, SqlTables
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart
from ckpt_backends.url import StoreUrl

_BYTES, _ROWS = 4 << 20, 5000
"""Values and rows that are kept for each table before they are sent."""
_OF_ROW = 100
"""Approximate bytes of the keys of a row."""
_KEY = ("thread_id", "checkpoint_ns")


class _TableRows:
    """Rows of one table that are not sent yet."""

    def __init__(self, database: WritableDatabase, table: SqlTable, columns: Sequence[str]) -> None:
        self.columns = columns
        self.size = 0
        self._database = database
        self._table = table
        self._rows: list[Loaded] = []

    def add(self, row: Loaded, size: int) -> None:
        """Add a row with this size of its values, and send all rows if they are enough."""
        self._rows.append(row)
        self.size += size + _OF_ROW
        if self.size > _BYTES or len(self._rows) >= _ROWS:
            self.send()

    def send(self) -> None:
        """Send the rows that were added. Raises `CannotHold` if the engine refuses one."""
        rows, self._rows, self.size = self._rows, [], 0
        if not rows:
            return
        try:
            self._database.load(self._table.name, self._table.sql, self.columns, rows)
        except RowRefused as error:
            raise CannotHold(f"{self._place(error.row)} cannot be stored: {error}") from None

    def _place(self, row: Loaded) -> str:
        cells = dict(zip(self.columns, row, strict=False))
        if "task_id" in cells:
            return f"the write to '{cells['channel']}' at checkpoint '{cells['checkpoint_id']}'"
        if "checkpoint_id" in cells:
            return f"checkpoint '{cells['checkpoint_id']}'"
        return f"version '{cells['version']}' of channel '{cells['channel']}'"


class Loading:
    """Adds parts to the tables of a saver."""

    def __init__(self, database: WritableDatabase, tables: SqlTables, url: StoreUrl) -> None:
        self.added: Counter[tuple[str, str]] = Counter()
        """By thread and namespace, the number of checkpoints that were added."""
        self._url = url
        hashed = [
            name
            for name in tables.namespace("")
            if name not in _KEY and name in tables.checkpoints.columns
        ]
        self._hash = _hashes(tables) if hashed else None
        typed = () if tables.blobs else ("type",)
        body = ("parent_checkpoint_id", *typed, "checkpoint", "metadata")
        self._has_body_type = bool(typed)
        self._has_paths = tables.task_path
        path = ("task_path",) if tables.task_path else ()
        task = ("task_id", "idx", "channel", "type", next(iter(tables.writes.sizes)), *path)

        def rows_of(table: SqlTable, *columns: str) -> _TableRows:
            return _TableRows(database, table, (*_KEY, *columns, *hashed))

        self._checkpoints = rows_of(tables.checkpoints, "checkpoint_id", *body)
        self._writes = rows_of(tables.writes, "checkpoint_id", *task)
        self._blobs = None
        if tables.blobs:
            self._blobs = rows_of(tables.blobs, "channel", "version", "type", "blob")

    def add(self, parts: Iterable[Part]) -> None:
        """Add parts. Raises `CannotHold` for one that the engine refuses, and `Unsupported`."""
        for part in parts:
            if isinstance(part, WritePart):
                self._add_write(part)
            elif isinstance(part, CheckpointPart):
                self._add_checkpoint(part)
            else:
                data = None if part.value.type == "empty" else part.value.data
                place = part.thread_id, part.checkpoint_ns, part.channel, part.version
                row = self._hashed((*place, part.value.type, data), part.checkpoint_ns)
                assert self._blobs is not None  # noqa: S101 - the form has values apart
                self._blobs.add(row, len(part.value.data))

    def finish(self) -> None:
        """Send what was not sent yet: checkpoints last, which make the rest visible."""
        for rows in (self._blobs, self._writes, self._checkpoints):
            if rows is not None:
                rows.send()

    def _add_checkpoint(self, part: CheckpointPart) -> None:
        key, body, metadata = part.key, part.body, part.metadata
        ns = key.checkpoint_ns
        typed = (body.type,) if self._has_body_type else ()
        place = key.thread_id, ns, key.checkpoint_id, part.parent
        row = self._hashed((*place, *typed, body.data, metadata.data), ns)
        self.added[key.thread_id, ns] += 1
        self._checkpoints.add(row, len(body.data) + len(metadata.data))

    def _add_write(self, part: WritePart) -> None:
        key, value = part.key, part.value
        if self._has_paths:
            path: tuple[str, ...] = (part.task_path,)
        elif part.task_path:
            raise Unsupported(
                f"'{self._url}' has no column for the task paths of writes",
                hint="run setup() of the newest saver once; it adds the column",
            )
        else:
            path = ()
        row = (*key, part.task_id, part.idx, part.channel, value.type, value.data, *path)
        self._writes.add(self._hashed(row, key.checkpoint_ns), len(value.data))

    def _hashed(self, row: Loaded, checkpoint_ns: str) -> Loaded:
        """A row with the hash of its namespace, if the table has one."""
        return row if self._hash is None else (*row, *self._hash(checkpoint_ns))


def _hashes(tables: SqlTables) -> Callable[[str], tuple[object, ...]]:
    """What a row has after its other cells: the hash of its namespace."""
    return cache(lambda ns: tuple(tables.namespace(ns).values()))
