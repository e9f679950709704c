"""Reads the objects of `ObjectStorageSaver`.

Names tell threads, namespaces, checkpoints and the tasks of writes; parents, channels and values
are inside. There are no snapshots: what was listed is kept until `refresh`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Unpack

from ckpt_backends import shell
from ckpt_backends.base import BaseStore, thread_of
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    TypedBytes,
    Usage,
    Write,
    in_chunks,
)
from ckpt_backends.objectstorage.engine import BUCKET, CAN, FOLDER
from ckpt_backends.objectstorage.engine.objects import Objects
from ckpt_backends.objectstorage.engine.records import (
    COLUMNS,
    Name,
    checked,
    is_safe,
    name_of,
    opened,
    path_of,
    typed,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    Store,
    WriteOptions,
    WriteQuery,
)
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl

_REMEMBERED, _LOOKED_AT, _AT_ONCE = 200, 20, 16


@dataclass(slots=True)
class Listed:
    """The objects of a thread."""

    checkpoints: list[Name] = field(default_factory=list)
    """By namespace, the newest id first."""
    writes: list[Name] = field(default_factory=list)
    """By namespace, checkpoint, task and idx."""
    parents: dict[CheckpointKey, str | None] = field(default_factory=dict)
    """Those that were read."""

    @property
    def names(self) -> list[Name]:
        """All objects in the order of `Store.rows`."""
        return [*self.writes, *self.checkpoints]


class ObjectStore(BaseStore):
    """A folder or a prefix of a bucket, opened for reading."""

    columns = COLUMNS

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self._known: dict[str, Listed] = {}

    def close(self) -> None:
        self.objects.close()

    def refresh(self) -> None:
        self._known.clear()
        vars(self).pop("_hidden", None)

    def describe(self) -> StoreInfo:
        is_folder = self.objects.is_folder
        return StoreInfo(
            layout=FOLDER if is_folder else BUCKET,
            url=str(self.objects.url),
            engine="files" if is_folder else "S3",
            saver="langgraph-checkpoint-objectstorage, ObjectStorageSaver",
            capabilities=CAN,
            tables=tuple(COLUMNS),
            size=None,
        )

    @cached_property
    def _hidden(self) -> frozenset[str]:
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
        found = Listed()
        if is_safe(thread_id):
            hidden = self._hidden
            for path, size in self.objects.find(f"{thread_id}/"):
                name = None if path in hidden else name_of(path, size)
                if name is not None:
                    (found.writes if name.task else found.checkpoints).append(name)
        found.checkpoints.sort(key=lambda one: one.key, reverse=True)
        found.checkpoints.sort(key=lambda one: one.key.checkpoint_ns)
        found.writes.sort(key=lambda one: (one.key, one.task))
        return found

    def _together(self, ask: Any, given: Iterable[Any]) -> Iterator[Any]:
        """The answers in their order; some requests of a bucket run at the same time."""
        if self.objects.is_folder:
            yield from map(ask, given)
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for some in in_chunks(given, _AT_ONCE):
                yield from pool.map(ask, some)

    # Threads

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        self._hidden  # noqa: B018 - before others ask for it at the same time
        found = [one for one in self._together(self._counted, self.objects.folders()) if one]
        found.sort(key=lambda one: one.last, reverse=True)
        yield from found[:limit]

    def _counted(self, thread_id: str) -> Thread | None:
        listed = self._known.get(thread_id) or self._list(thread_id)
        return thread_of(thread_id, [Checkpoint(one.key, None) for one in listed.checkpoints])

    def thread(self, thread_id: str) -> Thread | None:
        self.listed(thread_id)
        return self._counted(thread_id)

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        ids = (one for one in self.objects.folders() if one.startswith(prefix) and one > after)
        yield from list(ids)[:limit]

    def suspect_threads(self) -> Iterator[str]:
        return iter(self.objects.folders())

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        # Also of threads with nothing but writes.
        for one in self.objects.folders() if thread_id is None else [thread_id]:
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
        for name, data in self._read(chosen):
            fields, problem = _opened(data)
            parent = fields.get("parent_checkpoint_id")
            listed.parents[name.key] = parent if isinstance(parent, str) else None
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
        for name, data in self._read(_chosen(self.listed(thread_id).writes, asked)):
            fields, problem = _opened(data)
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
        for name, data in self._read(self.listed(thread_id).names):
            yield name.row(data)

    def _read(self, names: Iterable[Name]) -> Iterator[tuple[Name, bytes]]:
        """The objects that are still there."""

        def ask(name: Name) -> tuple[Name, bytes | None]:
            return name, self.objects.read(name.path)

        for name, data in self._together(ask, names):
            if data is not None:
                yield name, data

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return map(checked, super().own_rows(thread_id, rows))

    def sources(self, key: CheckpointKey) -> list[str]:
        own = f"{self.objects.root}/{path_of(key._asdict())}"
        writes = own.removesuffix(".msgpack").replace("/checkpoints/", "/writes/")
        if self.objects.is_folder:
            return [own, writes]
        words = ["aws", "s3"]
        return [
            shell.command(*words, "cp", f"s3://{own}", "-"),
            shell.command(*words, "ls", f"s3://{writes}/", "--recursive"),
        ]


def _opened(data: bytes) -> tuple[dict[str, Any], TypedBytes | None]:
    """The fields of an object; if there are none, a value that says why."""
    try:
        return opened(data)[0], None
    except ValueError as error:
        return {}, TypedBytes("", data, problem=str(error))


def _chosen(names: list[Name], asked: CheckpointQuery | WriteQuery) -> list[Name]:
    ns, ids = asked.checkpoint_ns, asked.checkpoint_ids
    wanted = None if ids is None else set(ids)
    return [
        one
        for one in names
        if ns in (None, one.key.checkpoint_ns)
        and (wanted is None or one.key.checkpoint_id in wanted)
    ]


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    return ObjectStore(open_objects(url))


def open_objects(url: StoreUrl) -> Objects:
    """Connect, and look whether the first folders are those of threads, if there are any."""
    objects = Objects(url)
    folders = objects.folders()[:_LOOKED_AT]
    if folders and not any(name_of(path) for one in folders for path, _ in objects.find(f"{one}/")):
        raise UnknownLayout(
            f"no checkpoints of ObjectStorageSaver in '{url}'",
            hint="name its root: the folder of the threads, or s3://BUCKET/PREFIX",
        )
    return objects
