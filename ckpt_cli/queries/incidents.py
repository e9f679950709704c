"""Lists the tasks that failed and the questions that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from ckpt_backends.errors import UsageError
from ckpt_backends.model import CheckpointKey, Thread, Write, in_chunks, time_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact, redact_text
from ckpt_cli.core.resume import UserMetadata, user_metadata
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.core.tasks import (
    NodePath,
    Question,
    Task,
    blocking_failures,
    error_kind,
    failures,
    node_path,
    path_text,
    questions_by_path,
)
from ckpt_cli.core.users import UserKey, parse_user_key
from ckpt_cli.reading.store import shown
from ckpt_cli.reading.thread import (
    Moment,
    ThreadReader,
    TriggerInference,
    has_write,
    head_keys,
    heads_inside,
    heads_with,
    read_heads,
    writes_of_heads,
)
from ckpt_cli.reading.users import users_of_threads

HEAD_CHANNELS = frozenset({ERROR})
"""Channels on one of which a thread that waits for a retry has a write at its head."""


class Failure(NamedTuple):
    """A task that failed, at the checkpoint from which it started."""

    key: CheckpointKey
    """In the innermost subgraph in which it failed."""
    task_id: str | None
    path: NodePath
    """The nodes from the root graph down to the one that failed."""
    error: str
    at: datetime | None
    """When the error was stored, if the layout stores that; else when the step began."""
    retried: bool
    """The task ran again, with success."""
    handled: bool
    """Its error handler has finished, or asks."""
    blocks: bool
    """The thread waits at its head for the task to be retried."""
    step: int | None = None
    """The step of the checkpoint; None if its layout stores none."""
    metadata: UserMetadata | None = None
    """What the head has from the config of its run; None if the thread does not wait."""
    user: str | None = None
    """The user of the thread, or what another key of its metadata says that was asked for."""

    @property
    def node(self) -> str:
        """The path in readable form: `research > book`."""
        return path_text(self.path)

    def redacted(self) -> Failure:
        """Return it without texts."""
        hidden = None if self.metadata is None else dict.fromkeys(self.metadata)
        return self._replace(error=redact_text(self.error), metadata=hidden, user=None)

    @property
    def resume(self) -> dict[str, Any] | None:
        """What to invoke the graph with to retry the task; None if the thread went on."""
        if not self.blocks:
            return None
        return {
            "configurable": {"thread_id": self.key.thread_id},
            "metadata": dict(self.metadata or {}),
            "input": None,
        }


def failures_of_threads(
    store: Store,
    threads: Iterable[Thread],
    *,
    since: datetime | None = None,
    history: bool = False,
    key: UserKey | None = None,
) -> Iterator[Failure]:
    """Yield the failures of some threads, in the order of the threads.

    These are the failed tasks for which a thread waits at its head; with `history`, all whose
    error is stored, in any checkpoint, newest first within a thread. `since` leaves out older ones,
    and those of unknown time. A head is read only if an error is stored on it. `key` is asked for
    in place of the user.
    """
    inference = TriggerInference(store)
    find = _in_history if history else _at_heads
    for some in in_chunks(threads):
        found = [
            one
            for one in find(store, some, inference)
            if since is None or (one.at is not None and one.at >= since)
        ]
        users = _users(store, some, found, key)
        for one in found:
            yield shown(store, one._replace(user=users.get(one.key.thread_id)))


def _users(
    store: Store,
    threads: Sequence[Thread],
    found: Sequence[Failure | Waiting],
    key: UserKey | None = None,
) -> dict[str, str]:
    """Return the users of the threads in which something was found."""
    ids = {one.key.thread_id for one in found}
    return users_of_threads(store, [one for one in threads if one.thread_id in ids], key)


def _at_heads(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> Iterator[Failure]:
    read = read_heads(store, threads, inference, having=ERROR)
    heads = {head.key.thread_id: head for head in read}
    for thread in threads:
        head = heads.get(thread.thread_id)
        if head is not None:
            kept = user_metadata(head.metadata)
            for one in _open(ThreadReader(store, thread, inference), head):
                yield one._replace(metadata=kept)


def _open(reader: ThreadReader, moment: Moment) -> Iterator[Failure]:
    """Yield the failures for which a checkpoint waits, each in the innermost subgraph call.

    The same error is stored at every level, from the node that failed up to the root.
    """
    for task in blocking_failures(moment.step):
        heads = heads_inside(reader, moment.key, task.id, task.node)
        inner = [one for head in heads for one in _open(reader, head)]
        if any(one.error == task.error for one in inner):
            yield from inner
        else:
            yield _failure(moment, task, blocks=True)


def _in_history(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> Iterator[Failure]:
    for thread in threads:
        reader = ThreadReader(store, thread, inference)
        ids: dict[str, set[str]] = {}
        for write in store.writes(thread.thread_id, channels=[ERROR]):
            ids.setdefault(write.key.checkpoint_ns, set()).add(write.key.checkpoint_id)
        if ids:
            found = list(_stored(reader, ids))
            yield from sorted(found, key=lambda one: one.key.checkpoint_id, reverse=True)


def _stored(reader: ThreadReader, ids: dict[str, set[str]]) -> Iterator[Failure]:
    """Yield the failures at these checkpoints by namespace, each at its innermost place."""
    head = reader.thread.head
    waiting, kept = set(), None
    if head is not None and head in ids.get("", ()):
        at_head = reader.moment("", head)
        open_, kept = _open(reader, at_head), user_metadata(at_head.metadata)
        waiting = {(one.key, one.task_id, one.path) for one in open_}
    inner: list[Failure] = []
    # The error handler of a node that calls a subgraph takes the failures in it.
    handled: set[tuple[NodePath, str]] = set()
    for ns, wanted in ids.items():
        for moment in reader.moments(ns, wanted):
            for task in failures(moment.step):
                found = _failure(moment, task, blocks=False)
                if not task.failed_in:
                    inner.append(found)
                elif found.handled:
                    handled.add((node_path(ns, task.failed_in), found.error))
    for found in inner:
        is_handled = found.handled or (found.path, found.error) in handled
        place = (found.key, found.task_id, found.path)
        blocks = place in waiting
        yield found._replace(handled=is_handled, blocks=blocks, metadata=kept if blocks else None)


def _failure(moment: Moment, task: Task, *, blocks: bool) -> Failure:
    times = [write.at for write in task.writes if write.channel == ERROR and write.at is not None]
    return Failure(
        key=moment.key,
        task_id=task.id,
        path=node_path(moment.key.checkpoint_ns, (task.node or "?",)),
        error=task.error or "",
        at=max(times, default=moment.at),
        retried=task.finished,
        handled=task.handled,
        blocks=blocks,
        step=moment.number,
    )


GroupBy = Literal["error", "node", "user", "metadata"]
GROUPINGS = ("error", "node", "user", "metadata.KEY")
NOBODY = "(none)"
"""The group of the threads whose user is not known."""


@dataclass(slots=True)
class FailureGroup:
    """Failures of one kind, or of one node."""

    name: str
    """The kind of the error, the path of the node, or the user."""
    failures: int = 0
    threads: int = 0
    others: Counter[str] = field(default_factory=Counter)
    """How many failures each node has; of a node, each kind of error."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    newest: str = ""
    """The thread of the first failure that was counted: in the order of a list, the newest."""


def grouping(text: str) -> tuple[GroupBy, UserKey | None]:
    """Return what to count by, and the key of `metadata.KEY`, which is counted like users.

    Raises `UsageError` if there is nothing of this name.
    """
    if text.startswith("metadata."):
        return "metadata", parse_user_key(text, "asked for")
    for known in get_args(GroupBy):
        if known == text != "metadata":
            return known, None
    raise UsageError(f"cannot count by '{text}'", hint=f"use one of {', '.join(GROUPINGS)}")


def group_failures(failures: Iterable[Failure], by: GroupBy) -> list[FailureGroup]:
    """Return the groups of some failures, the largest first; those of a thread must be adjacent."""
    groups: dict[str, FailureGroup] = {}
    seen: dict[str, str] = {}
    for one in failures:
        kind, node, thread_id = error_kind(one.error), one.node, one.key.thread_id
        names = {"error": kind, "node": node}
        name, other = names.get(by, one.user or NOBODY), kind if by == "node" else node
        group = groups.setdefault(name, FailureGroup(name, newest=thread_id))
        group.failures += 1
        group.threads += seen.get(name) != thread_id
        seen[name] = thread_id
        group.others[other] += 1
        if one.at is not None:
            group.first_at = min(group.first_at or one.at, one.at)
            group.last_at = max(group.last_at or one.at, one.at)
    return sorted(groups.values(), key=lambda group: (-group.failures, group.name))


QUESTION_CHANNELS = frozenset({INTERRUPT})
"""Channels on one of which a thread with an open question has a write at its head."""


class Waiting(NamedTuple):
    """An open question, at the checkpoint with the step that asked it."""

    key: CheckpointKey
    question: Question
    since: datetime | None
    """Time of the checkpoint with the step that asked it."""
    unloaded: str = ""
    """What the saver does instead of loading the head of the thread, in words; usually `''`."""
    user: str | None = None
    """The user of the thread, if it is known."""

    def redacted(self) -> Waiting:
        """Return it with type and size in place of what was asked."""
        question = self.question._replace(value=redact(self.question.value))
        return self._replace(question=question, user=None)


def open_questions(
    store: Store, threads: Iterable[Thread], before: datetime | None = None
) -> Iterator[Waiting]:
    """Yield the open questions of some threads, in the order of the threads.

    With `before`, only those that were asked by then. A thread's head is read only if an Interrupt
    is stored on it, and its writes do not tell enough.
    """
    inference = TriggerInference(store)
    for some in in_chunks(threads):
        found = [
            one
            for one in _of_threads(store, some, inference)
            if before is None or (one.since is not None and one.since <= before)
        ]
        users = _users(store, some, found)
        for one in found:
            yield shown(store, one._replace(user=users.get(one.key.thread_id)))


def _of_threads(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> Iterator[Waiting]:
    listed = {thread.thread_id: thread for thread in threads}
    found: dict[str, Iterable[Waiting]] = {}
    to_read: dict[CheckpointKey, Sequence[Write]] = {}
    for key, writes in writes_of_heads(store, head_keys(threads)).items():
        if has_write(writes, INTERRUPT):
            known = _by_writes(listed[key.thread_id], key, writes)
            if known is None:
                to_read[key] = writes
            else:
                found[key.thread_id] = known
    for head in heads_with(store, threads, to_read, inference):
        reader = ThreadReader(store, listed[head.key.thread_id], inference)
        found[head.key.thread_id] = _leaves(reader, head)
    told = store.unloaded_heads(list(found)) if found else {}
    for name in listed:
        unloaded = told.get(name, "")
        for one in found.get(name, ()):
            yield one._replace(unloaded=unloaded) if unloaded else one


def _by_writes(thread: Thread, key: CheckpointKey, writes: Sequence[Write]) -> list[Waiting] | None:
    """Return the open questions of a head without reading it; None if its writes do not tell them,
    or do not tell when they were asked.
    """
    at = time_of(key.checkpoint_id)
    # In a thread without subgraphs the head is the newest checkpoint.
    if thread.namespaces != 1 or at is None or at != thread.last_at:
        return None
    questions = questions_by_path(writes)
    if questions is None:
        return None
    return [Waiting(key, one, at) for one in questions if one.is_open]


def _leaves(reader: ThreadReader, moment: Moment) -> Iterator[Waiting]:
    """Yield the open questions of a checkpoint, each in the innermost subgraph call that asked it.

    The same Interrupt is stored at every level, from the node that asked up to the root.
    """
    for task in moment.step.runs:
        own = [question for question in task.questions if question.is_open]
        if not own:
            continue
        heads = heads_inside(reader, moment.key, task.id, task.node)
        inner = [one for head in heads for one in _leaves(reader, head)]
        asked = {waiting.question.interrupt_id for waiting in inner}
        yield from inner
        for question in own:
            if not inner or (
                question.interrupt_id is not None and question.interrupt_id not in asked
            ):
                yield Waiting(moment.key, question, moment.at)
