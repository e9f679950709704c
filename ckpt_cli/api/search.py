"""A search of threads, as Python code sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.watch import Watcher, unwatched
from ckpt_cli.core.search.patterns import compile_pattern, stopped_text
from ckpt_cli.queries.grep import GrepHit, GrepQuery, Searched, grep_threads
from ckpt_cli.render.grep import hit_record
from ckpt_cli.threads.executor.executor import Executor


class SearchHits(Iterator[Answer[GrepHit]]):
    """Yields the hits, thread by thread. A thread is searched when its first hit is asked for.

    A value that cannot be read raises nothing: look at `missed` after the last hit.
    """

    def __init__(self, threads: Iterator[Searched]) -> None:
        self._hits = self._of(threads)
        self.unread = 0
        """Number of values so far that could not be read, or only in part."""
        self.stopped = 0
        """Number of lines so far on which the pattern took too long."""

    @property
    def missed(self) -> str:
        """What was not searched so far, as text; empty if everything was."""
        unread = f"{self.unread} values could not be read completely" if self.unread else ""
        return " and ".join(filter(None, [unread, stopped_text(self.stopped)]))

    def __next__(self) -> Answer[GrepHit]:
        return next(self._hits)

    def _of(self, threads: Iterator[Searched]) -> Iterator[Answer[GrepHit]]:
        for searched in threads:
            self.unread += searched.unread
            self.stopped += searched.stopped
            for hit in searched.hits:
                yield Answer(hit, hit_record)


def start_search(
    store: Store,
    executor: Executor,
    threads: Iterable[Thread],
    wanted: GrepQuery,
    watch: Watcher = unwatched,
) -> SearchHits:
    """Search threads in their order. Raises `UsageError` if the pattern cannot be read."""
    compile_pattern(wanted.pattern, fixed=wanted.fixed, ignore_case=wanted.ignore_case)
    return SearchHits(iter(watch(grep_threads(store, executor, threads, wanted))))
