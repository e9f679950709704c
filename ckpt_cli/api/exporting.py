"""Writes the tables of `ckpt sql` to files, a range of threads at a time.

A folder has `plan.ndjson`, the thread ids of each range, and `manifest.json`, the files that are
complete. Both are made before the first file, so that another run can go on after one was stopped.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import Refused, StoreUnavailable
from ckpt_backends.files.atomic_write import (
    create_part,
    make_private_folder,
    remove_unfinished,
    sync_folder,
    to_disk,
    writing,
)
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.model import Thread
from ckpt_cli.api.querying import SqlSource, ThreadChoice
from ckpt_cli.sql.bounds import ALL_ROWS
from ckpt_cli.sql.database import MAIN, SqlDatabase
from ckpt_cli.sql.loading import RowChunk, batched
from ckpt_cli.sql.planning import TableNeed
from ckpt_cli.sql.tables import TABLES
from ckpt_cli.sql.tables.table import QueryTable

if TYPE_CHECKING:
    from ckpt_cli.threads.executor.work import LostThread

PLAN, MANIFEST = "plan.ndjson", "manifest.json"
MOST_THREADS, MOST_CHECKPOINTS = 5_000, 20_000
"""A range ends after so many threads, or checkpoints."""
_LONGEST = 256 << 20
"""Bytes of a manifest that are read."""
_SAVED_AFTER = 5.0
"""Seconds after which the manifest is saved again."""


@dataclass(slots=True)
class Manifest:
    """What a folder is an export of, and which files are complete."""

    path: Path
    about: dict[str, Any]
    """The store, the format, the tables and the choice of threads: the same in each run."""
    files: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    complete: bool = False
    saved_at: float = 0.0

    def save(self) -> None:
        """Write it. Raises `OSError`."""
        record = {
            **self.about,
            "complete": self.complete,
            "files": [self.files[key] for key in sorted(self.files)],
        }
        with writing(self.path) as file:
            file.write(json.dumps(record, ensure_ascii=False, indent=1).encode() + b"\n")
        self.saved_at = time.monotonic()

    def load(self) -> None:
        """Read what another run has done; files that changed since are left out.

        Raises `Refused` if it exported something else, or is malformed, and `StoreUnavailable` if
        it is not a regular file.
        """
        folder = self.path.parent
        try:
            record = _parsed(self.path)
            files = [_sound(one) for one in record["files"]]
            other = [key for key in self.about if record.get(key) != self.about[key]]
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"cannot read '{self.path}'", hint="use an empty folder") from error
        if other:
            raise Refused(
                f"'{folder}' holds another export: {', '.join(other)} differ",
                hint="use an empty folder",
            )
        form, tables = self.about["format"], self.about["tables"]
        self.files = {
            (one["table"], one["part"]): one
            for one in files
            if one["table"] in tables
            and one["file"] == f"{one['table']}/{_name(one['part'], form)}"
            and not one["left_out"]
            and _digest_of(folder / one["file"]) == one["sha256"]
        }


class TableExport:
    """An export into one folder."""

    def __init__(
        self,
        source: SqlSource,
        folder: Path,
        form: str,
        choice: ThreadChoice,
        tables: Sequence[str] = tuple(TABLES),
    ) -> None:
        """`form` is one of `sql.database.FORMATS`."""
        self.left_out: list[LostThread] = []
        """The threads that could not be read, once for each table."""
        self._source = source
        self._folder = folder
        self._form = form
        self._choice = choice
        self._tables = [one for one in TABLES.values() if one.name in tables]
        self._manifest = Manifest(
            folder / MANIFEST,
            {
                "store": source.url,
                "format": form,
                "tables": [one.name for one in self._tables],
                "threads": None if choice.threads is None else list(choice.threads),
                "match": choice.match,
                "where": list(choice.where),
                "redacted": source.is_redacted,
            },
        )

    def files(self) -> Iterator[dict[str, Any]]:
        """Write the files that are missing, and yield what is known of each.

        Raises `Refused` if the folder holds something else, and `StoreUnavailable` if it cannot be
        written.
        """
        manifest = self._manifest
        try:
            self._begin()
            with SqlDatabase(UTC, writes_files=True) as database:
                database.create([MAIN])
                try:
                    for table in self._tables:
                        yield from self._table(database, table)
                    manifest.complete = not any(one["left_out"] for one in manifest.files.values())
                finally:
                    manifest.save()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StoreUnavailable(f"cannot write to '{self._folder}': {reason}") from error

    def _begin(self) -> None:
        make_private_folder(self._folder)
        plan = self._folder / PLAN
        if os.path.lexists(self._manifest.path):
            self._manifest.load()
            return
        left = [one.name for one in self._folder.iterdir() if one.name != PLAN]
        if any(not name.startswith(".") for name in left):
            raise Refused(f"'{self._folder}' is not empty", hint="use an empty folder")
        with writing(plan) as file:
            for part in _ranges(self._source.chosen(self._choice)):
                line = json.dumps([one.thread_id for one in part], ensure_ascii=True)
                file.write(line.encode() + b"\n")
        self._manifest.save()

    def _table(self, database: SqlDatabase, table: QueryTable) -> Iterator[dict[str, Any]]:
        need = TableNeed(MAIN, table.name, table.names, ALL_ROWS)
        if table.items is not None:
            if (table.name, 0) not in self._manifest.files:
                database.load(MAIN, table, table.names, self._source.batches(need, self._choice))
                yield self._written(database, table, 0)
            return
        under_way: deque[tuple[int, Collection[str]]] = deque()
        lost: list[LostThread] = []
        rows = self._source.thread_rows(
            need, self._unwritten(table, under_way), self._choice, lost.extend
        )
        here = next(rows, None)
        while here is not None or under_way:
            part, names = under_way.popleft()

            def chunks_of_part(names: Collection[str] = names) -> Iterator[RowChunk]:
                nonlocal here
                while here is not None and here.thread_id in names:
                    yield from here.chunks
                    here = next(rows, None)

            database.load(MAIN, table, table.names, batched(chunks_of_part(), table.names))
            yield self._written(database, table, part)
        if lost:
            self._note_lost(table, lost)

    def _unwritten(
        self, table: QueryTable, under_way: deque[tuple[int, Collection[str]]]
    ) -> Iterator[Thread]:
        """Yield the threads of the ranges without a file, and tell which ranges these are."""
        for part, names in self._plan():
            if (table.name, part) not in self._manifest.files:
                under_way.append((part, frozenset(names)))
                yield from self._source.named(names)

    def _plan(self) -> Iterator[tuple[int, list[str]]]:
        path = self._folder / PLAN
        with open_regular(path, follow=False) as file:
            for part, line in enumerate(file):
                try:
                    names = json.loads(line)
                except (ValueError, RecursionError):
                    names = None
                if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
                    raise Refused(f"cannot read '{path}'", hint="use an empty folder")
                yield part, names

    def _written(self, database: SqlDatabase, table: QueryTable, part: int) -> dict[str, Any]:
        """Write one file and note it in the manifest."""
        folder = self._folder / table.name
        make_private_folder(folder)
        if folder.is_symlink():
            raise Refused(f"'{folder}' is a symbolic link", hint="use an empty folder")
        path = folder / _name(part, self._form)
        remove_unfinished(folder, path.name.__eq__)
        unfinished, file = create_part(path)
        try:
            with file:
                # By its descriptor: its name may lead to another file meanwhile.
                rows = database.take(table, f"/dev/fd/{file.fileno()}", self._form)
                to_disk(file)
                unfinished.replace(path)
                with os.fdopen(os.dup(file.fileno()), "rb") as written:
                    written.seek(0)
                    digest = file_digest(written, "sha256").hexdigest()
                    size = os.fstat(written.fileno()).st_size
            sync_folder(folder)
        finally:
            with suppress(OSError):
                unfinished.unlink()
        record = {
            "table": table.name,
            "part": part,
            "file": f"{table.name}/{path.name}",
            "rows": rows,
            "bytes": size,
            "sha256": digest,
            "left_out": [],
        }
        self._manifest.files[table.name, part] = record
        if time.monotonic() - self._manifest.saved_at > _SAVED_AFTER:
            self._manifest.save()
        return record

    def _note_lost(self, table: QueryTable, lost: Sequence[LostThread]) -> None:
        """Mark the files that lack a thread: the next run writes them again."""
        names = {one.thread_id for one in lost}
        for part, held in self._plan():
            if missing := sorted(names.intersection(held)):
                self._manifest.files[table.name, part]["left_out"] = missing
        self.left_out += lost


def _ranges(threads: Iterable[Thread]) -> Iterator[list[Thread]]:
    part: list[Thread] = []
    checkpoints = 0
    for one in threads:
        part.append(one)
        checkpoints += one.checkpoints
        if len(part) >= MOST_THREADS or checkpoints >= MOST_CHECKPOINTS:
            yield part
            part, checkpoints = [], 0
    yield part


def _name(part: int, form: str) -> str:
    return f"part-{part:05}.{form}"


def _parsed(path: Path) -> Any:
    with open_regular(path, follow=False) as file:
        return json.loads(file.read(_LONGEST))


def _sound(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest says of a file. Raises `TypeError` if it is malformed."""
    kinds = {"table": str, "part": int, "file": str, "rows": int, "bytes": int, "left_out": list}
    if not all(isinstance(record[key], kind) for key, kind in kinds.items()):
        raise TypeError(record)
    return record


def _digest_of(path: Path) -> str | None:
    """Return the digest of a regular file; None if there is none."""
    try:
        with open_regular(path, follow=False) as file:
            digest = sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            return digest.hexdigest()
    except (OSError, StoreUnavailable):
        return None
