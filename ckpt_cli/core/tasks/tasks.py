"""Compute a checkpoint's tasks, what runs next and what it waits for, from its rows alone.

LangGraph computes the tasks of a superstep from the graph and the checkpoint; the graph is not
available here. Sends are stored, ready nodes are visible in the channels (`triggers`), and the path
or the hash in the task id (`task_ids`) tells which writes belong to which task. If that is not
enough, the answer is "unknown".
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Write
from ckpt_cli.core.state import Body, source_from
from ckpt_cli.core.tasks.attribution import ERROR_SOURCE, Attribution, Run, path_of
from ckpt_cli.core.tasks.control_channels import ERROR, INTERRUPT, RESUME
from ckpt_cli.core.tasks.sends import sent_nodes, written_by_caller
from ckpt_cli.core.tasks.task_ids import (
    call_of,
    handler_path,
    interrupt_id,
    is_handler,
    pull_path,
    pulled_node,
    send_path,
)
from ckpt_cli.core.tasks.triggers import SENDS, START, Readers, Ready, find_ready, is_output, learn
from ckpt_cli.core.values.unwrap import fields_of

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
