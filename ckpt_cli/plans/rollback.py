"""Plans a rollback of one thread or of many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from ckpt_backends import shell
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Put, set_keys
from ckpt_backends.encryption import is_encrypted_type
from ckpt_backends.errors import NotFound, Refused, UsageError
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Record, Status, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core import forking
from ckpt_cli.core.edit_state import VALUES
from ckpt_cli.core.lineage import is_stateful
from ckpt_cli.core.state import BY, FROM, NAME, REASON, RESUME, THREAD, WITH, WRITES, read_metadata
from ckpt_cli.core.tasks import (
    CONTROL,
    Task,
    TaskIdBase,
    moved_id,
    new_input,
    origin_at,
    ran,
    ran_here,
)
from ckpt_cli.plans.fork import (
    NewRows,
    RollbackOptions,
    Root,
    add_copy,
    add_empty,
    asked_again,
    check_store,
    configurable,
    copy_plan,
    edges_of,
    finished_nodes,
    head_notes,
    heads_of,
    is_busy,
    known_channels,
    later_nodes,
    left_behind,
    new_key,
    nodes_behind,
    nodes_of_copy,
    notes_of,
    open_questions,
    plan_fork_to_thread,
    plan_values_rollback,
    previewed,
    repeated_nodes,
    target_and_head,
)
from ckpt_cli.plans.proposal import Proposal, ResumePoint
from ckpt_cli.reading.store import carried_metadata
from ckpt_cli.reading.target import NamedThread, Target, TargetArguments, find_checkpoint
from ckpt_cli.reading.thread import Moment, ThreadReader

ROLLBACK_OPTIONS = "a REF, --steps N, --to-last STATUS, --last-good, --reopen or --as-of TIME"
FORK_OPTIONS = "a REF such as `head`, or --as-of TIME"
COPY_OPTIONS = "--at REF, such as `--at head`, or --as-of TIME"


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """How the user chose the checkpoint: at most one of the first seven fields is set."""

    ref: str | None = None
    at: str | None = None
    as_of: str | None = None
    steps: int | None = None
    to_last: str | None = None
    last_good: bool = False
    reopen: bool = False
    options: str = ROLLBACK_OPTIONS
    """The options of the command, for a hint."""
    head_by_default: bool = False
    """Whether a thread without a REF means its head."""

    @property
    def given(self) -> list[str]:
        """The names of what was given, as the user knows them."""
        values = {
            "a REF": self.ref,
            "--at": self.at,
            "--as-of": self.as_of,
            "--steps": self.steps,
            "--to-last": self.to_last,
            "--last-good": self.last_good or None,
            "--reopen": self.reopen or None,
        }
        return [name for name, value in values.items() if value is not None]

    def check(self) -> None:
        """Raise `UsageError` if more than one is given, or one that says nothing."""
        given = self.given
        if len(given) > 1:
            raise UsageError(
                f"{given[0]} cannot be combined with {given[1]}", hint="use one of them"
            )
        if (self.at if self.ref is None else self.ref) == "":
            raise UsageError("the REF is empty", hint="`head` is the newest checkpoint")


def find_target(
    store: Store,
    thread: str,
    target_options: TargetOptions,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> Target:
    """Return the chosen checkpoint of the root namespace.

    Raises `NotFound`, `Ambiguous`, or `UsageError` if no checkpoint is chosen, or more than one.
    """
    target_options.check()
    said = target_options.given
    at = target_options.at if target_options.ref is None else target_options.ref
    found = find_checkpoint(
        store, TargetArguments(thread, at, as_of=target_options.as_of), now, zone, note
    )
    if (
        found.chosen
        and said
        and said[0].startswith("--")
        and at is None
        and target_options.as_of is None
    ):
        raise UsageError(
            f"'{thread}' names a checkpoint already, so {said[0]} cannot choose one",
            hint=f"give the thread alone: {shell.word(found.reader.thread_id)}",
        )
    if not said and not found.chosen and not target_options.head_by_default:
        raise UsageError(
            f"no checkpoint given for thread '{found.reader.thread_id}'",
            hint=f"give {target_options.options}; {_tree(found.reader)} lists the checkpoints",
        )
    return chosen_from(found, target_options, note)


def chosen_from(
    found: Target, target_options: TargetOptions, note: Callable[[str], None]
) -> Target:
    """Return the checkpoint that the options choose, starting from another one of the thread.

    Raises `NotFound`.
    """
    reader, start = found.reader, found.checkpoint_id
    if target_options.steps is not None:
        chosen = _up(reader, start, target_options.steps)
    elif target_options.to_last is not None:
        chosen = _last_with(reader, start, Status(target_options.to_last))
    elif target_options.last_good:
        chosen = _input_of_failed(reader, start, note)
    elif target_options.reopen:
        chosen = _asked_last(reader, start, note)
    else:
        return found
    return Target(reader, "", chosen, True)


def _up(reader: ThreadReader, start: str, steps: int) -> str:
    """Return the ancestor N steps up; a copy added by `ckpt` and its original count as one step."""
    line = reader.ancestry("", start)
    copies = {
        one.key.checkpoint_id
        for one in reader.checkpoints("", line, metadata=True)
        if (metadata := read_metadata(one)).get(BY) == NAME
        and metadata.get(FROM) == one.parent_checkpoint_id
    }
    found = [one for one in line if one not in copies]
    if steps >= len(found):
        raise NotFound(
            f"--steps {steps} is too far for thread '{reader.thread_id}':"
            f" its head has {len(found) - 1 or 'no'} earlier checkpoint{'s' * (len(found) != 2)}",
            hint=_list_them(reader),
        )
    return found[steps]


def _last_with(reader: ThreadReader, start: str, status: Status) -> str:
    for moment in _moments(reader, reader.ancestry("", start)[1:]):
        if status in moment.conditions:
            return moment.key.checkpoint_id
    raise NotFound(
        f"no earlier checkpoint of thread '{reader.thread_id}' has status {status}",
        hint=_list_them(reader),
    )


def _input_of_failed(reader: ThreadReader, start: str, note: Callable[[str], None]) -> str:
    """Return the checkpoint from which the last failed step started, even if a retry succeeded.

    It contains the answers to earlier questions, so that nobody is asked again.
    """
    for moment in _moments(reader, reader.ancestry("", start)):
        if has_failed_step(moment):
            nodes = [task.node or "?" for task in failed_tasks(moment)]
            step = "?" if moment.number is None else moment.number + 1
            failed = f" ({', '.join(dict.fromkeys(nodes))})" if nodes else ""
            note(f"the last step that failed is step {step}{failed}; going back to its input")
            return moment.key.checkpoint_id
    raise NotFound(
        f"no step failed on the current branch of thread '{reader.thread_id}'",
        hint=f"{_tree(reader)} shows all branches",
    )


def _asked_last(reader: ThreadReader, start: str, note: Callable[[str], None]) -> str:
    """Return the newest checkpoint whose step asked a question that was answered since."""
    after: Moment | None = None
    for moment in _moments(reader, reader.ancestry("", start)):
        if nodes := answered_nodes(moment, after):
            step = "?" if moment.number is None else moment.number + 1
            note(f"the last question that was answered is that of {nodes[0]} in step {step}")
            return moment.key.checkpoint_id
        after = moment
    raise NotFound(
        f"no question was answered on the current branch of thread '{reader.thread_id}'",
        hint=f"{_tree(reader)} shows all branches",
    )


def answered_nodes(moment: Moment, after: Moment | None) -> tuple[str, ...]:
    """Return the nodes that asked in the step of a checkpoint and were answered since.

    `after` is the next checkpoint of the branch. With `durability="exit"`, only that one tells of
    an answer: the node ran, and not for a new input.
    """
    went_on: tuple[str, ...] = ()
    if after is not None and ran_here(after.source):
        seen = moment.body.seen, after.body.seen
        went_on = ran(moment.step, *seen) if new_input(moment.step, *seen) is None else ()
    return tuple(
        task.node or "?"
        for task in moment.step.tasks
        if task.questions
        and (
            any(not one.is_open for one in task.questions)
            or task.node in went_on
            or any(write.channel == RESUME for write in task.writes)
        )
    )


def failed_tasks(moment: Moment) -> list[Task]:
    """Return the tasks of a checkpoint's step that failed, even if a retry succeeded."""
    return [task for task in moment.step.tasks if task.error and not task.handled]


def has_failed_step(moment: Moment) -> bool:
    """Return whether the step after a checkpoint failed, even if a retry succeeded."""
    return bool(failed_tasks(moment)) or moment.status is Status.ERROR


def _list_them(reader: ThreadReader) -> str:
    return f"`{shell.command('ckpt', 'history', ids=[reader.thread_id])}` lists them"


def _tree(reader: ThreadReader) -> str:
    return f"`{shell.command('ckpt', 'show', '--tree', ids=[reader.thread_id])}`"


def _moments(reader: ThreadReader, ids: list[str]) -> Iterator[Moment]:
    """Yield these checkpoints, newest first."""
    if ids:
        yield from reader.moments("", ids)


def plan_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, options: RollbackOptions
) -> forking.CheckpointPlan:
    """Plan to roll back to a checkpoint of the root namespace.

    Raises `Unsupported` if the layout or the checkpoint does not allow it, and `Refused` if it is
    not safe.
    """
    check_store(rows)
    if reader.is_values_only:
        return plan_values_rollback(reader, rows, checkpoint_id, now, options)
    target, head = target_and_head(reader, checkpoint_id)
    heads = heads_of(reader)
    tick = forking.first_tick(now, heads.values(), force=options.force)
    made = NewRows(rows)
    marks: dict[str, str] = {} if options.reason is None else {REASON: options.reason}
    stateful, kept = _memories(reader, target, options)
    # The root gets the greatest id: a resume looks for the state of subgraphs before it.
    key = new_key(target, tick + len(stateful))
    for ahead, (ns, older) in enumerate(stateful):
        with_root = {**marks, WITH: key.checkpoint_id}
        if older is None:
            add_empty(made, target, ns, tick + ahead, with_root)
        else:
            stored = reader.moment(ns, older, state=True)
            add_copy(reader, made, stored, new_key(stored, tick + ahead), with_root)
    edges = edges_of(reader, options.as_node) if options.as_node is not None else None
    root = Root(options.sibling, options.edits, edges, known_channels(target, head))
    why = add_copy(reader, made, target, key, marks, root)
    preview, edit_notes = previewed(reader, target, options.edits)
    left = left_behind(reader, head, target)
    also, main = tuple(made.added[:-1]), made.added[-1]
    change, step = made.change(reader.thread_id, heads), (target.number or 0) + 1
    return replace(
        copy_plan(reader, head, target, main, change, preview, step),
        action="fork" if options.fork else "rollback",
        why=why,
        next=nodes_of_copy(target) if edges is None else nodes_behind(edges),
        again=repeated_nodes(reader, target) if edges is None else (),
        asked=asked_again(reader, target) if edges is None else (),
        also=also,
        notes=(
            *edit_notes,
            *notes_of(reader, head, target, now),
            *(f"the subgraph '{ns}' keeps its current state" for ns in kept),
            *_too_early(reader, target, main),
        ),
        abandoned=len(left),
        later=later_nodes(reader, left),
    )


def _moved_on(reader: ThreadReader, checkpoint_id: str) -> Iterator[tuple[str, str | None]]:
    """Yield stateful namespaces with checkpoints after this one, and their newest earlier
    checkpoint.
    """
    for ns in reader.namespaces:
        ids = [one.key.checkpoint_id for one in reader.index(ns)] if is_stateful(ns) else []
        if ids and ids[0] > checkpoint_id:
            yield ns, next((one for one in ids if one < checkpoint_id), None)


def _memories(
    reader: ThreadReader, target: Moment, options: RollbackOptions
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the stateful namespaces to roll back, each with its checkpoint, and those to leave.

    If versions are plain numbers, an empty checkpoint would restart them at 1, and later values
    would be mixed up with those of the abandoned branch.
    """
    moved = list(_moved_on(reader, target.key.checkpoint_id))
    if options.root_only:
        return [], [ns for ns, _ in moved]
    if forking.is_numbered(target.checkpoint, target.body):
        known = [(ns, older) for ns, older in moved if older is not None]
        return list(known), [ns for ns, older in moved if older is None]
    return moved, []


def _too_early(
    reader: ThreadReader, target: Moment, main: forking.TouchedCheckpoint
) -> Iterator[str]:
    """Yield a warning about a LangGraph fault: a sibling resets subgraphs to its parent's time.

    Source: `replay_checkpoint_id` in `_first` of `langgraph/pregel/_loop.py`.
    """
    parent = target.checkpoint.parent_checkpoint_id
    if main.form != "sibling" or parent is None:
        return
    for ns in filter(is_stateful, reader.namespaces):
        ids = [one.key.checkpoint_id for one in reader.index(ns)]
        if any(parent < one < target.key.checkpoint_id for one in ids):
            yield (
                f"the subgraph '{ns}' ran in the step before the target; if it runs next,"
                " LangGraph loads its state from before that step"
            )


def plan_head_copy(
    reader: ThreadReader,
    rows: Store,
    head: Moment,
    now: datetime,
    *,
    mends: Sequence[str],
    values: Mapping[str, Put] | None = None,
    force: bool = False,
    unanswered: Collection[str] = (),
) -> forking.CheckpointPlan:
    """Plan to add a copy of the root's head, with other `values` of some channels.

    The copy has no answers of the caller. It has the results of finished tasks, and the answers
    that other tasks have used, but for those of the tasks `unanswered`, if the ids of these tasks
    can be computed for the copy; the others run again.

    Raises everything that `plan_rollback` raises.
    """
    options = RollbackOptions(force=force)
    back = plan_rollback(reader, rows, head.key.checkpoint_id, now, options)
    *others, copy = back.change.checkpoints
    carried = [
        (task, write)
        for task, write in _carried(rows, head, copy.key)
        if write.channel != RESUME or task.id not in unanswered
    ]
    copy = _with_values(_with_writes(copy, len(carried)), values or {})
    change = replace(
        back.change,
        checkpoints=(*others, copy),
        writes=(*back.change.writes, *(write.record() for _, write in carried)),
    )
    at = dict(back.configurable or {})
    if carried:
        # With an id, LangGraph travels in time and runs the tasks again.
        at.pop("checkpoint_id", None)
    ids = {task.id for task, _ in carried}
    kept = [one for one in head.step.tasks if one.finished and one.id in ids]
    to_run = [one for one in head.step.tasks if one not in kept]
    return replace(
        back,
        action="repair",
        change=change,
        configurable=at,
        next=None if head.step.next is None else _nodes(to_run),
        saved=_nodes(kept),
        again=_nodes([one for one in to_run if one.finished]),
        notes=(
            *(f"the result of {node} is kept" for node in dict.fromkeys(_nodes(kept))),
            *(one for one in back.notes if one not in set(head_notes(head))),
        ),
        mends=tuple(mends),
    )


def with_reason(plan: forking.CheckpointPlan, reason: str | None) -> forking.CheckpointPlan:
    """Return a plan that records a reason in the metadata of the checkpoints that it adds."""
    if reason is None:
        return plan
    marked = tuple(
        one._replace(metadata=set_keys(one.metadata, {REASON: Put(reason)}))
        for one in plan.change.checkpoints
    )
    return replace(plan, change=replace(plan.change, checkpoints=marked))


def readable_head(
    reader: ThreadReader, checkpoint_id: str | None, what: str, *, state: bool
) -> Moment:
    """Return the root's head, which is to be copied; with `state`, also its values.

    Raises `Refused` if another checkpoint is named, or if the body of the head cannot be decoded,
    and `Unreadable` if it is encrypted.
    """
    head = reader.head("")
    if head is None:
        raise Refused(f"thread '{reader.thread_id}' has no checkpoint in the root namespace")
    if checkpoint_id not in (None, head):
        raise Refused(
            f"cannot repair {what} of checkpoint '{checkpoint_id}': it is not the head",
            hint="only a copy of the head can be mended; nothing that a saver stored is changed",
        )
    found = reader.moment("", head, state=state)
    if found.body.problem is not None and is_encrypted_type(found.body.problem.type):
        found.check_readable()
    if found.body.problem is not None:
        back = shell.command("ckpt", "rollback", ids=[reader.thread_id, "~1"])
        raise Refused(
            f"cannot repair checkpoint '{head}': it cannot be decoded",
            hint=f"roll back to its parent: `{back}`",
        )
    return found


def _carried(rows: Store, head: Moment, copy: CheckpointKey) -> Iterator[tuple[Task, Write]]:
    """Yield the writes that the copy also gets, under the ids that their tasks have there."""
    origin, there = _origin(head, head.key), _origin(head, copy)
    if origin is None or there is None or head.body.v < forking.NEWEST_FORMAT:
        return
    moved: dict[str, tuple[Task, str]] = {}
    for task in head.step.tasks:
        new = moved_id(task, head.body, origin, there) if task.id is not None else None
        if task.id is not None and new is not None:
            moved[task.id] = task, new
    stored = rows.writes(
        head.key.thread_id,
        checkpoint_ns=head.key.checkpoint_ns,
        checkpoint_ids=[head.key.checkpoint_id],
        values=True,
    )
    for write in stored:
        if write.task_id in moved:
            task, new = moved[write.task_id]
            is_wanted = write.channel not in CONTROL if task.finished else write.channel == RESUME
            if is_wanted:
                yield task, write._replace(key=copy, task_id=new)


def _origin(head: Moment, key: CheckpointKey) -> TaskIdBase | None:
    """Return what the ids of tasks at the head, or at its copy, are hashed from."""
    number = head.number or 0
    return origin_at(key, head.body, number + 1 if key == head.key else number + 2)


def _with_writes(copy: Record, more: int) -> Record:
    """Return the copy with the number of its writes, by which `undo` knows what was added."""
    if not more:
        return copy
    metadata = decode(copy.metadata)
    known = metadata.get(WRITES) if isinstance(metadata, dict) else None
    number = known if isinstance(known, int) else 0
    return copy._replace(metadata=set_keys(copy.metadata, {WRITES: Put(number + more)}))


def _with_values(copy: Record, values: Mapping[str, Put]) -> Record:
    if not values:
        return copy
    return copy._replace(value=set_keys(copy.value, {VALUES: dict(values)}))


def _nodes(tasks: Iterable[Task]) -> tuple[str, ...]:
    """Return the nodes of some tasks."""
    return tuple(one.node or "?" for one in tasks)


# Plans a rollback, fork or copy of one of many threads.
#
# A run that was stopped goes on where it ended: a thread that it has changed is recognised by its
# head, without a log, and is ready to be resumed.


_PUT_BACK = "ckpt put it back before, and nothing ran since"
_COPIED = "ckpt copied it before, and nothing ran since"
_CUT_SHORT = "its run was cut short before this step ended"
_BUSY = "its newest checkpoint is a few seconds old: an agent may be running it"
PLACE = "{thread}"
"""What stands for the thread id in the id of a new thread, such as `{thread}-retry`."""


def new_thread_id(template: str, thread_id: str) -> str:
    """Return the id of the copy of a thread."""
    return template.replace(PLACE, thread_id)


@dataclass(frozen=True, slots=True)
class ManyRollbacks:
    """How many threads are rolled back, forked or copied."""

    rows: Store
    """The store as it is stored, decrypted."""
    target: TargetOptions
    options: RollbackOptions
    now: datetime
    zone: tzinfo
    to: str | None = None
    """The template of the ids of new threads; None to add to the same thread."""

    def plan(self, reader: ThreadReader, checkpoint_id: str | None) -> Proposal:
        """Plan the change of a thread to the given checkpoint, or to the one that is chosen.

        Raises `Refused` if the thread has no such checkpoint, and what plans raise.
        """
        try:
            head_id = NamedThread(reader).checkpoint(self.now, self.zone).checkpoint_id
            head = reader.moment("", head_id)
            if self.to is not None:
                return self._fork(reader, head, checkpoint_id, self.to)
            if _is_unused_copy(head):
                return _ready(reader, head, configurable(head.key), _PUT_BACK)
            if self.target.last_good and not has_failed_step(head):
                return _cut_short(reader, head, is_busy=is_busy(reader, self.now))
            # --last-good means the head here: an older failure is not looked for.
            target = head_id if self.target.last_good else checkpoint_id or self._chosen(reader)
            plan = plan_rollback(reader, self.rows, target, self.now, self.options)
        except (NotFound, UsageError) as error:
            raise Refused(error.message) from error
        return Proposal.of(plan)

    def _chosen(self, reader: ThreadReader) -> str:
        named = NamedThread(reader, ref=self.target.at, as_of=self.target.as_of)
        found = named.checkpoint(self.now, self.zone)
        return chosen_from(found, self.target, _no_note).checkpoint_id

    def _fork(
        self, reader: ThreadReader, head: Moment, checkpoint_id: str | None, to: str
    ) -> Proposal:
        """Plan the fork of a thread to a new one, unless it is such a fork itself."""
        if _is_fork(head) and new_thread_id(to, str(head.metadata[THREAD])) == reader.thread_id:
            return Proposal(reader.thread_id, state="unneeded")
        target = checkpoint_id or self._chosen(reader)
        new_id = new_thread_id(to, reader.thread_id)
        there = _fork_there(reader, new_id, target)
        if there is not None:
            at = configurable(there.key)
            if target == head.key.checkpoint_id:
                # As in the plan of a fork of the head.
                del at["checkpoint_id"]
            return _ready(reader, there, at, _COPIED)
        plan = plan_fork_to_thread(reader, self.rows, target, new_id, self.options)
        return replace(Proposal.of(plan), heads=heads_of(reader))


def _no_note(_: str) -> None:
    """Say nothing: there would be a note for each thread."""


def _cut_short(reader: ThreadReader, head: Moment, *, is_busy: bool) -> Proposal:
    """Return where a thread is resumed whose run ended without an error; it needs nothing if it is
    done, or waits for an answer.
    """
    if head.status is not Status.PENDING:
        return Proposal(reader.thread_id, state="unneeded")
    at = configurable(head.key)
    # With an id, LangGraph would run again what has finished in this step.
    del at["checkpoint_id"]
    return _ready(reader, head, at, _BUSY if is_busy else _CUT_SHORT)


def _ready(reader: ThreadReader, head: Moment, at: dict[str, str], reason: str) -> Proposal:
    """Return that the reader's thread, or its fork, is resumed from its head as it is."""
    point = ResumePoint(
        head.key,
        head.number,
        head.step.waiting,
        at,
        open_questions(head),
        carried_metadata(reader.store, head.metadata),
        () if "checkpoint_id" in at else finished_nodes(head),
        head.body.is_javascript,
    )
    return Proposal(reader.thread_id, state="ready", remark=reason, resume=point)


def _is_unused_copy(head: Moment) -> bool:
    """Return whether a head was added by `ckpt`, and no task of it has ended or failed."""
    # update_state() keeps the other marks of the checkpoint that it updates.
    is_copy = head.source == "fork" and head.metadata.get(BY) == NAME
    if not is_copy or THREAD in head.metadata:
        return False
    return all(one.task_id == NULL_TASK_ID for one in head.writes)


def _is_fork(head: Moment) -> bool:
    """Return whether a head was copied to a new thread."""
    return head.metadata.get(BY) == NAME and THREAD in head.metadata


def _fork_there(reader: ThreadReader, thread_id: str, target: str) -> Moment | None:
    """Return the head of a thread if it is a fork of this checkpoint of the thread."""
    known = reader.store.thread(thread_id)
    if known is None:
        return None
    fork = ThreadReader(reader.store, known)
    if fork.head("") != target:
        return None
    head = fork.moment("", target)
    return head if _is_fork(head) and head.metadata[THREAD] == reader.thread_id else None
