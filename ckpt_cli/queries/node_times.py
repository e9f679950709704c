"""Sum up how long each node took, over many threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.timeline.assemble import NodeTime, node_times
from ckpt_cli.queries.stats import Range
from ckpt_cli.queries.step_times import read_steps
from ckpt_cli.threads.executor.work import Each, each
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.threads.executor.executor import Executor


@dataclass(slots=True)
class NodeTimes:
    """How long the nodes of some threads took, on all branches."""

    threads: int = 0
    steps: int = 0
    waiting_seconds: float = 0.0
    idle_seconds: float = 0.0
    """Between two runs, in the root graph."""
    nodes: dict[str, NodeTime] = field(default_factory=dict)
    """By path of the node: `research > ask`."""

    def add(self, other: NodeTimes) -> None:
        """Add the sums of another object."""
        self.threads += other.threads
        self.steps += other.steps
        self.waiting_seconds += other.waiting_seconds
        self.idle_seconds += other.idle_seconds
        for name, one in other.nodes.items():
            self.nodes.setdefault(name, NodeTime()).merge(one)


def thread_node_times(
    reader: ThreadReader, within: Range, checkpoint_ns: str | None = None
) -> NodeTimes:
    """Return how long the nodes of a thread took, in steps that ended within a time range."""
    found = [
        one
        for one in read_steps(reader, whole=False).all_steps()
        if within.holds(one.ended_at)
        and (checkpoint_ns is None or one.checkpoint_ns == checkpoint_ns)
    ]
    root = [one for one in found if one.checkpoint_ns == (checkpoint_ns or "")]
    return NodeTimes(
        threads=1,
        steps=len(root),
        waiting_seconds=sum(one.waiting_seconds for one in root),
        idle_seconds=sum(one.seconds or 0.0 for one in root if one.kind == "idle"),
        nodes=node_times(found),
    )


def threads_node_times(
    store: Store, executor: Executor, threads: Iterable[Thread], within: Range
) -> Iterator[NodeTimes]:
    """Yield the times of each thread, in the order given."""
    return executor.run(store, threads, partial(_timing, within))


def _timing(within: Range, store: Store) -> Each[NodeTimes]:
    inference = TriggerInference(store)

    def measure(thread_id: str) -> NodeTimes:
        try:
            return thread_node_times(ThreadReader(store, thread_id, inference), within)
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return NodeTimes()

    return each(measure)
