"""Look into the subgraphs of a step: which node asked or failed there, and where a resume goes on.

LangGraph stores a question or an error at every level, from the node in the innermost subgraph up
to the node of the root graph that called it. A resumed subgraph goes on from its own head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.model import CheckpointKey, Write
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.tasks.control_channels import ERROR, INTERRUPT
from ckpt_cli.core.tasks.followers import graph_of
from ckpt_cli.core.tasks.resume import (
    Level,
    Resume,
    asks_of,
    following,
    goto_tasks,
    has_begun,
    paths_of_callers,
    paths_of_calls,
    resume_level,
    stored_answer,
)
from ckpt_cli.core.tasks.step_nodes import NodePath, asked_by, failed_at, node_path
from ckpt_cli.core.tasks.task_ids import is_call, origin_of, send_ids, sent_index
from ckpt_cli.core.tasks.tasks import Question, Task
from ckpt_cli.core.tasks.triggers import START

if TYPE_CHECKING:
    from ckpt_cli.threads.checkpoint import Moment
    from ckpt_cli.threads.thread import ThreadReader

_DEEPEST = 50
"""Maximum depth of subgraphs that are searched."""


def locate(reader: ThreadReader, moment: Moment) -> Moment:
    """Return the checkpoint with questions and errors that name the node in a subgraph."""
    step = moment.step
    if not any(task.questions or task.error is not None for task in (*step.tasks, *step.others)):
        return moment
    tasks = tuple(_located(reader, moment.key, task) for task in step.tasks)
    others = tuple(_located(reader, moment.key, task) for task in step.others)
    return moment.with_step(step._replace(tasks=tasks, others=others))


def called(
    reader: ThreadReader, key: CheckpointKey, task_id: str | None, node: str | None
) -> Iterator[str]:
    """Yield the namespaces of the subgraphs that a task called, stateful ones included."""
    depth = len(graph_of(key.checkpoint_ns))
    if depth >= _DEEPEST:
        return
    outer = f"{key.checkpoint_ns}|" if key.checkpoint_ns else ""
    call = f"{outer}{node}:{task_id}"
    # The memory of a stateful subgraph outlives the calls: its namespace names no task.
    stateful = "|".join(node_path(key.checkpoint_ns, (node or "",)))
    known = reader.known_namespaces
    # A hostile name may lead back to where it stands.
    yield from (ns for ns in (stateful, call) if ns in known and len(graph_of(ns)) > depth)
    number = 1  # The namespace of a task's second call is `node:task|1`.
    while (again := f"{call}|{number}") in known:
        yield again
        number += 1


def resume_of(
    reader: ThreadReader, moment: Moment, *, inside: bool = True, seen: set[str] | None = None
) -> Resume:
    """Return what a resume from a head does; if not `inside`, without looking into subgraphs.

    `seen` are the namespaces that were looked into already: tasks may share one.
    """
    step, body = moment.step, moment.body
    sends = partial(reader.sends_on, moment.key)
    goes_to = goto_tasks(body, moment.writes, sends)
    level = resume_level(body, moment.writes, step, goes_to)
    own = _runs_of(reader, moment, level, set() if seen is None else seen, inside=inside)
    below = partial(writes_inside, reader, moment) if inside else tuple
    answer = stored_answer(moment.writes, step, below)
    is_answered = answer in ("next", "again") and len(own.asks) == 1
    found = own._replace(stored_answer=answer, asks=() if is_answered else own.asks)
    if step.next is None:
        return found._replace(runs=None)
    if found.runs or found.handlers or level.runs:
        return found
    after = following(
        body,
        (task for task in level.applies if not is_call(task.path)),
        sends=sends,
        learned=lambda: reader.learned_readers(moment.key.checkpoint_ns),
        deferred=partial(reader.deferred, moment.key.checkpoint_ns),
    )
    return found._replace(
        runs=None if after.nodes is None else tuple((node,) for node in after.nodes),
        possible=tuple((node,) for node in after.possible),
    )


def ran_inside(reader: ThreadReader, moment: Moment, task: Task) -> Iterator[NodePath]:
    """Yield the nodes that ran in the subgraphs that a task called, stateful ones left out.

    A copy of the checkpoint gives the task another id, so that these subgraphs start again.
    """
    if task.node is None:
        return
    task_id = task.id or _call_id(reader, moment, task)
    for ns in called(reader, moment.key, task_id, task.node):
        if ":" not in ns.rpartition("|")[2] and not ns.rpartition("|")[2].isdecimal():
            continue
        for one in reversed(list(reader.moments(ns))):
            for run in (*one.step.tasks, *one.step.others):
                if run.finished and run.node not in (None, START) and not is_call(run.path):
                    yield (task.node, run.node or "?")
                else:
                    yield from ((task.node, *path) for path in ran_inside(reader, one, run))


def _runs_of(
    reader: ThreadReader, moment: Moment, level: Level, seen: set[str], *, inside: bool
) -> Resume:
    """Return what runs, with the subgraphs of the tasks that run."""
    calls, callers = paths_of_calls(moment.step), paths_of_callers(moment.step)
    runs: list[NodePath] | None = [(node,) for node in level.started]
    idle: tuple[NodePath, ...] | None = ()
    """What runs if nothing does here: it cannot be told if a subgraph has finished."""
    applies = [
        calls.get(task.path, ("?",)) if is_call(task.path) else (task.node or "?",)
        for task in level.applies
        if task.node != START
    ]
    handlers: list[NodePath] = [(node,) for node, _ in level.handlers]
    repeats: list[NodePath] = [(node,) for node, run in level.handlers if run is not None]
    asks = [path for _, run in level.handlers if run is not None for path in asks_of(run)]
    answered: list[NodePath] = []
    assumed, saved_inside = level.assumed, False
    possible: list[NodePath] = []
    for task in level.runs:
        node = (task.node or "?",)
        if task.node == START:
            # It only hands the input to the first nodes, and what it would write is not stored.
            runs = None
            continue
        inner = list(_resumed_calls(reader, moment, task, seen)) if inside else []
        going = [one for one in inner if one.runs != () or one.handlers]
        if not going:
            if inner:
                # All that it called has finished, and LangGraph returns it. Where it leads is not
                # stored: that would be in the writes of this task.
                applies += [path for one in inner for path in _below(node, one.applies)] or [node]
                idle = None
                continue
            runs = None if runs is None else [*runs, node]
            asks += asks_of(task)
            answered += [asked_by(one) for one in task.questions if one.failed_answer]
            if has_begun(task) or task.path in callers:
                repeats.append(node)
        for one in going:
            runs = None if runs is None or one.runs is None else [*runs, *_below(node, one.runs)]
            applies += _below(node, one.applies)
            handlers += _below(node, one.handlers)
            repeats += _below(node, one.repeats)
            asks += _below(node, one.asks)
            assumed = assumed or one.assumed
            possible += _below(node, one.possible)
            saved_inside = saved_inside or bool(one.applies or one.handlers)
            answered += _below(node, one.answered)
    return Resume(
        tuple(runs) if runs else idle if runs is not None else None,
        tuple(applies),
        tuple(asks),
        tuple(handlers),
        tuple(repeats),
        tuple(answered),
        saved_inside=saved_inside,
        assumed=assumed,
        possible=tuple(possible),
    )


def writes_inside(
    reader: ThreadReader, moment: Moment, seen: set[str] | None = None
) -> Iterator[Sequence[Write]]:
    """Yield the writes at the heads of the subgraphs that the unfinished tasks called."""
    seen = set() if seen is None else seen
    for task in moment.step.tasks:
        if task.finished or task.id is None:
            continue
        for ns in called(reader, moment.key, task.id, task.node):
            head = reader.head(ns)
            if head is not None and ns not in seen:
                seen.add(ns)
                found = reader.moment(ns, head)
                yield found.writes
                yield from writes_inside(reader, found, seen)


def _below(node: NodePath, paths: tuple[NodePath, ...]) -> list[NodePath]:
    return [(*node, *path) for path in paths]


def _resumed_calls(
    reader: ThreadReader, moment: Moment, task: Task, seen: set[str]
) -> Iterator[Resume]:
    """Yield what a resume does in each subgraph that an unfinished task called."""
    for ns in called(reader, moment.key, task.id or _call_id(reader, moment, task), task.node):
        head = reader.head(ns)
        if head is not None and ns not in seen:
            seen.add(ns)
            there = reader.moment(ns, head)
            found = resume_of(reader, there, seen=seen)
            # That nothing follows is not proven where edges do not show in the channels.
            is_proven = there.step.next or not there.step.assumed
            yield found if is_proven else found._replace(runs=None)


def _call_id(reader: ThreadReader, moment: Moment, task: Task) -> str | None:
    """Return the id of a task that has stored nothing itself, but called a subgraph that has.

    The id of a Send is hashed. For other nodes, the metadata of the subgraph's checkpoint names the
    checkpoint of its parent: `parents`.
    """
    key, known = moment.key, reader.known_namespaces
    outer = f"{key.checkpoint_ns}|" if key.checkpoint_ns else ""
    begin = f"{outer}{task.node}:"
    index = sent_index(task.path)
    sent = [run for run in moment.step.tasks if sent_index(run.path) is not None]
    hashed = {
        one for run in ([task] if index is not None else sent) for one in _sent_ids(moment, run)
    }
    if index is not None:
        return next((one for one in hashed if f"{begin}{one}" in known), None)
    others = {run.id for run in (*moment.step.tasks, *moment.step.others)} | hashed
    for ns in reader.namespaces:
        if not ns.startswith(begin) or "|" in ns.removeprefix(begin):
            continue
        head = reader.head(ns)
        if head is None or head < key.checkpoint_id or ns.removeprefix(begin) in others:
            continue
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=[head], metadata=True
        ):
            parents = read_metadata(one).get("parents")
            if isinstance(parents, dict) and parents.get(key.checkpoint_ns) == key.checkpoint_id:
                return ns.removeprefix(begin)
    return None


def _sent_ids(moment: Moment, task: Task) -> Iterator[str]:
    """Yield the ids that the task of a Send may have."""
    index, number = sent_index(task.path), moment.number
    origin = origin_of(
        moment.key.checkpoint_id,
        moment.key.checkpoint_ns,
        0 if number is None else number + 1,
        moment.body.v,
        is_numeric=not any(isinstance(one, str) for one in moment.body.versions.values()),
    )
    if origin is not None and index is not None and task.node is not None:
        yield from send_ids(origin, task.node, index)


def _located(reader: ThreadReader, key: CheckpointKey, task: Task) -> Task:
    if task.node is None:
        return task
    if not task.questions and task.error is None:
        return task
    inner = list(_inner_tasks(reader, key, task))
    if not inner:
        return task
    found = task._replace(questions=tuple(_asked(task.node, one, inner) for one in task.questions))
    source = next((one for one in inner if one.error is not None and one.error == task.error), None)
    return found if source is None else found._replace(failed_in=(task.node, *failed_at(source)))


def _inner_tasks(reader: ThreadReader, key: CheckpointKey, task: Task) -> Iterator[Task]:
    """Yield the tasks of called subgraphs at the checkpoints where something asked or failed."""
    for ns in called(reader, key, task.id, task.node):
        stored = reader.store.writes(
            reader.thread_id, checkpoint_ns=ns, channels={INTERRUPT, ERROR}
        )
        ids = {write.key.checkpoint_id for write in stored}
        for moment in reader.moments(ns, ids) if ids else ():
            yield from (*moment.step.tasks, *moment.step.others)


def _asked(node: str, question: Question, inner: list[Task]) -> Question:
    """Return the question with the innermost node that asked it.

    The inner question has the same id. If there are no ids it has the same value, or it is the only
    one (an encrypted value differs at each level).
    """
    alike = [
        one for task in inner for one in task.questions if one.interrupt_id == question.interrupt_id
    ]
    if question.interrupt_id is None and len(alike) > 1:
        alike = [one for one in alike if one.value == question.value]
    if not alike:
        return question
    return question._replace(
        node=alike[0].node,
        path=(node, *asked_by(alike[0])),
        failed_answer=alike[0].failed_answer and not question.answered,
    )
