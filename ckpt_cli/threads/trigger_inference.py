"""Learn from other threads of the store which nodes read which channel.

In old checkpoint formats a thread does not show what follows a node that never ran in it, but
another thread of the same graph may. Such answers are marked as assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ckpt_backends.model import Capability
from ckpt_backends.protocol import Store

if TYPE_CHECKING:
    from ckpt_cli.core.state import Body
    from ckpt_cli.core.tasks.followers import Followers

    Graph = tuple[str, ...]
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
        from ckpt_cli.core.tasks.triggers import learn

        return learn(self._heads())

    @cached_property
    def followers(self) -> Mapping[Graph, Sequence[Followers]]:
        """Maps a graph to what each thread tells about which nodes follow which."""
        found: dict[Graph, list[Followers]] = {}
        left = _READ
        for thread_id, size in self._small_threads():
            left -= size
            if left < 0:
                break
            for graph, told in thread_followers(self._store, thread_id).items():
                found.setdefault(graph, []).append(told)
        return found

    @cached_property
    def deferred(self) -> Mapping[str, bool]:
        """Maps a channel to whether it triggers a deferred node, as `deferred_channels` does."""
        from ckpt_backends.codec.skim import BodySkimmer
        from ckpt_cli.core.state import read_body
        from ckpt_cli.core.tasks.resume import deferred_channels

        skimmer, left = BodySkimmer(), _READ

        def bodies() -> Iterator[Body]:
            nonlocal left
            for thread_id, size in self._small_threads():
                left -= size
                if left < 0:
                    return
                for found in self._store.checkpoints(thread_id, body=True):
                    yield read_body(found, skimmer.decode)

        return deferred_channels(bodies())

    @cached_property
    def functions(self) -> list[str]:
        """Names that may be names of `@task` functions."""
        from ckpt_cli.core.state import read_metadata
        from ckpt_cli.core.tasks.attribution import function_names

        threads = [thread_id for thread_id, _ in self._small_threads()]
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
        from ckpt_cli.core.state import read_body

        for thread_id, _ in self._small_threads():
            heads: dict[str, str] = {}
            for found in self._store.checkpoints(thread_id):
                heads.setdefault(found.key.checkpoint_ns, found.key.checkpoint_id)
            for ns, head in heads.items():
                yield from map(
                    read_body,
                    self._store.checkpoints(
                        thread_id, checkpoint_ns=ns, checkpoint_ids=[head], body=True
                    ),
                )

    def _small_threads(self) -> Iterator[tuple[str, int]]:
        """Yield threads with their sizes in bytes."""
        if self._store.lists_by_scan:
            return
        for thread in self._store.threads(limit=_THREADS):
            size = self._store.size(thread.thread_id).bytes
            if size <= _SMALL:
                yield thread.thread_id, size


def thread_followers(store: Store, thread_id: str) -> dict[Graph, Followers]:
    """Return what a thread's checkpoints tell about which nodes follow which, for each graph."""
    from ckpt_backends.codec.skim import BodySkimmer
    from ckpt_cli.core.state import read_body, read_metadata, source_from
    from ckpt_cli.core.tasks.followers import graph_of, learn_followers

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
