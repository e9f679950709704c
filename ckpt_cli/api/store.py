"""A store, as Python code sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt_backends.errors import Closing, NotFound, UsageError
from ckpt_backends.model import StoreInfo, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.api import answer
from ckpt_cli.queries.threads import SORTS, Selection, filtered_threads, list_threads, parse_status
from ckpt_cli.reading.target import NamedThread, Target, TargetArguments, find_named, find_thread
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

if TYPE_CHECKING:
    from ckpt_cli.api.memory import MemoryHandle
    from ckpt_cli.api.questions import Examination, SearchHits, SecretSearch
    from ckpt_cli.api.thread import CheckpointHandle, ThreadHandle
    from ckpt_cli.core.compat import GraphFile
    from ckpt_cli.core.replay import Replayed
    from ckpt_cli.core.stats import Stats
    from ckpt_cli.core.users import UserKey
    from ckpt_cli.queries.heads import ListedThread
    from ckpt_cli.queries.incidents import Failure, FailureGroup, Waiting
    from ckpt_cli.queries.memory import JoinedSession
    from ckpt_cli.queries.tail import Movement
    from ckpt_cli.queries.usage import By, StatsQuery, StoreMetrics, Survey
    from ckpt_cli.render.compat import Compatibility


class StoreHandle(Closing):
    """A store that is open for reading. `ckpt_cli.open` returns one.

    Threads and checkpoints that it returns read when they are asked, so use them before the store
    is closed.
    """

    def __init__(self, store: Store, around: answer.Surroundings) -> None:
        self._store = store
        self._around = around
        self._inference = TriggerInference(store)

    def close(self) -> None:
        """Close the connection or the file."""
        if "memory" in self.__dict__:
            self.memory.close()
        self._store.close()

    def refresh(self) -> None:
        """See what was saved since the store was opened or last refreshed."""
        if "memory" in self.__dict__:
            self.memory.refresh()
        self._store.refresh()

    @property
    def info(self) -> StoreInfo:
        """The store's URL without secrets, its layout, saver, engine, size and capabilities."""
        return self._store.describe()

    def __getitem__(self, thread_id: str) -> ThreadHandle:
        """Return the thread with this id. Raises `NotFound`."""
        return self.thread(thread_id)

    def __contains__(self, thread_id: str) -> bool:
        return self._store.thread(thread_id) is not None

    def thread(self, thread_id: str) -> ThreadHandle:
        """Return the thread with this id. Raises `NotFound` with ids that are similar."""
        return self._handle(find_thread(self._store, thread_id, self._around.note))

    def newest(self) -> ThreadHandle:
        """Return the thread that was active last. Raises `NotFound` if there is none."""
        for newest in self._store.threads(limit=1):
            return self._handle(self._reader(newest))
        raise NotFound("this store has no threads")

    def at(
        self, target: str, *, ns: str | None = None, as_of: answer.When | None = None
    ) -> CheckpointHandle:
        """Return the checkpoint that `THREAD` or `THREAD@REF` names, as on the command line.

        `ns` names a namespace. `as_of` is a time: the checkpoint that was the head then.
        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        time = None if as_of is None else answer.time_text(self._around, as_of)
        return self.checkpoint(self.named(TargetArguments(target, ns=ns, as_of=time)))

    def named(self, words: TargetArguments) -> NamedThread:
        """Return what the words of a command line name: a thread, perhaps with a ref."""
        return find_named(self._store, words, self._around.note)

    def checkpoint(self, named: NamedThread) -> CheckpointHandle:
        """Return the checkpoint of what was named; of a thread alone, its head."""
        # A head has no time, and time zones take a while to read.
        zone = self._around.zone if named.has_ref else UTC
        return self.checkpoint_of(named.checkpoint(self._around.now, zone))

    def checkpoint_of(self, target: Target) -> CheckpointHandle:
        """Return a checkpoint that was found in this store."""
        from ckpt_cli.api.thread import CheckpointHandle

        return CheckpointHandle(self._handle(target.reader), target)

    def __iter__(self) -> Iterator[ThreadHandle]:
        """Yield all threads, newest first."""
        return self.threads()

    def threads(
        self,
        where: str | Sequence[str] | None = None,
        *,
        status: str | Sequence[str] | None = None,
        match: str | None = None,
        since: answer.When | None = None,
        until: answer.When | None = None,
        user: str | None = None,
        sort: str = "last",
        limit: int | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> Iterator[ThreadHandle]:
        """Yield threads, newest first, with the options of `ckpt threads list`.

        `where` is a filter such as `status = error and idle > 2h` (`docs/filters.md`), or several
        that must all hold. `match` is a pattern for ids. `since` and `until` limit the last
        activity, by an age such as `7d` or a time. Raises `UsageError`.
        """
        chosen = self.listed(
            where,
            status=status,
            match=match,
            since=since,
            until=until,
            user=user,
            sort=sort,
            limit=limit,
            details=False,
            watch=watch,
        )
        return (self._handle(self._reader(row.found.thread)) for row in chosen)

    def _handle(self, reader: ThreadReader) -> ThreadHandle:
        # Imported late, like all about one thread: lists do not need it.
        from ckpt_cli.api.thread import ThreadHandle

        return ThreadHandle(reader, self._around)

    def _reader(self, thread: Thread) -> ThreadReader:
        return ThreadReader(self._store, thread, self._inference)

    def listed(
        self,
        where: str | Sequence[str] | None = None,
        *,
        status: str | Sequence[str] | None = None,
        match: str | None = None,
        since: answer.When | None = None,
        until: answer.When | None = None,
        user: str | None = None,
        sort: str = "last",
        skip: int = 0,
        limit: int | None = None,
        details: bool = True,
        sizes: bool = False,
        first_messages: bool = False,
        titles: bool = False,
        watch: answer.Watcher = answer.unwatched,
    ) -> Iterator[answer.Answer[ListedThread]]:
        """Yield what `ckpt threads list` prints of each thread; the options are those of `threads`.

        `skip` leaves out the first threads. Without `details`, heads are read only if a filter
        needs them. `sizes` adds the stored bytes, `first_messages` the first message by a human,
        `titles` its first line, which ids that say nothing always have.
        """
        from ckpt_cli.render.threads import LISTED

        around = self._around
        order = next((known for known in SORTS if known == sort), None)
        if order is None:
            raise UsageError(f"cannot sort by '{sort}'", hint=f"use one of {', '.join(SORTS)}")
        wanted = Selection(
            match,
            answer.time_of(around, since),
            answer.time_of(around, until),
            frozenset(map(parse_status, answer.texts(status))),
            user,
            answer.filter_of(around, where),
        )
        rows = list_threads(
            self._store,
            wanted,
            sort=order,
            details=details,
            sizes=sizes,
            first_messages=first_messages,
            titles=titles,
            skip=skip,
            limit=limit,
            now=around.now,
            watch=watch,
        )
        return (answer.Answer(row, LISTED.record) for row in rows)

    def chosen(
        self,
        threads: str | Iterable[str] | None,
        match: str | None,
        where: str | Sequence[str],
        watch: answer.Watcher = answer.unwatched,
        *,
        head_channels: frozenset[str] | None = None,
    ) -> Iterator[Thread] | None:
        """Return the threads with these ids, or else those that match; None without a condition.

        With `head_channels`, threads that were not named must have a write on one of these at their
        head. `watch` gets each thread that is looked at. Raises `NotFound` or `UsageError`.
        """
        if threads is None and match is None and not where and head_channels is None:
            return None
        names = answer.texts(threads)
        if threads is not None and not names:  # an empty selection is not all threads
            return iter(())
        around = self._around
        condition = answer.filter_of(around, where)
        found = filtered_threads(
            self._store, names, match, condition, around.now, watch, head_channels
        )
        return answer.explained_if_none(around, where, found)

    def _work(
        self,
        threads: str | Iterable[str] | None,
        match: str | None,
        where: str | Sequence[str],
        jobs: int,
        cluster: str | None,
        watch: answer.Watcher,
    ) -> answer.ThreadWork:
        """Return the chosen threads, and what works on them."""
        executor = self._around.executor(jobs, cluster)
        choosing, answering = answer.watchers(executor, where, watch)
        chosen = self.chosen(threads, match, where, choosing)
        return answer.ThreadWork(self._store, self._around, chosen, executor, answering)

    def _or_all(
        self, chosen: Iterator[Thread] | None, watch: answer.Watcher = answer.unwatched
    ) -> Iterator[Thread]:
        return iter(watch(self._store.threads())) if chosen is None else chosen

    def interrupts(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        older_than: answer.When | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> Iterator[answer.Answer[Waiting]]:
        """Yield the questions that wait for an answer, as `ckpt interrupts` prints them.

        `threads` are ids, by default all; `match` is a pattern for ids, `where` is a filter as in
        `threads`. `older_than` is an age such as `2h`, or a time. Raises `NotFound` or
        `UsageError`.
        """
        from ckpt_cli.queries.incidents import QUESTION_CHANNELS, open_questions
        from ckpt_cli.render.incidents import WAITING

        chosen = self.chosen(threads, match, where, watch, head_channels=QUESTION_CHANNELS)
        found = open_questions(
            self._store, self._or_all(chosen), answer.time_of(self._around, older_than)
        )
        return (answer.Answer(one, WAITING.record) for one in found)

    def grep(
        self,
        pattern: str,
        threads: str | Iterable[str] | None = None,
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        match: str | None = None,
        where: str | Sequence[str] = (),
        channels: str | Sequence[str] = (),
        ns: str | None = None,
        head_only: bool = False,
        jobs: int = 1,
        cluster: str | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> SearchHits:
        """Search threads for a regular expression; with `fixed`, for plain text.

        Yields what `ckpt grep` prints. The attribute `missed` of the result tells what could not
        be searched. `threads` are ids, by default all; `match` is a pattern for ids, `where` is
        a filter as in `threads`. `jobs` is the number of processes; a script that starts several
        needs `if __name__ == "__main__":`. `cluster` is the address of a Dask scheduler whose
        workers do the work instead. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.questions import start_search
        from ckpt_cli.queries.grep import GrepQuery

        wanted = GrepQuery(
            pattern, fixed, ignore_case, tuple(answer.texts(channels)), ns, head_only
        )
        return start_search(self._work(threads, match, where, jobs, cluster, watch), wanted)

    def replay_all(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        reducers: Mapping[str, str] | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> Iterator[answer.Answer[Replayed]]:
        """Yield the verdicts on each thread, as `ckpt replay --all` prints them.

        `reducers` maps channels to the names of their reducers, as in `ThreadHandle.replay`. The
        other arguments are those of `grep`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.questions import replay_several

        return replay_several(self._work(threads, match, where, jobs, cluster, watch), reducers)

    def doctor(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        deep: bool = False,
        types: bool = False,
        grace: answer.When = "1m",
        jobs: int = 1,
        cluster: str | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> Examination:
        """Check threads, by default all, and the store itself. Yields what `ckpt doctor` prints.

        With `deep`, every value is decoded and every step replayed. With `types`, every value is
        read, and the classes are gathered that they name. What is younger than `grace`
        is not reported if an agent may still be writing it. `where` is a filter as in `threads`;
        the other arguments are those of `grep`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.questions import examination, terms_of

        work = self._work(threads, match, where, jobs, cluster, watch)
        return examination(work, terms_of(self._around, grace, deep=deep, types=types))

    def secrets(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        memory: str | None = None,
        ignore: str | Sequence[str] = (),
        jobs: int = 1,
        cluster: str | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> SecretSearch:
        """Find credentials in threads, by default in all, and then in long-term memory.

        Yields what `ckpt secrets` prints: places and kinds. `memory` names the store of that
        memory. `ignore` is left out in addition to what the profile lists. The other arguments
        are those of `doctor`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.questions import secret_search

        work = self._work(threads, match, where, jobs, cluster, watch)
        return secret_search(work, memory, answer.texts(ignore))

    def errors(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: answer.When | None = None,
        history: bool = False,
        watch: answer.Watcher = answer.unwatched,
    ) -> Iterator[answer.Answer[Failure]]:
        """Yield the failed tasks for whose retry threads wait, as `ckpt errors` prints them.

        With `history`, yields all whose error is stored, also those that were retried or handled.
        `threads` are ids, by default all; `match` is a pattern for ids, `where` a filter as in
        `threads`. `since` is an age such as `2h`, or a time. Raises `NotFound` or `UsageError`.
        """
        return self._failed(threads, match, where, since, watch, history=history)

    def errors_by(
        self,
        by: str,
        threads: str | Iterable[str] | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: answer.When | None = None,
        history: bool = False,
        watch: answer.Watcher = answer.unwatched,
    ) -> answer.AnswerList[list[FailureGroup]]:
        """Count the same by `error`, `node`, `user` or `metadata.KEY`, largest first, as
        `ckpt errors --by` prints them.

        Errors that differ in numbers and ids only are one kind. The other arguments are those of
        `errors`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.questions import counted_failures
        from ckpt_cli.queries.incidents import grouping

        kind, key = grouping(by)
        found = self._failed(threads, match, where, since, watch, history=history, key=key)
        return counted_failures(found, kind)

    def _failed(
        self,
        threads: str | Iterable[str] | None,
        match: str | None,
        where: str | Sequence[str],
        since: answer.When | None,
        watch: answer.Watcher,
        *,
        history: bool,
        key: UserKey | None = None,
    ) -> Iterator[answer.Answer[Failure]]:
        """Yield failed tasks; `key` is asked for in place of the user."""
        from ckpt_cli.api.questions import failed_tasks
        from ckpt_cli.queries.incidents import HEAD_CHANNELS

        channels = None if history else HEAD_CHANNELS
        chosen = self._or_all(
            self.chosen(threads, match, where, watch, head_channels=channels), watch
        )
        return failed_tasks(self._store, self._around, chosen, since, history=history, key=key)

    def compat(
        self,
        new: GraphFile,
        old: GraphFile | None = None,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        accept: Collection[str] = (),
        watch: answer.Watcher = answer.unwatched,
    ) -> Compatibility:
        """Judge which threads new graphs would break, as `ckpt compat` prints it.

        `new` and `old` are what `ckpt_cli.core.compat.read_graphs` returns of the probe's output.
        Each thread is judged when it is iterated over; what holds for all is known at the end.
        `match` and `where` choose threads, `accept` names findings that are meant. Raises
        `UsageError`.
        """
        from ckpt_cli.queries.compat import judged_threads
        from ckpt_cli.render.compat import Compatibility

        chosen = self.chosen(None, match, where, watch)
        threads = self._or_all(chosen, watch)
        found = judged_threads(self._store, threads, new, old, accept)
        return Compatibility(found, new, old, are_all=chosen is None)

    def metrics(
        self,
        *,
        since: answer.When | None = None,
        heads: bool = True,
        by_user: bool = False,
        watch: answer.Watcher = answer.unwatched,
    ) -> answer.Answer[StoreMetrics]:
        """Return numbers for a monitoring system, as `ckpt metrics -o json` prints them.

        `since` is an age such as `2h`, or a time: tasks that failed earlier are not counted.
        Without `heads`, threads are not counted by status, and no head is read for that. With
        `by_user`, questions and failed tasks are also counted by user. Raises `UsageError`.
        """
        from ckpt_cli.queries.usage import measure
        from ckpt_cli.render.usage import METRICS

        store = self._store
        after = answer.time_of(self._around, since)
        threads, now = watch(store.threads()), self._around.now
        found = measure(store, threads, now, since=after, heads=heads, by_user=by_user)
        return answer.Answer(found, METRICS.record)

    def tail(
        self,
        lines: int = 5,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        all_ns: bool = False,
        interval: float | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[answer.Answer[Movement]]:
        """Yield the last checkpoints of all threads, then what happens, without an end.

        The records are those of `ckpt tail` without THREAD. A thread is chosen as in `threads`,
        each time it moves. Looks every `interval` seconds, which `wait` waits. A lost connection is
        opened again.
        """
        from ckpt_cli.api.questions import follow_store

        return follow_store(
            self._store, self._around, lines, match, where, interval, wait, all_ns=all_ns
        )

    def stats(
        self,
        threads: str | Iterable[str] | None = None,
        *,
        by: str | Sequence[str] | None = None,
        match: str | None = None,
        where: str | Sequence[str] = (),
        since: answer.When | None = None,
        until: answer.When | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> answer.Answer[Stats]:
        """Return what was written, how long it took and what it cost, as `ckpt stats` prints it.

        `by` is one or several of `node`, `channel`, `model`, `thread`, `day` and `user`; without
        it, `nodes` holds the answer by node, and `by` and `channels` tell more of the writes.
        `since` and `until` limit the checkpoints, by an age such as `7d` or a time. The other
        arguments are those of `grep`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.api.thread import stats_answer
        from ckpt_cli.core.stats import Stats
        from ckpt_cli.queries.usage import threads_stats

        def count(wanted: StatsQuery) -> Stats:
            work = self._work(threads, match, where, jobs, cluster, watch)
            found = Stats(wanted.by, wanted.parts)
            for one in work.watch(threads_stats(self._store, work.executor, work.threads, wanted)):
                found.add(one)
            return found

        return stats_answer(self._around, by, since, until, count)

    def du(
        self,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        top: int | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> answer.Answer[Survey]:
        """Return the disk usage, as `ckpt du` prints it; `top` limits each listing.

        `match` is a pattern for ids, `where` a filter as in `threads`: only these threads are
        measured. Raises `UsageError`.
        """
        from ckpt_cli.api.questions import disk_usage

        return disk_usage(self._store, self._ids(match, where, watch), top, watch)

    def du_by(
        self,
        by: By,
        *,
        match: str | None = None,
        where: str | Sequence[str] = (),
        top: int | None = None,
        watch: answer.Watcher = answer.unwatched,
    ) -> answer.AnswerList[Survey]:
        """Return the largest threads, channels and so on, as `ckpt du --by` prints them.

        `by` is `thread`, `channel`, `ns`, `type` or `table`. The other arguments are those of `du`.
        Raises `UsageError`.
        """
        from ckpt_cli.api.questions import disk_usage_by

        return disk_usage_by(self._store, self._ids(match, where, watch), by, top, watch)

    def _ids(
        self, match: str | None, where: str | Sequence[str], watch: answer.Watcher
    ) -> set[str] | None:
        """Return the ids of the chosen threads; None for all."""
        chosen = self.chosen(None, match, where, watch)
        return None if chosen is None else {one.thread_id for one in chosen}

    @cached_property
    def memory(self) -> MemoryHandle:
        """The long-term memory in the same place. Raises `UnknownLayout` or `Unsupported`."""
        from ckpt_cli.api.memory import opened_memory

        return opened_memory(self._around)

    def sessions(
        self, *, thread: str | None = None, user: str | None = None
    ) -> list[answer.Answer[JoinedSession]]:
        """Return the sessions of an application, as `ckpt memory sessions` prints them.

        `thread` and `user` choose those of a thread or user. Raises `Unsupported` if applications
        store no sessions in such a store.
        """
        from ckpt_cli.api.memory import sessions_beside

        return sessions_beside(self._around, lambda: self._store, thread=thread, user=user)

    def session(self, name: str) -> answer.Answer[JoinedSession]:
        """Return a session, as `ckpt memory sessions SESSION` prints it; by id, `USER:ID` or key.

        Raises `NotFound`, `Ambiguous` or `Unsupported`.
        """
        from ckpt_cli.api.memory import session_beside

        return session_beside(self._around, lambda: self._store, name)

    def __repr__(self) -> str:
        info = self.info
        return f"<StoreHandle {info.url} ({info.layout})>"
