"""Compare the states of two checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ckpt_backends.codec.values import Value
from ckpt_cli.core.diff.state_diff import ChannelChange, diff_channels
from ckpt_cli.core.redact import redact_change
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.target import Target


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
    if not redaction.is_redacted(target.reader.store):
        return found
    return Comparison(
        None if found.before is None else redaction.moment(found.before),
        redaction.moment(found.after),
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
