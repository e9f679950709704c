"""Plans of the changes that the screen offers; nothing is written here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from ckpt_backends.codec import Value, from_json, to_json
from ckpt_backends.encryption import DecryptingStore
from ckpt_backends.errors import NotFound, Refused, Unsupported, UsageError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_cli.core.diff import ChannelChange, diff_channels
from ckpt_cli.core.doctor.findings import CODES, Finding
from ckpt_cli.core.edit_state import ChannelEdit, StoredObjects, objects_of, parse_edit
from ckpt_cli.core.forking import CheckpointPlan, Repair
from ckpt_cli.core.retention import PlannedRemoval, PurgeReport, RetentionRules
from ckpt_cli.core.times import parse_time
from ckpt_cli.operations.log import OperationLog, place_of
from ckpt_cli.plans import purge
from ckpt_cli.plans.fork import RollbackOptions, plan_fork_to_thread
from ckpt_cli.plans.proposal import Proposal, new_step
from ckpt_cli.plans.repair import plan_message_repair, plan_value_repair, plan_write_repair
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.undo import Undo, undo_of_operation, undo_of_thread
from ckpt_cli.queries.operations import operation_named
from ckpt_cli.queries.threads import Selection
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.operations import part_text, value_lines
from ckpt_cli.render.plan import done_lines, lines_of, repair_lines
from ckpt_cli.render.purge import RemovedThreads, removal_lines
from ckpt_cli.render.text import StyledLine, Ui, line
from ckpt_cli.render.values import counted

Kind: TypeAlias = Literal["replace", "set", "append"]
KINDS: tuple[Kind, ...] = ("replace", "set", "append")
Mending: TypeAlias = Literal["messages", "values", "writes"]
MENDINGS: tuple[Mending, ...] = ("messages", "values", "writes")
"""The commands of `ckpt repair`."""
_REASONS = 3
"""Maximum number of kept threads that an error names, with the reason."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What is proposed, and its text."""

    proposals: Sequence[Proposal]
    lines: Callable[[int], list[StyledLine]]
    """Returns the text for a width in columns."""
    head: CheckpointKey | None
    """The new head; None if the head does not change, or the thread is removed."""
    done: str
    """What is said once it is carried out."""
    action: str
    """The name of the operation that is recorded."""
    undoes: str | None = None
    """The operation that an undo takes back, if it is recorded."""


@dataclass(frozen=True, slots=True)
class ReviewedRemoval:
    """A planned removal, in a plan file like that of `ckpt purge`."""

    plan: purge.PlanFile
    lines: Callable[[int], list[StyledLine]]
    action: str
    """The name of the operation that is recorded."""


def policy_of(
    match: str, older_than: str, keep_last: str, now: datetime, zone: tzinfo
) -> purge.Policy:
    """Return the policy of the same `ckpt purge`, from the fields of a form. Raises `UsageError`
    if they are invalid.
    """
    if keep_last and not (keep_last.isdecimal() and int(keep_last)):
        raise UsageError(f"cannot keep '{keep_last}' checkpoints: not a number above 0")
    found = purge.Policy(
        Selection(match=match or None),
        parse_time(older_than, now, zone) if older_than else None,
        keep=RetentionRules(int(keep_last) if keep_last else None),
    )
    if found.is_empty:
        raise UsageError("nothing selected", hint="fill in at least one field")
    return found


class _Stores:
    """A store as a change of it needs it; what is opened here is closed by `close`."""

    def __init__(self, store: Store | None, opening: Opening, now: datetime) -> None:
        self._store, self.opening, self.now = store, opening, now

    @property
    def store(self) -> Store:
        """The store as the screen reads it."""
        return self._store or self.rows

    @cached_property
    def rows(self) -> Store:
        """The store without redaction and decryption."""
        return open_store(self.opening.url)

    @cached_property
    def editable(self) -> Store:
        """The same rows, decrypted; copies of them are encrypted again."""
        return DecryptingStore(self.rows, self.opening.keys(), lambda _: None)

    def close(self) -> None:
        if "rows" in self.__dict__:
            self.rows.close()


class Planner:
    """Plans changes of one store.

    Each method is a query for a `StoreWorker`, and raises what the same command raises.
    """

    def __init__(self, opening: Opening, now: Callable[[], datetime]) -> None:
        self._opening, self._now = opening, now

    def opened(self, store: Store | None = None) -> closing[_Stores]:
        """Return the store for a plan, which reads it by `store`, or for a change."""
        return closing(_Stores(store, self._opening, self._now()))

    def rollback(self, store: Store, place: CheckpointKey) -> Reviewed:
        """Plan to roll the thread back to a checkpoint."""
        return self._forked(store, place, RollbackOptions())

    def fork(
        self,
        store: Store,
        place: CheckpointKey,
        to: str = "",
        edit: EditedValue | None = None,
        as_node: str | None = None,
    ) -> Reviewed:
        """Plan to fork a checkpoint to the new thread `to`; to a new branch if that is empty."""
        edits = () if edit is None else (edit.edit,)
        options = RollbackOptions(fork=True, edits=edits, as_node=as_node)
        return self._forked(store, place, options, to, edit)

    def undo(self, store: Store, thread_id: str, op: str = "") -> Reviewed:
        """Plan to undo the last change of a thread, or what a recorded operation did to it."""
        with self.opened(store) as stores:
            if not op:
                return _taken_back(undo_of_thread(stores, thread_id, lambda _: None))
            found = operation_named(OperationLog.of_user(), op, place_of(self._opening.url))
            return _taken_back(undo_of_operation(stores, found, thread_id))

    def repair(
        self, store: Store, thread_id: str, kind: Mending, reducers: Mapping[str, str]
    ) -> Reviewed:
        """Plan what `ckpt repair` does with a thread."""
        reader = ThreadReader(store, thread_id)
        with self.opened(store) as stores:
            rows = stores.editable
            if kind == "messages":
                found = plan_message_repair(
                    reader, rows, None, self._now(), content=None, force=False
                )
            elif kind == "writes":
                found = plan_write_repair(reader, rows, None, self._now())
            else:
                return _values(plan_value_repair(reader, rows, None, self._now(), reducers))
        return _reviewed(found)

    def delete(self, store: Store, thread_id: str, path: Path) -> ReviewedRemoval:
        """Plan to delete a thread, whatever its status."""
        named = purge.plan_named(store, {thread_id: "selected"})
        return self._removing(store, path, named, "threads delete")

    def purge(self, store: Store, policy: purge.Policy, path: Path) -> ReviewedRemoval:
        """Plan to remove threads, or to prune their old checkpoints."""
        return self._removing(store, path, purge.plan_purge(store, policy, self._now()), "purge")

    def _removing(
        self, store: Store, path: Path, threads: Iterable[PlannedRemoval], action: str
    ) -> ReviewedRemoval:
        now = self._now()
        plan = purge.write_plan(path, purge.removal_header(store.describe().layout, now), threads)
        if not plan.going:
            why = "; ".join(f"{name}: {reason}" for name, reason in plan.kept[:_REASONS])
            raise Refused("nothing to do" + (f": {why}" if why else ""))
        removal = RemovedThreads(plan, PurgeReport(), is_dry_run=True)
        return ReviewedRemoval(
            plan, lambda width: list(removal_lines(removal, Ui(now, width=width))), action
        )

    def _forked(
        self,
        store: Store,
        place: CheckpointKey,
        options: RollbackOptions,
        to: str = "",
        edit: EditedValue | None = None,
    ) -> Reviewed:
        if place.checkpoint_ns:
            raise UsageError(
                "this checkpoint belongs to a subgraph",
                hint="press Esc to leave the subgraph, then choose the step that called it",
            )
        reader = ThreadReader(store, place.thread_id)
        with self.opened(store) as stores:
            rows = stores.editable
            if to:
                plan = plan_fork_to_thread(reader, rows, place.checkpoint_id, to, options)
            else:
                plan = plan_rollback(reader, rows, place.checkpoint_id, self._now(), options)
        if edit is not None:
            plan = replace(plan, changes=_with_edited(plan.changes, edit))
        return _reviewed(plan, values=edit is not None)


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


def _values(found: Repair) -> Reviewed:
    """Return a plan to restore values. Raises `Refused` if none can be restored."""
    if not found.rebuilt:
        reasons = "; ".join(one.reason for one in found.refused)
        raise Refused(reasons or "nothing is missing or unreadable")
    if found.plan is not None:
        return _reviewed(found.plan)
    done = f"restored {counted(len(found.rebuilt), 'value')} of {found.thread_id}"
    proposal = Proposal(found.thread_id, new_step(found.change))
    return Reviewed(
        [proposal], lambda width: list(repair_lines(found, width)), None, done, "repair"
    )


def _taken_back(undo: Undo) -> Reviewed:
    """Return what takes back a change. Raises the error if it cannot be taken back."""
    if undo.single is not None and undo.single.plan is not None:
        shown = _reviewed(undo.single.plan)
        return replace(shown, proposals=undo.proposals, undoes=undo.undoes)
    lines = list[StyledLine]()
    for one in undo.proposals:
        if one.error is not None:
            raise one.error
        if one.step is not None:
            lines += [line(part_text(one.step.done) or ""), *value_lines(one, undo.action)]
    done = ""
    if undo.found is not None:
        operation = undo.found.operation
        done = f"undid {operation.action} {operation.op} of {undo.proposals[0].thread_id}"
    return Reviewed(undo.proposals, lambda _: lines, None, done, undo.action, undo.undoes)


def _reviewed(plan: CheckpointPlan, *, values: bool = False) -> Reviewed:
    """Return a plan with its text; with `values`, the changes are shown in full."""

    def lines(width: int) -> list[StyledLine]:
        return list(lines_of(plan, width, is_whole=values))

    done = next(done_lines(plan, "")).text
    return Reviewed([Proposal.of(plan)], lines, plan.head, done, plan.action)
