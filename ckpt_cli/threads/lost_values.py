"""Tell values that are lost from values that their saver never stored.

A saver stores, with a checkpoint, the values whose versions differ from those of the checkpoint
before it. If it failed to store that one, or stored it in another namespace, the values that were
new there are missing, although no row was deleted.

Savers that store a mark for each channel without a value leave nothing to prove
(`Checkpoint.missing`). Those for PostgreSQL since 2.0.23 and for MySQL since 2.0.17 store none.
They put `None`, texts and numbers into the body, other values into rows of their own, and nothing
for a channel that is empty (`put` in `langgraph/checkpoint/postgres/__init__.py`). There, a value
is lost if the step proves that there was one:

- the checkpoint of an input holds that input in `__start__`;
- `updated_channels` names the channels that the step updated and that hold a value since
  (`apply_writes` in `langgraph/pregel/_algo.py`, from LangGraph 1.0); of these, only an
  UntrackedValue is not stored, and no write to it is either (from LangGraph 1.0.3);
- in older bodies, a task wrote to the channel, and this step was not taken twice;
- after `update_state` and with `durability="exit"`, which store hardly any write, the channel kept
  a value over some other step, so it never becomes empty.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import NamedTuple

from ckpt_backends.codec import UNDEFINED, decode
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import NULL_TASK_ID, Capability, Checkpoint, Write
from ckpt_cli.core.channels import delta_channels, is_state
from ckpt_cli.core.state import Body, Version, read_body, read_metadata
from ckpt_cli.core.tasks.tasks import CONTROL
from ckpt_cli.core.tasks.triggers import SENDS, START
from ckpt_cli.threads.checkpoint import DecodedCheckpoint, Moment
from ckpt_cli.threads.thread import ThreadReader

_AT_ONCE = 50
"""Number of ancestors whose bodies one query reads."""


@dataclass(slots=True)
class _Step:
    """A checkpoint, and what led to it."""

    checkpoint: Checkpoint
    body: Body
    source: str | None
    writes: Sequence[Write]
    """The writes on its parent, with the values of those to the channels in question."""
    siblings: int
    """How many checkpoints have its parent, itself included."""


class _Known(NamedTuple):
    """What all checkpoints of a namespace tell about its channels."""

    stored: frozenset[str]
    """Channels with a value at any of them."""
    lasting: frozenset[str]
    """Channels that kept a value over a step. One that holds a value for one step only, such as an
    EphemeralValue, has another version after it."""
    has_blobs: bool
    """Whether any value is stored apart from a body."""


@dataclass(slots=True)
class LostValues:
    """Finds the channels of a thread whose values were stored once and are missing now."""

    reader: ThreadReader
    _stored: dict[str, _Known] = field(default_factory=dict)

    def here(self, moment: Moment, parent: Moment | None, introduced: frozenset[str]) -> list[str]:
        """Return the channels whose values were stored with a checkpoint and are missing now.

        `parent` is read with the values of its writes; None if it has none, or none is stored.
        `introduced` are the channels with another version than there.
        """
        checkpoint = moment.checkpoint
        is_known = parent is not None or checkpoint.parent_checkpoint_id is None
        lost = checkpoint.missing & introduced if is_known else frozenset[str]()
        unproven = self._unproven(checkpoint, moment.body, moment.metadata) & introduced
        if unproven:
            writes = () if parent is None else parent.writes
            step = self._step(checkpoint, moment.body, moment.source, writes)
            lost |= self._proven(step, unproven)
        if parent is not None:
            lost |= _lost_snapshots(checkpoint, moment.body, delta_channels(parent.metadata))
        return sorted(lost)

    def at(self, found: DecodedCheckpoint) -> Iterator[str]:
        """Yield the channels of any checkpoint whose values are lost.

        Reads the bodies of its ancestors, back to those that gave the channels their versions.
        """
        checkpoint, body = found.checkpoint, found.body
        unproven = self._unproven(checkpoint, body, found.metadata)
        wanted = dict.fromkeys(sorted(checkpoint.missing | unproven))
        yield from self._without_snapshot(found)
        if not wanted:
            return
        for own, before in pairwise(chain(self._line(checkpoint), (None,))):
            if own is None:  # The last one has a parent that is not stored, or none.
                return
            known: Mapping[str, Version] = {} if before is None else read_body(before).versions
            new = [one for one in wanted if known.get(one) != body.versions[one]]
            is_known = before is not None or own.parent_checkpoint_id is None
            lost = {one for one in new if one in checkpoint.missing and is_known}
            if open_names := unproven.intersection(new):
                # LangGraph.js on Redis has a value in the body of the checkpoint that changed it.
                lost |= open_names & read_body(own).values.keys()
                lost |= self._proven(self._read_step(own, before, open_names), open_names)
            for name in new:
                del wanted[name]
                if name in lost:
                    yield name
            if not wanted:
                return

    def _without_snapshot(self, found: DecodedCheckpoint) -> Iterator[str]:
        """Yield the DeltaChannels of which the last snapshot is lost, with its mark left."""
        checkpoint, body = found.checkpoint, found.body
        if checkpoint.blobs is None:
            return
        if any(one is True for one in body.values.values()):
            for before in islice(self._line(checkpoint), 1, 2):
                names = delta_channels(read_metadata(before))
                yield from sorted(_lost_snapshots(checkpoint, body, names))
        names = delta_channels(found.metadata) & (body.versions.keys() - body.values.keys())
        for before in self._line(checkpoint) if names else ():
            earlier = read_body(before)
            yield from sorted(_lost_snapshots(before, earlier, names))
            names -= earlier.values.keys()
            if not names:
                return

    def _line(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        """Yield a checkpoint and its stored ancestors with bodies, nearest first."""
        yield checkpoint
        ns = checkpoint.key.checkpoint_ns
        ids = self.reader.ancestry(ns, checkpoint.key.checkpoint_id)[1:]
        while ids:
            some, ids = ids[:_AT_ONCE], ids[_AT_ONCE:]
            read = self.reader.store.checkpoints(
                self.reader.thread_id,
                checkpoint_ns=ns,
                checkpoint_ids=some,
                body=True,
                metadata=True,
            )
            found = {one.key.checkpoint_id: one for one in read}
            for own in some:
                if own not in found:
                    return
                yield found[own]

    def _unproven(
        self, checkpoint: Checkpoint, body: Body, metadata: Mapping[str, Value]
    ) -> frozenset[str]:
        """Return the channels with a version and no value that may be lost or just empty.

        A consumed edge or input is empty in all but the first moment, so those are left out.
        """
        can = self.reader.capabilities
        if checkpoint.blobs is None or Capability.LATEST_VALUES in can:
            return frozenset()
        unset = body.versions.keys() - body.values.keys() - checkpoint.missing
        found = {one for one in unset if one == SENDS or is_state(one, body)}
        if START in unset and metadata.get("source") == "input":
            found.add(START)
        found -= delta_channels(metadata)
        return frozenset(found and found - self.reader.delta_channels(checkpoint.key.checkpoint_ns))

    def _read_step(
        self, own: Checkpoint, before: Checkpoint | None, names: Collection[str]
    ) -> _Step:
        source = read_metadata(own).get("source")
        found: Iterable[Write] = ()
        if before is not None:
            found = self.reader.store.writes(
                self.reader.thread_id,
                checkpoint_ns=own.key.checkpoint_ns,
                checkpoint_ids=[before.key.checkpoint_id],
                values=names,
            )
        writes = list(found)
        return self._step(own, read_body(own), source if isinstance(source, str) else None, writes)

    def _step(
        self, checkpoint: Checkpoint, body: Body, source: str | None, writes: Sequence[Write]
    ) -> _Step:
        parent = checkpoint.parent_checkpoint_id
        index = self.reader.index(checkpoint.key.checkpoint_ns)
        siblings = sum(one.parent_checkpoint_id == parent for one in index)
        return _Step(checkpoint, body, source, writes, siblings)

    def _proven(self, step: _Step, names: Collection[str]) -> frozenset[str]:
        """Return those of these channels that held a value after a step, for certain."""
        return frozenset(one for one in names if self._is_proven(step, one))

    def _is_proven(self, step: _Step, name: str) -> bool:
        if name == START:
            return step.source == "input"
        wrote = [one for one in step.writes if one.channel == name]
        values = [decode(one.value) for one in wrote if one.value is not None]
        is_apart = any(_is_apart(one, step.body) for one in values)
        is_updated = name in step.body.updated
        if step.body.updated:
            if is_updated and (is_apart or (wrote and name in self._known(step).stored)):
                return True
        elif step.source == "loop" and step.siblings == 1 and is_apart:
            known = self._known(step)
            return name in known.stored or not (known.has_blobs or step.body.is_javascript)
        # If the writes of a step are stored, and none to this channel is, it is not tracked.
        if step.source == "input" or (step.source == "loop" and any(map(_is_of_task, step.writes))):
            return False
        known = self._known(step)
        return name in known.lasting or (is_updated and name in known.stored)

    def _known(self, step: _Step) -> _Known:
        ns = step.checkpoint.key.checkpoint_ns
        if ns not in self._stored:
            found = self.reader.store.checkpoints(
                self.reader.thread_id, checkpoint_ns=ns, body=True, metadata=True
            )
            self._stored[ns] = _known(found)
        return self._stored[ns]


def _known(checkpoints: Iterable[Checkpoint]) -> _Known:
    """Return what all checkpoints of a namespace tell about its channels."""
    bodies: dict[str, tuple[str | None, bool, Body]] = {}
    stored, has_blobs = set[str](), False
    for one in checkpoints:
        body = read_body(one)
        is_copy = read_metadata(one).get("source") == "fork"
        bodies[one.key.checkpoint_id] = one.parent_checkpoint_id, is_copy, body
        stored.update(body.values)
        has_blobs |= bool(one.blobs)
    lasting = set[str]()
    for parent_id, is_copy, body in bodies.values():
        if parent_id in bodies and not is_copy:
            before = bodies[parent_id][2]
            same = body.versions.items() & before.versions.items()
            lasting |= {name for name, _ in same} & body.values.keys()
    return _Known(frozenset(stored), frozenset(lasting), has_blobs)


def _lost_snapshots(checkpoint: Checkpoint, body: Body, names: Collection[str]) -> frozenset[str]:
    """Return those of these DeltaChannels that have the mark of a snapshot, and no snapshot.

    The saver for PostgreSQL puts `True` in the body, and the snapshot into a row of its own.
    """
    blobs = checkpoint.blobs
    if blobs is None:
        return frozenset()
    return frozenset(one for one in names if body.values.get(one) is True and one not in blobs)


def _is_of_task(write: Write) -> bool:
    return write.task_id != NULL_TASK_ID and write.channel not in CONTROL


def _is_apart(value: Value, body: Body) -> bool:
    """Return whether a channel with this value has a row of its own."""
    if body.is_javascript:
        return value is not None and value != UNDEFINED
    return isinstance(value, list | dict | bytes | Tagged)
