"""SQL over one store or several, for the command and for Python code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ckpt_backends.closing import Closing
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_cli.api.listing import chosen_threads
from ckpt_cli.api.surroundings import Surroundings
from ckpt_cli.api.watch import Watcher, unwatched, watchers
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds
from ckpt_cli.sql.database import MAIN, SqlDatabase
from ckpt_cli.sql.loading import (
    ReadThread,
    RowBatch,
    TableRequest,
    batched,
    chunks,
    table_batches,
    thread_rows,
)
from ckpt_cli.sql.planning import QueryPlanner, TableNeed
from ckpt_cli.sql.results import QueryResult
from ckpt_cli.sql.tables import TABLES
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.url import StoreUrl
    from ckpt_cli.threads.executor.executor import Executor
    from ckpt_cli.threads.executor.work import LostThread


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
        store, around = self._store, self._around
        found = chosen_threads(store, around, choice.threads, choice.match, choice.where, watch)
        if found is not None:
            return found
        if bounds.thread_ids is not None:
            return self.named(bounds.thread_ids)
        return store.threads(limit=choice.newest)

    def named(self, names: Iterable[str]) -> Iterator[Thread]:
        """Yield those of these threads that there are."""
        remaining = iter(names)
        while some := frozenset(islice(remaining, _AT_ONCE)):
            yield from self._store.threads_within(ThreadBounds(ids=some))

    def _executor(self, choice: ThreadChoice) -> Executor:
        return self._around.executor(choice.jobs, choice.cluster, opening=self._opening)

    def _request(self, need: TableNeed) -> TableRequest:
        around = self._around
        return TableRequest(
            need.table, need.columns, self._opening, around.names.prices, around.now, need.bounds
        )

    def _items(self, request: TableRequest) -> Iterator[RowBatch]:
        from ckpt_backends.registry import open_memory

        items = TABLES[request.table].items
        assert items is not None  # noqa: S101
        try:
            memory = open_memory(self._memory_url)
        except (UnknownLayout, Unsupported):
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


class SqlSession(Closing):
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
