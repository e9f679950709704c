"""A thread of a store, as Python code sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import UsageError
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.checkpoint import CheckpointHandle
from ckpt_cli.api.followed_thread import FollowedThread
from ckpt_cli.api.measures import stats_answer, stats_query
from ckpt_cli.api.surroundings import Surroundings, When, time_text
from ckpt_cli.api.texts import texts
from ckpt_cli.api.watch import Watcher, unwatched
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.threads.target import NamedThread, Target
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.api.replaying import JudgedThread
    from ckpt_cli.api.search import SearchHits
    from ckpt_cli.core.replay.report import ReplayReport
    from ckpt_cli.core.stats import Stats
    from ckpt_cli.core.timeline.assemble import Timeline
    from ckpt_cli.queries.disk_usage import By, Survey
    from ckpt_cli.queries.doctor.terms import ThreadReport
    from ckpt_cli.queries.errors import Failure
    from ckpt_cli.queries.history import Entry
    from ckpt_cli.queries.interrupts import Waiting
    from ckpt_cli.queries.show import Summary
    from ckpt_cli.queries.thread_operations import ThreadOperations
    from ckpt_cli.queries.tree import Tree
    from ckpt_cli.render.terminal.styled_text import StyledLine

_WIDTH = 100
_QUESTION_WIDTH = 200
"""Width of a question that is kept; the tree cuts it to what fits."""


class ThreadHandle(FollowedThread):
    """A thread: its head, its history, and what can be asked of it.

    Returned by `StoreHandle.threads`, `StoreHandle[...]` and others.
    """

    def __init__(self, reader: ThreadReader, around: Surroundings) -> None:
        self.reader = reader
        self.around = around

    @cached_property
    def operations(self) -> ThreadOperations:
        """What `ckpt` did to the thread, and which of it added a checkpoint."""
        # Imported late: few answers need it.
        from ckpt_cli.queries.thread_operations import ThreadOperations

        return ThreadOperations(self.around.opening, self.id)

    @property
    def first_at(self) -> datetime | None:
        """Time of the oldest checkpoint, UTC; None if the ids hold no time."""
        return self.reader.thread.first_at

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint, UTC; None if the ids hold no time."""
        return self.reader.thread.last_at

    @property
    def checkpoint_count(self) -> int:
        """Number of checkpoints in all namespaces."""
        return self.reader.thread.checkpoints

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of the thread; the root graph's is `''`."""
        return list(self.reader.namespaces)

    @property
    def head(self) -> CheckpointHandle:
        """The checkpoint from which LangGraph resumes. Raises `NotFound` if there is none."""
        return self.at("head")

    @property
    def status(self) -> str:
        """`error`, `interrupted`, `pending`, `done`, `unknown`, or `empty` without a root head."""
        return self.head.status if self.reader.head("") is not None else "empty"

    def __getitem__(self, ref: str | date) -> CheckpointHandle:
        """Return the checkpoint that a ref names, such as `b955d`, `~1`, `step:3` or a time."""
        return self.at(ref)

    def at(
        self,
        ref: str | date | None = None,
        *,
        ns: str | None = None,
        as_of: When | None = None,
    ) -> CheckpointHandle:
        """Return a checkpoint by its ref, or the head as it was at a time.

        `ns` names a namespace, by default the root. `docs/refs.md` lists the refs.
        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        if ref is not None and as_of is not None:
            raise UsageError("a ref cannot be combined with as_of", hint="use one of them")
        if isinstance(ref, date):
            ref, as_of = None, ref
        time = None if as_of is None else time_text(self.around, as_of)
        named = NamedThread(self.reader, ns, ref, time)
        return CheckpointHandle(self, named.checkpoint(self.around.now, self.around.zone))

    def history(
        self, *, ns: str | None = None, all_ns: bool = False, limit: int | None = None
    ) -> Iterator[CheckpointHandle]:
        """Yield the checkpoints of a namespace, newest first; with `all_ns`, of all namespaces.

        Raises `NotFound` or `Ambiguous` for a namespace.
        """
        from ckpt_cli.queries.history import history_entries

        found = history_entries(self.reader, ns, self.operations, all_ns=all_ns, limit=limit)
        return (CheckpointHandle(self, self._target(entry), entry) for entry in found)

    def summary(self) -> Answer[Summary]:
        """Return what `ckpt show --long` says of the thread: status, errors, questions and size.

        It does not read the state. `writes` is the number of writes in the thread.
        """
        from ckpt_cli.queries.show import summarize
        from ckpt_cli.render.records import summary_record

        return Answer(summarize(self.reader, self.operations), summary_record)

    def tree(self, *, ns: str | None = None, all_ns: bool = False, unfold: bool = False) -> str:
        """Return the drawing of `ckpt show --tree`, as text."""
        return "\n".join(one.text for one in self._tree_lines(ns, all_ns=all_ns, unfold=unfold))

    def read_tree(
        self,
        ns: str | None = None,
        *,
        all_ns: bool = False,
        unfold: bool = False,
        keep: CheckpointHandle | None = None,
    ) -> Tree:
        """Return the tree that is drawn; the checkpoint `keep` is never folded."""
        from ckpt_cli.queries.tree import read_tree
        from ckpt_cli.render.values.one_line import summary

        def say(value: Value) -> str:
            return summary(value, _QUESTION_WIDTH)

        kept = None if keep is None else (keep.ns, keep.id)
        return read_tree(
            self.reader, ns, say, self.operations, nest=all_ns or unfold, unfold=unfold, keep=kept
        )

    def _tree_lines(
        self, ns: str | None = None, *, all_ns: bool = False, unfold: bool = False
    ) -> Iterator[StyledLine]:
        from ckpt_cli.render.tree.lines import tree_lines

        found, around = self.read_tree(ns, all_ns=all_ns, unfold=unfold), self.around
        yield from tree_lines(
            found.plan,
            found.details,
            found.refs,
            thread_id=self.id,
            zone=around.zone,
            now=around.now,
            status=", ".join(found.conditions),
            width=_WIDTH,
        )

    def interrupts(self) -> Iterator[Answer[Waiting]]:
        """Yield the questions that wait for an answer, as `ckpt interrupts` prints them."""
        from ckpt_cli.queries.interrupts import open_questions
        from ckpt_cli.render.records import interrupt_record

        found = open_questions(self.reader.store, [self.reader.thread], None)
        return (Answer(one, interrupt_record) for one in found)

    def errors(
        self, *, since: When | None = None, history: bool = False
    ) -> Iterator[Answer[Failure]]:
        """Yield the failed tasks for whose retry the thread waits, as `ckpt errors` prints them.

        With `history`, yields all whose error is stored. `since` is an age such as `2h`, or a time.
        """
        from ckpt_cli.api.failed_tasks import failed_tasks

        reader = self.reader
        return failed_tasks(reader.store, self.around, [reader.thread], since, history=history)

    def grep(
        self,
        pattern: str,
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        channels: str | Sequence[str] = (),
        ns: str | None = None,
        head_only: bool = False,
    ) -> SearchHits:
        """Search the thread for a regular expression; with `fixed`, for plain text.

        Yields what `ckpt grep` prints. The attribute `missed` of the result tells what could not
        be searched. Raises `UsageError` if the pattern cannot be read.
        """
        from ckpt_cli.api.search import start_search
        from ckpt_cli.queries.grep import GrepQuery

        wanted = GrepQuery(pattern, fixed, ignore_case, tuple(texts(channels)), ns, head_only)
        reader = self.reader
        return start_search(reader.store, self.around.executor(), [reader.thread], wanted)

    def timeline(self, *, since: When | None = None, last: int | None = None) -> Answer[Timeline]:
        """Return how long each step took, as `ckpt timeline THREAD` prints it.

        The arguments are those of `CheckpointHandle.timeline`. Raises `NotFound` or `UsageError`.
        """
        return self.head.timeline(since=since, last=last)

    def stats(
        self,
        *,
        by: str | Sequence[str] | None = None,
        ns: str | None = None,
        since: When | None = None,
        until: When | None = None,
    ) -> Answer[Stats]:
        """Return what was written, how long it took and what it cost, as `ckpt stats THREAD` does.

        `by` is as in `StoreHandle.stats`; `since` and `until` limit the checkpoints, by an age such
        as `7d` or a time. Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        from ckpt_cli.queries.stats import thread_stats

        wanted = stats_query(self.around, by, since, until)
        found = thread_stats(self.reader, wanted, self._namespace(ns))
        return stats_answer(self.around, found, by)

    def du(self, *, top: int | None = None, watch: Watcher = unwatched) -> Answer[Survey]:
        """Return the disk usage, as `ckpt du THREAD` prints it; `top` limits each listing."""
        from ckpt_cli.api.disk_usage import disk_usage

        return disk_usage(self.reader.store, [self.id], top, watch)

    def du_by(
        self, by: By, *, top: int | None = None, watch: Watcher = unwatched
    ) -> AnswerList[Survey]:
        """Return the largest channels and so on, as `ckpt du THREAD --by` prints them.

        `by` is `thread`, `channel`, `ns`, `type` or `table`. Raises `UsageError` for another.
        """
        from ckpt_cli.api.disk_usage import disk_usage_by

        return disk_usage_by(self.reader.store, [self.id], by, top, watch)

    def report(self, *, all_ns: bool = False, since: When | None = None, last: int = 200) -> str:
        """Return the HTML page of `ckpt report`, opened at the head.

        The arguments are those of `CheckpointHandle.report`.
        """
        return self.head.report(all_ns=all_ns, since=since, last=last)

    def replay(
        self, reducers: Mapping[str, str] | None = None, *, ns: str | None = None
    ) -> Answer[ReplayReport]:
        """Verify the thread against its recorded writes, as `ckpt replay` does.

        `reducers` maps channels to the names of their reducers, in addition to those of the
        profile; others are inferred. Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        return self._replayed(reducers, ns).report()

    def transitions(
        self, reducers: Mapping[str, str] | None = None, *, ns: str | None = None
    ) -> AnswerList[JudgedThread]:
        """Return each channel of each transition, as `ckpt replay --all-steps` prints it."""
        return self._replayed(reducers, ns).transitions()

    def doctor(self, *, deep: bool = False, grace: When = "1m") -> Answer[ThreadReport]:
        """Check the thread, as `ckpt doctor THREAD` does; the arguments are those of the store's.

        The keys are `thread_id`, `checked`, `complete` and `findings`.
        """
        from ckpt_cli.api.doctor import checked_thread

        return checked_thread(self.reader, self.around, grace, deep=deep)

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield all checkpoints with state and writes: by namespace, oldest first.

        The dicts are those of `ckpt export --format jsonl`.
        """
        from ckpt_cli.queries.show import views
        from ckpt_cli.render.records import show_record

        return map(show_record, views(self.reader))

    def memories(self, memory: str | None = None) -> list[dict[str, Any]] | None:
        """Return the long-term memory made from the thread; None if no memory is known.

        `memory` names it; without, the one of the profile or next to the store is read. The dicts
        are `memories` of `ckpt show`.
        """
        from ckpt_cli.api.memories import memories_from

        return memories_from(self.around, memory, lambda thread_id: thread_id == self.id)

    def _replayed(self, reducers: Mapping[str, str] | None, ns: str | None) -> JudgedThread:
        from ckpt_cli.api.replaying import replay_one

        return replay_one(self.reader, self.around, reducers, self._namespace(ns))

    def _target(self, entry: Entry) -> Target:
        key = entry.moment.key
        return Target(self.reader, key.checkpoint_ns, key.checkpoint_id, chosen=True)

    def _namespace(self, ns: str | None) -> str | None:
        """Return the namespace that a text names. The root, and None, stay as they are."""
        return self.reader.namespace(ns) if ns else ns

    def __eq__(self, other: object) -> bool:
        """Whether it is the same thread of the same open store."""
        if not isinstance(other, ThreadHandle):
            return NotImplemented
        return self.id == other.id and self.reader.store is other.reader.store

    def __hash__(self) -> int:
        return hash(self.id)

    def _repr_html_(self) -> str:
        """Draw the tree in a notebook."""
        from ckpt_cli.render.html import html_of

        return html_of(self._tree_lines())

    def __repr__(self) -> str:
        return f"<ThreadHandle {safe_text(self.id)}>"
