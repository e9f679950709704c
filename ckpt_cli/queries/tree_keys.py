"""What the keys of a thread's checkpoints and writes tell about its tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ckpt_backends.checkpoint_ids import step_of, time_of
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Checkpoint
from ckpt_cli.core.state import read_metadata, source_from, step_from
from ckpt_cli.core.tasks.attribution import ERROR_SOURCE
from ckpt_cli.core.tasks.control_channels import ERROR, INTERRUPT
from ckpt_cli.core.tasks.step_nodes import ran_here
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, pulled_node
from ckpt_cli.core.tasks.task_ids import is_call as is_function_call
from ckpt_cli.core.tree.branches import undecided
from ckpt_cli.core.tree.rows import Key, Skeleton, StepDetails
from ckpt_cli.threads.thread import ThreadReader

_MARKS = frozenset({INTERRUPT, ERROR, ERROR_SOURCE})
_NONE: Mapping[str, str | None] = {}


@dataclass(slots=True)
class StoredKeys:
    """The tasks of a checkpoint, from the keys of its writes."""

    tasks: dict[str, str | None] = field(default_factory=dict)
    """Maps a task id to its node; None if the path does not name it."""
    asking: Mapping[str, str | None] = field(default_factory=lambda: _NONE)
    """Those of them that asked a question."""
    failed: frozenset[str] = frozenset()
    """Those that failed."""
    handled: frozenset[str] = frozenset()
    """Those that were given to an error handler."""
    marked: bool = False
    writes: int = 0
    seal: int = 0
    """Differs if other writes are stored."""

    def mark(self, task_id: str, path: str, channel: str) -> None:
        """Add that a task asked, failed, or that it was given to an error handler."""
        if channel == INTERRUPT:
            self.asking = {**self.asking, task_id: self.tasks[task_id]}
        elif channel == ERROR and not is_function_call(path):
            self.failed |= {task_id}
        elif channel == ERROR_SOURCE:
            self.handled |= {task_id}
        self.marked = self.marked or channel != ERROR_SOURCE


@dataclass(frozen=True, slots=True)
class TreeKeys:
    """The keys of the checkpoints and writes of a thread, or of one namespace."""

    index: Mapping[Key, Checkpoint]
    """In each namespace, the newest comes first."""
    stored: Mapping[Key, StoredKeys]
    tips: Collection[Key]
    seals: Mapping[Key, int]

    @property
    def is_settled(self) -> bool:
        """Whether all writes can be told apart by their keys."""
        return not any(key in self.stored and self.stored[key].marked for key in self.tips)


def read_keys(reader: ThreadReader, checkpoint_ns: str | None) -> TreeKeys:
    """Return the keys of a thread, or of one namespace of it."""
    namespaces = reader.namespaces if checkpoint_ns is None else [reader.namespace(checkpoint_ns)]
    index = {(ns, one.key.checkpoint_id): one for ns in namespaces for one in reader.index(ns)}
    stored = _stored(reader, index)
    return TreeKeys(index, stored, _tips(index), _seals(index, stored))


def _tips(index: Mapping[Key, Checkpoint]) -> set[Key]:
    """Return the checkpoints without a child; only their questions are likely to change."""
    return set(index) - {(ns, one.parent_checkpoint_id or "") for (ns, _), one in index.items()}


def forked(skeletons: Iterable[Skeleton]) -> frozenset[Key]:
    """Return the checkpoints whose writes may be of any of several children.

    A fork or an update beside one run has writes of its own.
    """
    children = Counter(
        ((one.checkpoint_ns, one.parent_checkpoint_id), ran_here(one.source)) for one in skeletons
    )
    return frozenset(
        (ns, parent)
        for ((ns, parent), _), number in children.items()
        if number > 1 and parent is not None
    )


def _seals(index: Mapping[Key, Checkpoint], stored: Mapping[Key, StoredKeys]) -> dict[Key, int]:
    """Return a number for each checkpoint that differs if it or its parent has other writes."""
    none = StoredKeys()
    return {
        key: hash(
            (
                stored.get(key, none).seal,
                stored.get((key[0], one.parent_checkpoint_id or ""), none).seal,
            )
        )
        for key, one in index.items()
    }


def details_from_keys(skeletons: Iterable[Skeleton], keys: TreeKeys) -> dict[Key, StepDetails]:
    """Return what keys tell about plain steps, without those whose nodes they do not name."""
    none = StoredKeys()
    return {
        one.key: StepDetails(
            at=time_of(one.checkpoint_id),
            step=one.step,
            source="loop" if one.source is None else one.source,
            ran=one.ran,
            writes=keys.stored.get(one.key, none).writes,
        )
        for one in skeletons
        if one.ran is not None
    }


def skeletons_of(reader: ThreadReader, keys: TreeKeys) -> list[Skeleton]:
    """Return the facts that decide the place of each checkpoint.

    Metadata is read only of those whose keys do not tell enough.
    """
    index, stored = keys.index, keys.stored
    places = {key: -number for number, key in enumerate(index)} if reader.is_values_only else {}
    found = {
        key: Skeleton(
            key[0],
            key[1],
            one.parent_checkpoint_id,
            step=step_of(key[1]),
            ran=nodes_that_ran(
                stored.get(
                    key if reader.is_values_only else (key[0], one.parent_checkpoint_id or "")
                )
            ),
            tasks=tuple(stored[key].tasks) if key in stored else (),
            marked=key in stored and stored[key].marked,
            place=places.get(key, 0),
        )
        for key, one in index.items()
    }
    for key, metadata in _metadata(reader, undecided(found.values())).items():
        parents = metadata.get("parents")
        forked_from = metadata.get("forked_from")
        found[key] = found[key]._replace(
            step=step_from(metadata),
            source=source_from(metadata),
            forked_from=forked_from if isinstance(forked_from, str) else None,
            parents={
                ns: parent
                for ns, parent in (parents if isinstance(parents, dict) else {}).items()
                if isinstance(ns, str) and isinstance(parent, str)
            },
        )
    return list(found.values())


def _stored(reader: ThreadReader, index: Mapping[Key, Checkpoint]) -> dict[Key, StoredKeys]:
    """Return the tasks and marks of each checkpoint, from the keys of its writes."""
    namespaces = {ns for ns, _ in index}
    only = next(iter(namespaces)) if len(namespaces) == 1 else None
    found: dict[Key, StoredKeys] = {}
    place, here = None, StoredKeys()
    for write in reader.store.writes(reader.thread_id, checkpoint_ns=only):
        if write.key is not place:  # Most writes of a checkpoint come one after the other.
            place, key = write.key, (write.key.checkpoint_ns, write.key.checkpoint_id)
            here = found.setdefault(key, StoredKeys())
        _, task_id, path, idx, channel, size, *_ = write
        here.writes += 1
        here.seal = hash((here.seal, task_id, idx, channel, size))
        if task_id == NULL_TASK_ID:
            continue
        if task_id not in here.tasks:
            here.tasks[task_id] = write.node or pulled_node(path)
        if channel in _MARKS:
            here.mark(task_id, path, channel)
        if path.startswith(UPDATE_PATH):
            here.marked = True
    return found


def nodes_that_ran(parent: StoredKeys | None) -> tuple[str, ...] | None:
    """Return the nodes of tasks that stored writes on the parent; None unless all are known."""
    if parent is None or not parent.tasks:
        return None
    nodes = tuple(node for node in parent.tasks.values() if node is not None)
    return nodes if len(nodes) == len(parent.tasks) else None


def _metadata(reader: ThreadReader, keys: Iterable[Key]) -> dict[Key, dict[str, Value]]:
    return {
        (ns, one.key.checkpoint_id): read_metadata(one)
        for ns, ids in by_namespace(keys).items()
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, metadata=True
        )
    }


def by_namespace(keys: Iterable[Key]) -> dict[str, Collection[str]]:
    """Return the ids of checkpoints by their namespace, sorted."""
    grouped: dict[str, set[str]] = {}
    for ns, checkpoint_id in keys:
        grouped.setdefault(ns, set()).add(checkpoint_id)
    return dict(sorted(grouped.items()))
