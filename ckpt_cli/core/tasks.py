"""Compute the tasks of a checkpoint, what is next and what it waits for, from its rows alone.

LangGraph computes the tasks of a superstep from the graph and the checkpoint; here the graph is
not at hand. Sends are stored, ready nodes show in the channels (`triggers`), and which writes
belong to which task shows in their path or in the hash that is the task's id (`task_ids`).
Where that is not enough, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Status, Write
from ckpt_cli.core.attribution import HANDLED, Attribution, Run
from ckpt_cli.core.state import Body, source_from
from ckpt_cli.core.task_ids import call_of, interrupt_id, is_call, is_handler
from ckpt_cli.core.triggers import SENDS, START, Readers, find_ready, learn

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
"""Channels with the fate of a task; a write on any other channel is its output."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_UNREAD = 100
"""Most channels without a known reader that are looked into; a real body has a few."""


@dataclass(frozen=True, slots=True)
class Question:
    """One Interrupt that a task raised."""

    interrupt_id: str | None
    """None where neither the id nor the namespace that it is hashed from is stored."""
    task_id: str
    node: str | None
    value: Value
    answered: bool
    """The task finished, which is the rule of LangGraph 1.2 (`pregel/_task_status.py`)."""
    path: tuple[str, ...] = ()
    """Nodes down to the one that asked, where that is one of a subgraph; `node` is the last."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run in the superstep that starts from a checkpoint."""

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
    """Nodes down to the one that failed, where that is one of a subgraph."""


@dataclass(frozen=True, slots=True)
class Step:
    """The superstep that comes after a checkpoint."""

    tasks: tuple[Task, ...]
    """Sends in their order, then nodes by name, since the order in the graph is not stored."""
    others: tuple[Task, ...]
    """Other writers: error handlers, `@task` calls, `update_state`, unknown ones."""
    next: tuple[str, ...] | None
    """The nodes of all tasks, as `get_state_history` gives them; None where unknown."""
    waiting: tuple[str, ...] | None
    """The nodes of the tasks without output, as `get_state` of LangGraph 1.2 gives them."""
    assumed: bool
    """The answer is likely, and nothing stored proves it."""


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
    """The step after a checkpoint, given the writes that are stored on it.

    The callables read from the store, so they are called only if the answer depends on them. They
    return the parent's and the checkpoint's own writes on `__pregel_tasks` with their values, the
    result of `learn` for the thread and for the store, and that of `subgraph_calls` for the
    namespace. None is called for a StateGraph's checkpoint of format 4 with matching paths or
    hashes.
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
            # The input of a StateGraph of which nothing else is stored.
            runs.plan_nodes({START: {START}})
            is_assumed = True
        elif _all_finished(runs) or (
            (source != "update" or channel in learned_thread()) and not learned_store().get(channel)
        ):
            # Probably a last node: nobody is known to read what it wrote.
            is_assumed = True
        else:
            is_known = False
    if source == "input" and body.versions and not (runs.sends or runs.nodes):
        # An input makes a node run, here of an unknown graph.
        is_known = False
    return _step(runs, is_known=is_known, is_assumed=is_assumed)


def conditions_of(step: Step | None) -> tuple[Status, ...]:
    """All that holds of a thread by the step after its root head, the worst first.

    `None` if there is no head. There is always one condition; only a failure and a question, of
    two tasks of one step, come together.
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
    """The worst condition of a thread by the step after its root head."""
    return conditions_of(step)[0]


def owners(step: Step) -> dict[str, Task]:
    """The task of each write, by its task id; the null task is left out."""
    return {write.task_id: run for run in (*step.tasks, *step.others) for write in run.writes}


def write_order(writes: Iterable[Write], step: Step) -> list[Write]:
    """A checkpoint's writes in the order in which LangGraph applies them.

    Source: `writes_sort_key` in `langgraph/checkpoint/base`; where a layout stores no path, the
    one of the task that the write belongs to stands in. Where a layout stores when each write was
    made, by that.
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
    # A write that is stored with the checkpoint that it made names its node.
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
    """The Interrupts of a write: several of them, or a bare one in LangGraph 0.2."""
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
    """The id of an Interrupt. LangGraph before 0.6 stored `ns`, from which newer ones hash it."""
    identity = fields.get("id", fields.get("interrupt_id"))
    if isinstance(identity, str) and identity != "placeholder-id":
        return identity
    namespaces = fields.get("ns")
    names = namespaces if isinstance(namespaces, list) else []
    texts = [name for name in names if isinstance(name, str)]
    return interrupt_id(texts) if texts and len(texts) == len(names) else None


def _error_text(value: Value) -> str:
    """An error as text: Python savers store its `repr`, LangGraph.js its name and message."""
    if isinstance(value, str):
        return value
    fields = _fields(value)
    texts = [text for key in ("name", "message") if isinstance(text := fields.get(key), str)]
    return ": ".join(texts) or (value.type if isinstance(value, Tagged) else "unreadable")


def _chosen(body: Body, writes: Iterable[Write]) -> set[str]:
    """The channels that the caller wrote to, which LangGraph.js counts in what is next.

    Python's libraries do so only with the checkpoint that holds what was written. Source:
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
    """The node of each pending Send, None for an unreadable one; None if all are unreadable.

    Bodies before format 4 hold them apart or, where the layout does not store them, leave them
    among the parent's writes. `own_sends` is given where the caller's Sends count too.
    """
    packets: Value = body.values.get(SENDS)
    if body.v < 4:
        packets = body.pending_sends
        if packets is None:
            packets = _packets(parent_sends())
    if own_sends is not None and (packets is None or isinstance(packets, list)):
        sent = _packets(write for write in own_sends() if write.task_id == NULL_TASK_ID)
        # From format 4 on they are a channel, in which new Sends replace the older ones.
        packets = sent if sent is None or body.v >= 4 else [*(packets or ()), *sent]
    if packets is None and body.v < 4:
        return None
    if isinstance(packets, Opaque | Cut):
        return None
    return [_sent_node(packet) for packet in packets] if isinstance(packets, list) else []


def _packets(writes: Iterable[Write]) -> list[Value] | None:
    """The Sends among some writes, in their order; None where one was not read."""
    sent = [write for write in writes if write.channel == SENDS]
    sent.sort(key=lambda write: (write.task_path, write.task_id, write.idx))
    if any(write.value is None for write in sent):
        return None
    return [_value(write) for write in sent]


def _sent_node(packet: Value) -> str | None:
    """The node of a Send: `Send(node, arg)` in Python, `{node, args}` in LangGraph.js."""
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
    """Whether the error of a run that is not planned is one of the step.

    That of a `@task` call is its caller's business. Without a path it is taken for a call where
    all planned tasks are accounted for.
    """
    if is_handler(run.path) or is_call(run.path):
        return is_handler(run.path)
    return step.next is None or any(task.id is None for task in step.tasks)
