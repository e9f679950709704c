"""Compute a checkpoint's tasks, what runs next and what it waits for, from its rows alone.

LangGraph computes the tasks of a superstep from the graph and the checkpoint; the graph is not
available here. Sends are stored, ready nodes are visible in the channels (`triggers`), and the path
or the hash in the task id (`task_ids`) tells which writes belong to which task. If that is not
enough, the answer is "unknown".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status, Write
from ckpt_cli.core.state import Body, source_from
from ckpt_cli.core.tasks.attribution import HANDLED, Attribution, Run
from ckpt_cli.core.tasks.task_ids import call_of, interrupt_id, is_call, is_handler
from ckpt_cli.core.tasks.triggers import SENDS, START, Readers, find_ready, learn

__all__ = [
    "Question",
    "Readers",
    "Step",
    "Task",
    "conditions_of",
    "learn",
    "owners",
    "plan_step",
    "status_of",
    "write_order",
]

ERROR = "__error__"
INTERRUPT = "__interrupt__"
CONTROL = frozenset({INTERRUPT, "__resume__", ERROR, HANDLED, "__scheduled__"})
"""Channels that record what happened to a task; a write on any other channel is its output."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNREAD = 100
"""Maximum number of channels without a known reader that are examined; a real body has a few."""


@dataclass(frozen=True, slots=True)
class Question:
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


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the superstep that starts from a checkpoint."""

    id: str | None
    """None if the task has stored nothing."""
    node: str | None
    path: str
    """For example `~__pregel_pull, NODE`, rebuilt if not stored; `''` if not known."""
    finished: bool
    error: str | None
    handled: bool
    """An error handler was called for the error."""
    questions: tuple[Question, ...]
    writes: tuple[Write, ...]
    failed_in: tuple[str, ...] = ()
    """The path to the node that failed, if it is in a subgraph."""


@dataclass(frozen=True, slots=True)
class Step:
    """The superstep that comes after a checkpoint."""

    tasks: tuple[Task, ...]
    """Sends in their order, then nodes by name, since the order of nodes in the graph is not
    stored.
    """
    others: tuple[Task, ...]
    """Other writers: error handlers, `@task` calls, `update_state`, and unknown tasks."""
    next: tuple[str, ...] | None
    """The nodes of all tasks, as `get_state_history` returns them; None if unknown."""
    waiting: tuple[str, ...] | None
    """The nodes of tasks without output, as `get_state` of LangGraph 1.2 returns them."""
    assumed: bool
    """The answer is likely, but nothing stored proves it."""


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
) -> Step:
    """Return the step after a checkpoint, given the writes stored on the checkpoint.

    The callables read from the store, so they are called only if the result depends on them.
    `parent_sends` and `own_sends` return the parent's and the checkpoint's own writes on
    `__pregel_tasks` with their values; `learned_thread` and `learned_store` the result of `learn`
    for the thread and the store; `calls` the result of `subgraph_calls` for the namespace. None of
    them is called for a StateGraph's checkpoint of format 4 with matching paths or hashes.
    """
    runs = Attribution(
        key,
        body,
        metadata,
        writes,
        learned_thread=learned_thread,
        learned_store=learned_store,
        calls=calls,
        functions=functions,
    )
    chosen = _chosen(body, writes)
    sends = _sent_nodes(body, parent_sends, own_sends if SENDS in chosen else None)
    if body.v < 1 or sends is None:
        return _step(runs, is_known=False)
    runs.plan_sends(sends)
    ready = find_ready(body, runs.own, learned_thread, delta_channels, chosen)
    runs.plan_nodes(ready.fired)
    source = source_from(metadata)
    is_known, is_assumed = len(ready.unread) <= _UNREAD, False
    for channel in [name for name in ready.unread[:_UNREAD] if not runs.plan_readers(name)]:
        if runs.has_strangers():
            is_known = False
        elif channel == START:
            # The input of a StateGraph, and nothing else is stored.
            runs.plan_nodes({START: {START}})
            is_assumed = True
        elif _all_finished(runs) or (
            (source != "update" or channel in learned_thread()) and not learned_store().get(channel)
        ):
            # Probably after a last node: no node is known to read this channel.
            is_assumed = True
        else:
            is_known = False
    if source == "input" and body.versions and not (runs.sends or runs.nodes):
        # An input always makes a node run; here the graph is not known.
        is_known = False
    return _step(runs, is_known=is_known, is_assumed=is_assumed)


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """Return all conditions of a thread, given the step after its root head, the worst first.

    `step` is None if there is no head. There is at least one condition. Only `error` and
    `interrupted` occur together, from two tasks of one step.
    """
    if step is None:
        return (Status.EMPTY,)
    found = []
    if any(_failed(run) for run in step.tasks) or any(
        _failed(run) for run in step.others if _is_part(run, step)
    ):
        found.append(Status.ERROR)
    runs = (*step.tasks, *step.others)
    if any(not question.answered for run in runs for question in run.questions):
        found.append(Status.INTERRUPTED)
    if found:
        return tuple(found)
    if step.next is None:
        return (Status.UNKNOWN,)
    return (Status.PENDING if step.next else Status.DONE,)


def status_of(step: Step | None) -> Status:
    """Return the worst condition of a thread, given the step after its root head."""
    return conditions_of(step)[0]


def owners(step: Step) -> dict[str, Task]:
    """Return task id to task for all writes, without the null task."""
    return {write.task_id: run for run in (*step.tasks, *step.others) for write in run.writes}


def write_order(writes: Iterable[Write], step: Step) -> list[Write]:
    """Return a checkpoint's writes in the order in which LangGraph applies them.

    Source: `writes_sort_key` in `langgraph/checkpoint/base`. If the layout stores no path, the path
    of the write's task is used. If it stores the time of each write, writes are sorted by that.
    """
    owned = owners(step)

    def place(write: Write) -> tuple[datetime, str, str, int]:
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner else "")
        return write.at or _NEVER, path, write.task_id, write.idx

    return sorted(writes, key=place)


def _step(runs: Attribution, *, is_known: bool, is_assumed: bool = False) -> Step:
    nodes = [run for _, run in sorted(runs.nodes.items())]
    planned = [_task(run) for run in (*runs.sends, *nodes)]
    tasks, others = _asked_once(planned, [_task(run) for run in runs.others()])
    return Step(
        tasks=tasks,
        others=others,
        next=_names(tasks) if is_known else None,
        waiting=_names(task for task in tasks if not task.finished) if is_known else None,
        assumed=is_known and is_assumed,
    )


def _asked_once(tasks: list[Task], others: list[Task]) -> tuple[tuple[Task, ...], ...]:
    """The runs, with each question of a `@task` call only at the node that made the call.

    LangGraph stores such a question for both, under one id.
    """
    ids = {one.interrupt_id for task in tasks for one in task.questions} - {None}
    nodes = {run.path: run.node for run in (*tasks, *others) if run.path}
    asking: dict[str | None, tuple[str, ...]] = {}
    for run in others:
        path = _call_names(run.path, nodes)
        for one in run.questions:
            if one.interrupt_id in ids and len(path) > len(asking.get(one.interrupt_id, ())):
                asking[one.interrupt_id] = path

    def at_caller(task: Task) -> Task:
        found = (replace(one, path=asking.get(one.interrupt_id, ())) for one in task.questions)
        return replace(task, questions=tuple(found))

    def without(run: Task) -> Task:
        left = tuple(one for one in run.questions if one.interrupt_id not in ids)
        return replace(run, questions=left)

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
    error = next((write for write in reversed(run.writes) if write.channel == ERROR), None)
    return Task(
        id=run.writes[0].task_id if run.writes else None,
        node=run.node,
        path=run.path,
        finished=is_finished,
        error=None if error is None else _error_text(_value(error)),
        handled=any(write.channel == HANDLED for write in run.writes),
        questions=tuple(
            question
            for write in run.writes
            if write.channel == INTERRUPT
            for question in _questions(_value(write), write, run.node, answered=is_finished)
        ),
        writes=tuple(run.writes),
    )


def _questions(
    value: Value, write: Write, node: str | None, *, answered: bool
) -> Iterator[Question]:
    """Yield the Interrupts of a write: a list of them, or a single one in LangGraph 0.2."""
    cut = value if isinstance(value, Cut) else None
    raised = value if cut is None else cut.kept
    items = items_of(raised)
    for item in [raised] if items is None else items:
        fields = _fields(item)
        asked = fields.get("value", item)
        yield Question(
            interrupt_id=_interrupt_id(fields),
            task_id=write.task_id,
            node=node,
            value=asked if cut is None else replace(cut, kept=asked),
            answered=answered,
        )


def _interrupt_id(fields: Mapping[Value, Value]) -> str | None:
    """Return the id of an Interrupt. LangGraph before 0.6 stored `ns`; newer versions hash it to
    the id.
    """
    identity = fields.get("id", fields.get("interrupt_id"))
    if isinstance(identity, str) and identity != "placeholder-id":
        return identity
    namespaces = fields.get("ns")
    names = namespaces if isinstance(namespaces, list) else []
    texts = [name for name in names if isinstance(name, str)]
    return interrupt_id(texts) if texts and len(texts) == len(names) else None


def _error_text(value: Value) -> str:
    """Return an error as text: Python savers store its `repr`, LangGraph.js its name and
    message.
    """
    if isinstance(value, str):
        return value
    fields = _fields(value)
    texts = [text for key in ("name", "message") if isinstance(text := fields.get(key), str)]
    return ": ".join(texts) or (value.type if isinstance(value, Tagged) else "unreadable")


def _chosen(body: Body, writes: Iterable[Write]) -> set[str]:
    """Return the channels that the caller wrote to, which LangGraph.js counts for what runs next.

    The Python libraries count them only in the checkpoint that contains what was written. Source:
    `_prepareStateSnapshot` in `@langchain/langgraph/dist/pregel/index.js`, 0.2.74 and 1.7.3.
    """
    if not body.is_javascript:
        return set()
    return {write.channel for write in writes if write.task_id == NULL_TASK_ID}


def _sent_nodes(
    body: Body,
    parent_sends: Callable[[], Sequence[Write]],
    own_sends: Callable[[], Sequence[Write]] | None,
) -> list[str | None] | None:
    """Return the node of each pending Send, None for an unreadable one; None if all are unreadable.

    Bodies before format 4 hold Sends inline; if the layout does not store them there, they are
    among the parent's writes. `own_sends` is given if the Sends of the caller count too.
    """
    packets: Value = body.values.get(SENDS)
    if body.v < 4:
        packets = body.pending_sends
        if packets is None:
            packets = _packets(parent_sends())
    if own_sends is not None and (packets is None or isinstance(packets, list)):
        sent = _packets(write for write in own_sends() if write.task_id == NULL_TASK_ID)
        # From format 4 on they are a channel, and new Sends replace older ones.
        packets = sent if sent is None or body.v >= 4 else [*(packets or ()), *sent]
    if packets is None and body.v < 4:
        return None
    if isinstance(packets, Opaque | Cut):
        return None
    return [_sent_node(packet) for packet in packets] if isinstance(packets, list) else []


def _packets(writes: Iterable[Write]) -> list[Value] | None:
    """Return the Sends among some writes, in order; None if one was not read."""
    sent = [write for write in writes if write.channel == SENDS]
    sent.sort(key=lambda write: (write.task_path, write.task_id, write.idx))
    if any(write.value is None for write in sent):
        return None
    return [_value(write) for write in sent]


def _sent_node(packet: Value) -> str | None:
    """Return the node of a Send: `Send(node, arg)` in Python, `{node, args}` in LangGraph.js."""
    payload = packet.payload if isinstance(packet, Tagged) else packet
    node = _fields(packet).get("node")
    if isinstance(packet, Tagged) and isinstance(payload, list) and payload:
        node = payload[0]
    return node if isinstance(node, str) else None


def _fields(value: Value) -> dict[Value, Value]:
    payload = value.payload if isinstance(value, Tagged) else value
    return payload if isinstance(payload, dict) else {}


def _value(write: Write) -> Value:
    return None if write.value is None else decode(write.value)


def _failed(run: Task) -> bool:
    return run.error is not None and not run.finished and not run.handled


def _is_part(run: Task, step: Step) -> bool:
    """Return whether the error of an unplanned task counts as an error of the step.

    The error of a `@task` call counts for its caller. A task without a path is treated as a call if
    all planned tasks have an id.
    """
    if is_handler(run.path) or is_call(run.path):
        return is_handler(run.path)
    return step.next is None or any(task.id is None for task in step.tasks)
