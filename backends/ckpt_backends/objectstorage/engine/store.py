"""Reads the objects of `ObjectStorageSaver`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import CheckpointKey, StoreInfo, TypedBytes
from ckpt_backends.objects import Name
from ckpt_backends.objects.store import ObjectStore
from ckpt_backends.objectstorage.engine import BUCKET, CAN, FOLDER
from ckpt_backends.objectstorage.engine.objects import FileObjects
from ckpt_backends.objectstorage.engine.records import COLUMNS, checked, opened, path_of, row_at
from ckpt_backends.protocol import Store
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl

_LOOKED_AT = 20


class FileObjectStore(ObjectStore):
    """A folder or a prefix of a bucket, opened for reading."""

    columns = COLUMNS
    objects: FileObjects

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

    def opened(self, data: bytes) -> tuple[Mapping[str, Any], TypedBytes | None]:
        try:
            return opened(data)[0], None
        except ValueError as error:
            return {}, TypedBytes("", data, problem=str(error))

    def row(self, name: Name, data: bytes) -> Row:
        return row_at(name, data)

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


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    return FileObjectStore(open_objects(url))


def open_objects(url: StoreUrl) -> FileObjects:
    """Connect, and look whether the first folders are those of threads, if there are any."""
    objects = FileObjects(url)
    folders = objects.thread_ids()[:_LOOKED_AT]
    if folders and not any(True for one in folders for _ in objects.names(one)):
        raise UnknownLayout(
            f"no checkpoints of ObjectStorageSaver in '{url}'",
            hint="name its root: the folder of the threads, or s3://BUCKET/PREFIX",
        )
    return objects
