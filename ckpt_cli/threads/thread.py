"""Read one thread of a store: its checkpoints, their states, and the tasks that come next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.values import Value
from ckpt_backends.encryption import expects_encrypted, is_encrypted_type
from ckpt_backends.errors import Ambiguous, NotFound
from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    Thread,
    TypedBytes,
    Write,
)
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.channels import delta_channels
from ckpt_cli.core.state import (
    read_body,
    read_metadata,
)
from ckpt_cli.core.tasks.attribution import function_names, subgraph_calls
from ckpt_cli.core.tasks.followers import Followers, followers_of, graph_of, learn_followers
from ckpt_cli.core.tasks.resume import deferred_channels
from ckpt_cli.core.tasks.tasks import CONTROL, plan_step
from ckpt_cli.core.tasks.triggers import SENDS, Join, half_filled, learn
from ckpt_cli.threads.checkpoint import (
    DecodedCheckpoint,
    Moment,
    moment_time,
    number_of,
    stored_time,
)
from ckpt_cli.threads.nested_nodes import locate
from ckpt_cli.threads.trigger_inference import TriggerInference, thread_followers

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
            raise NotFound(
                f"no thread '{thread}' in this store",
                hint=NO_THREAD_HINT,
            )
        self.thread = found
        self.thread_id = found.thread_id
        self._indexes: dict[str, list[Checkpoint]] = {}
        self._is_indexed = False
        self._delta: dict[str, set[str]] = {}
        self._learned: dict[tuple[str, ...], Mapping[str, Collection[str]]] = {}
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
        return self.store.namespaces(self.thread_id)

    @cached_property
    def known_namespaces(self) -> frozenset[str]:
        """The same namespaces as a set, for fast lookups."""
        return frozenset(self.namespaces)

    def index(self, checkpoint_ns: str) -> list[Checkpoint]:
        """Return the checkpoints of a namespace without bodies, newest first."""
        if checkpoint_ns not in self._indexes:
            found = self.store.checkpoints(self.thread_id, checkpoint_ns=checkpoint_ns)
            self._indexes[checkpoint_ns] = list(found)
        return self._indexes[checkpoint_ns]

    def indexes(self) -> Mapping[str, list[Checkpoint]]:
        """Return the same of all namespaces that have any, with one query."""
        if not self._is_indexed:
            found: dict[str, list[Checkpoint]] = {}
            for one in self.store.checkpoints(self.thread_id):
                found.setdefault(one.key.checkpoint_ns, []).append(one)
            self._indexes = found | self._indexes
            self._is_indexed = True
        return {ns: index for ns, index in self._indexes.items() if index}

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
        parents = {
            one.key.checkpoint_id: one.parent_checkpoint_id for one in self.index(checkpoint_ns)
        }
        found: dict[str, None] = {}
        here: str | None = checkpoint_id
        while here is not None and here in parents and here not in found:
            found[here] = None
            here = parents[here]
        return list(found)

    @property
    def has_history(self) -> bool:
        """Whether the layout keeps more than the newest checkpoint of a namespace."""
        return Capability.HISTORY in self.capabilities

    def delta_channels(self, checkpoint_ns: str) -> set[str]:
        """Return the DeltaChannels of a namespace, from the metadata of all its checkpoints."""
        if checkpoint_ns not in self._delta:
            found = self.store.checkpoints(
                self.thread_id, checkpoint_ns=checkpoint_ns, metadata=True
            )
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
        from ckpt_backends import shell

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
            self.index(checkpoint_ns),
            self.head(checkpoint_ns),
            lambda: self._steps(checkpoint_ns),
            lambda: self.times(checkpoint_ns),
            lambda checkpoint_id: self.stored_time(checkpoint_ns, checkpoint_id),
        )

    def _steps(self, checkpoint_ns: str) -> dict[str, int | None]:
        found = self.store.checkpoints(self.thread_id, checkpoint_ns=checkpoint_ns, metadata=True)
        return {
            one.key.checkpoint_id: number_of(one.key.checkpoint_id, read_metadata(one))
            for one in found
        }

    def stored_time(self, checkpoint_ns: str, checkpoint_id: str) -> datetime | None:
        """Return the time that a checkpoint holds; None if it cannot be read."""
        for one in self.store.checkpoints(
            self.thread_id, checkpoint_ns=checkpoint_ns, checkpoint_ids=[checkpoint_id], body=True
        ):
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
            for one in self.store.checkpoints(
                self.thread_id, checkpoint_ns=checkpoint_ns, checkpoint_ids=without, body=True
            ):
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
        for checkpoint in self.store.checkpoints(
            self.thread_id,
            checkpoint_ns=checkpoint_ns,
            checkpoint_ids=[checkpoint_id],
            body=True,
            metadata=True,
            values=state,
        ):
            writes = self._writes_of(checkpoint_ns, [checkpoint_id], False)[checkpoint_id]
            return DecodedCheckpoint(
                checkpoint, read_body(checkpoint), read_metadata(checkpoint), writes
            )
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
        decode_body = _skimming() if skim else decode_checkpoint
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
        stream = self.store.checkpoints(
            self.thread_id,
            checkpoint_ns=checkpoint_ns,
            checkpoint_ids=checkpoint_ids,
            body=True,
            metadata=True,
            values=state,
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
        for write in self.store.writes(
            self.thread_id, checkpoint_ns=checkpoint_ns, checkpoint_ids=grouped, values=values
        ):
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
        step = plan_step(
            checkpoint.key,
            body,
            metadata,
            writes,
            parent_sends=lambda: [] if parent is None else self.sends_on(parent),
            own_sends=lambda: self.sends_on(checkpoint.key),
            learned_thread=lambda: self.learned_readers(checkpoint.key.checkpoint_ns),
            learned_store=lambda: self._inference.readers,
            calls=lambda: self._calls.get(checkpoint.key.checkpoint_ns, {}),
            delta_channels=delta_channels(metadata),
            functions=lambda: self._functions(checkpoint.key.checkpoint_ns),
            functions_elsewhere=lambda: self._inference.functions,
            followers=lambda node: self._followers(checkpoint.key, node),
        )
        return Moment(checkpoint, body, metadata, writes, step)

    def joins(self, moment: DecodedCheckpoint) -> tuple[Join, ...]:
        """Return the nodes that wait for several others, of which some have finished."""
        return half_filled(
            moment.body,
            lambda: {node for nodes in self._inference.readers.values() for node in nodes},
        )

    @cached_property
    def _calls(self) -> Mapping[str, Mapping[str, str]]:
        return subgraph_calls(self.namespaces)

    def _functions(self, checkpoint_ns: str) -> Sequence[str]:
        """Return names in this thread that may be `@task` functions."""
        if checkpoint_ns not in self._own_functions:
            ids = refs.tips(self.index(checkpoint_ns))  # The bodies of these name all that ran.
            tips = self.store.checkpoints(
                self.thread_id, checkpoint_ns=checkpoint_ns, checkpoint_ids=ids, body=True
            )
            found = self.store.checkpoints(self.thread_id, metadata=True)
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
        from ckpt_cli.core.tree.calls import namespace_parts

        task_id = namespace_parts(key.checkpoint_ns)[1]
        if task_id is None or key.checkpoint_id != self.head(key.checkpoint_ns):
            return False
        outer = key.checkpoint_ns.rpartition(f":{task_id}")[0].rpartition("|")[0]
        if outer not in self._finished:
            self._finished[outer] = {
                write.task_id
                for write in self.store.writes(self.thread_id, checkpoint_ns=outer)
                if write.channel not in CONTROL
            }
        return task_id in self._finished[outer]

    def sends_on(self, key: CheckpointKey) -> list[Write]:
        """Return the Sends that are stored with a checkpoint of the thread, with their values."""
        return self._writes_of(key.checkpoint_ns, [key.checkpoint_id], [SENDS])[key.checkpoint_id]

    @cached_property
    def _own_followers(self) -> Mapping[tuple[str, ...], Followers]:
        return thread_followers(self.store, self.thread_id)

    def learned_readers(self, checkpoint_ns: str) -> Mapping[str, Collection[str]]:
        """Return the nodes that each channel triggers, from all bodies of a namespace's graph."""
        graph = graph_of(checkpoint_ns)
        if graph not in self._learned:
            skimmed = _skimming()
            found = self.store.checkpoints(self.thread_id, body=True)
            self._learned[graph] = learn(
                read_body(one, skimmed) for one in found if graph_of(one.key.checkpoint_ns) == graph
            )
        return self._learned[graph]

    def deferred(self, checkpoint_ns: str, channels: Collection[str]) -> Mapping[str, bool]:
        """Return which of some channels trigger a deferred node, as far as other checkpoints tell:
        those of the namespace, or else other threads.
        """
        skimmed = _skimming()
        bodies = self.store.checkpoints(self.thread_id, checkpoint_ns=checkpoint_ns, body=True)
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
            self._has_encrypted = self._find_encrypted()
        return plain and bool(self._has_encrypted)

    def _find_encrypted(self) -> bool:
        """Whether values of this thread are encrypted; looked up only if encryption is possible."""
        return expects_encrypted(self.store) and any(
            is_encrypted_type(one.type) for one in self.store.usage(self.thread_id)
        )

    def children(self, key: CheckpointKey) -> list[str]:
        """Return the ids of the children of a checkpoint, oldest first."""
        return [
            one.key.checkpoint_id
            for one in reversed(self.index(key.checkpoint_ns))
            if one.parent_checkpoint_id == key.checkpoint_id
        ]


def _skimming() -> Callable[[TypedBytes], Value]:
    """Return a decoder of bodies that leaves out large values."""
    from ckpt_backends.codec.skim import BodySkimmer  # late: one checkpoint is read whole

    return BodySkimmer().decode
