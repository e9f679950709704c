"""Compares two checkpoints of a thread."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import ChannelChange, changed, diff_channels
from ckpt_cli.core.redact import redact_change
from ckpt_cli.core.state import Body, read_body, state_values
from ckpt_cli.core.values import Path
from ckpt_cli.queries.show import CheckpointView
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment

Step = tuple[str, str | None]
"""The id of a checkpoint, and of its parent if that is stored."""


class ChannelChanges:
    """Where one channel changed in one namespace of a thread, as far as that was asked.

    A checkpoint never changes, so that none is read twice.
    """

    def __init__(self, thread_id: str, checkpoint_ns: str, channel: str) -> None:
        self._thread_id = thread_id
        self._ns = checkpoint_ns
        self._channel = channel
        self._known: dict[str, bool] = {}

    def known(self, step: Step) -> bool | None:
        """Return whether a step changed the channel; None if it was not read."""
        return self._known.get(step[0])

    def read(self, store: Store, steps: Sequence[Step]) -> None:
        """Find out which of these steps changed the channel; each is near the one before it."""
        with remembering():
            bodies = self._bodies(store, {one for step in steps for one in step if one}, ())
            verdicts = {step: self._verdict(bodies, step) for step in steps}
            unsure = [step for step, verdict in verdicts.items() if verdict is None]
            if unsure:
                wanted = {one for step in unsure for one in step if one}
                bodies = self._bodies(store, wanted, [self._channel])
                verdicts |= {step: self._verdict(bodies, step) for step in unsure}
        self._known |= {step[0]: verdict is not False for step, verdict in verdicts.items()}

    def _verdict(self, bodies: Mapping[str, Body], step: Step) -> bool | None:
        checkpoint_id, parent = step
        after, before = bodies.get(checkpoint_id), bodies.get(parent or "")
        # It was removed meanwhile, or cannot be read.
        if after is None or after.problem is not None:
            return False
        return changed(self._channel, before, after)

    def _bodies(
        self, store: Store, ids: Collection[str], values: Collection[str]
    ) -> dict[str, Body]:
        found = store.checkpoints(
            self._thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, body=True, values=values
        )
        return {one.key.checkpoint_id: self._only(read_body(one)) for one in found}

    def _only(self, body: Body) -> Body:
        """Return a body without the values of other channels, which may be large."""
        name = self._channel
        return body._replace(values={name: body.values[name]} if name in body.values else {})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two checkpoints."""

    before: Moment | None
    """None if a checkpoint without a stored parent is shown alone."""
    after: Moment
    changes: Mapping[str, ChannelChange]

    def missing(self, channels: Iterable[str]) -> list[str]:
        """The channels that neither checkpoint has."""
        bodies = [one.body for one in (self.before, self.after) if one is not None]
        known = {*self.changes, *(name for one in bodies for name in (*one.versions, *one.values))}
        return [name for name in channels if name not in known]


def compare(first: Target, second: Target | None, channels: Collection[str] | None) -> Comparison:
    """Compare the first checkpoint with the second; without a second, its parent with it."""
    if second is None:
        after, here = _read(first, first.checkpoint_id, channels)
        parent = after.checkpoint.parent_checkpoint_id
        known = {one.key.checkpoint_id for one in first.reader.index(first.checkpoint_ns)}
        if parent is None or parent not in known:
            return _shown(first, Comparison(None, after, diff_channels({}, here)))
        before, there = _read(first, parent, channels)
    else:
        before, there = _read(first, first.checkpoint_id, channels)
        after, here = _read(second, second.checkpoint_id, channels)
    return _shown(first, Comparison(before, after, diff_channels(there, here)))


def _shown(target: Target, found: Comparison) -> Comparison:
    if not is_redacted(target.reader.store):
        return found
    return Comparison(
        None if found.before is None else found.before.redacted(),
        found.after.redacted(),
        {name: redact_change(change) for name, change in found.changes.items()},
    )


def _read(
    target: Target, checkpoint_id: str, channels: Collection[str] | None
) -> tuple[Moment, Mapping[str, Value]]:
    wanted = True if channels is None else channels
    moment = target.reader.moment(target.checkpoint_ns, checkpoint_id, state=wanted)
    moment.check_readable()
    values = read_state(target.reader, moment, channels).values
    if channels is not None:
        values = {name: value for name, value in values.items() if name in channels}
    return moment, values


Change = Literal["added", "changed"]

_LARGEST = 1 << 20
"""Maximum number of stored bytes of a channel that is compared with the one before."""


def changed_values(target: Target, found: CheckpointView) -> dict[Path, Change]:
    """Return the paths of what is new or not the same as in the parent, and of what holds it.

    A channel that is large or was rebuilt is told as a whole. Nothing is told if the parent is not
    stored. Raises `NotFound`.
    """
    names = list(found.state.values)
    parent = found.moment.checkpoint.parent_checkpoint_id
    if parent is None:
        return {(name,): "added" for name in names}
    reader, ns = target.reader, target.checkpoint_ns
    try:
        before = reader.stored(ns, parent)
    except NotFound:
        return {}
    if before.body.problem is not None:
        return {}
    versions, now = before.body.versions, found.moment.body.versions
    if versions and now:
        names = [name for name in names if versions.get(name) != now.get(name)]
    changes: dict[Path, Change] = {
        (name,): "changed" if name in versions else "added" for name in names
    }
    if is_redacted(reader.store):
        return changes
    small = [name for name in names if _is_small(found, name)]
    blobs = before.checkpoint.blobs or {}
    if any(name in blobs and blobs[name].value is None for name in small):
        before = reader.stored(ns, parent, state=small)
    earlier = state_values(before.body)
    # A DeltaChannel has a value, too, where none is stored.
    known = [name for name in small if name in earlier or name not in versions]
    for name in known:
        del changes[(name,)]
    here = {name: found.state.values[name] for name in known}
    there = {name: earlier[name] for name in known if name in earlier}
    return changes | _inside(diff_channels(there, here))


def _is_small(found: CheckpointView, name: str) -> bool:
    """Return whether it takes little time to compare a channel."""
    stored = found.moment.checkpoint
    blob = (stored.blobs or {}).get(name)
    if name in found.state.rebuilt or stored.body is None:
        return False
    return (len(stored.body.data) if blob is None else blob.size) <= _LARGEST


def _inside(changes: Mapping[str, ChannelChange]) -> dict[Path, Change]:
    """Return the paths inside some channels, and those around them."""
    found: dict[Path, Change] = {}
    for name, change in changes.items():
        if change.change == "removed":
            continue
        found[name,] = "added" if change.change == "added" else "changed"
        for op in change.ops:
            path = (name, *op.path)
            for length in range(2, len(path)):
                found[path[:length]] = "changed"
            # What was removed has no place any more.
            if op.op != "remove" and len(path) > 1:
                found[path] = "added" if op.op == "add" else "changed"
    return found
