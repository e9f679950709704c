"""A thread, as Python code sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import NotFound, UsageError
from ckpt_cli.api.answer import (
    Answer,
    AnswerList,
    Surroundings,
    ThreadWork,
    Watcher,
    When,
    plain,
    plain_values,
    texts,
    time_of,
    time_text,
    unwatched,
)
from ckpt_cli.config.store_names import memory_place
from ckpt_cli.core.conversation import statistics
from ckpt_cli.reading.target import NamedThread, Target
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import StyledLine, Ui, safe_text

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.api.questions import SearchHits
    from ckpt_cli.core.replay import Replayed
    from ckpt_cli.core.stats import Stats
    from ckpt_cli.core.timeline import Timeline
    from ckpt_cli.core.values import Selected
    from ckpt_cli.queries.bisect import Bisection, Test
    from ckpt_cli.queries.blame import Blame
    from ckpt_cli.queries.diff import Comparison
    from ckpt_cli.queries.doctor.rows import ThreadReport
    from ckpt_cli.queries.history import Entry
    from ckpt_cli.queries.incidents import Failure, Waiting
    from ckpt_cli.queries.messages import Conversation
    from ckpt_cli.queries.replay import Written
    from ckpt_cli.queries.show import CheckpointView, Summary
    from ckpt_cli.queries.thread_operations import ThreadOperations
    from ckpt_cli.queries.tree import Tree
    from ckpt_cli.queries.usage import By, StatsQuery, Survey


class CheckpointHandle:
    """A checkpoint: its state, its tasks, and what can be asked of it. Each is read when asked.

    Returned by `ThreadHandle.head`, `ThreadHandle.at` and others. Lists and dicts are plain Python
    values with the keys of `ckpt show -o json`.
    """

    def __init__(self, thread: ThreadHandle, target: Target, entry: Entry | None = None) -> None:
        self.thread = thread
        self.target = target
        self._entry = entry

    @property
    def id(self) -> str:
        """The `checkpoint_id`."""
        return self.target.checkpoint_id

    @property
    def ns(self) -> str:
        """The namespace (`checkpoint_ns`); `''` for the root graph."""
        return self.target.checkpoint_ns

    @property
    def ts(self) -> datetime | None:
        """When it was saved, UTC; None if that is not stored."""
        return self.entry.moment.at

    @property
    def step(self) -> int | None:
        """The step number; None if that is not stored."""
        return self.entry.moment.number

    @property
    def source(self) -> str | None:
        """`input`, `loop`, `update` or `fork`; None if that is not stored."""
        return self.entry.moment.source

    @property
    def parent(self) -> CheckpointHandle | None:
        """The checkpoint before it; None if it has none, or if it is no longer stored."""
        parent_id = self.entry.moment.checkpoint.parent_checkpoint_id
        is_stored = parent_id in self.target.reader.parentage(self.ns)
        return self._beside(parent_id) if parent_id is not None and is_stored else None

    @property
    def children(self) -> list[CheckpointHandle]:
        """The checkpoints made from it, oldest first; more than one at a fork."""
        return [self._beside(one) for one in self.entry.children]

    @property
    def status(self) -> str:
        """The worst of `error`, `interrupted`, `pending`, `done` and `unknown` that holds."""
        return self.entry.moment.status.value

    @property
    def conditions(self) -> list[str]:
        """All of these that hold, the worst first."""
        return [one.value for one in self.entry.moment.conditions]

    @property
    def next(self) -> list[str] | None:
        """The nodes of the step after it; None if that cannot be known."""
        found: list[str] | None = self.listed()["next"]
        return found

    @property
    def waiting(self) -> list[str] | None:
        """Those of `next` that have not finished; None if that cannot be known."""
        found: list[str] | None = self.listed()["waiting"]
        return found

    @property
    def nodes(self) -> list[str] | None:
        """The nodes that ran just before it; None if its parent is not stored."""
        found: list[str] | None = self.listed()["nodes"]
        return found

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """The tasks of the step after it, with node, error and questions."""
        found: list[dict[str, Any]] = self.listed()["tasks"]
        return found

    @property
    def interrupts(self) -> list[dict[str, Any]]:
        """The questions that its tasks asked, with `interrupt_id`, `value` and `answered`."""
        found: list[dict[str, Any]] = self.listed()["interrupts"]
        return found

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata that the saver stored."""
        return plain_values(self.entry.moment.metadata)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The state: channel to value. An object of a class is a `Tagged` with the class's name.

        Raises `Unreadable`, for a state that cannot be read is not an empty one.
        """
        found = self._state
        found.moment.check_readable()
        return plain_values(found.state.values)

    @property
    def rebuilt(self) -> dict[str, str]:
        """Channels with a value that is not stored, and how it was rebuilt."""
        return dict(self._state.state.rebuilt)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, as `ckpt messages -o json` prints it; empty if there is none."""
        from ckpt_cli.render.messages import message_records

        try:
            return list(message_records(self.conversation().turns, 0))
        except NotFound:
            return []

    @property
    def writes(self) -> list[dict[str, Any]]:
        """What the tasks of the step after it wrote, in order."""
        found: list[dict[str, Any]] = self.show()["writes"]
        return found

    def get(self, path: str) -> Any:
        """Return a part of the state, such as `messages[-1].content`.

        A path with `[]` returns a list. Raises `NotFound` with the keys that exist.
        """
        found = [plain(one.value) for one in self.select(path)]
        return found if "[]" in path else found[0]

    def select(self, path: str) -> list[Selected]:
        """Return the places that a path selects, with their inert values."""
        from ckpt_cli.queries.show import picked

        return picked(self.target, path)

    def show(
        self,
        channels: str | Collection[str] | None = None,
        *,
        writes: bool = True,
        operations: bool = False,
        size: bool = False,
        namespaces: bool = False,
    ) -> Answer[CheckpointView]:
        """Return what `ckpt show` prints; `channels` limits the values.

        At the head of the root graph, `operations` adds what `ckpt` changed, `size` the size of
        the thread, and `namespaces` the checkpoints in each; `ckpt show --long` has all three.
        """
        from ckpt_cli.queries.show import view, whole_thread
        from ckpt_cli.render.show import SHOW_VIEW

        facts = partial(
            whole_thread,
            now=self.thread.around.now,
            operations=self.thread.operations if operations else None,
            size=size,
            namespaces=namespaces,
        )
        return Answer(view(self.target, _names(channels), writes=writes, facts=facts), SHOW_VIEW)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole checkpoint as `ckpt show -o json` prints it."""
        return self.show().to_dict()

    def listed(self) -> Answer[Entry]:
        """Return what `ckpt history` prints of it: no values, no writes."""
        from ckpt_cli.render.history import ENTRY

        return Answer(self.entry, ENTRY.record)

    def diff(
        self,
        other: CheckpointHandle | str | None = None,
        channels: str | Collection[str] | None = None,
    ) -> Answer[Comparison]:
        """Return what changed from `other` to this checkpoint; without `other`, from its parent.

        A text is a ref of this thread, such as `step:3`.
        """
        from ckpt_cli.queries.diff import compare
        from ckpt_cli.render.value_diff import DIFF_VIEW

        if isinstance(other, str):
            other = self.thread.at(other, ns=self.ns or None)
        one, two = (self, None) if other is None else (other, self)
        found = compare(one.target, None if two is None else two.target, _names(channels))
        return Answer(found, DIFF_VIEW)

    def diff_writes(
        self,
        reducers: Mapping[str, str] | None = None,
        channels: str | Collection[str] | None = None,
    ) -> Answer[Written]:
        """Return what `ckpt diff --writes` prints: the writes that made it, and the stored values.

        `reducers` is as in `ThreadHandle.replay`. Raises `NotFound` for an unknown channel and
        `UsageError` for an unknown reducer.
        """
        from ckpt_cli.queries.replay import reducers_of, written
        from ckpt_cli.render.replay import WRITTEN_VIEW

        chosen = _names(channels)
        profile = self.thread.around.names.reducers
        told = reducers_of(self.target.reader, profile, reducers, chosen or ())
        return Answer(written(self.target, told, chosen), WRITTEN_VIEW)

    def replay(self, reducers: Mapping[str, str] | None = None) -> Answer[Replayed]:
        """Verify the steps that led to it, as `ckpt replay THREAD@REF` does.

        `reducers` is as in `ThreadHandle.replay`. Raises `NotFound` or `UsageError`.
        """
        from ckpt_cli.render.replay import REPLAY_VIEW

        return Answer(self._replayed(reducers), REPLAY_VIEW)

    def transitions(self, reducers: Mapping[str, str] | None = None) -> AnswerList[Replayed]:
        """Return each channel of each of these steps, as `ckpt replay --all-steps` prints it."""
        from ckpt_cli.render.replay import transitions

        return AnswerList(self._replayed(reducers), transitions)

    def timeline(self, *, since: When | None = None, last: int | None = None) -> Answer[Timeline]:
        """Return how long the steps took that led to it, as `ckpt timeline` prints it.

        `since` leaves out steps that ended before, by an age such as `2h` or a time; `last` keeps
        only this number of steps. Raises `UsageError`.
        """
        from ckpt_cli.queries.timeline import timeline
        from ckpt_cli.render.timeline import TIMELINE_VIEW

        after = time_of(self.thread.around, since)
        target = self.target
        found = timeline(
            target.reader, target.checkpoint_ns, target.checkpoint_id, since=after, last=last
        )
        return Answer(found, TIMELINE_VIEW)

    def blame(self, path: str) -> Answer[Blame]:
        """Return which step and task set a value, such as `plan` or `messages[-1].content`."""
        from ckpt_cli.queries.blame import blame
        from ckpt_cli.render.blame import BLAME_VIEW

        return Answer(blame(self.target, path), BLAME_VIEW)

    def conversation(self, channel: str | None = None) -> Conversation:
        """Return the messages of a channel; by default, of the one with the conversation.

        Raises `NotFound` if no channel holds messages.
        """
        from ckpt_cli.queries.messages import conversation

        return conversation(self.target, channel)

    def message_stats(self, channel: str | None = None) -> dict[str, Any]:
        """Return the counts of messages, tokens and tool calls, as `ckpt messages --stat` does.

        They are empty if there is no conversation. Raises `NotFound` for a channel that is named.
        """
        from ckpt_cli.render.messages import STATISTICS

        try:
            turns = self.conversation(channel).turns
        except NotFound:
            if channel is not None:
                raise
            turns = []
        return STATISTICS.record(statistics(turns))

    def report(
        self,
        *,
        all_ns: bool = False,
        since: When | None = None,
        last: int = 200,
        watch: Watcher = unwatched,
    ) -> str:
        """Return the HTML page of `ckpt report`, opened at this checkpoint.

        It shows the newest `last` checkpoints of this namespace, or of all with `all_ns`; `since`
        is an age such as `2h` or a time. `watch` gets the checkpoints as they are read. Notes what
        is not in the page. Raises `UsageError` for a time that cannot be read.
        """
        # Late: no other answer draws a page.
        from ckpt_backends.installing import release
        from ckpt_cli.queries.report import read_report, reported_checkpoints
        from ckpt_cli.render.report import report_page

        thread, around, operations = self.thread, self.thread.around, self.thread.operations
        after = time_of(around, since)
        tree = thread.read_tree(None if all_ns else self.ns, all_ns=all_ns, keep=self)
        found = read_report(
            self.target, tree, operations, around.now, all_ns=all_ns, since=after, last=last
        )
        checkpoints = watch(reported_checkpoints(found, operations))
        ui = Ui(around.now, around.zone)
        page, left_out = report_page(found, checkpoints, around.names.words, release(), ui)
        for one in left_out:
            around.note(one[0].lower() + one[1:].rstrip("."))
        return page

    def raw(self) -> bytes:
        """Return the stored bytes of the checkpoint, undecoded."""
        from ckpt_cli.queries.show import raw_bytes

        return raw_bytes(self.target)

    def sources(self) -> list[str]:
        """Return the queries that find it in the store."""
        moment = self.target.reader.moment(self.ns, self.id)
        return self.target.reader.store.sources(moment.key)

    @property
    def entry(self) -> Entry:
        """The checkpoint with its tasks, without values."""
        if self._entry is None:
            from ckpt_cli.queries.history import history_entry

            self._entry = history_entry(
                self.target.reader, self.ns, self.id, self.thread.operations
            )
        return self._entry

    def _replayed(self, reducers: Mapping[str, str] | None) -> Replayed:
        from ckpt_cli.queries.replay import replay_part

        profile = self.thread.around.names.reducers
        return replay_part(self.target.reader, profile, reducers, self.ns, self.id)

    def _beside(self, checkpoint_id: str) -> CheckpointHandle:
        """Return a checkpoint of the same namespace by its whole id, which may look like a ref."""
        target = Target(self.target.reader, self.ns, checkpoint_id, chosen=True)
        return CheckpointHandle(self.thread, target)

    @cached_property
    def _state(self) -> CheckpointView:
        from ckpt_cli.queries.show import view

        return view(self.target, None, writes=False)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same checkpoint of the same open store."""
        if not isinstance(other, CheckpointHandle):
            return NotImplemented
        return (self.thread, self.ns, self.id) == (other.thread, other.ns, other.id)

    def __hash__(self) -> int:
        return hash((self.thread, self.ns, self.id))

    def _repr_html_(self) -> str:
        """Draw the state in a notebook."""
        from ckpt_cli.render.report import html_of
        from ckpt_cli.render.show import show_lines

        around = self.thread.around
        ui = Ui(around.now, around.zone, width=_WIDTH)
        lines = show_lines(self._state, ui, writes=False, metadata=False)
        return html_of(lines)

    def __repr__(self) -> str:
        return f"<CheckpointHandle {safe_text(f'{self.thread.id}@{self.id}')}>"


def _names(channels: str | Collection[str] | None) -> list[str] | None:
    """Return the names of channels as a list; None, for all channels, stays None."""
    return None if channels is None else texts(channels)


_WIDTH = 100
_QUESTION_WIDTH = 200
"""Width of a question that is kept; the tree cuts it to what fits."""


class ThreadHandle:
    """A thread: its head, its history, and what can be asked of it.

    Returned by `StoreHandle.threads`, `StoreHandle[...]` and others.
    """

    def __init__(self, reader: ThreadReader, around: Surroundings) -> None:
        self.reader = reader
        self.around = around

    @property
    def id(self) -> str:
        """The `thread_id`."""
        return self.reader.thread_id

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
        self, ref: str | date | None = None, *, ns: str | None = None, as_of: When | None = None
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
        from ckpt_cli.render.show import SUMMARY

        return Answer(summarize(self.reader, self.operations, self.around.now), SUMMARY.record)

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
        from ckpt_cli.queries.tree import TreeReader, TreeShape
        from ckpt_cli.render.values import summary

        def say(value: Value) -> str:
            return summary(value, _QUESTION_WIDTH)

        kept = None if keep is None else (keep.ns, keep.id)
        shape = TreeShape(ns, nest=all_ns or unfold, unfold=unfold)
        return TreeReader(self.reader, self.operations, say).read(shape, kept)

    def _tree_lines(
        self, ns: str | None = None, *, all_ns: bool = False, unfold: bool = False
    ) -> Iterator[StyledLine]:
        from ckpt_cli.render.tree import tree_lines

        found = self.read_tree(ns, all_ns=all_ns, unfold=unfold)
        return tree_lines(found, Ui(self.around.now, self.around.zone, _WIDTH))

    def interrupts(self) -> Iterator[Answer[Waiting]]:
        """Yield the questions that wait for an answer, as `ckpt interrupts` prints them."""
        from ckpt_cli.queries.incidents import open_questions
        from ckpt_cli.render.incidents import WAITING

        found = open_questions(self.reader.store, [self.reader.thread], None)
        return (Answer(one, WAITING.record) for one in found)

    def errors(
        self, *, since: When | None = None, history: bool = False
    ) -> Iterator[Answer[Failure]]:
        """Yield the failed tasks for whose retry the thread waits, as `ckpt errors` prints them.

        With `history`, yields all whose error is stored. `since` is an age such as `2h`, or a time.
        """
        from ckpt_cli.api.questions import failed_tasks

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
        from ckpt_cli.api.questions import start_search
        from ckpt_cli.queries.grep import GrepQuery

        wanted = GrepQuery(pattern, fixed, ignore_case, tuple(texts(channels)), ns, head_only)
        store, thread = self.reader.store, self.reader.thread
        return start_search(
            ThreadWork(store, self.around, [thread], self.around.executor()), wanted
        )

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
        from ckpt_cli.queries.usage import thread_stats

        def count(wanted: StatsQuery) -> Stats:
            return thread_stats(self.reader, wanted, self._namespace(ns))

        return stats_answer(self.around, by, since, until, count)

    def du(self, *, top: int | None = None, watch: Watcher = unwatched) -> Answer[Survey]:
        """Return the disk usage, as `ckpt du THREAD` prints it; `top` limits each listing."""
        from ckpt_cli.api.questions import disk_usage

        return disk_usage(self.reader.store, [self.id], top, watch)

    def du_by(
        self, by: By, *, top: int | None = None, watch: Watcher = unwatched
    ) -> AnswerList[Survey]:
        """Return the largest channels and so on, as `ckpt du THREAD --by` prints them.

        `by` is `thread`, `channel`, `ns`, `type` or `table`. Raises `UsageError` for another.
        """
        from ckpt_cli.api.questions import disk_usage_by

        return disk_usage_by(self.reader.store, [self.id], by, top, watch)

    def report(self, *, all_ns: bool = False, since: When | None = None, last: int = 200) -> str:
        """Return the HTML page of `ckpt report`, opened at the head.

        The arguments are those of `CheckpointHandle.report`.
        """
        return self.head.report(all_ns=all_ns, since=since, last=last)

    def replay(
        self, reducers: Mapping[str, str] | None = None, *, ns: str | None = None
    ) -> Answer[Replayed]:
        """Verify the thread against its recorded writes, as `ckpt replay` does.

        `reducers` maps channels to the names of their reducers, in addition to those of the
        profile; others are inferred. Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        from ckpt_cli.render.replay import REPLAY_VIEW

        return Answer(self._replayed(reducers, ns), REPLAY_VIEW)

    def transitions(
        self, reducers: Mapping[str, str] | None = None, *, ns: str | None = None
    ) -> AnswerList[Replayed]:
        """Return each channel of each transition, as `ckpt replay --all-steps` prints it."""
        from ckpt_cli.render.replay import transitions

        return AnswerList(self._replayed(reducers, ns), transitions)

    def doctor(self, *, deep: bool = False, grace: When = "1m") -> Answer[ThreadReport]:
        """Check the thread, as `ckpt doctor THREAD` does; the arguments are those of the store's.

        The keys are `thread_id`, `checked`, `complete` and `findings`.
        """
        from ckpt_cli.api.questions import checked_thread

        return checked_thread(self.reader, self.around, grace, deep=deep)

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield all checkpoints with state and writes: by namespace, oldest first.

        The dicts are those of `ckpt export --format jsonl`.
        """
        from ckpt_cli.queries.show import views
        from ckpt_cli.render.show import SHOW

        return map(SHOW.record, views(self.reader))

    def memories(self, memory: str | None = None) -> list[dict[str, Any]] | None:
        """Return the long-term memory made from the thread; None if no memory is known.

        `memory` names it; without, the one of the profile or next to the store is read. The dicts
        are `memories` of `ckpt show`.
        """
        return memories_from(self.around, memory, lambda thread_id: thread_id == self.id)

    def tail(
        self,
        lines: int = 5,
        *,
        ns: str | None = None,
        all_ns: bool = False,
        interval: float = 1.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Answer[Entry]]:
        """Yield the last checkpoints, then new ones as they are saved, without an end.

        The records are those of `ckpt tail`. Looks for new checkpoints every `interval` seconds,
        which `wait` waits. Raises `StoreChanged` if the thread is deleted.
        """
        from ckpt_cli.queries.tail import Tail
        from ckpt_cli.render.history import ENTRY

        found = Tail(self.reader.store, self.id, ns, all_ns=all_ns)
        entries = found.last(lines)
        while True:
            for one in entries:
                yield Answer(one, ENTRY.record)
            wait(interval)
            entries = found.new()

    def bisect(
        self,
        condition: str | None = None,
        ref: str | None = None,
        *,
        test: Test | None = None,
        ns: str | None = None,
        since: When | None = None,
        until: When | None = None,
        binary: bool = False,
        watch: Watcher = unwatched,
    ) -> Answer[Bisection]:
        """Find the first checkpoint where a condition holds, as `ckpt bisect` prints it.

        `condition` is a filter about a checkpoint, such as `values.plan = null`. In place of it,
        `test` is a function of a `Candidate`, whose `values` are the state; it returns whether the
        condition holds, or None to skip the checkpoint. The checkpoints are those that lead to
        `ref`, by default to the head. `checkpoint_id` is None if it holds nowhere. Raises
        `NotFound`, `Ambiguous` or `UsageError`.
        """
        from ckpt_cli.api.questions import bisected

        named = NamedThread(self.reader, ns, ref)
        found, within = named.checkpoint(self.around.now, self.around.zone), (since, until)
        return bisected(found, self.around, condition, test, within, watch, binary=binary)

    def _replayed(self, reducers: Mapping[str, str] | None, ns: str | None) -> Replayed:
        from ckpt_cli.queries.replay import replay_part

        return replay_part(self.reader, self.around.names.reducers, reducers, self._namespace(ns))

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
        from ckpt_cli.render.report import html_of

        return html_of(self._tree_lines())

    def __repr__(self) -> str:
        return f"<ThreadHandle {safe_text(self.id)}>"


def stats_answer(
    around: Surroundings,
    by: str | Sequence[str] | None,
    since: When | None,
    until: When | None,
    count: Callable[[StatsQuery], Stats],
) -> Answer[Stats]:
    """Return what `stats` counts; without `by`, all that is told about nodes and channels.

    `count` does so. Raises `UsageError`.
    """
    from ckpt_cli.core.stats import StatsPart, parse_groupings, records_of
    from ckpt_cli.queries.usage import Range, StatsQuery
    from ckpt_cli.render.usage import stats_view

    within = Range(time_of(around, since), time_of(around, until))
    keys = ("node", "channel") if by is None else parse_groupings(texts(by))
    parts = ~StatsPart(0) if by is None else records_of(keys)
    found = count(StatsQuery(keys, parts, within, around.zone))
    told = None if by is None else found.by
    return Answer(found, stats_view(found, around.names.prices, told))


def memories_from(
    around: Surroundings, chosen: str | None, is_wanted: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Return the memory items that came from some threads; None if no memory is known.

    `chosen` names the memory; without it, the one of the profile or next to the store is read.
    Raises what opening a memory raises that is named.
    """
    place = memory_place(around.names.store_url, around.names.other_store("memory", chosen))
    if place is None:
        return None
    # Most stores have no memory next to them.
    from ckpt_cli.queries.memory import memories_of
    from ckpt_cli.render.memory import memory_rows

    found = memories_of(place, is_wanted, around.note)
    return None if found is None else memory_rows(found, redacted=around.opening.redact)
