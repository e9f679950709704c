"""The tasks of a checkpoint: which finished, failed or wait, and what they wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.codec.values import CHANNELS, Cut, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core.lineage import graph_of
from ckpt_cli.core.state import ERROR, INTERRUPT, RESUME, Body, Version, source_from
from ckpt_cli.core.tasks.attribution import ERROR_SOURCE, Attribution, Run, path_of
from ckpt_cli.core.tasks.task_ids import (
    UPDATE_PATH,
    TaskIdBase,
    call_of,
    handler_path,
    interrupt_id,
    is_call,
    is_handler,
    pull_ids,
    pull_path,
    pulled_node,
    send_ids,
    send_path,
    sent_index,
    trigger_sets,
)
from ckpt_cli.core.tasks.triggers import (
    NOT_NODES,
    SENDS,
    START,
    Readers,
    Ready,
    find_ready,
    is_greater,
    is_output,
    learn,
    named_node,
    sent_nodes,
    written_by_caller,
)
from ckpt_cli.core.values import fields_of

CONTROL = frozenset({INTERRUPT, RESUME, ERROR, ERROR_SOURCE, "__scheduled__"})
"""Channels that record what happened to a task; a write on any other channel is its output."""
_UNREAD = 100
"""Maximum number of channels without a known reader that are examined; a real body has a few."""


class Question(NamedTuple):
    """One Interrupt that a task raised."""

    interrupt_id: str | None
    """None if neither the id nor the namespace that it is hashed from is stored."""
    task_id: str
    node: str | None
    value: Value
    answered: bool
    """True if the task finished, which is the rule of LangGraph 1.2 (`pregel/_task_status.py`)."""
    path: tuple[str, ...] = ()
    """The path to the node that asked, if it is in a subgraph; the last entry is `node`."""
    failed_answer: bool = False
    """An answer is stored, and the task failed with it: LangGraph gives it this answer again."""
    response_schema: Value = None
    """The JSON Schema of the answer, if the graph gave one; None otherwise. Stored by LangGraph
    1.2.24 and later (`Interrupt` in `langgraph/types.py`)."""

    @property
    def is_open(self) -> bool:
        """Whether the question waits for an answer."""
        return not self.answered and not self.failed_answer


class Task(NamedTuple):
    """One task of the superstep that starts from a checkpoint."""

    id: str | None
    """None if the task has stored nothing."""
    node: str | None
    path: str
    """For example `~__pregel_pull, NODE`, rebuilt if not stored; `''` if not known."""
    finished: bool
    error: str | None
    handled: bool
    """An error handler took the error: it has finished, or asks."""
    questions: tuple[Question, ...]
    writes: tuple[Write, ...]
    failed_in: tuple[str, ...] = ()
    """The path to the node that failed, if it is in a subgraph."""


class Step(NamedTuple):
    """The superstep that comes after a checkpoint."""

    tasks: tuple[Task, ...]
    """Sends in their order, then nodes by name: the graph's order is not stored."""
    others: tuple[Task, ...]
    """Other writers: error handlers, `@task` calls, `update_state`, and unknown tasks."""
    next: tuple[str, ...] | None
    """The nodes of all tasks, as `get_state_history` returns them; None if unknown."""
    waiting: tuple[str, ...] | None
    """The nodes of tasks without output, as `get_state` of LangGraph 1.2 returns them."""
    assumed: bool
    """The answer is likely, but nothing stored proves it."""

    @property
    def runs(self) -> tuple[Task, ...]:
        """All tasks."""
        return (*self.tasks, *self.others)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions of all tasks, with those that have an answer."""
        return tuple(question for run in self.runs for question in run.questions)

    @property
    def open_questions(self) -> tuple[Question, ...]:
        """Those that wait for an answer."""
        return tuple(question for question in self.questions if question.is_open)


def failed_answers(task: Task) -> list[Question]:
    """Return the questions of a task whose stored answers made it fail."""
    return [one for one in task.questions if one.failed_answer]


def plan_step(
    key: CheckpointKey,
    body: Body,
    metadata: Mapping[str, Value],
    writes: Sequence[Write],
    *,
    parent_sends: Callable[[], Sequence[Write]],
    own_sends: Callable[[], Sequence[Write]],
    learned_thread: Callable[[], Readers],
    learned_store: Callable[[], Readers],
    calls: Callable[[], Mapping[str, str]],
    delta_channels: Collection[str] = (),
    functions: Callable[[], Iterable[str]] = tuple,
    functions_elsewhere: Callable[[], Iterable[str]] = tuple,
    followers: Callable[[str], Collection[str] | None] = lambda _: None,
) -> Step:
    """Return the step after a checkpoint, given the writes stored on the checkpoint.

    The callables read from the store, so they are called only if the result depends on them.
    `parent_sends` and `own_sends` return the parent's and the checkpoint's own writes on
    `__pregel_tasks` with their values; `learned_thread` and `learned_store` the result of `learn`
    for the thread and the store; `calls` the result of `subgraph_calls` for the namespace;
    `followers` the result of `followers_of` for a node. None of them is called for a StateGraph's
    checkpoint of format 4 with matching paths or hashes.
    """
    by_caller = written_by_caller(body, writes)
    sends = sent_nodes(body, parent_sends, own_sends if SENDS in by_caller else None)
    own, source = learn([body]), source_from(metadata)
    ready = Ready()
    is_known = body.v >= 1 and sends is not None
    if is_known:
        ready = find_ready(body, own, learned_thread, delta_channels, by_caller)
        if not ready.unread and (ready.fired or sends or source != "input"):
            told = _told_by_paths(body, sends or (), ready.fired, writes)
            if told is not None:
                return told
    runs = Attribution(
        key,
        body,
        metadata,
        writes,
        own,
        learned_thread=learned_thread,
        learned_store=learned_store,
        calls=calls,
        functions=functions,
        functions_elsewhere=functions_elsewhere,
    )
    if not is_known:
        return _step(runs, is_known=False)
    runs.plan_sends(sends or ())
    runs.plan_nodes(ready.fired)
    is_known, is_assumed = _plan_unread(
        runs, body, ready.unread, source, learned_thread, learned_store, followers
    )
    if source == "input" and body.versions and not (runs.sends or runs.nodes):
        # An input always makes a node run; here the graph is not known.
        is_known = False
    return _step(runs, is_known=is_known, is_assumed=is_assumed)


def _plan_unread(
    runs: Attribution,
    body: Body,
    unread: Sequence[str],
    source: str | None,
    learned_thread: Callable[[], Readers],
    learned_store: Callable[[], Readers],
    followers: Callable[[str], Collection[str] | None],
) -> tuple[bool, bool]:
    """Plan the nodes of channels without a known reader.

    Returns whether what runs next is known, and whether a part of that is assumed.
    """
    is_known, is_assumed, is_open = len(unread) <= _UNREAD, False, False
    for channel in [name for name in unread[:_UNREAD] if not runs.plan_readers(name)]:
        if runs.has_strangers():
            is_known = False
        elif channel == START:
            # The input of a StateGraph, and nothing else is stored.
            runs.plan_nodes({START: {START}})
            is_assumed = True
        elif _all_finished(runs):
            is_assumed = True
        elif is_output(body, channel):
            nodes = followers(channel)
            runs.plan_nodes({node: {channel} for node in nodes or ()})
            is_assumed |= nodes is None or bool(nodes)
            is_open |= nodes is None
        elif (source != "update" or channel in learned_thread()) and not learned_store().get(
            channel
        ):
            # Probably the output of a graph of bare Pregel nodes, which none of them reads.
            is_assumed = True
        else:
            is_known = False
    # A thread that waits at a breakpoint looks like one after a last node.
    return is_known and not (is_open and not (runs.sends or runs.nodes)), is_assumed


def _told_by_paths(
    body: Body, sends: Sequence[str | None], fired: Iterable[str], writes: Iterable[Write]
) -> Step | None:
    """Return the step of these Sends and nodes if the paths of all writes name them; else None.

    None also if a task asked or failed. Almost all steps are told by their paths; the others take
    an `Attribution`, which gives the same for these.
    """
    planned = [(node, send_path(index, body.v)) for index, node in enumerate(sends)]
    planned += [(node, pull_path(node)) for node in sorted(fired)]
    stored: dict[str, list[Write]] = {path: [] for _, path in planned}
    paths: dict[str, str] = {}
    for write in writes:
        path = write.task_path
        if write.task_id == NULL_TASK_ID:
            continue
        if path not in stored or write.channel in CONTROL:
            return None
        if paths.setdefault(write.task_id, path) != path:
            return None
        stored[path].append(write)
    tasks, nodes, waiting = [], [], []
    for node, path in planned:
        if node is None:
            return None
        nodes.append(node)
        done = stored[path]
        if not done:
            waiting.append(node)
        identity = done[0].task_id if done else None
        tasks.append(Task(identity, node, path, bool(done), None, False, (), tuple(done)))
    if len(paths) != len(set(paths.values())):
        return None
    return Step(tuple(tasks), (), tuple(nodes), tuple(waiting), False)


def questions_by_path(writes: Iterable[Write]) -> tuple[Question, ...] | None:
    """Return the questions of a step, given only the writes stored on its checkpoint; None if they
    do not tell enough.

    They do if the path of each task names a node and only one task asks: then `plan_step` finds
    the same questions, whatever else the checkpoint holds.
    """
    tasks: dict[str, list[Write]] = {}
    for write in writes:
        if write.task_id != NULL_TASK_ID:
            tasks.setdefault(write.task_id, []).append(write)
    paths: set[str] = set()
    asking: list[Run] = []
    for own in tasks.values():
        path = path_of(own)
        node = pulled_node(path)
        if node is None or path != pull_path(node) or path in paths:
            return None
        if any(write.node is not None or write.channel == ERROR_SOURCE for write in own):
            return None
        paths.add(path)
        if any(write.channel == INTERRUPT for write in own):
            asking.append(Run(node, path, writes=own))
    if len(asking) > 1:
        return None
    return tuple(question for run in asking for question in _task(run).questions)


def _step(runs: Attribution, *, is_known: bool, is_assumed: bool = False) -> Step:
    nodes = [run for _, run in sorted(runs.nodes.items())]
    planned = [_task(run) for run in (*runs.sends, *nodes)]
    found = [_task(run) for run in runs.others()]
    tasks, others = _asked_once(_handled(planned, found), found)
    return Step(
        tasks=tasks,
        others=others,
        next=_names(tasks) if is_known else None,
        waiting=_names(task for task in tasks if not task.finished) if is_known else None,
        assumed=is_known and is_assumed,
    )


def _handled(tasks: list[Task], others: list[Task]) -> list[Task]:
    """Return the tasks, each told whether its error handler has finished, or asks."""
    took = {
        run.path
        for run in others
        if is_handler(run.path) and (run.finished or any(one.is_open for one in run.questions))
    }
    if not took:
        return tasks
    return [
        task._replace(handled=task.error is not None and handler_path(task.path) in took)
        for task in tasks
    ]


def _asked_once(tasks: list[Task], others: list[Task]) -> tuple[tuple[Task, ...], ...]:
    """The runs, with each question of a `@task` call only at the node that made the call.

    LangGraph stores such a question for both, under one id.
    """
    if not others or not any(run.questions for run in tasks):
        return tuple(tasks), tuple(others)
    ids = {one.interrupt_id for task in tasks for one in task.questions} - {None}
    if not ids:
        return tuple(tasks), tuple(others)
    nodes = {run.path: run.node for run in (*tasks, *others) if run.path}
    asking: dict[str | None, tuple[str, ...]] = {}
    failed: set[str | None] = set()
    for run in others:
        path = _call_names(run.path, nodes)
        failed |= {one.interrupt_id for one in run.questions if one.failed_answer}
        for one in run.questions:
            if one.interrupt_id in ids and len(path) > len(asking.get(one.interrupt_id, ())):
                asking[one.interrupt_id] = path

    def at_caller(task: Task) -> Task:
        found = (
            one._replace(
                path=asking.get(one.interrupt_id, ()),
                failed_answer=one.failed_answer or one.interrupt_id in failed,
            )
            for one in task.questions
        )
        return task._replace(questions=tuple(found))

    def without(run: Task) -> Task:
        left = tuple(one for one in run.questions if one.interrupt_id not in ids)
        return run._replace(questions=left)

    return tuple(map(at_caller, tasks)), tuple(map(without, others))


def _call_names(path: str, nodes: Mapping[str, str | None]) -> tuple[str, ...]:
    """The names down to a `@task` call; none if one of them is unknown or it is no call."""
    names = [nodes.get(path)]
    while (call := call_of(path)) is not None:
        path = call[0]
        names.append(nodes.get(path))
    known = [name for name in reversed(names) if name is not None]
    return tuple(known) if 1 < len(known) == len(names) else ()


def _all_finished(runs: Attribution) -> bool:
    planned = [*runs.sends, *runs.nodes.values()]
    return bool(planned) and all(map(_is_finished, planned))


def _is_finished(run: Run) -> bool:
    # A write that is stored with the checkpoint it produced names its node.
    return any(write.channel not in CONTROL or write.node is not None for write in run.writes)


def _names(tasks: Iterable[Task]) -> tuple[str, ...]:
    return tuple(task.node for task in tasks if task.node is not None)


def _task(run: Run) -> Task:
    is_finished = _is_finished(run)
    channels = {write.channel for write in run.writes}
    if CONTROL.isdisjoint(channels):
        # Almost all tasks neither asked nor failed.
        identity = run.writes[0].task_id if run.writes else None
        return Task(identity, run.node, run.path, is_finished, None, False, (), tuple(run.writes))
    error = next((write for write in reversed(run.writes) if write.channel == ERROR), None)
    return Task(
        id=run.writes[0].task_id if run.writes else None,
        node=run.node,
        path=run.path,
        finished=is_finished,
        error=None if error is None else _error_text(_value(error)),
        handled=False,
        questions=tuple(
            question
            for write in run.writes
            if write.channel == INTERRUPT
            for question in _questions(
                _value(write),
                write,
                run.node,
                answered=is_finished,
                # LangGraph replaces a question by the next one, but keeps it beside an error.
                failed_answer=not is_finished and {ERROR, RESUME} <= channels,
            )
        ),
        writes=tuple(run.writes),
    )


def _questions(
    value: Value, write: Write, node: str | None, *, answered: bool, failed_answer: bool
) -> Iterator[Question]:
    """Yield the Interrupts of a write: a list of them, or a single one in LangGraph 0.2."""
    cut = value if isinstance(value, Cut) else None
    raised = value if cut is None else cut.kept
    items = items_of(raised)
    for item in [raised] if items is None else items:
        fields = fields_of(item)
        asked = fields.get("value", item)
        yield Question(
            interrupt_id=_interrupt_id(fields),
            task_id=write.task_id,
            node=node,
            value=asked if cut is None else cut.with_kept(asked),
            answered=answered,
            failed_answer=failed_answer,
            response_schema=fields.get("response_schema"),
        )


def _interrupt_id(fields: Mapping[Value, Value]) -> str | None:
    """Return the id of an Interrupt. LangGraph before 0.6 stored `ns`, which is hashed to it."""
    identity = fields.get("id", fields.get("interrupt_id"))
    if isinstance(identity, str) and identity != "placeholder-id":
        return identity
    namespaces = fields.get("ns")
    names = namespaces if isinstance(namespaces, list) else []
    texts = [name for name in names if isinstance(name, str)]
    return interrupt_id(texts) if texts and len(texts) == len(names) else None


def _error_text(value: Value) -> str:
    """Return an error as text: its `repr` from Python, name and message from LangGraph.js."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        # A copy from RedisSaver, which gives exceptions back as the dicts that it made of them.
        from ckpt_backends.codec.json.json_plus import revive

        value = revive(value)
    fields = fields_of(value)
    texts = [text for key in ("name", "message") if isinstance(text := fields.get(key), str)]
    return ": ".join(texts) or (value.type if isinstance(value, Tagged) else "unreadable")


def _value(write: Write) -> Value:
    return None if write.value is None else decode(write.value)


_MAPS = (CHANNELS, "channel_versions", "versions_seen")
_VERSIONS = frozenset((str, int, float))


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """Return all conditions of a thread, given the step after its root head, the worst first.

    `step` is None if there is no head. There is at least one condition. Only `error` and
    `interrupted` occur together, from two tasks of one step.
    """
    if step is None:
        return (Status.EMPTY,)
    # Most steps have neither, and a list asks this of each.
    if any(run.error is not None or run.questions for run in step.runs):
        found = _met(step)
        if found:
            return tuple(found)
    if step.next is None:
        return (Status.UNKNOWN,)
    return (Status.PENDING if step.next else Status.DONE,)


def _met(step: Step) -> list[Status]:
    """Return whether a task failed, and whether one asks."""
    found = []
    if blocking_failures(step):
        found.append(Status.ERROR)
    if step.open_questions:
        found.append(Status.INTERRUPTED)
    return found


def status_of(step: Step | None) -> Status:
    """Return the worst condition of a thread, given the step after its root head."""
    return conditions_of(step)[0]


def is_surely_done(checkpoint: Checkpoint) -> bool:
    """Return whether nothing runs after a checkpoint on which no writes are stored.

    Its body and metadata must have been read. True only for a graph whose edges are channels, if
    no node reads a channel that has a value. `plan_step` then finds no task either. False if only
    `plan_step` can tell.
    """
    # `read_body` would copy all of it to check each part, of every head of a store.
    body = None if checkpoint.body is None else decode_checkpoint(checkpoint.body)
    if not isinstance(body, dict) or _format(body) < 4 or _may_be_input(checkpoint):
        return False
    values, versions, seen = (body.get(name, {}) for name in _MAPS)
    if not (isinstance(values, dict) and isinstance(versions, dict) and isinstance(seen, dict)):
        return False
    if checkpoint.blobs:
        values = {**values, **dict.fromkeys(checkpoint.blobs)}
    if values.get(SENDS, []) != [] or START in values:
        return False
    if not _VERSIONS.issuperset(map(type, versions.values())):
        return False
    named = [one for one in versions if isinstance(one, str) and _names_node(one)]
    if not named and START not in versions:
        return False
    if any(one in values for one in named):
        return False
    return all(
        isinstance(channels, dict) and values.keys().isdisjoint(channels)
        for node, channels in seen.items()
        if node not in NOT_NODES
    )


def _format(body: Mapping[Value, Value]) -> int:
    v = body.get("v")
    return v if isinstance(v, int) else 0


def _may_be_input(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint has the source `input`, or metadata of which one cannot tell."""
    metadata = checkpoint.metadata
    if metadata is None:
        return False
    if metadata.type == "json" and b'"input"' not in metadata.data and b"\\" not in metadata.data:
        # Without an escape, the text would contain it.
        return False
    found = decode(metadata)
    return not isinstance(found, dict) or found.get("source") == "input"


@lru_cache(4096)
def _names_node(channel: str) -> bool:
    # All threads of a graph have the same channels.
    return named_node(channel) is not None


def blocking_failures(step: Step) -> list[Task]:
    """Return the tasks for whose retry a step waits: their errors give it the status error."""
    runs = (*step.tasks, *(run for run in step.others if _is_part(run, step)))
    return list(filter(has_failed, runs))


def blocking_error(step: Step) -> str | None:
    """Return the first of these errors on one line, with its node; None if there is none."""
    return next((f"{run.node or '?'}: {run.error}" for run in blocking_failures(step)), None)


def has_failed(run: Task) -> bool:
    """Return whether a task failed, and was neither retried nor handled."""
    return run.error is not None and not run.finished and not run.handled


def _is_part(run: Task, step: Step) -> bool:
    """Return whether the error of an unplanned task counts as an error of the step.

    The error of a `@task` call counts for its caller. A task without a path is treated as a call if
    all planned tasks have an id.
    """
    if is_handler(run.path) or is_call(run.path):
        return is_handler(run.path)
    return step.next is None or any(task.id is None for task in step.tasks)


_NEVER = datetime.min.replace(tzinfo=UTC)


class TaskWrite(NamedTuple):
    """A write with its node and task path."""

    write: Write
    node: str | None
    """None for the caller's writes, and if the task is not known."""
    path: str
    """The task path; computed if the layout stores none."""
    instead: Value = None
    """Value to show instead of the real one, for example when it is redacted."""

    @property
    def value(self) -> Value:
        """The decoded value, decoded again each time; None if it was not read."""
        if self.instead is not None or self.write.value is None:
            return self.instead
        return decode(self.write.value)


def task_writes(writes: Iterable[Write], step: Step) -> list[TaskWrite]:
    """Return the writes in the order in which LangGraph applies them, each with its task.

    Source: `writes_sort_key` in `langgraph/checkpoint/base`. If the layout stores no path, the path
    of the write's task is used. If it stores the time of each write, writes are sorted by that.
    """
    owned = tasks_by_id(step)
    found: list[TaskWrite] = []
    for write in writes:
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner is not None else "")
        found.append(TaskWrite(write, owner.node if owner is not None else None, path))
    return sorted(found, key=_place)


def tasks_by_id(step: Step) -> dict[str, Task]:
    """Return task id to task for all writes, without the null task."""
    return {write.task_id: run for run in step.runs for write in run.writes}


def write_order(writes: Iterable[Write], step: Step) -> list[Write]:
    """Return a checkpoint's writes in the order in which LangGraph applies them."""
    return [one.write for one in task_writes(writes, step)]


def _place(one: TaskWrite) -> tuple[datetime, str, str, int]:
    write = one.write
    return write.at or _NEVER, one.path, write.task_id, write.idx


RETRIED = "retried"
HANDLED = "handled"
_NO_RUN = {"input", "update", "fork"}

NodePath = tuple[str, ...]
"""The nodes that called each other's subgraphs, outermost first, then the node itself."""


def node_path(checkpoint_ns: str, nodes: Iterable[str]) -> NodePath:
    """Return nodes within a namespace as a path from the root graph."""
    return (*graph_of(checkpoint_ns), *nodes)


def path_text(path: NodePath) -> str:
    """Return a path in readable form: `research > ask`."""
    return " > ".join(path)


def asked_by(question: Question) -> NodePath:
    """Return the path of the node that asked, relative to the checkpoint's namespace."""
    return question.path or (question.node or "?",)


def failed_at(task: Task) -> NodePath:
    """Return the path of the node that failed, relative to the checkpoint's namespace."""
    return task.failed_in or (task.node or "?",)


def next_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the nodes that run next; for a subgraph that asks, the path to the node that asked.

    Returns None if the next nodes are not known.
    """
    if step.next is None:
        return None
    return _paths(step.tasks)


def waiting_paths(step: Step) -> tuple[NodePath, ...] | None:
    """Return the same for the tasks without a saved result, of which `get_state` of LangGraph 1.2
    gives the nodes as `next`.
    """
    if step.waiting is None:
        return None
    return _paths(task for task in step.tasks if not task.finished)


def _paths(tasks: Iterable[Task]) -> tuple[NodePath, ...]:
    return tuple(path for task in tasks if task.node is not None for path in _task_paths(task))


def _task_paths(task: Task) -> list[NodePath]:
    asking = [asked_by(question) for question in task.questions if question.is_open]
    return asking or [(task.node or "?",)]


def failures(step: Step) -> list[Task]:
    """Return the tasks that failed, including those that were retried with success or handled.

    Calls of `@task` functions are left out: their failure counts for the caller, or was caught
    there.
    """
    return [run for run in step.runs if run.error is not None and not is_call(run.path)]


def marks(step: Step, *, passed: bool) -> list[str]:
    """Return the marks of a checkpoint's step: its conditions, and whether failures were handled.

    `passed`: other checkpoints follow this one, so nothing is pending any more.
    """
    conditions = conditions_of(step)
    found: list[str] = []
    if not (passed and conditions == (Status.PENDING,)):
        found += [one.value for one in conditions]
    if failed := failures(step):
        if any(run.finished for run in failed):
            found.append(RETRIED)
        if any(run.handled and not run.finished for run in failed):
            found.append(HANDLED)
    return found


def ran_here(source: str | None) -> bool:
    """Return whether a run made the checkpoint: False for inputs, updates and forks."""
    return source not in _NO_RUN


def ran(
    before: Step,
    seen_before: Mapping[str, Mapping[str, Version]],
    seen: Mapping[str, Mapping[str, Version]],
) -> tuple[str, ...]:
    """Return the nodes that ran to make a checkpoint, one entry per task.

    These are the tasks of its parent with output, and nodes that have read newer channel versions
    than at the parent: such nodes ran even if none of their writes is stored. If a new input came
    in between, as `durability="exit"` stores it, what was next at the parent did not run.
    """
    started = new_input(before, seen_before, seen)
    found = () if started is not None else finished(before)
    read = {
        node
        for node, versions in seen.items()
        if node not in NOT_NODES
        and versions != seen_before.get(node)
        and (
            started is None
            or node == START
            or any(is_greater(version, started) for version in versions.values())
        )
    }
    called = {run.node for run in before.others if is_call(run.path)}
    return (*found, *sorted(read.difference(found, called)))


def new_input(
    before: Step,
    seen_before: Mapping[str, Mapping[str, Version]],
    seen: Mapping[str, Mapping[str, Version]],
) -> Version | None:
    """Return the version of a new input that a StateGraph read after the parent; None if none came.

    An input drops the tasks of its parent, and what they stored. It notes in `versions_seen` what
    they would have read. What runs after it reads newer versions than its own.
    """
    version = seen.get(START, {}).get(START)
    known = seen_before.get(START, {}).get(START)
    is_old = version is None or version == known or any(one.node == START for one in before.tasks)
    return None if is_old else version


def finished(step: Step) -> tuple[str, ...]:
    """Return the nodes with stored output, one entry per task."""
    runs: Sequence[Task] = [
        *step.tasks,
        *(
            run
            for run in step.others
            if not is_call(run.path) and not run.path.startswith(UPDATE_PATH)
        ),
    ]
    return tuple(run.node for run in runs if run.finished and run.node is not None)


def moved_id(task: Task, body: Body, origin: TaskIdBase, copy: TaskIdBase) -> str | None:
    """Return the id of a task at the copy; None if its id cannot be hashed.

    The hash that gives the stored id at `origin` is computed again for `copy`.
    """
    old, new = _ids(task, body, origin), _ids(task, body, copy)
    return next((there for here, there in zip(old, new, strict=True) if here == task.id), None)


def _ids(task: Task, body: Body, origin: TaskIdBase) -> Iterator[str]:
    """Yield the ids that a task may have, always in the same order."""
    if task.node is None:
        return
    index = sent_index(task.path)
    if index is not None:
        yield from send_ids(origin, task.node, index)
    elif pulled_node(task.path) == task.node:
        read = {channel for channel, nodes in learn([body]).items() if task.node in nodes}
        known = {*read, f"branch:to:{task.node}", START}
        yield from pull_ids(origin, task.node, trigger_sets(known, ()))
