"""The rows of one real thread, and any number of copies of them at other times.

All parts of a row that depend on checkpoint ids change with them: parents, the ids and times inside
bodies, the task ids hashed from checkpoint ids, and the interrupt ids hashed from task ids. All of
these keep their length, so nothing else in a row moves.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import ormsgpack
from xxhash import xxh3_128_hexdigest

Row = tuple[Any, ...]

CHECKPOINTS = (
    "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata"
)
WRITES = "thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value"
_PULL = re.compile(r"~__pregel_pull, (.+)")
_PUSH = re.compile(r"~__pregel_push, (\d{10}), 0000000000")


@dataclass(frozen=True, slots=True)
class _Task:
    """What a task's id is hashed from."""

    checkpoint_id: str
    text: str
    node: str

    def id_at(self, checkpoint_id: str) -> str:
        digest = xxh3_128_hexdigest(UUID(checkpoint_id).bytes + self.text.encode())
        return str(UUID(digest))


class Template:
    """The rows of one thread, cut at the places that change in a copy."""

    def __init__(
        self, connection: sqlite3.Connection, thread_id: str, triggers: Mapping[str, Sequence[str]]
    ) -> None:
        checkpoints = _rows(connection, "checkpoints", CHECKPOINTS, thread_id)
        writes = _rows(connection, "writes", WRITES, thread_id)
        bodies = {
            row[2]: ormsgpack.unpackb(row[5], ext_hook=lambda *_: None) for row in checkpoints
        }
        self._thread_id = thread_id
        self._times = {checkpoint_id: body["ts"] for checkpoint_id, body in bodies.items()}
        steps = {row[2]: int(_step(row[6])) + 1 for row in checkpoints}
        self._tasks = {
            row[3]: _task(row[3], row[4], row[2], steps[row[2]], triggers) for row in writes
        }
        holes = [*self.names(thread_id, timedelta())]
        pattern = re.compile(b"(" + b"|".join(re.escape(hole.encode()) for hole in holes) + b")")
        self._checkpoints = [tuple(_cut(pattern, value) for value in row) for row in checkpoints]
        self._writes = [tuple(_cut(pattern, value) for value in row) for row in writes]

    def names(self, thread_id: str, earlier: timedelta) -> dict[str, str]:
        """Return old to new text of everything that changes in a copy that is older by whole
        seconds.
        """
        ids = {old: shifted(old, earlier) for old in self._times}
        names = {self._thread_id: thread_id, **ids}
        for ts in self._times.values():
            names[ts] = (datetime.fromisoformat(ts) - earlier).isoformat()
        for old, task in self._tasks.items():
            new = names[old] = task.id_at(ids[task.checkpoint_id])
            names[_interrupt_id(task, old)] = _interrupt_id(task, new)
        return names

    def copy(self, thread_id: str, earlier: timedelta) -> tuple[Iterator[Row], Iterator[Row]]:
        """Return the rows of `checkpoints` and of `writes` of another thread."""
        names = {old.encode(): new for old, new in self.names(thread_id, earlier).items()}
        encoded = {old: new.encode() for old, new in names.items()}

        def fill(value: Any) -> Any:
            if isinstance(value, _Text):
                return "".join(names.get(part, part.decode()) for part in value.parts)
            if isinstance(value, _Blob):
                return b"".join(encoded.get(part, part) for part in value.parts)
            return value

        return (
            (tuple(map(fill, row)) for row in self._checkpoints),
            (tuple(map(fill, row)) for row in self._writes),
        )


@dataclass(frozen=True, slots=True)
class _Text:
    """A text column, cut before and after each hole."""

    parts: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class _Blob:
    """A blob column, cut in the same way."""

    parts: Sequence[bytes]


def shifted(checkpoint_id: str, earlier: timedelta) -> str:
    """Return a UUIDv6 moved back in time; its clock sequence (the step) and node stay the same."""
    number = UUID(checkpoint_id).int
    ticks = (number >> 80) << 12 | number >> 64 & 0xFFF
    ticks -= earlier // timedelta(microseconds=1) * 10
    return str(UUID(int=(ticks >> 12) << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | number & _LOW))


_LOW = (1 << 64) - 1


def _rows(connection: sqlite3.Connection, table: str, columns: str, thread_id: str) -> list[Row]:
    order = "checkpoint_id" if table == "checkpoints" else "rowid"
    sql = f"SELECT {columns} FROM {table} WHERE thread_id = ? ORDER BY {order}"
    return connection.execute(sql, [thread_id]).fetchall()


def _step(metadata: bytes) -> str:
    found = re.search(rb'"step": (-?\d+)', metadata)
    assert found is not None
    return found[1].decode()


def _task(
    task_id: str, path: str, checkpoint_id: str, step: int, triggers: Mapping[str, Sequence[str]]
) -> _Task:
    """Return the parts that hash to this id; checks the way of hashing on every task."""
    if pulled := _PULL.fullmatch(path):
        candidates = {pulled[1]: f"__pregel_pull{''.join(triggers[pulled[1]])}"}
    else:
        pushed = _PUSH.fullmatch(path)
        assert pushed is not None, path
        candidates = {node: f"__pregel_push{int(pushed[1])}" for node in triggers}
    for node, rest in candidates.items():
        task = _Task(checkpoint_id, f"{node}{step}{node}{rest}", node)
        if task.id_at(checkpoint_id) == task_id:
            return task
    raise AssertionError(f"the id of the task {path} is hashed in another way")


def _interrupt_id(task: _Task, task_id: str) -> str:
    return xxh3_128_hexdigest(f"{task.node}:{task_id}".encode())


def _cut(pattern: re.Pattern[bytes], value: Any) -> Any:
    data = value.encode() if isinstance(value, str) else value
    if not isinstance(data, bytes) or pattern.search(data) is None:
        return value
    parts = pattern.split(data)
    return _Text(parts) if isinstance(value, str) else _Blob(parts)
