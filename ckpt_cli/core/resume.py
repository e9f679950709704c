"""What a resume of a checkpoint does, and why a thread waits for one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import Any, Literal, NamedTuple, get_args

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value, items_of
from ckpt_backends.model import NULL_TASK_ID, Status, Write
from ckpt_cli.core import state
from ckpt_cli.core.redact import hides_scalar
from ckpt_cli.core.tasks import (
    CONTROL,
    ERROR_SOURCE,
    NodePath,
    Step,
    Task,
    asked_by,
    call_of,
    conditions_of,
    handler_path,
    is_call,
    is_uncommitted,
    path_text,
    pull_path,
    send_path,
    sent_index,
)
from ckpt_cli.core.values import same


def callers_answer(writes: Iterable[Write]) -> Write | None:
    """Return the answer that the caller gave last at a checkpoint; None if there is none."""
    return next(
        (one for one in writes if one.task_id == NULL_TASK_ID and one.channel == state.RESUME), None
    )


def is_used(answer: Write, writes: Iterable[Write]) -> bool:
    """Return whether a task has taken the answer: its own list of answers has an equal one.

    LangGraph does not remove the caller's answer then, and `invoke(None)` gives it to the next
    question (langgraph issue 8837).
    """
    if answer.value is None:
        return False
    wanted = decode(answer.value)
    return any(same(one, wanted) for one in used_answers(writes))


def used_answers(writes: Iterable[Write]) -> Iterator[Value]:
    """Yield the answers that tasks have used, from their own lists of answers."""
    for write in writes:
        if (
            write.task_id != NULL_TASK_ID
            and write.channel == state.RESUME
            and write.value is not None
        ):
            value = decode(write.value)
            yield from value if isinstance(value, list) else [value]


_AFTER_FINISH = 2
"""The channel of a deferred node holds a pair: its value, and whether all others have finished."""


_OWN_METADATA = state.MARKS | {
    *("source", "step", "writes", "parents", "run_id", "counters_since_delta_snapshot"),
    *("thread_id", "thread_ts", "checkpoint_id", "checkpoint_ns", "checkpoint_map"),
    *("langgraph_step", "langgraph_node", "langgraph_triggers", "langgraph_path"),
    "langgraph_checkpoint_ns",
}
"""Keys that LangGraph or `ckpt` sets itself, or that belong to one run: LangGraph takes a run with
the `run_id` of the head for a part of the same run.
"""

UserMetadata = Mapping[str, str | int | float | bool | None]
"""What the config of a run holds as metadata; None stands for a value that is hidden."""

StoredAnswer = Literal["next", "again", "unused"]
"""The first question gets it; the first question gets it, although a task has used it already; or
no question does, because each has an earlier answer, which is used first."""


def user_metadata(metadata: Mapping[str, Value]) -> UserMetadata:
    """Return what of a checkpoint's metadata came from the config of its run, such as `user_id`.

    A run stores it again if it gets it as `config["metadata"]`. Source:
    `get_checkpoint_metadata` in `langgraph/checkpoint/base/__init__.py`, 4.2, which takes texts,
    numbers and booleans from `config["metadata"]` and `config["configurable"]`.
    """
    own = _OWN_METADATA | {state.REASON} if metadata.get(state.BY) == state.NAME else _OWN_METADATA
    found: dict[str, str | int | float | bool | None] = {}
    for name, value in metadata.items():
        if name in own or name.startswith("__"):
            continue
        if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
            found[name] = value
        elif hides_scalar(value):
            found[name] = None
    return found


class Resume(NamedTuple):
    """What a resume does first. Nodes in subgraphs are paths: `research > ask`."""

    runs: tuple[NodePath, ...] | None
    """The nodes of the first superstep in which anything runs, one entry a task; `()` if nothing is
    left to run, None if it cannot be told."""
    applies: tuple[NodePath, ...] = ()
    """The nodes whose saved result is used without running them."""
    asks: tuple[NodePath, ...] = ()
    """The nodes that wait for an answer: without one, they ask again."""
    handlers: tuple[NodePath, ...] = ()
    """The error handlers that run, each by the name of its node."""
    repeats: tuple[NodePath, ...] = ()
    """Those of all these that are known to have begun before, so that they do things again."""
    answered: tuple[NodePath, ...] = ()
    """The nodes that ran into an error with an answer that is stored, and get it again."""
    stored_answer: StoredAnswer | None = None
    """What becomes of the answer that the caller gave last; None if none is stored."""
    saved_inside: bool = False
    """Saved results or error handlers in a subgraph count, which they do not before 1.2.16."""
    assumed: bool = False
    """The name of a handler is the usual one: nothing stored tells it."""
    possible: tuple[NodePath, ...] = ()
    """If it cannot be told which nodes run: one or more of these, and the others of them later, as
    nothing stored tells which of them are deferred."""

    @property
    def nodes(self) -> tuple[str, ...] | None:
        """The nodes and error handlers that run first, in readable form; None if not known."""
        if self.runs is None:
            return None
        return tuple(path_text(path) for path in (*self.runs, *self.handlers))

    def below(self, node: NodePath) -> Resume:
        """Return the same of a subgraph as its caller's, which `node` is in."""

        def under(paths: tuple[NodePath, ...]) -> tuple[NodePath, ...]:
            return tuple((*node, *path) for path in paths)

        inner: dict[str, Any] = {name: under(getattr(self, name)) for name in _PATHS}
        runs = None if self.runs is None else under(self.runs)
        saved = self.saved_inside or bool(self.applies or self.handlers)
        return Resume(runs, **inner, saved_inside=saved, assumed=self.assumed)


_PATHS = ("applies", "asks", "handlers", "repeats", "answered", "possible")


def joined(parts: Sequence[Resume]) -> Resume:
    """Return what a resume does from what it does with each task."""

    def all_of(name: str) -> tuple[NodePath, ...]:
        return tuple(path for one in parts for path in getattr(one, name))

    paths: dict[str, Any] = {name: all_of(name) for name in _PATHS}
    return Resume(
        runs=None if any(one.runs is None for one in parts) else all_of("runs"),
        **paths,
        saved_inside=any(one.saved_inside for one in parts),
        assumed=any(one.assumed for one in parts),
    )


class Level(NamedTuple):
    """What a resume does in one namespace, before subgraphs are looked at."""

    runs: tuple[Task, ...]
    started: tuple[str, ...]
    """Nodes that the caller's `goto` starts beside them."""
    applies: tuple[Task, ...]
    handlers: tuple[tuple[str, Task | None], ...]
    """The error handlers that run, each with its run before; None if that stored nothing."""
    assumed: bool = False
    """The name of a handler is the usual one: nothing stored tells it."""


def resume_level(
    body: state.Body, writes: Sequence[Write], step: Step, goes_to: Sequence[tuple[str, str]]
) -> Level:
    """Return what a resume does in the namespace of a head, given its step.

    `goes_to` are the tasks that the caller's stored `Command(goto=...)` starts, as `goto_tasks`
    returns them.
    """
    replaces_sends = any(
        write.task_id == NULL_TASK_ID and write.channel == state.SENDS for write in writes
    )
    planned = [
        task
        for task in candidates(step.tasks, body, writes)
        if not (replaces_sends and body.v >= 4 and sent_index(task.path) is not None)
    ]
    # What the caller's `goto` started is no task of the step, but has stored what it did. His Send
    # to a node is taken for the Send of the step in its place, if that is to it: the ids are equal.
    begun = {run.path: run for run in step.others}
    if replaces_sends:
        begun |= {task.path: task for task in step.tasks if (task.node, task.path) in goes_to}
    paths = {task.path for task in planned}
    planned += [begun[path] for _, path in goes_to if path in begun and path not in paths]
    paths |= {task.path for task in planned}
    known = {*body.seen, *(run.node for run in step.others if run.node is not None)}
    handlers, assumed = [], False
    for task in filter(is_routed, planned):
        run = handler_of(task, step)
        name, is_known = _handler_name(task, run, known)
        handlers.append((name, run))
        assumed = assumed or not is_known
    unfinished = [task for task in planned if not task.finished and not is_routed(task)]
    left = {task.path for task in unfinished}
    return Level(
        runs=tuple(unfinished),
        started=tuple(node for node, path in goes_to if path not in paths),
        applies=(
            *(task for task in planned if task.finished),
            *(run for run in step.others if run.finished and called_by(run) in left),
        ),
        handlers=tuple(handlers),
        assumed=assumed,
    )


def candidates(tasks: Iterable[Task], body: state.Body, writes: Iterable[Write]) -> list[Task]:
    """Return the tasks that a resume looks at, of those that are next.

    It looks only at nodes that read a channel which the last step, or the caller since, wrote to.
    `get_state` looks at all, so a node whose `defer` was changed since can be next and never run.
    """
    if not body.updated or not state.has_branches(body):
        return list(tasks)
    own = state.learn([body])
    named = {write.channel for write in writes if write.task_id == NULL_TASK_ID}
    woken = {state.START}.union(*(own.get(channel, ()) for channel in body.updated | named))
    return [one for one in tasks if one.node in woken or sent_index(one.path) is not None]


def called_by(run: Task) -> str | None:
    """Return the path of the task that called a `@task` function; None for another task."""
    caller = call_of(run.path)
    return None if caller is None else caller[0]


def is_routed(task: Task) -> bool:
    """Return whether a failed task was handed to its error handler: it does not run again, and its
    handler does, even if that has finished.
    """
    channels = {write.channel for write in task.writes}
    return state.ERROR in channels and ERROR_SOURCE in channels


def handler_of(task: Task, step: Step) -> Task | None:
    """Return the run of the error handler of a failed task; None if it has stored nothing."""
    path = handler_path(task.path)
    return next((run for run in step.others if run.path == path), None) if task.path else None


def has_begun(task: Task) -> bool:
    """Return whether an unfinished task is known to have begun: it asked, failed, or was cut off
    by the failure of another one.
    """
    return any(write.channel in CONTROL for write in task.writes)


def paths_of_calls(step: Step) -> dict[str, NodePath]:
    """Return the path to each `@task` function by its task path: the names of those that called it,
    then its own.
    """
    found: dict[str, NodePath] = {run.path: (run.node or "?",) for run in step.tasks}
    calls = [run for run in step.others if is_call(run.path)]
    for run in sorted(calls, key=lambda one: len(one.path)):  # those who call come first
        outer = found.get(called_by(run) or "", ())
        found[run.path] = (*outer, run.node or "?")
    return found


def goto_tasks(
    body: state.Body, writes: Iterable[Write], sends: Callable[[], Sequence[Write]]
) -> list[tuple[str, str]]:
    """Return the node and the path of each task that the caller's `Command(goto=...)` starts, if it
    is stored on a head.

    `sends` returns the checkpoint's writes on `__pregel_tasks` with their values.
    """
    if body.is_javascript:  # There, they are tasks of the step.
        return []
    chosen = [write.channel for write in writes if write.task_id == NULL_TASK_ID]
    nodes = [node for one in chosen if (node := state.named_node(one)) is not None]
    found = [(node, pull_path(node)) for node in nodes]
    if state.SENDS in chosen:
        sent = state.sends_among(write for write in sends() if write.task_id == NULL_TASK_ID) or ()
        found += [
            (node, send_path(place, body.v)) for place, node in enumerate(sent) if node is not None
        ]
    return found


def following(
    body: state.Body,
    tasks: Iterable[Task],
    *,
    sends: Callable[[], Sequence[Write]],
    learned: Callable[[], state.Readers],
    deferred: Callable[[Collection[str]], Mapping[str, bool]],
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return the nodes that run once the saved results of all tasks of a step are applied.

    If they are not known, None, with nodes of which one or more run, and the others later, since
    they may be deferred.

    `sends` returns the checkpoint's writes on `__pregel_tasks` with their values, `learned` the
    nodes that read each channel, as seen in the thread, and `deferred` which of some channels
    trigger a deferred node, as far as other checkpoints tell; see `deferred_channels`.
    """
    done = list(tasks)
    written: dict[str, set[str]] = {}
    for task in done:
        for write in task.writes:
            if write.channel not in CONTROL:
                written.setdefault(write.channel, set()).add(task.node or "")
    sent: list[str | None] | None = []
    if state.SENDS in written:
        ids = {write.task_id for task in done for write in task.writes}
        sent = state.sends_among(write for write in sends() if write.task_id in ids)
    if sent is None or None in sent:
        return None, ()
    edges: dict[str, str] = {}
    ready: set[str] = set()
    channels = (*body.versions, *written)
    is_named = state.has_branches(body) or any(
        state.named_node(one) is not None for one in channels
    )
    for channel, writers in written.items():
        target = state.named_node(channel)
        if target is not None:
            if _is_complete(channel, body, writers):
                edges[channel] = target
        elif channel != state.SENDS and not (is_named and body.names_edges):
            readers = learned().get(channel, ())
            if not readers and (channel in writers or not is_named):
                # Before LangGraph 0.3.15, the edges after a node read a channel with its name.
                return None, ()
            ready.update(readers)
    return _in_order([node for node in sent if node is not None], edges, ready, body, deferred)


def _in_order(
    sent: Sequence[str],
    edges: Mapping[str, str],
    ready: Collection[str],
    body: state.Body,
    deferred: Callable[[Collection[str]], Mapping[str, bool]],
) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return which of the nodes that were triggered run first: deferred ones run when no other
    does.
    """
    waiting = {
        node
        for channel, value in body.values.items()
        if (node := state.named_node(channel)) is not None
        and channel not in edges
        and _is_pair(value)
        and _is_unfinished(channel, value)
    }
    is_alone = len(edges) == 1 and not (sent or ready or waiting)
    forms: Mapping[str, bool] = dict.fromkeys(edges, False)
    if edges and not is_alone and body.v >= 4:
        forms = deferred(edges.keys())
        if not edges.keys() <= forms.keys():
            return None, tuple(sorted({*sent, *ready, *edges.values(), *waiting}))
    first = {*ready, *(node for channel, node in edges.items() if not forms[channel])}
    if sent or first:
        return (*sent, *sorted(first)), ()
    return tuple(sorted({*edges.values(), *waiting})), ()


def deferred_channels(bodies: Iterable[state.Body]) -> dict[str, bool]:
    """Return, for channels that trigger nodes, whether the node is deferred, as their values in
    these bodies tell; without those on which they disagree, as `defer` was changed since.
    """
    found: dict[str, set[bool]] = {}
    for body in bodies:
        for channel, value in body.values.items():
            if state.named_node(channel) is not None:
                found.setdefault(channel, set()).add(_is_pair(value))
    return {channel: forms.pop() for channel, forms in found.items() if len(forms) == 1}


def stored_answer(
    writes: Sequence[Write], step: Step, inner: Callable[[], Iterable[Sequence[Write]]]
) -> StoredAnswer | None:
    """Return what becomes of the answer that the caller gave last, if a head has it.

    `inner` returns the writes of each subgraph that the step called.
    """
    answer = callers_answer(writes)
    if answer is None or answer.value is None:
        return None
    left = [question for question in step.questions if not question.answered]
    used = any(is_used(answer, some) for some in (writes, *inner()))
    if left and all(question.failed_answer for question in left):
        return None if used else "unused"
    if all(task.finished for task in step.tasks):
        return None
    return "again" if used else "next"


def asks_of(task: Task) -> tuple[NodePath, ...]:
    """Return the path of each open question of a task, relative to its namespace."""
    return tuple(asked_by(one) for one in task.questions if one.is_open)


def paths_of_callers(step: Step) -> set[str]:
    """Return the task paths of those that called a `@task` function that stored something: they
    are known to have begun.
    """
    return {caller for run in step.others if (caller := called_by(run)) is not None}


def _handler_name(failed: Task, run: Task | None, known: Collection[str]) -> tuple[str, bool]:
    """Return the name of the node that handles a failure, and whether it is proven.

    If that node has stored nothing, it is the node's own handler, unless only the one for all nodes
    is known. Source: `add_node` and `set_node_defaults` in `langgraph/graph/state.py`, 1.2.24.
    """
    own, default = f"__error_handler__{failed.node}", "__default_error_handler__"
    if run is not None and run.node is not None:
        return run.node, True
    return (default, True) if default in known and own not in known else (own, own in known)


def _is_complete(channel: str, body: state.Body, writers: Collection[str]) -> bool:
    """Return whether a channel triggers its node once these nodes have written to it."""
    if not channel.startswith("join:"):
        return True
    value = body.values.get(channel)
    # One that was complete has made its node run in this step, and is empty again.
    held = None if state.is_available(channel, value) else value
    return state.is_joined(channel, held, writers)


def _is_unfinished(channel: str, value: Value) -> bool:
    """Return whether a deferred node waits for its turn, and for no other node."""
    items = items_of(value) or []
    return items[1] is False and (
        not channel.startswith("join:") or state.is_joined(channel, items[0])
    )


def _is_pair(value: Value) -> bool:
    items = items_of(value)
    return items is not None and len(items) == _AFTER_FINISH and isinstance(items[1], bool)


# Tell why a thread is pending, as far as its rows tell.
#
# A kill and a static breakpoint leave the same rows: LangGraph stores nothing when it stops at
# `interrupt_before` or `interrupt_after`, and notes in `versions_seen` only that a run went on.


GRACE = timedelta(minutes=1)
"""While the newest checkpoint is younger, a run may be in progress."""
LIMITS = (25, 1000, 9_999, 10_000, 10_007)
"""Recursion limits that nobody had to set: the default of LangGraph to 1.0 and of LangGraph.js,
that of Deep Agents, that of `create_agent`, and the later defaults of LangGraph."""
WhyCode = Literal["running", "not-resumed", "killed", "recursion-limit", "cannot-save", "joins"]
WHY_CODES: tuple[WhyCode, ...] = get_args(WhyCode)


class Unsaved(NamedTuple):
    """What tells that a checkpoint cannot be stored."""

    attempts: int = 0
    """How many checkpoints after the head have writes and are not stored themselves."""
    bytes: int | None = None
    """The size of the state and of what was written since, if a document cannot hold it."""
    channel: str | None = None
    """A channel to which a text with a NUL was written, if the engine refuses that."""

    @property
    def is_proven(self) -> bool:
        """Whether it is more than a run that was killed once."""
        return self.attempts > 1 or bool(self.cause)

    @property
    def cause(self) -> str:
        """What the engine does not store, in words; `''` if that is not known."""
        if self.bytes is not None:
            return f"{self.bytes / (1 << 20):.1f} MiB, too large for a document"
        return "" if self.channel is None else f"a NUL character in '{self.channel}'"

    @property
    def times(self) -> str:
        """How often it was tried, as the end of a sentence."""
        return f" {self.attempts} times" if self.attempts > 1 else ""


class Why(NamedTuple):
    """Why a thread does not go on."""

    code: WhyCode
    nodes: tuple[str, ...] = ()
    """The nodes of the step that did not end."""
    idle: timedelta | None = None
    """How long nothing was stored; None if the store has no times."""
    number: int | None = None
    """The step that did not end; with `recursion-limit`, the number of steps of the run."""
    may_wait: bool = False
    """Nothing of the step is stored, so the run may have stopped at a breakpoint before it."""
    unsaved: Unsaved | None = None
    """Not None if all tasks of the step ended, and no checkpoint followed."""
    joins: tuple[state.Join, ...] = ()


class Before(NamedTuple):
    """What is read of a thread besides its head, only when it decides."""

    run_began: Callable[[], int | None]
    """Returns the step of the input with which the last run began, or that it would have had."""
    unsaved: Callable[[], Unsaved]
    """Returns what tells that the next checkpoint cannot be stored."""


def why_stopped(
    step: Step,
    source: str | None,
    number: int | None,
    idle: timedelta | None,
    joins: Sequence[state.Join],
    before: Before,
) -> Why | None:
    """Return why a thread with this head does not go on; None if its status says it, or rows do not
    tell.

    `number` is the step of the head, `idle` the time since anything was stored, and `joins` are the
    nodes at the head that wait for others.
    """
    if step.next == () and joins:
        return Why("joins", idle=idle, joins=tuple(joins))
    if conditions_of(step) != (Status.PENDING,) or step.assumed:
        return None
    next_number = None if number is None else number + 1
    if idle is not None and idle < GRACE:
        return Why("running", step.waiting or (), idle, next_number)
    if is_uncommitted(step):
        unsaved = before.unsaved()
        code: WhyCode = "cannot-save" if unsaved.is_proven else "killed"
        return Why(code, step.next or (), idle, next_number, unsaved=unsaved)
    is_untouched = all(run.id is None for run in step.tasks) and not step.others
    if is_untouched and source in {"update", "fork"}:
        return Why("not-resumed", step.waiting or (), idle, next_number)
    if is_untouched and source == "loop" and number is not None:
        began = before.run_began() if number >= LIMITS[0] - 1 else None
        if began is not None and number - began - 1 in LIMITS:
            return Why("recursion-limit", step.waiting or (), idle, number - began - 1)
    may_wait = is_untouched and source == "loop"
    return Why("killed", step.waiting or (), idle, next_number, may_wait=may_wait)
