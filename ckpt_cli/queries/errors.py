"""List the tasks that failed."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact_text
from ckpt_cli.core.tasks.control_channels import ERROR
from ckpt_cli.core.tasks.resume import UserMetadata, user_metadata
from ckpt_cli.core.tasks.status import blocking_failures
from ckpt_cli.core.tasks.step_nodes import NodePath, failures, node_path, path_text
from ckpt_cli.core.tasks.tasks import Task
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.heads import read_heads, some_at_once
from ckpt_cli.threads.nested_nodes import called
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

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

    @property
    def node(self) -> str:
        """The path in readable form: `research > book`."""
        return path_text(self.path)

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
) -> Iterator[Failure]:
    """Yield the failures of some threads, in the order of the threads.

    These are the failed tasks for which a thread waits at its head; with `history`, all whose
    error is stored, in any checkpoint, newest first within a thread. `since` leaves out older ones,
    and those of unknown time. A head is read only if an error is stored on it.
    """
    inference = TriggerInference(store)
    find = _in_history if history else _at_heads
    for some in some_at_once(threads):
        for one in find(store, some, inference):
            if since is None or (one.at is not None and one.at >= since):
                yield _shown(store, one)


def _shown(store: Store, found: Failure) -> Failure:
    if not redaction.is_redacted(store):
        return found
    hidden = None if found.metadata is None else dict.fromkeys(found.metadata)
    return found._replace(error=redact_text(found.error), metadata=hidden)


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
        inner = list(_inside(reader, moment.key, task)) if reader.thread.namespaces > 1 else []
        if any(one.error == task.error for one in inner):
            yield from inner
        else:
            yield _failure(moment, task, blocks=True)


def _inside(reader: ThreadReader, key: CheckpointKey, task: Task) -> Iterator[Failure]:
    for ns in called(reader, key, task.id, task.node):
        head = reader.head(ns)
        if head is not None:
            yield from _open(reader, reader.moment(ns, head))


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
