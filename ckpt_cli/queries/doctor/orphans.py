"""Find values that no checkpoint names, and subgraphs that the head's branch did not call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.values import Value
from ckpt_backends.model import BlobKey
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.numbered_versions import version_number
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.queries.references import named_blobs, root_of
from ckpt_cli.threads.thread import ThreadReader


class Orphans:
    """Looks at each checkpoint of a thread, and finds at the end what none of them refers to.

    What an agent may have written since `before` is not reported.
    """

    def __init__(self, reader: ThreadReader, before: datetime) -> None:
        self._reader = reader
        self._before = before
        self._named: set[BlobKey] = set()
        self._newest: dict[str, int] = {}
        """By namespace, the greatest number of a version that a checkpoint names."""
        self._replaced: set[str] = set()
        """Namespaces in which LangGraph 0.2 replaced a checkpoint, but not its values."""
        self._calls: Counter[tuple[str, str]] = Counter()
        """The number of checkpoints by namespace of a call and root checkpoint."""
        self._memories: dict[str, tuple[str, str]] = {}
        """By namespace of a stateful subgraph: its head, and the root checkpoint that called it."""
        self._copied: dict[str, Value] = {}
        """By root checkpoint that `ckpt` made: the one of which it is a copy."""
        self._own_ids: set[str | None] = set()
        """The ids that the bodies of root checkpoints say, which may differ from the stored."""

    def at(self, seen: SeenCheckpoint) -> None:
        """Note what a checkpoint refers to."""
        checkpoint, body = seen.moment.checkpoint, seen.moment.body
        ns = checkpoint.key.checkpoint_ns
        named = named_blobs(ns, checkpoint, body)
        if named:
            self._named |= named
            newest = max(map(version_number, body.versions.values()))
            self._newest[ns] = max(newest, self._newest.get(ns, 0))
        if checkpoint.parent_checkpoint_id == checkpoint.key.checkpoint_id:
            self._replaced.add(ns)
        if not ns:
            self._own_ids.add(body.own_id)
            self._copied[checkpoint.key.checkpoint_id] = seen.moment.metadata.get("forked_from")
        root = root_of(checkpoint) if ns else None
        if ":" in ns and root is not None:
            self._calls[ns, root] += 1
        elif seen.is_head and root is not None:
            self._memories[ns] = checkpoint.key.checkpoint_id, root

    def calls(self) -> Iterator[Finding]:
        """Yield subgraph calls whose root checkpoint was deleted, although older ones are stored.

        Where none is older, the history was pruned.
        """
        roots = {one.key.checkpoint_id for one in self._reader.index("")}
        head = self._reader.head("")
        for (ns, root), number in sorted(self._calls.items()):
            if (
                root in roots
                or root in self._own_ids
                or not _is_hole(root, min(roots, default=""), head, self._before)
            ):
                continue
            many = "1 checkpoint was" if number == 1 else f"{number} checkpoints were"
            yield Finding(
                code="namespace-orphaned",
                detail=f"{many} made at root checkpoint {root}, which is not stored",
                thread_id=self._reader.thread_id,
                checkpoint_ns=ns,
            )

    def memories(self) -> Iterator[Finding]:
        """Yield stateful subgraphs that another branch than that of the head called last.

        A subgraph with `checkpointer=True` has one namespace for all calls, which names no task,
        and goes on from its newest checkpoint (`recast_checkpoint_ns` in `langgraph/_internal`).
        """
        head = self._reader.head("")
        if not self._memories or head is None or not self._is_idle():
            return
        stored = {one.key.checkpoint_id for one in self._reader.index("")}
        line = set(self._reader.ancestry("", head))
        known = {*line, *(self._copied.get(one) for one in line)}
        for ns, (own, root) in sorted(self._memories.items()):
            if root in stored and root not in known:
                yield Finding(
                    code="memory-of-abandoned-branch",
                    detail=f"root checkpoint {root} called it last, which is no ancestor of the"
                    f" head {head}",
                    thread_id=self._reader.thread_id,
                    checkpoint_ns=ns,
                    checkpoint_id=own,
                )

    def _is_idle(self) -> bool:
        last_at = self._reader.thread.last_at
        return last_at is None or last_at < self._before

    def values(self) -> Iterator[Finding]:
        """Yield the values that no checkpoint names. All bodies must have been read."""
        is_idle = self._is_idle()
        for key, size in self._reader.store.blobs(self._reader.thread_id):
            number = version_number(key.version)
            is_old = 0 < number <= self._newest.get(key.checkpoint_ns, 0)
            if key in self._named or key.checkpoint_ns in self._replaced:
                continue
            if is_old or is_idle:
                yield Finding(
                    code="value-orphaned",
                    detail=f"no checkpoint names version {key.version}, {size} bytes",
                    thread_id=self._reader.thread_id,
                    checkpoint_ns=key.checkpoint_ns,
                    channel=key.channel,
                    version=key.version,
                )


def _is_hole(root: str, oldest: str, head: str | None, before: datetime) -> bool:
    """Return whether a missing root checkpoint was stored after one that is still there.

    Savers commit root checkpoints in order: one that is older than the head will not follow.
    """
    if head is None:
        at = time_of(root)
        return at is not None and at < before
    return oldest < root < head
