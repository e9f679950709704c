"""List the questions that wait for an answer."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import CheckpointKey, Thread, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact
from ckpt_cli.core.tasks.control_channels import INTERRUPT
from ckpt_cli.core.tasks.tasks import Question, questions_by_path
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.heads import (
    has_write,
    head_keys,
    heads_with,
    some_at_once,
    writes_of_heads,
)
from ckpt_cli.threads.nested_nodes import called
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

HEAD_CHANNELS = frozenset({INTERRUPT})
"""Channels on one of which a thread with an open question has a write at its head."""


class Waiting(NamedTuple):
    """An open question, at the checkpoint with the step that asked it."""

    key: CheckpointKey
    question: Question
    since: datetime | None
    """Time of the checkpoint with the step that asked it."""
    unloaded: str = ""
    """What the saver does instead of loading the head of the thread, in words; usually `''`."""


def open_questions(
    store: Store, threads: Iterable[Thread], before: datetime | None
) -> Iterator[Waiting]:
    """Yield the open questions of some threads, in the order of the threads.

    With `before`, only those that were asked by then. A thread's head is read only if an Interrupt
    is stored on it, and its writes do not tell enough.
    """
    inference = TriggerInference(store)
    for some in some_at_once(threads):
        for waiting in _of_threads(store, some, inference):
            if before is None or (waiting.since is not None and waiting.since <= before):
                yield _shown(store, waiting)


def of_threads(store: Store, threads: Sequence[Thread]) -> Iterator[Waiting]:
    """Yield the open questions of a few hundred threads, in their order."""
    inference = TriggerInference(store)
    return (_shown(store, waiting) for waiting in _of_threads(store, threads, inference))


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


def _shown(store: Store, found: Waiting) -> Waiting:
    if not redaction.is_redacted(store):
        return found
    return found._replace(question=found.question._replace(value=redact(found.question.value)))


def _leaves(reader: ThreadReader, moment: Moment) -> Iterator[Waiting]:
    """Yield the open questions of a checkpoint, each in the innermost subgraph call that asked it.

    The same Interrupt is stored at every level, from the node that asked up to the root.
    """
    for task in (*moment.step.tasks, *moment.step.others):
        own = [question for question in task.questions if question.is_open]
        if not own:
            continue
        has_calls = reader.thread.namespaces > 1
        inner = list(_inside(reader, moment.key, task.id, task.node)) if has_calls else []
        asked = {waiting.question.interrupt_id for waiting in inner}
        yield from inner
        for question in own:
            if not inner or (
                question.interrupt_id is not None and question.interrupt_id not in asked
            ):
                yield Waiting(moment.key, question, moment.at)


def _inside(
    reader: ThreadReader, key: CheckpointKey, task_id: str | None, node: str | None
) -> Iterator[Waiting]:
    """Yield the open questions of subgraphs that a task called, stateful ones included."""
    for ns in called(reader, key, task_id, node):
        head = reader.head(ns)
        if head is not None:
            yield from _leaves(reader, reader.moment(ns, head))
