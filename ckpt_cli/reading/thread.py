"""Reads a thread: its checkpoints, its heads, the tasks of each, also in subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import islice
from typing import TypeAlias

from ckpt_backends import shell
from ckpt_backends.codec import BodySkimmer, decode, decode_checkpoint
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import CLOSED, expects_encrypted, is_encrypted_type
from ckpt_backends.errors import Ambiguous, NotFound, Unreadable
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Status,
    Thread,
    TypedBytes,
    Write,
    in_chunks,
    step_of,
    time_of,
)
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.lineage import Parentage, graph_of, innermost, namespace_in, namespace_kind
from ckpt_cli.core.redact import redact_body, redact_metadata, redact_write
from ckpt_cli.core.resume import (
    Before,
    Level,
    Resume,
    Unsaved,
    Why,
    asks_of,
    deferred_channels,
    following,
    goto_tasks,
    has_begun,
    joined,
    paths_of_callers,
    paths_of_calls,
    resume_level,
    stored_answer,
    why_stopped,
)
from ckpt_cli.core.state import (
    ERROR,
    INTERRUPT,
    LOST_DELTA,
    NOT_STORED,
    SENDS,
    START,
    Body,
    Followers,
    Join,
    caller_of,
    delta_channels,
    followers_of,
    half_filled,
    learn,
    learn_followers,
    read_body,
    read_metadata,
    source_from,
    step_from,
    stored_time,
)
from ckpt_cli.core.tasks import (
    CONTROL,
    Lookups,
    NodePath,
    Question,
    Step,
    Task,
    asked_by,
    conditions_of,
    failed_at,
    function_names,
    is_call,
    is_surely_done,
    origin_at,
    plan_step,
    send_ids,
    sent_index,
    status_of,
    subgraph_calls,
)

Graph: TypeAlias = tuple[str, ...]
"""The nodes whose subgraphs it is called in; none for the root."""

_THREADS = 200
"""Number of newest threads that are read: enough to have seen a graph's nodes."""
_SMALL = 1 << 20
"""Threads with more bytes than this are not read."""
_READ = 32 << 20
"""Number of bytes of threads that are read whole."""


class TriggerInference:
    """Facts from the newest threads of a store, read once and only when needed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def capabilities(self) -> Capability:
        """What the layout stores and can do."""
        return self._store.capabilities

    @cached_property
    def is_values_only(self) -> bool:
        """Whether the layout stores only the values of a checkpoint."""
        return Capability.VALUES_ONLY in self.capabilities

    @cached_property
    def readers(self) -> Mapping[str, Collection[str]]:
        """Maps a channel to the nodes that read it."""
        return learn(self._heads())

    @cached_property
    def followers(self) -> Mapping[Graph, Sequence[Followers]]:
        """Maps a graph to what each thread tells about which nodes follow which."""
        found: dict[Graph, list[Followers]] = {}
        for thread_id in self._read_whole():
            for graph, told in thread_followers(self._store, thread_id).items():
                found.setdefault(graph, []).append(told)
        return found

    @cached_property
    def deferred(self) -> Mapping[str, bool]:
        """Maps a channel to whether it triggers a deferred node, as `deferred_channels` does."""
        skimmed = BodySkimmer().decode
        return deferred_channels(
            read_body(found, skimmed)
            for thread_id in self._read_whole()
            for found in self._store.checkpoints(thread_id, body=True)
        )

    @cached_property
    def functions(self) -> list[str]:
        """Names that may be names of `@task` functions."""
        threads = [thread_id for thread_id, _ in self._small_threads]
        return function_names(
            (ns for thread_id in threads for ns in self._store.namespaces(thread_id)),
            (
                read_metadata(found)
                for thread_id in threads
                for found in self._store.checkpoints(thread_id, metadata=True)
            ),
            self._heads(),
        )

    def _heads(self) -> Iterator[Body]:
        """Yield the newest body of each namespace: it knows every node that ran before."""
        for thread_id, _ in self._small_threads:
            heads: dict[str, CheckpointKey] = {}
            for found in self._store.checkpoints(thread_id):
                heads.setdefault(found.key.checkpoint_ns, found.key)
            for some in in_chunks(heads.values()):
                yield from map(read_body, self._store.checkpoints_at(some, body=True))

    def _read_whole(self) -> Iterator[str]:
        """Yield the ids of some small threads, of which all may be read."""
        left = _READ
        for thread_id, size in self._small_threads:
            left -= size
            if left < 0:
                return
            yield thread_id

    @cached_property
    def _small_threads(self) -> Sequence[tuple[str, int]]:
        """The newest threads that are not large, with their sizes in bytes."""
        if self._store.lists_by_scan:
            return []
        ids = [thread.thread_id for thread in self._store.threads(limit=_THREADS)]
        sizes = (one.bytes for one in self._store.sizes(ids))
        return [(name, size) for name, size in zip(ids, sizes, strict=True) if size <= _SMALL]


def thread_followers(store: Store, thread_id: str) -> dict[Graph, Followers]:
    """Return what a thread's checkpoints tell about which nodes follow which, for each graph."""
    graphs: dict[Graph, list[tuple[str, str | None, str | None, Body]]] = {}
    decode = BodySkimmer().decode
    for one in store.checkpoints(thread_id, body=True, metadata=True):
        told = (
            one.key.checkpoint_id,
            one.parent_checkpoint_id,
            source_from(read_metadata(one)),
            read_body(one, decode),
        )
        graphs.setdefault(graph_of(one.key.checkpoint_ns), []).append(told)
    return {graph: learn_followers(told) for graph, told in graphs.items()}


@dataclass(slots=True, eq=False)
class DecodedCheckpoint:
    """A decoded checkpoint."""

    checkpoint: Checkpoint
    body: Body
    metadata: Mapping[str, Value]
    writes: Sequence[Write]

    @property
    def key(self) -> CheckpointKey:
        return self.checkpoint.key

    def check_readable(self) -> None:
        """Raise `Unreadable` if the body could not be read at all."""
        if self.body.problem is not None:
            raise unreadable(f"checkpoint '{self.key.checkpoint_id}'", self.body.problem)

    @property
    def number(self) -> int | None:
        """The step, from the metadata, or else from the id."""
        return number_of(self.key.checkpoint_id, self.metadata)

    @property
    def source(self) -> str | None:
        return source_from(self.metadata)

    @property
    def at(self) -> datetime | None:
        return self.checkpoint.at or moment_time(self.key.checkpoint_id, self.body)


@dataclass(slots=True, eq=False)
class Moment(DecodedCheckpoint):
    """A checkpoint with the tasks of its next step."""

    step: Step

    def redacted(self) -> Moment:
        """Return the checkpoint without its values."""
        return Moment(
            self.checkpoint._replace(body=None, metadata=None),
            redact_body(self.body),
            redact_metadata(self.metadata),
            list(map(redact_write, self.writes)),
            self.step.redacted(),
        )

    @property
    def status(self) -> Status:
        """The worst of the conditions."""
        return status_of(self.step)

    @property
    def conditions(self) -> tuple[Status, ...]:
        """All conditions of the step, the worst first."""
        return conditions_of(self.step)


def sizes_of_blobs(
    store: Store, thread_id: str, keys: Collection[BlobKey] | None = None
) -> dict[BlobKey, tuple[int, int]]:
    """Return (rows, bytes) of the values that are stored apart; with `keys`, only of those."""
    found: dict[BlobKey, tuple[int, int]] = {}
    for key, size in store.blobs(thread_id):
        if keys is None or key in keys:
            number, taken = found.get(key, (0, 0))
            found[key] = number + 1, taken + size
    return found


def check_names_values(key: CheckpointKey, body: Body) -> None:
    """Raise `Unreadable` if a body does not tell which values its checkpoint needs."""
    if body.problem is not None:
        raise unreadable(f"checkpoint '{key.checkpoint_id}'", body.problem)
    if "channel_versions" in body.lacks:
        raise Unreadable(f"checkpoint '{key.checkpoint_id}' does not name the values that it needs")


def unreadable(what: str, problem: Opaque) -> Unreadable:
    """Return the error for something that cannot be decoded.

    The reason may quote its bytes, so only `show` prints it, which obeys `--redact`.
    """
    if problem == LOST_DELTA:
        return Unreadable(f"{what} is {problem.reason}")
    if problem.reason.startswith(NOT_STORED):
        return Unreadable(
            f"{what} is {problem.reason}",
            hint="`ckpt diff --writes THREAD@REF` shows what its tasks wrote",
        )
    if not problem.reason.startswith(CLOSED):
        return Unreadable(f"cannot read {what}", hint="`ckpt show THREAD@REF` says why")
    reason, _, hint = problem.reason.partition("; ")
    return Unreadable(f"cannot read {what}: {reason}", hint=hint or None)


def moment_time(checkpoint_id: str, body: Body) -> datetime | None:
    """Return the time of a checkpoint, from its id, or else from the body's `ts`; None if
    unknown.
    """
    return time_of(checkpoint_id) or stored_time(body)


def number_of(checkpoint_id: str, metadata: Mapping[str, Value]) -> int | None:
    """Return the step, from the metadata, or else from the id."""
    step = step_from(metadata)
    return step_of(checkpoint_id) if step is None else step


# Look into the subgraphs of a step: which node asked or failed there, and where a resume goes on.
#
# LangGraph stores a question or an error at every level, from the node in the innermost subgraph
# up to the node of the root graph that called it. A resumed subgraph goes on from its own head.


_DEEPEST = 50
"""Maximum depth of subgraphs that are searched."""


def locate(reader: ThreadReader, moment: Moment) -> Moment:
    """Return the checkpoint with questions and errors that name the node in a subgraph."""
    step = moment.step
    if not any(task.questions or task.error is not None for task in step.runs):
        return moment
    tasks = tuple(_located(reader, moment.key, task) for task in step.tasks)
    others = tuple(_located(reader, moment.key, task) for task in step.others)
    return replace(moment, step=step._replace(tasks=tasks, others=others))


def called(
    reader: ThreadReader, key: CheckpointKey, task_id: str | None, node: str | None
) -> Iterator[str]:
    """Yield the namespaces of the subgraphs that a task called, stateful ones included."""
    depth = len(graph_of(key.checkpoint_ns))
    if depth >= _DEEPEST or reader.thread.namespaces < 2:  # which costs no query
        return
    call = namespace_in(key.checkpoint_ns, str(node), str(task_id))
    # The memory of a stateful subgraph outlives the calls: its namespace names no task.
    stateful = namespace_in(namespace_kind(key.checkpoint_ns), node or "")
    known = reader.known_namespaces
    # A hostile name may lead back to where it stands.
    yield from (ns for ns in (stateful, call) if ns in known and len(graph_of(ns)) > depth)
    number = 1  # The namespace of a task's second call is `node:task|1`.
    while (again := f"{call}|{number}") in known:
        yield again
        number += 1


def heads_inside(
    reader: ThreadReader,
    key: CheckpointKey,
    task_id: str | None,
    node: str | None,
    seen: set[str] | None = None,
) -> Iterator[Moment]:
    """Yield the heads of the subgraphs that a task called.

    `seen` are the namespaces that were looked into already, which are left out: tasks may share
    one. Those that are looked into now are added.
    """
    for ns in called(reader, key, task_id, node):
        head = reader.head(ns)
        if head is not None and (seen is None or ns not in seen):
            if seen is not None:
                seen.add(ns)
            yield reader.moment(ns, head)


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
    runs, possible = following(
        body,
        level.applies,
        sends=sends,
        learned=lambda: reader.learned_readers(moment.key.checkpoint_ns),
        deferred=partial(reader.deferred, moment.key.checkpoint_ns),
    )
    return found._replace(
        runs=None if runs is None else tuple((node,) for node in runs),
        possible=tuple((node,) for node in possible),
    )


def ran_inside(reader: ThreadReader, moment: Moment, task: Task) -> Iterator[NodePath]:
    """Yield the nodes that ran in the subgraphs that a task called, stateful ones left out.

    A copy of the checkpoint gives the task another id, so that these subgraphs start again.
    """
    if task.node is None:
        return
    task_id = task.id or _call_id(reader, moment, task)
    for ns in called(reader, moment.key, task_id, task.node):
        call = innermost(ns)
        if call.task_id is None and not call.number:
            continue
        for one in reversed(list(reader.moments(ns))):
            for run in one.step.runs:
                if run.finished and run.node not in (None, START) and not is_call(run.path):
                    yield (task.node, run.node or "?")
                else:
                    yield from ((task.node, *path) for path in ran_inside(reader, one, run))


def _runs_of(
    reader: ThreadReader, moment: Moment, level: Level, seen: set[str], *, inside: bool
) -> Resume:
    """Return what runs, with the subgraphs of the tasks that run."""
    calls, callers = paths_of_calls(moment.step), paths_of_callers(moment.step)
    begun = [(node, run) for node, run in level.handlers if run is not None]
    parts = [
        Resume(
            runs=tuple((node,) for node in level.started),
            applies=tuple(
                calls.get(task.path, ("?",)) if is_call(task.path) else (task.node or "?",)
                for task in level.applies
                if task.node != START
            ),
            asks=tuple(path for _, run in begun for path in asks_of(run)),
            handlers=tuple((node,) for node, _ in level.handlers),
            repeats=tuple((node,) for node, _ in begun),
            assumed=level.assumed,
        )
    ]
    is_told = True
    for task in level.runs:
        node = (task.node or "?",)
        if task.node == START:
            # It only hands the input to the first nodes, and what it would write is not stored.
            parts.append(Resume(None))
            continue
        inner = list(_resumed_calls(reader, moment, task, seen)) if inside else []
        going = [one.below(node) for one in inner if one.runs != () or one.handlers]
        parts += going
        if going:
            continue
        if inner:
            # All that it called has finished, and LangGraph returns it. Where it leads is not
            # stored: that would be in the writes of this task.
            applied = tuple(path for one in inner for path in one.below(node).applies)
            parts.append(Resume((), applied or (node,)))
            is_told = False
            continue
        has_run = has_begun(task) or task.path in callers
        answered = tuple(asked_by(one) for one in task.questions if one.failed_answer)
        repeats = (node,) if has_run else ()
        parts.append(Resume((node,), asks=asks_of(task), repeats=repeats, answered=answered))
    found = joined(parts)
    # If nothing runs here, it cannot be told what does where a subgraph has finished.
    return found if found.runs or is_told else found._replace(runs=None)


def writes_inside(
    reader: ThreadReader, moment: Moment, seen: set[str] | None = None
) -> Iterator[Sequence[Write]]:
    """Yield the writes at the heads of the subgraphs that the unfinished tasks called."""
    seen = set() if seen is None else seen
    for task in moment.step.tasks:
        if task.finished or task.id is None:
            continue
        for found in heads_inside(reader, moment.key, task.id, task.node, seen):
            yield found.writes
            yield from writes_inside(reader, found, seen)


def why_of(reader: ThreadReader, head: Moment, now: datetime) -> Why | None:
    """Return why a thread does not go on from its root head, as far as rows tell.

    More than the head is read only of a thread that is pending and that no run may be working on.
    """
    times = [reader.thread.last_at, *(write.at for write in head.writes)]
    last = max((at for at in times if at is not None and at <= now), default=None)
    return why_stopped(
        head.step,
        head.source,
        head.number,
        None if last is None else now - last,
        reader.joins(head, live=True),
        Before(partial(_run_began, reader, head), partial(unsaved, reader, head)),
    )


def _run_began(reader: ThreadReader, head: Moment) -> int | None:
    """Return the step of the input with which the run that led to a head began.

    A run that went on from a checkpoint counts its steps as if an input had come after that.
    None if the layout keeps no history, or the beginning of the run is not stored.
    """
    if not reader.has_history:
        return None
    stops = {one.key.checkpoint_id for one in reader.writes("", channels=[INTERRUPT, ERROR])}
    line = reader.ancestry("", head.key.checkpoint_id)
    after = head.number
    for one in reader.checkpoints("", line[1:], metadata=True):
        metadata = read_metadata(one)
        number = number_of(one.key.checkpoint_id, metadata)
        if number is None or after is None:
            return None
        source = source_from(metadata)
        if source == "input":
            return number
        # With durability="exit", the steps in between are not stored.
        if source in {"update", "fork"} or one.key.checkpoint_id in stops or number < after - 1:
            return number + 1
        after = number
    return -1 if reader.parentage("").named_parent(line[-1]) is None else None


def unsaved(reader: ThreadReader, head: Moment) -> Unsaved:
    """Return what tells that the checkpoint after a head cannot be stored, whose tasks ended."""
    store, own = reader.store, head.key.checkpoint_id
    attempts: set[str] = set()
    if reader.has_history:
        known = {one.key.checkpoint_id for one in reader.index("")}
        named = {one.key.checkpoint_id for one in reader.writes("")}
        attempts = {one for one in named - known if one > own}
    limit, body = store.document_limit, head.checkpoint.body
    size = sum(write.size for write in head.writes) + (0 if body is None else len(body.data))
    too_large = size if limit is not None and size > limit else None
    written = reader.writes("", [own], values=True) if store.refuses_nul else ()
    refused = (one.channel for one in written if one.channel not in CONTROL and _has_nul(one))
    return Unsaved(len(attempts), too_large, next(refused, None))


def _has_nul(write: Write) -> bool:
    """Return whether a write is a text with a NUL character. Savers store others as bytes."""
    value = None if write.value is None else decode(write.value)
    return isinstance(value, str) and "\0" in value


def _resumed_calls(
    reader: ThreadReader, moment: Moment, task: Task, seen: set[str]
) -> Iterator[Resume]:
    """Yield what a resume does in each subgraph that an unfinished task called."""
    task_id = task.id or _call_id(reader, moment, task)
    for there in heads_inside(reader, moment.key, task_id, task.node, seen):
        found = resume_of(reader, there, seen=seen)
        # That nothing follows is not proven where edges do not show in the channels.
        is_proven = there.step.next or not there.step.assumed
        yield found if is_proven else found._replace(runs=None)


def _call_id(reader: ThreadReader, moment: Moment, task: Task) -> str | None:
    """Return the id of a task that has stored nothing itself, but called a subgraph that has.

    The id of a Send is hashed. For other nodes, the metadata of the subgraph's checkpoint names the
    checkpoint of its parent: `parents`.
    """
    key, node, known = moment.key, task.node, reader.known_namespaces
    index = sent_index(task.path)
    sent = [run for run in moment.step.tasks if sent_index(run.path) is not None]
    hashed = {
        one for run in ([task] if index is not None else sent) for one in _sent_ids(moment, run)
    }
    if index is not None:
        made = (one for one in hashed if namespace_in(key.checkpoint_ns, str(node), one) in known)
        return next(made, None)
    others = {run.id for run in moment.step.runs} | hashed
    for ns in reader.namespaces:
        outer, caller, task_id, number = innermost(ns)
        if task_id in {None, *others} or (outer, caller, number) != (key.checkpoint_ns, node, ""):
            continue
        head = reader.head(ns)
        if head is None or head < key.checkpoint_id:
            continue
        for one in reader.checkpoints(ns, [head], metadata=True):
            if caller_of(one, key.checkpoint_ns) == key.checkpoint_id:
                return task_id
    return None


def _sent_ids(moment: Moment, task: Task) -> Iterator[str]:
    """Yield the ids that the task of a Send may have."""
    index, number = sent_index(task.path), moment.number
    origin = origin_at(moment.key, moment.body, 0 if number is None else number + 1)
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
        stored = reader.writes(ns, channels={INTERRUPT, ERROR})
        ids = {write.key.checkpoint_id for write in stored}
        for moment in reader.moments(ns, ids) if ids else ():
            yield from moment.step.runs


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


NO_THREAD_HINT = (
    "`ckpt threads list --all` lists all threads;"
    " `ckpt threads list --match '*PART*'` searches their ids"
)
_AT_ONCE = 200
"""Number of checkpoints for which one query fetches the writes."""


def unloaded_head(reader: ThreadReader) -> str:
    """Return what the saver does instead of loading the root head, in words; usually `''`."""
    return reader.store.unloaded_heads([reader.thread_id]).get(reader.thread_id, "")


class ThreadReader:
    """Reads one thread, given by its id or by its entry in a list.

    Raises `NotFound` if the store has no such thread. Readers of several threads of one store
    should share `inference`.
    """

    def __init__(
        self, store: Store, thread: Thread | str, inference: TriggerInference | None = None
    ) -> None:
        self.store = store
        self._inference = inference or TriggerInference(store)
        found = store.thread(thread) if isinstance(thread, str) else thread
        if found is None:
            raise NotFound(f"no thread '{thread}' in this store", hint=NO_THREAD_HINT)
        self.thread = found
        self.thread_id = found.thread_id
        self._indexes: dict[str, list[Checkpoint]] = {}
        self._parentages: dict[str, Parentage] = {}
        self._is_indexed = False
        self._delta: dict[str, set[str]] = {}
        self._learned: dict[Graph, Mapping[str, Collection[str]]] = {}
        """The nodes that each channel triggers, by graph."""
        self._finished: dict[str, set[str]] = {}
        """The ids of tasks with output, by namespace."""
        self._own_functions: dict[str, list[str]] = {}
        self._has_encrypted: bool | None = None
        """None while no checkpoint made it necessary to know."""

    @property
    def capabilities(self) -> Capability:
        """What the layout stores and can do. Readers that share `inference` ask the store once."""
        return self._inference.capabilities

    @property
    def is_values_only(self) -> bool:
        """Whether the layout stores only a checkpoint's values, and the writes that made them."""
        return self._inference.is_values_only

    @cached_property
    def namespaces(self) -> list[str]:
        """The thread's namespaces; the root is `''`."""
        if self._is_indexed:
            return sorted(self.indexes())
        return self.store.namespaces(self.thread_id)

    @cached_property
    def known_namespaces(self) -> frozenset[str]:
        """The same namespaces as a set, for fast lookups."""
        return frozenset(self.namespaces)

    def checkpoints(
        self,
        ns: str | None = None,
        ids: Collection[str] | None = None,
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        """Return what the store has of the thread, or of a namespace, as `Store.checkpoints`."""
        return self.store.checkpoints(
            self.thread_id,
            checkpoint_ns=ns,
            checkpoint_ids=ids,
            body=body,
            metadata=metadata,
            values=values,
        )

    def writes(
        self,
        ns: str | None = None,
        ids: Collection[str] | None = None,
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        """Return the writes of the thread, or of a namespace, as `Store.writes`."""
        return self.store.writes(
            self.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, channels=channels, values=values
        )

    def index(self, checkpoint_ns: str) -> list[Checkpoint]:
        """Return the checkpoints of a namespace without bodies, newest first."""
        if checkpoint_ns not in self._indexes:
            found = self.checkpoints(checkpoint_ns)
            self._indexes[checkpoint_ns] = list(found)
        return self._indexes[checkpoint_ns]

    def indexes(self) -> Mapping[str, list[Checkpoint]]:
        """Return the same of all namespaces that have any, with one query."""
        if not self._is_indexed:
            found: dict[str, list[Checkpoint]] = {}
            for one in self.checkpoints():
                found.setdefault(one.key.checkpoint_ns, []).append(one)
            self._indexes = found | self._indexes
            self._is_indexed = True
        return {ns: index for ns, index in self._indexes.items() if index}

    def parentage(self, checkpoint_ns: str) -> Parentage:
        """Return the parents of the checkpoints of a namespace."""
        if checkpoint_ns not in self._parentages:
            self._parentages[checkpoint_ns] = Parentage.of(self.index(checkpoint_ns))
        return self._parentages[checkpoint_ns]

    def head(self, checkpoint_ns: str) -> str | None:
        """Return the checkpoint that a saver loads in a namespace; None if there is none."""
        index = self.index(checkpoint_ns)
        return index[0].key.checkpoint_id if index else None

    @property
    def seen_heads(self) -> dict[str, str]:
        """The heads of the namespaces that were read so far."""
        return {ns: index[0].key.checkpoint_id for ns, index in self._indexes.items() if index}

    def ancestry(self, checkpoint_ns: str, checkpoint_id: str) -> list[str]:
        """Return a checkpoint and its stored ancestors, nearest first; stops at a loop."""
        return list(self.parentage(checkpoint_ns).line(checkpoint_id))

    @property
    def has_history(self) -> bool:
        """Whether the layout keeps more than the newest checkpoint of a namespace."""
        return Capability.HISTORY in self.capabilities

    def delta_channels(self, checkpoint_ns: str) -> set[str]:
        """Return the DeltaChannels of a namespace, from the metadata of all its checkpoints."""
        if checkpoint_ns not in self._delta:
            found = self.checkpoints(checkpoint_ns, metadata=True)
            self._delta[checkpoint_ns] = set().union(
                *(delta_channels(read_metadata(one)) for one in found)
            )
        return self._delta[checkpoint_ns]

    def namespace(self, text: str) -> str:
        """Return the namespace that a text names: by its name, its beginning, or a shell pattern.

        Raises `NotFound` or `Ambiguous`.
        """
        if text in self.namespaces:
            return text
        found = [ns for ns in self.namespaces if refs.is_shortened(ns, text)] or [
            ns for ns in self.namespaces if ns.startswith(text) or fnmatchcase(ns, text)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            raise Ambiguous(
                f"'{text}' is ambiguous: {len(found)} namespaces match",
                hint=f"use one of {refs.named(found)}",
            )
        known = refs.named([ns for ns in self.namespaces if ns])
        raise NotFound(
            f"no namespace '{text}' in thread '{self.thread_id}'",
            hint=f"its namespaces: {known}" if known else "it has the root namespace only",
        )

    def check_root(self) -> None:
        """Raise `NotFound`, which names the thread's namespaces, if the root has no checkpoint."""
        if self.head("") is not None:
            return
        text = f"thread '{self.thread_id}' has no checkpoint in the root namespace"
        if not self.namespaces:
            raise NotFound(text)
        shown = shell.command("ckpt", "show", "--ns", self.namespaces[0], ids=[self.thread_id])
        raise NotFound(
            f"{text}; its namespaces: {refs.named(self.namespaces)}",
            hint=f"`{shown}` shows the newest one there",
        )

    def line(self, checkpoint_ns: str) -> refs.NamespaceRefs:
        """Return the checkpoints of a namespace, for resolving a ref."""
        return refs.NamespaceRefs(
            self.thread_id,
            self.parentage(checkpoint_ns),
            self.head(checkpoint_ns),
            lambda: self._steps(checkpoint_ns),
            lambda: self.times(checkpoint_ns),
            lambda checkpoint_id: self.stored_time(checkpoint_ns, checkpoint_id),
        )

    def _steps(self, checkpoint_ns: str) -> dict[str, int | None]:
        found = self.checkpoints(checkpoint_ns, metadata=True)
        return {
            one.key.checkpoint_id: number_of(one.key.checkpoint_id, read_metadata(one))
            for one in found
        }

    def stored_time(self, checkpoint_ns: str, checkpoint_id: str) -> datetime | None:
        """Return the time that a checkpoint holds; None if it cannot be read."""
        for one in self.checkpoints(checkpoint_ns, [checkpoint_id], body=True):
            return stored_time(read_body(one))
        return None

    def times(self, checkpoint_ns: str) -> dict[str, datetime | None]:
        """Return the time of each checkpoint of a namespace, from its id, or else from its body."""
        times = {
            one.key.checkpoint_id: one.at or time_of(one.key.checkpoint_id)
            for one in self.index(checkpoint_ns)
        }
        without = [checkpoint_id for checkpoint_id, at in times.items() if at is None]
        if without:
            for one in self.checkpoints(checkpoint_ns, without, body=True):
                times[one.key.checkpoint_id] = moment_time(one.key.checkpoint_id, read_body(one))
        return times

    def moment(
        self,
        checkpoint_ns: str,
        checkpoint_id: str,
        *,
        values: bool = False,
        state: bool | Collection[str] = False,
    ) -> Moment:
        """Return one checkpoint; `values` and `state` as in `moments`. Raises `NotFound`."""
        for found in self.moments(checkpoint_ns, [checkpoint_id], values=values, state=state):
            return found
        raise NotFound(f"no checkpoint '{checkpoint_id}' in thread '{self.thread_id}'")

    def stored(
        self, checkpoint_ns: str, checkpoint_id: str, *, state: bool | Collection[str] = False
    ) -> DecodedCheckpoint:
        """Return one checkpoint without its tasks; its writes have no values.

        `state` is as in `moments`. Raises `NotFound`.
        """
        for found in self.decoded(checkpoint_ns, [checkpoint_id], state=state):
            return found
        raise NotFound(f"no checkpoint '{checkpoint_id}' in thread '{self.thread_id}'")

    def decoded(
        self,
        checkpoint_ns: str,
        checkpoint_ids: Collection[str] | None = None,
        *,
        state: bool | Collection[str] = False,
    ) -> Iterator[DecodedCheckpoint]:
        """Yield checkpoints of a namespace as `stored` returns them, newest first."""
        for one, writes in self._with_writes(checkpoint_ns, checkpoint_ids, state, False):
            yield DecodedCheckpoint(one, read_body(one), read_metadata(one), writes)

    def moments(
        self,
        checkpoint_ns: str,
        checkpoint_ids: Collection[str] | None = None,
        *,
        values: bool = False,
        state: bool | Collection[str] = False,
        skim: bool = False,
    ) -> Iterator[Moment]:
        """Yield checkpoints of a namespace, newest first, with a few in memory at a time.

        Only values of writes to LangGraph's control channels are read, or all with `values`. If the
        layout stores the values of channels apart, they are read only with `state`, which may name
        the channels wanted. Questions and errors name the node in a subgraph that they come from.
        With `skim`, large values in bodies are not read either; `Cut`s stand in their places.
        """
        decode_body = BodySkimmer().decode if skim else decode_checkpoint
        for one, writes in self._with_writes(
            checkpoint_ns, checkpoint_ids, state, True if values else CONTROL
        ):
            yield locate(self, self.with_step(one, writes, decode_body))

    def _with_writes(
        self,
        checkpoint_ns: str,
        checkpoint_ids: Collection[str] | None,
        state: bool | Collection[str],
        values: bool | Collection[str],
    ) -> Iterator[tuple[Checkpoint, list[Write]]]:
        """Yield whole checkpoints, one at a time, with their writes and these values of them."""
        stream = self.checkpoints(
            checkpoint_ns, checkpoint_ids, body=True, metadata=True, values=state
        )
        wanted = checkpoint_ids
        if wanted is None:
            wanted = [one.key.checkpoint_id for one in self.index(checkpoint_ns)]
        pending = iter(sorted(set(wanted), reverse=True))
        writes: dict[str, list[Write]] = {}
        for checkpoint in stream:
            checkpoint_id = checkpoint.key.checkpoint_id
            if checkpoint_id not in writes:
                ids = [checkpoint_id, *islice(pending, _AT_ONCE)]
                writes = self._writes_of(checkpoint_ns, ids, values)
            yield checkpoint, writes.get(checkpoint_id, [])

    def _writes_of(
        self, checkpoint_ns: str, ids: Iterable[str], values: bool | Collection[str]
    ) -> dict[str, list[Write]]:
        grouped: dict[str, list[Write]] = {one: [] for one in ids}
        for write in self.writes(checkpoint_ns, grouped, values=values):
            grouped[write.key.checkpoint_id].append(write)
        return grouped

    def with_step(
        self,
        checkpoint: Checkpoint,
        writes: Sequence[Write],
        decode_body: Callable[[TypedBytes], Value] = decode_checkpoint,
    ) -> Moment:
        """Add the tasks of the next step to a checkpoint that was read with body and metadata."""
        body, metadata = read_body(checkpoint, decode_body), read_metadata(checkpoint)
        parent_id = checkpoint.parent_checkpoint_id
        parent = None if parent_id is None else checkpoint.key._replace(checkpoint_id=parent_id)
        ns = checkpoint.key.checkpoint_ns
        around = Lookups(
            parent_sends=lambda: [] if parent is None else self.sends_on(parent),
            own_sends=lambda: self.sends_on(checkpoint.key),
            learned_thread=lambda: self.learned_readers(ns),
            learned_store=lambda: self._inference.readers,
            calls=lambda: self._calls.get(ns, {}),
            functions=lambda: self._functions(ns),
            functions_elsewhere=lambda: self._inference.functions,
            followers=lambda node: self._followers(checkpoint.key, node),
        )
        step = plan_step(checkpoint.key, body, metadata, writes, around, delta_channels(metadata))
        return Moment(checkpoint, body, metadata, writes, step)

    def joins(self, moment: Moment, *, live: bool) -> tuple[Join, ...]:
        """Return the nodes that wait for several others, of which some have finished.

        `live`: the checkpoint is the head, so what finished in the step after it counts, too.
        """
        arriving: dict[str, set[str]] = {}
        for task in moment.step.tasks if live else ():
            for write in task.writes:
                if write.channel.startswith("join:") and task.node is not None:
                    arriving.setdefault(write.channel, set()).add(task.node)
        return half_filled(
            moment.body,
            lambda: {node for nodes in self._inference.readers.values() for node in nodes},
            arriving,
        )

    @cached_property
    def _calls(self) -> Mapping[str, Mapping[str, str]]:
        return subgraph_calls(self.namespaces)

    def _functions(self, checkpoint_ns: str) -> Sequence[str]:
        """Return names in this thread that may be `@task` functions."""
        if checkpoint_ns not in self._own_functions:
            ids = self.parentage(checkpoint_ns).tips  # The bodies of these name all that ran.
            tips = self.checkpoints(checkpoint_ns, ids, body=True)
            found = self.checkpoints(metadata=True)
            self._own_functions[checkpoint_ns] = function_names(
                self.namespaces, map(read_metadata, found), map(read_body, tips)
            )
        return self._own_functions[checkpoint_ns]

    def _followers(self, key: CheckpointKey, node: str) -> Collection[str] | None:
        """Return the nodes that follow a node of a namespace's graph; None if it is not known."""
        graph = graph_of(key.checkpoint_ns)
        own = self._own_followers.get(graph) or learn_followers(())
        found = followers_of(node, own, lambda: self._inference.followers.get(graph, ()))
        return () if found is None and self._has_returned(key) else found

    def _has_returned(self, key: CheckpointKey) -> bool:
        """Return whether a checkpoint is the last of a call that its caller went on from."""
        outer, _, task_id, _ = innermost(key.checkpoint_ns)
        if task_id is None or key.checkpoint_id != self.head(key.checkpoint_ns):
            return False
        if outer not in self._finished:
            self._finished[outer] = {
                write.task_id for write in self.writes(outer) if write.channel not in CONTROL
            }
        return task_id in self._finished[outer]

    def sends_on(self, key: CheckpointKey) -> list[Write]:
        """Return the Sends that are stored with a checkpoint of the thread, with their values."""
        return self._writes_of(key.checkpoint_ns, [key.checkpoint_id], [SENDS])[key.checkpoint_id]

    @cached_property
    def _own_followers(self) -> Mapping[Graph, Followers]:
        return thread_followers(self.store, self.thread_id)

    def learned_readers(self, checkpoint_ns: str) -> Mapping[str, Collection[str]]:
        """Return the nodes that each channel triggers, from all bodies of a namespace's graph."""
        graph = graph_of(checkpoint_ns)
        if graph not in self._learned:
            skimmed = BodySkimmer().decode
            found = self.checkpoints(body=True)
            self._learned[graph] = learn(
                read_body(one, skimmed) for one in found if graph_of(one.key.checkpoint_ns) == graph
            )
        return self._learned[graph]

    def deferred(self, checkpoint_ns: str, channels: Collection[str]) -> Mapping[str, bool]:
        """Return which of some channels trigger a deferred node, as far as other checkpoints tell:
        those of the namespace, or else other threads.
        """
        skimmed = BodySkimmer().decode
        bodies = self.checkpoints(checkpoint_ns, body=True)
        found = deferred_channels(read_body(one, skimmed) for one in bodies)
        return found if found.keys() >= {*channels} else {**self._inference.deferred, **found}

    def is_plaintext(self, moment: Moment) -> bool:
        """Return whether a part of a checkpoint is stored unencrypted although others are
        encrypted.

        Anyone who can write to a store could insert data that the application then trusts.
        """
        if self._has_encrypted is False:
            return False
        checkpoint = moment.checkpoint
        # If values are stored apart, the body itself is not encrypted.
        parts = [] if checkpoint.blobs is not None else [checkpoint.body]
        parts += [write.value for write in moment.writes]
        plain = any(part is not None and not part.encrypted for part in parts) or any(
            not is_encrypted_type(blob.type) for blob in (checkpoint.blobs or {}).values()
        )
        if plain and self._has_encrypted is None:
            self._has_encrypted = expects_encrypted(self.store) and any(
                is_encrypted_type(one.type) for one in self.store.usage(self.thread_id)
            )
        return plain and bool(self._has_encrypted)

    def children(self, key: CheckpointKey) -> list[str]:
        """Return the ids of the children of a checkpoint, oldest first."""
        return [*self.parentage(key.checkpoint_ns).children(key.checkpoint_id)]


def head_keys(threads: Sequence[Thread]) -> list[CheckpointKey]:
    """Return the keys of the root heads, for threads that have one."""
    return [CheckpointKey(one.thread_id, "", one.head) for one in threads if one.head is not None]


def writes_of_heads(
    store: Store, keys: Sequence[CheckpointKey]
) -> dict[CheckpointKey, list[Write]]:
    """Return the writes of each of these heads; of those to LangGraph's control channels with their
    values.
    """
    writes: dict[CheckpointKey, list[Write]] = {key: [] for key in keys}
    for write in store.writes_at(keys, values=CONTROL) if keys else ():
        writes[write.key].append(write)
    return writes


def read_heads(
    store: Store,
    threads: Sequence[Thread],
    inference: TriggerInference,
    *,
    state: bool = False,
    having: str | None = None,
) -> Iterator[Moment]:
    """Yield the root heads of some threads, in any order; missing ones are left out.

    Only values of writes to LangGraph's control channels are read. If the layout stores the values
    of channels apart, they are read only with `state`. With `having`, only heads with a write to
    this channel are read.
    """
    writes = writes_of_heads(store, head_keys(threads))
    if having is not None:
        writes = {key: some for key, some in writes.items() if has_write(some, having)}
    return heads_with(store, threads, writes, inference, state=state)


def has_write(writes: Iterable[Write], channel: str) -> bool:
    """Return whether one of the writes is on a channel."""
    return any(one.channel == channel for one in writes)


def heads_with(
    store: Store,
    threads: Iterable[Thread],
    writes: Mapping[CheckpointKey, Sequence[Write]],
    inference: TriggerInference,
    *,
    state: bool | Collection[str] = False,
) -> Iterator[Moment]:
    """Yield the heads whose writes are given, of these threads, as `read_heads` does.

    `state` may name the channels wanted.
    """
    if not writes:
        return
    listed = {one.thread_id: one for one in threads}
    for checkpoint in store.checkpoints_at([*writes], body=True, metadata=True, values=state):
        key = checkpoint.key
        reader = ThreadReader(store, listed[key.thread_id], inference)
        head = reader.with_step(checkpoint, writes[key])
        # Only a subgraph tells whether its question is the one that was answered before the error.
        is_mixed = any(task.error is not None and task.questions for task in head.step.tasks)
        yield locate(reader, head) if is_mixed else head


def expiry_times(store: Store, keys: Sequence[CheckpointKey]) -> Mapping[CheckpointKey, datetime]:
    """Return when these checkpoints expire; those that do not are left out."""
    return store.expiry_times(keys) if store.keys_expire and keys else {}


def conditions_of_heads(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> Iterator[tuple[str, tuple[Status, ...]]]:
    """Yield the id and the conditions of some threads, in any order; those without a root head, or
    with a missing one, are left out.

    The tasks of a head are computed only if its body, and which channels have a value, do not show
    that nothing is left to run.
    """
    keys = head_keys(threads)
    if not keys:
        return
    writes = writes_of_heads(store, keys)
    listed = {one.thread_id: one for one in threads}

    def met(checkpoint: Checkpoint) -> tuple[str, tuple[Status, ...]]:
        key = checkpoint.key
        reader = ThreadReader(store, listed[key.thread_id], inference)
        return key.thread_id, reader.with_step(checkpoint, writes[key]).conditions

    to_read = [key for key in keys if writes[key]]
    if quiet := [key for key in keys if not writes[key]]:
        for outline, alike in store.outlines_at(quiet):
            if is_surely_done(outline):
                yield from ((key.thread_id, (Status.DONE,)) for key in alike)
            elif outline.blobs is None and len(alike) == 1:
                yield met(outline)
            else:
                to_read += alike
    if to_read:
        yield from map(met, store.checkpoints_at(to_read, body=True, metadata=True))
