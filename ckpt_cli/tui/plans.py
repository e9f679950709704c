"""Plans of the changes that the screen offers; nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Literal, TypeAlias

from ckpt_backends.changes import Change
from ckpt_backends.codec import Value, from_json, to_json
from ckpt_backends.errors import NotFound, Refused, Unsupported, UsageError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.diff import ChannelChange, diff_channels
from ckpt_cli.core.doctor.findings import CODES, Finding
from ckpt_cli.core.edit_state import ChannelEdit, StoredObjects, objects_of, parse_edit
from ckpt_cli.core.forking import CheckpointPlan
from ckpt_cli.core.replay import Repair
from ckpt_cli.core.retention import PlannedRemoval, PurgeReport, RetentionRules
from ckpt_cli.core.times import parse_time
from ckpt_cli.operations.log import AppliedChange, OperationLog, OperationStep, place_of
from ckpt_cli.plans.fork import RollbackOptions, plan_fork_to_thread
from ckpt_cli.plans.purge import (
    PlanFile,
    Policy,
    plan_named,
    plan_purge,
    removal_header,
    write_plan,
)
from ckpt_cli.plans.repair import plan_message_repair, plan_value_repair, plan_write_repair
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.undo import PlannedStep, added_at, newest_added, plan_undo, planned_step
from ckpt_cli.queries.operations import REDO, UNDO, changes_of_thread, operation_named, steps_left
from ckpt_cli.queries.threads import Selection
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.operations import part_text, value_lines
from ckpt_cli.render.plan import done_lines, plan_lines, repair_lines
from ckpt_cli.render.purge import RemovedThreads, removal_lines
from ckpt_cli.render.text import StyledLine, Ui, line
from ckpt_cli.render.values import counted


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """What an operation did to one thread."""

    op: str
    action: str
    at: datetime
    step: OperationStep

    def is_newest_of(self, reader: ThreadReader) -> bool:
        """Return whether it is the last change of a thread by `ckpt`, and no checkpoint tells.

        Added checkpoints tell by their metadata, wherever they were added.
        """
        done = self.step.done
        if isinstance(done, AppliedChange) and done.change.added:
            return False
        added = added_at(reader)
        return added is None or added <= self.at

    def has_added(self, key: CheckpointKey) -> bool:
        """Return whether it added a checkpoint."""
        done = self.step.done
        return isinstance(done, AppliedChange) and key in done.change.added


def newest_of_thread(url: StoreUrl, thread_id: str) -> RecordedStep | None:
    """Return the newest recorded operation of a thread that can be taken back."""
    try:
        log = OperationLog.of_user()
        for one in changes_of_thread(log, place_of(url), thread_id):
            if not one.is_undoable:
                return None
            for step in reversed(steps_left(log, one.op)):
                if step.thread_id == thread_id:
                    return RecordedStep(one.op, one.operation.action, one.operation.at, step)
    except UsageError:
        return None  # the thread itself still tells what was added to it
    return None


def of_thread(url: StoreUrl, thread_id: str, op: str) -> RecordedStep:
    """Return what a recorded operation did to a thread.

    Raises `NotFound`, or `Refused` with the reason if it cannot be taken back.
    """
    log = OperationLog.of_user()
    found = operation_named(log, op, place_of(url))
    if found.why_not:
        raise Refused(f"cannot undo operation {op}: {found.why_not}")
    for step in reversed(steps_left(log, op)):
        if step.thread_id == thread_id:
            return RecordedStep(op, found.operation.action, found.operation.at, step)
    raise Refused(f"cannot undo operation {op}: nothing of it is left in this thread")


Kind: TypeAlias = Literal["replace", "set", "append"]
KINDS: tuple[Kind, ...] = ("replace", "set", "append")
Mending: TypeAlias = Literal["messages", "values", "writes"]
MENDINGS: tuple[Mending, ...] = ("messages", "values", "writes")
"""The commands of `ckpt repair`."""
_REASONS = 3
"""Maximum number of kept threads that an error names, with the reason."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A planned change, and its text."""

    lines: Callable[[int], list[StyledLine]]
    """Returns the text for a width in columns."""
    change: Change
    head: CheckpointKey | None
    """The new head; None if the head does not change, or the thread is removed."""
    done: str
    """What is said once it is carried out."""
    action: str
    """The name of the operation that is recorded."""
    undoes: str | None = None
    """The operation that an undo takes back, if it is recorded."""
    planned: PlannedStep | None = None
    """What is carried out in place of the change."""


@dataclass(frozen=True, slots=True)
class ReviewedRemoval:
    """A planned removal, in a plan file like that of `ckpt purge`."""

    plan: PlanFile
    lines: Callable[[int], list[StyledLine]]
    action: str
    """The name of the operation that is recorded."""


@dataclass(frozen=True, slots=True)
class Purge:
    """The fields of the purge form."""

    match: str = ""
    older_than: str = ""
    keep_last: str = ""

    def policy(self, now: datetime, zone: tzinfo) -> Policy:
        """Return the policy of the same `ckpt purge`. Raises `UsageError` if the form is
        invalid.
        """
        if self.keep_last and not (self.keep_last.isdecimal() and int(self.keep_last)):
            raise UsageError(f"cannot keep '{self.keep_last}' checkpoints: not a number above 0")
        found = Policy(
            Selection(match=self.match or None),
            parse_time(self.older_than, now, zone) if self.older_than else None,
            keep=RetentionRules(int(self.keep_last) if self.keep_last else None),
        )
        if found.is_empty:
            raise UsageError("nothing selected", hint="fill in at least one field")
        return found


@dataclass(frozen=True, slots=True)
class Fork:
    """The fields of the fork form."""

    to: str = ""
    """The new thread; empty for a new branch of the same thread."""
    edit: EditedValue | None = None
    as_node: str | None = None


class Planner:
    """Plans changes of one store; `open_rows` opens it without redaction or decryption.

    Each method is a query for a `StoreWorker`, and raises what the same command raises.
    """

    def __init__(
        self, url: StoreUrl, open_rows: Callable[[], Store], now: Callable[[], datetime]
    ) -> None:
        self._url, self._open_rows, self._now = url, open_rows, now

    def rollback(self, store: Store, place: CheckpointKey) -> Proposal:
        """Plan to roll the thread back to a checkpoint."""
        return self._forked(store, place, Fork(), RollbackOptions())

    def fork(self, store: Store, place: CheckpointKey, how: Fork) -> Proposal:
        """Plan to fork a checkpoint: to a new branch, or to a new thread."""
        edits = () if how.edit is None else (how.edit.edit,)
        return self._forked(
            store, place, how, RollbackOptions(fork=True, edits=edits, as_node=how.as_node)
        )

    def undo(self, store: Store, thread_id: str) -> Proposal:
        """Plan to undo the last rollback, fork or repair of a thread."""
        reader = ThreadReader(store, thread_id)
        recorded = newest_of_thread(self._url, thread_id)
        if recorded is not None and recorded.is_newest_of(reader):
            return self._taken_back(recorded, store)
        with closing(self._open_rows()) as rows:
            plan = plan_undo(reader, rows, self._now(), force=False)
        found = _proposal(plan)
        if recorded is not None and recorded.has_added(newest_added(reader).key):
            action = REDO if recorded.action == UNDO else UNDO
            found = replace(found, action=action, undoes=recorded.op)
        return found

    def undo_operation(self, store: Store, thread_id: str, op: str) -> Proposal:
        """Plan to undo what a recorded operation did to a thread."""
        newest = newest_of_thread(self._url, thread_id)
        if newest is not None and newest.op == op:
            return self.undo(store, thread_id)
        return self._taken_back(of_thread(self._url, thread_id, op), store)

    def _taken_back(self, recorded: RecordedStep, store: Store) -> Proposal:
        """Plan to take back what changed a thread without adding a checkpoint by `ckpt`."""
        # The log has rows as they are stored, encrypted ones too.
        with closing(open_store(self._url)) as rows:
            planned = planned_step(recorded.step, store, rows)
        thread_id = recorded.step.thread_id or ""
        action = REDO if recorded.action == UNDO else UNDO
        lines = [line(part_text(planned.part)), *value_lines(planned, action)]
        done = f"undid {recorded.action} {recorded.op} of {thread_id}"
        nothing = Change(thread_id, {})
        return Proposal(lambda _: lines, nothing, None, done, action, recorded.op, planned)

    def repair(
        self, store: Store, thread_id: str, kind: Mending, reducers: Mapping[str, str]
    ) -> Proposal:
        """Plan what `ckpt repair` does with a thread."""
        reader = ThreadReader(store, thread_id)
        with closing(self._open_rows()) as rows:
            if kind == "messages":
                found = plan_message_repair(
                    reader, rows, None, self._now(), content=None, force=False
                )
            elif kind == "writes":
                found = plan_write_repair(reader, rows, None, self._now())
            else:
                return _values(plan_value_repair(reader, rows, None, self._now(), reducers))
        return _proposal(found)

    def delete(self, store: Store, thread_id: str, path: Path) -> ReviewedRemoval:
        """Plan to delete a thread, whatever its status."""
        named = plan_named(store, {thread_id: "selected"})
        return self._removing(store, path, named, "threads delete")

    def purge(self, store: Store, policy: Policy, path: Path) -> ReviewedRemoval:
        """Plan to remove threads, or to prune their old checkpoints."""
        return self._removing(store, path, plan_purge(store, policy, self._now()), "purge")

    def _removing(
        self, store: Store, path: Path, threads: Iterable[PlannedRemoval], action: str
    ) -> ReviewedRemoval:
        now = self._now()
        plan = write_plan(path, removal_header(store.describe().layout, now), threads)
        if not plan.going:
            why = "; ".join(f"{name}: {reason}" for name, reason in plan.kept[:_REASONS])
            raise Refused("nothing to do" + (f": {why}" if why else ""))
        removal = RemovedThreads(plan, PurgeReport(), is_dry_run=True)
        return ReviewedRemoval(
            plan, lambda width: list(removal_lines(removal, Ui(now, width=width))), action
        )

    def _forked(
        self, store: Store, place: CheckpointKey, how: Fork, options: RollbackOptions
    ) -> Proposal:
        if place.checkpoint_ns:
            raise UsageError(
                "this checkpoint belongs to a subgraph",
                hint="press Esc to leave the subgraph, then choose the step that called it",
            )
        reader = ThreadReader(store, place.thread_id)
        with closing(self._open_rows()) as rows:
            if how.to:
                plan = plan_fork_to_thread(reader, rows, place.checkpoint_id, how.to, options)
            else:
                plan = plan_rollback(reader, rows, place.checkpoint_id, self._now(), options)
        if how.edit is not None:
            plan = replace(plan, changes=_with_edited(plan.changes, how.edit))
        return _proposal(plan, values=how.edit is not None)


@dataclass(frozen=True, slots=True)
class EditedValue:
    """A value that was changed in the editor."""

    edit: ChannelEdit
    value: Value
    """The value as the plan shows it."""


@dataclass(frozen=True, slots=True)
class Editable:
    """A channel's value as JSON for an editor, and the conversion back."""

    channel: str
    kind: Kind
    text: str
    objects: StoredObjects | None = None
    """Writes objects in their stored form; None if only plain JSON is accepted."""

    def read(self, text: str) -> EditedValue:
        """Parse an edited text. Raises `UsageError` if it is invalid."""
        try:
            value = from_json(json.loads(text))
            form = None if self.objects is None else self.objects.encodable(value)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"this is not JSON: {error}") from None
        if self.objects is None:
            edit = parse_edit(self.kind, f"{self.channel}={text}")
            return EditedValue(edit, edit.value)
        return EditedValue(ChannelEdit(self.kind, self.channel, form), value)


def editable(store: Store, place: CheckpointKey, channel: str, kind: Kind) -> Editable:
    """Return the text to edit: the channel's value if it is to be replaced, otherwise null.

    Raises `NotFound` if there is no such channel, and `Unsupported` if the unchanged value would
    not be accepted.
    """
    reader = ThreadReader(store, place.thread_id)
    moment = reader.moment(place.checkpoint_ns, place.checkpoint_id, state=[channel])
    moment.check_readable()
    values = read_state(reader, moment, [channel]).values
    if channel not in values:
        raise NotFound(f"no channel '{channel}' at this checkpoint")
    if kind != "replace":
        return Editable(channel, kind, "null\n")
    text = json.dumps(to_json(values[channel]), ensure_ascii=False, indent=2) + "\n"
    found = Editable(channel, kind, text, objects_of(moment.checkpoint, moment.body))
    try:
        found.read(text)
    except UsageError as error:
        raise Unsupported(
            f"cannot edit '{channel}' as a whole: {error.message}",
            hint="type 'set' in the form: its JSON is merged by the channel's reducer",
        ) from None
    return found


def channels_of(store: Store, place: CheckpointKey) -> list[str]:
    """Return the channels that have a value at a checkpoint."""
    reader = ThreadReader(store, place.thread_id)
    moment = reader.moment(place.checkpoint_ns, place.checkpoint_id, state=True)
    return list(read_state(reader, moment).values)


def _with_edited(
    changes: Mapping[str, ChannelChange], edited: EditedValue
) -> Mapping[str, ChannelChange]:
    """Return the changes of a plan, with a replaced value in the form shown to people."""
    channel = edited.edit.channel
    if edited.edit.kind != "replace" or channel not in changes:
        return changes
    was = changes[channel]
    before = {} if was.change == "added" else {channel: was.before}
    rest = {name: one for name, one in changes.items() if name != channel}
    return rest | diff_channels(before, {channel: edited.value})


def mending(finding: Finding) -> Mending | None:
    """Return the repair that mends a finding; None if there is none."""
    words = [] if finding.own_fix else CODES[finding.code].fix.split()
    named = words[1] if words[:1] == ["repair"] else ""
    return next((one for one in MENDINGS if one == named), None)


def _values(found: Repair) -> Proposal:
    """Return a plan to restore values. Raises `Refused` if none can be restored."""
    if not found.rebuilt:
        reasons = "; ".join(one.reason for one in found.refused)
        raise Refused(reasons or "nothing is missing or unreadable")
    if found.plan is not None:
        return _proposal(found.plan)
    done = f"restored {counted(len(found.rebuilt), 'value')} of {found.thread_id}"
    lines = repair_lines
    return Proposal(lambda width: list(lines(found, width)), found.change, None, done, "repair")


def _proposal(plan: CheckpointPlan, *, values: bool = False) -> Proposal:
    """Return a plan with its text; with `values`, the changes are shown in full."""

    def lines(width: int) -> list[StyledLine]:
        return list(plan_lines(plan, width, is_whole=values))

    done = next(done_lines(plan, "")).text
    return Proposal(lines, plan.change, plan.head, done, plan.action)
