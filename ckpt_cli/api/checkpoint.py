"""A checkpoint of a thread, as Python code sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import NotFound
from ckpt_cli.api.answer import Answer, AnswerList
from ckpt_cli.api.surroundings import When, time_of
from ckpt_cli.api.texts import texts
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.threads.target import Target

if TYPE_CHECKING:
    from ckpt_cli.api.replaying import JudgedThread
    from ckpt_cli.api.surroundings import When
    from ckpt_cli.api.thread import ThreadHandle
    from ckpt_cli.core.replay.report import ReplayReport
    from ckpt_cli.core.timeline.assemble import Timeline
    from ckpt_cli.core.values.paths import Selected
    from ckpt_cli.queries.blame import Blame
    from ckpt_cli.queries.diff import Comparison
    from ckpt_cli.queries.history import Entry
    from ckpt_cli.queries.messages import Conversation
    from ckpt_cli.queries.show import CheckpointView
    from ckpt_cli.queries.step_writes import Written


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
        if parent_id is None:
            return None
        stored = (one.key.checkpoint_id for one in self.target.reader.index(self.ns))
        return self._beside(parent_id) if parent_id in stored else None

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
        from ckpt_cli.api.plain_values import plain_values

        return plain_values(self.entry.moment.metadata)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The state: channel to value. An object of a class is a `Tagged` with the class's name.

        Raises `Unreadable`, for a state that cannot be read is not an empty one.
        """
        from ckpt_cli.api.plain_values import plain_values

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
        from ckpt_cli.api.plain_values import plain

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
        from ckpt_cli.render.records import show_record

        facts = partial(
            whole_thread,
            operations=self.thread.operations if operations else None,
            size=size,
            namespaces=namespaces,
        )
        return Answer(view(self.target, _names(channels), writes=writes, facts=facts), show_record)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole checkpoint as `ckpt show -o json` prints it."""
        return self.show().to_dict()

    def listed(self) -> Answer[Entry]:
        """Return what `ckpt history` prints of it: no values, no writes."""
        from ckpt_cli.render.records import entry_record

        return Answer(self.entry, entry_record)

    def diff(
        self,
        other: CheckpointHandle | str | None = None,
        channels: str | Collection[str] | None = None,
    ) -> Answer[Comparison]:
        """Return what changed from `other` to this checkpoint; without `other`, from its parent.

        A text is a ref of this thread, such as `step:3`.
        """
        from ckpt_cli.queries.diff import compare
        from ckpt_cli.render.records import diff_record

        if isinstance(other, str):
            other = self.thread.at(other, ns=self.ns or None)
        one, two = (self, None) if other is None else (other, self)
        found = compare(one.target, None if two is None else two.target, _names(channels))
        return Answer(found, diff_record)

    def diff_writes(
        self,
        reducers: Mapping[str, str] | None = None,
        channels: str | Collection[str] | None = None,
    ) -> Answer[Written]:
        """Return what `ckpt diff --writes` prints: the writes that made it, and the stored values.

        `reducers` is as in `ThreadHandle.replay`. Raises `NotFound` for an unknown channel and
        `UsageError` for an unknown reducer.
        """
        from ckpt_cli.api.replaying import reducers_for
        from ckpt_cli.queries.step_writes import written
        from ckpt_cli.render.step_writes import written_record

        chosen = _names(channels)
        told = reducers_for(self.target.reader, self.thread.around, reducers, chosen or ())
        return Answer(written(self.target, told, chosen), written_record)

    def replay(self, reducers: Mapping[str, str] | None = None) -> Answer[ReplayReport]:
        """Verify the steps that led to it, as `ckpt replay THREAD@REF` does.

        `reducers` is as in `ThreadHandle.replay`. Raises `NotFound` or `UsageError`.
        """
        return self._replayed(reducers).report()

    def transitions(self, reducers: Mapping[str, str] | None = None) -> AnswerList[JudgedThread]:
        """Return each channel of each of these steps, as `ckpt replay --all-steps` prints it."""
        return self._replayed(reducers).transitions()

    def timeline(self, *, since: When | None = None, last: int | None = None) -> Answer[Timeline]:
        """Return how long the steps took that led to it, as `ckpt timeline` prints it.

        `since` leaves out steps that ended before, by an age such as `2h` or a time; `last` keeps
        only this number of steps. Raises `UsageError`.
        """
        from ckpt_cli.queries.timeline import timeline
        from ckpt_cli.render.timeline import timeline_record

        after = time_of(self.thread.around, since)
        target = self.target
        found = timeline(
            target.reader, target.checkpoint_ns, target.checkpoint_id, since=after, last=last
        )
        return Answer(found, timeline_record)

    def blame(self, path: str) -> Answer[Blame]:
        """Return which step and task set a value, such as `plan` or `messages[-1].content`."""
        from ckpt_cli.queries.blame import blame
        from ckpt_cli.render.blame import blame_record

        return Answer(blame(self.target, path), blame_record)

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
        from ckpt_cli.core.conversation.transcript import statistics
        from ckpt_cli.render.messages import statistics_record

        try:
            turns = self.conversation(channel).turns
        except NotFound:
            if channel is not None:
                raise
            turns = []
        return statistics_record(statistics(turns))

    def report(self, *, all_ns: bool = False, since: When | None = None, last: int = 200) -> str:
        """Return the HTML page of `ckpt report`, opened at this checkpoint.

        It shows the newest `last` checkpoints of this namespace, or of all with `all_ns`; `since`
        is an age such as `2h` or a time. Raises `UsageError` for a time that cannot be read.
        """
        from ckpt_cli.api.report import report

        return "".join(report(self, all_ns=all_ns, since=since, last=last))

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

    def _replayed(self, reducers: Mapping[str, str] | None) -> JudgedThread:
        from ckpt_cli.api.replaying import replay_one

        return replay_one(self.target.reader, self.thread.around, reducers, self.ns, self.id)

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
        from ckpt_cli.render.html import html_of
        from ckpt_cli.render.state import show_lines

        around = self.thread.around
        lines = show_lines(self._state, around.now, around.zone, 100, writes=False, metadata=False)
        return html_of(lines)

    def __repr__(self) -> str:
        return f"<CheckpointHandle {safe_text(f'{self.thread.id}@{self.id}')}>"


def _names(channels: str | Collection[str] | None) -> list[str] | None:
    """Return the names of channels as a list; None, for all channels, stays None."""
    return None if channels is None else texts(channels)
