"""Reads stores of objects. There are no snapshots: what was listed is kept until `refresh`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Unpack

from ckpt_backends.base import BaseStore, thread_of
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread, TypedBytes, Usage, Write
from ckpt_backends.objects import PARENT, Name, Objects
from ckpt_backends.objects.records import typed
from ckpt_backends.protocol import CheckpointOptions, CheckpointQuery, WriteOptions, WriteQuery
from ckpt_backends.rows import Row

_REMEMBERED = 200


@dataclass(slots=True)
class Listed:
    """The objects of a thread."""

    checkpoints: list[Name] = field(default_factory=list)
    """By namespace, the newest id first."""
    writes: list[Name] = field(default_factory=list)
    """In the order of `ObjectStore.order_of_write`."""
    parents: dict[CheckpointKey, str | None] = field(default_factory=dict)
    """Those that were read or listed."""

    @property
    def names(self) -> list[Name]:
        """All objects in the order of `Store.rows`."""
        return [*self.writes, *self.checkpoints]


class ObjectStore(BaseStore):
    """Objects, opened for reading."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._known: dict[str, Listed] = {}

    @abstractmethod
    def opened(self, data: Any) -> tuple[Mapping[str, Any], TypedBytes | None]:
        """The fields of an object; if there are none, a value that says why.

        A checkpoint has `parent_checkpoint_id`, and pairs of a type and bytes in `checkpoint` and
        `metadata`; a write has `channel`, `type` and `value`.
        """

    @abstractmethod
    def row(self, name: Name, data: Any) -> Row:
        """An object as a row. Raises `CannotHold` if it has more than its saver stores."""

    def close(self) -> None:
        self.objects.close()

    def refresh(self) -> None:
        self._known.clear()
        vars(self).pop("hidden", None)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The objects that are not there yet, or not any more, since a change is under way."""
        found = self.objects.unfinished()
        return frozenset(
            chain.from_iterable(
                one.removed if self.objects.is_done(one) else one.added for one in found
            )
        )

    def listed(self, thread_id: str) -> Listed:
        """The objects of a thread."""
        if thread_id not in self._known:
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[thread_id] = self._list(thread_id)
        return self._known[thread_id]

    def _list(self, thread_id: str) -> Listed:
        found, hidden = Listed(), self.hidden
        for name in self.objects.names(thread_id):
            if name.path not in hidden:
                (found.writes if name.task else found.checkpoints).append(name)
                if name.task is None and name.parent is not None:
                    found.parents[name.key] = name.parent or None
        found.checkpoints.sort(key=lambda one: one.key, reverse=True)
        found.checkpoints.sort(key=lambda one: one.key.checkpoint_ns)
        found.writes.sort(key=self.order_of_write)
        return found

    def order_of_write(self, name: Name) -> Any:
        """What writes are sorted by: their checkpoint first."""
        return name.key, name.task

    # Threads

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        self.hidden  # noqa: B018 - before others ask for it at the same time
        counted = self.objects.together(self._counted, self.objects.thread_ids())
        found: list[Any] = [one for one in counted if one is not None]
        found.sort(key=lambda one: one.last, reverse=True)
        yield from found[:limit]

    def _counted(self, thread_id: str) -> Thread | None:
        listed = self._known.get(thread_id) or self._list(thread_id)
        return thread_of(thread_id, [Checkpoint(one.key, None) for one in listed.checkpoints])

    def thread(self, thread_id: str) -> Thread | None:
        self.listed(thread_id)
        return self._counted(thread_id)

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        yield from [one for one in self.objects.thread_ids(prefix) if one > after][:limit]

    def suspect_threads(self) -> Iterator[str]:
        return iter(self.objects.thread_ids())

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        # Also of threads with nothing but writes.
        for one in self.objects.thread_ids() if thread_id is None else [thread_id]:
            yield from super().usage(one)

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({one.key.checkpoint_ns for one in self.listed(thread_id).checkpoints})

    def threads_with_rows(self, thread_ids: Collection[str]) -> set[str]:
        return {one for one in thread_ids if self.listed(one).names}

    # Checkpoints and writes

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked, listed = CheckpointQuery(**options), self.listed(thread_id)
        chosen = _chosen(listed.checkpoints, asked)
        if not (asked.body or asked.metadata) and all(one.key in listed.parents for one in chosen):
            yield from (Checkpoint(one.key, listed.parents[one.key]) for one in chosen)
            return
        for name, data in self.read(chosen):
            fields, problem = self.opened(data)
            parent = fields.get(PARENT)
            listed.parents[name.key] = parent if isinstance(parent, str) and parent else None
            body, metadata = (
                problem or typed(fields.get(one)) for one in ("checkpoint", "metadata")
            )
            yield Checkpoint(
                name.key,
                listed.parents[name.key],
                body if asked.body else None,
                metadata if asked.metadata else None,
            )

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        for name, data in self.read(_chosen(self.listed(thread_id).writes, asked)):
            fields, problem = self.opened(data)
            channel = str(fields.get("channel", ""))
            value = problem or typed([fields.get("type"), fields.get("value")])
            if asked.channels is not None and channel not in asked.channels:
                continue
            is_read = asked.values if isinstance(asked.values, bool) else channel in asked.values
            task_id, idx = name.task or ("", 0)
            yield Write(
                name.key, task_id, "", idx, channel, len(value.data), value if is_read else None
            )

    def rows(self, thread_id: str) -> Iterator[Row]:
        for name, data in self.read(self.listed(thread_id).names):
            yield self.row(name, data)

    def read(self, names: Iterable[Name]) -> Iterator[tuple[Name, Any]]:
        """The objects that are still there, in this order."""

        def ask(name: Name) -> tuple[Name, bytes | None]:
            return name, self.objects.read(name.path)

        for name, data in self.objects.together(ask, names):
            if data is not None:
                yield name, data


def _chosen(names: list[Name], asked: CheckpointQuery | WriteQuery) -> list[Name]:
    ns, ids = asked.checkpoint_ns, asked.checkpoint_ids
    wanted = None if ids is None else set(ids)
    return [
        one
        for one in names
        if ns in (None, one.key.checkpoint_ns)
        and (wanted is None or one.key.checkpoint_id in wanted)
    ]
