"""SQL and exports, as Python code sees them."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC
from hashlib import file_digest, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckpt_backends import errors
from ckpt_backends.files import (
    create_part,
    make_private_folder,
    open_regular,
    remove_unfinished,
    sync_folder,
    to_disk,
    writing,
)
from ckpt_backends.model import Thread, ThreadBounds, in_chunks
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_cli.api.answer import Surroundings, Watcher, unwatched, watchers
from ckpt_cli.api.store import StoreHandle
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import TriggerInference
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds
from ckpt_cli.sql.database import (
    MAIN,
    QueryResult,
    ReadThread,
    RowBatch,
    RowChunk,
    SqlDatabase,
    TableRequest,
    batched,
    chunks,
    table_batches,
    thread_rows,
)
from ckpt_cli.sql.planning import QueryPlanner, TableNeed
from ckpt_cli.sql.tables import TABLES, QueryTable

if TYPE_CHECKING:
    from ckpt_backends.url import StoreUrl
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.workers import LostThread


_AT_ONCE = 300
"""Threads that one query finds."""


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """Which threads tables are made of; by default all."""

    threads: tuple[str, ...] | None = None
    match: str | None = None
    where: tuple[str, ...] = ()
    jobs: int = 1
    cluster: str | None = None
    watch: Watcher = unwatched
    newest: int | None = None
    """Only so many of all threads."""


class SqlSource:
    """A store whose tables can be read."""

    def __init__(self, store: Store, opening: Opening, around: Surroundings) -> None:
        self._store = store
        self._opening = opening
        self._around = around

    def refresh(self) -> None:
        """See what was saved since the store was opened."""
        self._store.refresh()

    @property
    def url(self) -> str:
        """The URL without secrets."""
        return self._store.describe().url

    @property
    def is_redacted(self) -> bool:
        """Whether sizes and types stand in place of values."""
        return self._opening.redact

    def batches(self, need: TableNeed, choice: ThreadChoice) -> Iterator[RowBatch]:
        """Yield the rows of a table that a query reads."""
        request = self._request(need)
        if TABLES[need.table].items is not None:
            return self._items(request)
        executor = self._executor(choice)
        choosing, reading = watchers(executor, choice.where, choice.watch)
        threads = reading(self.chosen(choice, need.bounds, choosing))
        return table_batches(self._store, executor, request, threads)

    def thread_rows(
        self,
        need: TableNeed,
        threads: Iterable[Thread],
        choice: ThreadChoice,
        lost: Callable[[Sequence[LostThread]], None],
    ) -> Iterator[ReadThread]:
        """Yield the rows of each thread; `lost` is told at the end which were left out."""
        request = self._request(need)
        watched = choice.watch(threads)
        return thread_rows(self._store, self._executor(choice), request, watched, lost)

    def chosen(
        self, choice: ThreadChoice, bounds: RowBounds = ALL_ROWS, watch: Watcher = unwatched
    ) -> Iterable[Thread]:
        """Return the chosen threads, by default all, newest first."""
        store = self._store
        handle = StoreHandle(store, self._around)
        found = handle.chosen(choice.threads, choice.match, choice.where, watch)
        if found is not None:
            return found
        if bounds.thread_ids is not None:
            return self.named(bounds.thread_ids)
        return store.threads(limit=choice.newest)

    def named(self, names: Iterable[str]) -> Iterator[Thread]:
        """Yield those of these threads that there are."""
        for some in in_chunks(names, _AT_ONCE):
            yield from self._store.threads_within(ThreadBounds(ids=frozenset(some)))

    def _executor(self, choice: ThreadChoice) -> Executor:
        return self._around.executor(choice.jobs, choice.cluster, opening=self._opening)

    def _request(self, need: TableNeed) -> TableRequest:
        around = self._around
        return TableRequest(
            need.table, need.columns, self._opening, around.names.prices, around.now, need.bounds
        )

    def _items(self, request: TableRequest) -> Iterator[RowBatch]:
        items = TABLES[request.table].items
        assert items is not None  # noqa: S101
        try:
            memory = open_memory(self._memory_url)
        except (errors.UnknownLayout, errors.Unsupported):
            self._around.note("this store has no long-term memory: the table memory is empty")
            return
        with memory:
            reading = request.reading(self._store, TriggerInference(self._store))
            rows = chunks(items(memory, reading), request.columns)
            yield from batched(rows, request.columns)

    @property
    def _memory_url(self) -> StoreUrl:
        around = self._around
        if self._opening.url == around.names.store_url:
            return around.names.other_store("memory") or self._opening.url
        return self._opening.url


class SqlSession(errors.Closing):
    """Answers queries over some stores, each in a schema of its own; nothing is kept between two.

    The first store is reached without a schema, too.
    """

    def __init__(self, sources: dict[str, SqlSource], around: Surroundings) -> None:
        """Plan for these stores by the names of their schemas. Raises `MissingDependency`."""
        first, *others = sources
        self._sources = {MAIN: sources[first], **{name: sources[name] for name in others}}
        self._aliases = [] if first == MAIN else [first]
        self._around = around
        self.planner = QueryPlanner(tuple(self._sources), self._aliases, around.zone)

    def close(self) -> None:
        """Forget the plans."""
        self.planner.close()

    def refresh(self) -> None:
        """See what was saved in the stores since they were opened."""
        for one in self._sources.values():
            one.refresh()

    def needs(self, query: str, seconds: float | None = None) -> Sequence[TableNeed]:
        """Return what a query reads. Raises `ParseError`, `UsageError` or `Refused`."""
        return self.planner.needs(self.planner.statement(query), seconds)

    @contextmanager
    def asked(
        self, text: str, choice: ThreadChoice, seconds: float | None = None
    ) -> Iterator[QueryResult]:
        """Read what a query needs, run it, and yield its rows.

        `seconds` limits the time of planning, and that after reading.

        Raises `ParseError`, `UsageError` or `Refused`.
        """
        query = self.planner.statement(text)
        with ExitStack() as stack:
            if self.planner.explains(query):
                yield QueryResult(stack.enter_context(self.planner.explained(query, seconds)))
                return
            needs = self.planner.needs(query, seconds)
            database = stack.enter_context(SqlDatabase(self._around.zone))
            database.create(self._sources, self._aliases)
            for need in needs:
                batches = self._sources[need.schema].batches(need, choice)
                database.load(need.schema, TABLES[need.table], need.columns, batches)
            yield QueryResult(stack.enter_context(database.running(query, seconds)))


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
            raise errors.Refused(
                f"cannot read '{self.path}'", hint="use an empty folder"
            ) from error
        if other:
            raise errors.Refused(
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
            reason = errors.reason_of(error)
            raise errors.StoreUnavailable(f"cannot write to '{self._folder}': {reason}") from error

    def _begin(self) -> None:
        make_private_folder(self._folder)
        plan = self._folder / PLAN
        if os.path.lexists(self._manifest.path):
            self._manifest.load()
            return
        left = [one.name for one in self._folder.iterdir() if one.name != PLAN]
        if any(not name.startswith(".") for name in left):
            raise errors.Refused(f"'{self._folder}' is not empty", hint="use an empty folder")
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
                    raise errors.Refused(f"cannot read '{path}'", hint="use an empty folder")
                yield part, names

    def _written(self, database: SqlDatabase, table: QueryTable, part: int) -> dict[str, Any]:
        """Write one file and note it in the manifest."""
        folder = self._folder / table.name
        make_private_folder(folder)
        if folder.is_symlink():
            raise errors.Refused(f"'{folder}' is a symbolic link", hint="use an empty folder")
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
    except (OSError, errors.StoreUnavailable):
        return None
