"""Iterate over the states of a namespace, oldest first; each value is decoded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Checkpoint
from ckpt_cli.core.channels import LOST_DELTA, is_state, state_values
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.state import Body, Version, read_body
from ckpt_cli.threads.states import rebuild_deltas, rules_of
from ckpt_cli.threads.thread import ThreadReader

_AT_ONCE = 200
_BYTES = 8 << 20
"""Maximum number of checkpoints, and approximate number of bytes, that one query fetches."""


@dataclass(frozen=True, slots=True)
class Point:
    """The state of one checkpoint."""

    checkpoint: Checkpoint
    body: Body
    values: Mapping[str, Value]
    """Stored values and rebuilt DeltaChannels; the caller's writes are not applied."""
    parent: str | None
    """Id of its parent; None if the parent is not stored or comes later."""
    changed: Collection[str]
    """Channels with another version than at the parent, and channels without a version."""
    before: Mapping[str, Value]
    """The parent's values; empty if the parent is not stored or comes later."""


class StateTimeline:
    """The states of one namespace, or of some of its checkpoints."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
    ) -> None:
        """`channels` limits which values are read."""
        index = reader.index(checkpoint_ns)
        chosen = [one for one in index if ids is None or one.key.checkpoint_id in ids]
        self._reader = reader
        self._ns = checkpoint_ns
        self._channels = channels
        self._order = [one.key.checkpoint_id for one in reversed(chosen)]
        self._children = Counter(one.parent_checkpoint_id for one in chosen)
        self._versions: dict[str, Mapping[str, Version]] = {}
        self._values: dict[str, Mapping[str, Value]] = {}

    def __iter__(self) -> Iterator[Point]:
        for checkpoint in self._checkpoints():
            body = read_body(checkpoint)
            parent = checkpoint.parent_checkpoint_id
            before = self._versions.get(parent) if parent is not None else None
            values = dict(state_values(body))
            values |= self._rebuilt(checkpoint, body, values)
            changed = [
                name
                for name in values
                if before is None
                or name not in body.versions
                or body.versions[name] != before.get(name)
            ]
            known = parent if before is not None else None
            yield Point(checkpoint, body, values, known, changed, self._values.get(known or "", {}))
            self._keep(checkpoint.key.checkpoint_id, body, values)
            self._let_go(parent)

    def _checkpoints(self) -> Iterator[Checkpoint]:
        """Yield checkpoints with bodies, oldest first, a few megabytes at a time."""
        ids, number = iter(self._order), 1
        while chunk := list(islice(ids, number)):
            found = list(
                self._reader.store.checkpoints(
                    self._reader.thread_id,
                    checkpoint_ns=self._ns,
                    checkpoint_ids=chunk,
                    body=True,
                    values=True if self._channels is None else self._channels,
                )
            )
            largest = max(map(_size, found), default=0)
            while found:
                yield found.pop()
            number = max(1, min(_AT_ONCE, 4 * number, _BYTES // (largest + 1)))

    def _rebuilt(
        self, checkpoint: Checkpoint, body: Body, stored: Mapping[str, Value]
    ) -> dict[str, Value]:
        """Return values of DeltaChannels: the parent's value merged with the writes of its tasks.

        Where the parent has no value, an ancestor may have writes all the same: a new input leaves
        those of the step that failed before it.
        """
        unset = [name for name in body.versions if name not in stored and is_state(name, body)]
        parent = checkpoint.parent_checkpoint_id
        deltas = self._reader.delta_channels(self._ns) if unset else ()
        missing = [name for name in unset if name in deltas]
        if missing and not self._reader.has_history:
            return dict.fromkeys(missing, LOST_DELTA)
        if parent is None or not missing:
            return {}
        before = self._values.get(parent, {})
        anew = {name for name in missing if name not in before}
        found = {
            name: one.value for name, one in rebuild_deltas(self._reader, checkpoint, body, anew)
        }
        missing = [name for name in missing if name not in anew]
        if not missing:
            return found
        writes: dict[str, list[Value]] = {}
        for write in self._reader.store.writes(
            self._reader.thread_id,
            checkpoint_ns=self._ns,
            checkpoint_ids=[parent],
            channels=missing,
            values=True,
        ):
            if write.value is not None:
                writes.setdefault(write.channel, []).append(decode(write.value))
        rules, graph = rules_of(self._reader.store, body), namespace_kind(self._ns)
        return found | {
            name: rules.merge(graph, name, before.get(name), writes.get(name, []), delta=True)[0]
            for name in missing
        }

    def _keep(self, checkpoint_id: str, body: Body, values: Mapping[str, Value]) -> None:
        if self._children[checkpoint_id]:
            self._versions[checkpoint_id] = body.versions
            self._values[checkpoint_id] = values

    def _let_go(self, parent: str | None) -> None:
        """Drop a checkpoint when all of its children were seen."""
        self._children[parent] -= 1
        if parent is not None and not self._children[parent]:
            self._versions.pop(parent, None)
            self._values.pop(parent, None)


def _size(checkpoint: Checkpoint) -> int:
    blobs = (checkpoint.blobs or {}).values()
    read = sum(blob.size for blob in blobs if blob.value is not None)
    return read + (len(checkpoint.body.data) if checkpoint.body is not None else 0)
