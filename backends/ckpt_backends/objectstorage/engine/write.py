"""Changes the objects of `ObjectStorageSaver`."""

from __future__ import annotations

from ckpt_backends.changes import BACKUPS, Remaining, Remains
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Progress, Record, silent
from ckpt_backends.objects import KEY
from ckpt_backends.objects.records import row_of
from ckpt_backends.objects.write import WritableObjectStore
from ckpt_backends.objectstorage.engine import records
from ckpt_backends.objectstorage.engine.records import PLACE, path_of
from ckpt_backends.objectstorage.engine.store import FileObjectStore, open_objects
from ckpt_backends.overwriting import OldFiles
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Row
from ckpt_backends.url import StoreUrl

_FILES = Remaining("versions of objects", "a bucket that keeps versions has what was changed here")


class WritableFileObjectStore(WritableObjectStore):
    """A folder or a prefix of a bucket, opened for changing."""

    def __init__(self, store: FileObjectStore) -> None:
        super().__init__(store)
        self._files = store.objects

    def object_of(self, row: Row) -> tuple[str, bytes]:
        path, data = path_of(row.cells), records.object_of(row)
        place = row.cells.get(PLACE)
        if place not in {None, "/".join(str(row.cells[name]) for name in KEY)}:
            raise Unsupported(
                "an object that its saver encrypted cannot be copied: its place is part of the key",
                hint="copy the thread with the saver, which has the key",
            )
        return path, data

    def row_of(self, record: Record) -> Row:
        return row_of(record)

    def begin_erasure(self) -> None:
        if self._files.is_folder:
            self._files.old = self._files.old or OldFiles()
        super().begin_erasure()

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        if self._files.old is None:
            return Remains(places=(_FILES, BACKUPS))
        progress("overwrite old files")
        return self._files.old.remains()


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    return WritableFileObjectStore(FileObjectStore(open_objects(url)))
