"""The parts of a thread of langgraph-checkpoint-plainredis. Needs no server.

Keys are not escaped, so the registry tells them apart. `thread_keys` returns its rows first.
In archives of earlier releases, these rows come later; then all rows before them are in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ckpt_backends.apps.plainredis.stored_values import stored_checkpoint, stored_write, unwrapped
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.row_cells import ABOUT
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, ValuePart, WritePart

BLOBS, WRITES, TIMELINE, THREADS = "checkpoint_blobs", "writes", "idx", "threads"
"""The kinds of the keys."""


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:  # noqa: ARG001
    """The parts that the rows of one thread hold. Raises `CannotHold`."""
    registry = _Registry()
    waiting: list[Row] = []
    for row in rows:
        if row.table == THREADS:
            registry.add(row)
        elif row.table == TIMELINE:
            registry.order(row)
        elif not registry.spaces:
            waiting.append(row)
        else:
            yield from map(registry.part, waiting)
            waiting.clear()
            yield registry.part(row)
    yield from map(registry.part, waiting)
    registry.check_heads()


@dataclass
class _Registry:
    """What is known of a thread's namespaces."""

    prefix: str = ""
    spaces: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the part THREAD:NS of its keys, the thread and the namespace."""
    _scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """By key of a timeline and checkpoint id, its place."""
    _ids: dict[str, set[str]] = field(default_factory=dict)
    """By namespace, the checkpoints that are there."""

    def add(self, row: Row) -> None:
        self.prefix = str(row.cells["key"]).removesuffix(f":{THREADS}")
        told = json.loads(_content(row))
        thread_id, ns = str(told["thread"]), str(told["ns"])
        self.spaces[f"{thread_id}:{ns}"] = thread_id, ns

    def order(self, row: Row) -> None:
        """Remember the order of the checkpoints in a timeline."""
        self._scores[str(row.cells["key"])] = {
            name[1:]: float(str(cell)) for name, cell in row.cells.items() if name not in ABOUT
        }

    def check_heads(self) -> None:
        """Raise `CannotHold` if a head, which was stored last, has not the greatest id.

        Other savers would go on from another checkpoint.
        """
        for place, (_, ns) in self.spaces.items():
            scores = self._scores.get(f"{self.prefix}:idx:{place}", {})
            ids = self._ids.get(ns, set())
            head = max(ids, key=lambda one: (scores.get(one, 0.0), one), default="")
            if head != max(ids, default=""):
                raise CannotHold(
                    f"checkpoint '{head}' was stored last, but has not the greatest id, by which"
                    " other savers find the newest one"
                )

    def part(self, row: Row) -> Part:
        name, at = str(row.cells["key"]), row.cells.get("expires_at")
        expires_at = at if isinstance(at, int) else None
        value = unwrapped(_content(row))
        match row.table:
            case "checkpoint":
                return self._checkpoint(name, value, expires_at)
            case "writes":
                task_id, _, idx = _field(row).rpartition(":")
                channel, stored = stored_write(value)
                key = self._key(name, "wr")
                where = f"a write at checkpoint '{key.checkpoint_id}'"
                return WritePart(
                    key, task_id, "", int(idx), channel, _read(stored, where), expires_at
                )
            case "checkpoint_blobs":
                thread_id, ns, rest = self._place(name, "blob")
                channel, _, version = rest.rpartition(":")
                where = f"version '{version}' of channel '{channel}'"
                return ValuePart(thread_id, ns, channel, version, _read(value, where), expires_at)
        raise Unsupported(f"a row of the unknown kind '{row.table}'")

    def _checkpoint(self, name: str, value: TypedBytes, expires_at: int | None) -> CheckpointPart:
        key = self._key(name, "cp")
        self._ids.setdefault(key.checkpoint_ns, set()).add(key.checkpoint_id)
        found = stored_checkpoint(value)
        where = f"checkpoint '{key.checkpoint_id}'"
        body, metadata = _read(found.body, where), _read(found.metadata, where)
        return CheckpointPart(key, found.parent, body, metadata, expires_at)

    def _key(self, name: str, kind: str) -> CheckpointKey:
        thread_id, ns, own = self._place(name, kind)
        return CheckpointKey(thread_id, ns, own)

    def _place(self, name: str, kind: str) -> tuple[str, str, str]:
        """Thread, namespace, and the rest of a key. The longest namespace that fits is meant."""
        rest = name.removeprefix(f"{self.prefix}:{kind}:")
        fitting = [one for one in self.spaces if rest.startswith(f"{one}:")]
        if not fitting:
            raise CannotHold(f"the key '{name}' belongs to no namespace of the thread")
        found = max(fitting, key=len)
        return *self.spaces[found], rest[len(found) + 1 :]


def _read(value: TypedBytes, where: str) -> TypedBytes:
    if value.problem:
        raise CannotHold(f"{where} cannot be read: {value.problem}")
    return value


def _content(row: Row) -> bytes:
    found = next(cell for name, cell in row.cells.items() if name not in ABOUT)
    return found if isinstance(found, bytes) else b""


def _field(row: Row) -> str:
    name = next(name for name in row.cells if name not in ABOUT)
    return name[1:]
