"""Find updates that left no messages although nothing removed them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value, items_of
from ckpt_backends.model import Capability, CheckpointKey
from ckpt_cli.core.channels import is_state, without_snapshot
from ckpt_cli.core.doctor.emptied_messages import are_messages, may_remove
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.forking.marks import BY, FROM, NAME
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader

_SOURCES = ("update", "fork")


class EmptiedMessages:
    """Looks at each checkpoint that an update or a fork made.

    All updates of one checkpoint store their writes under one task id, and savers keep those of one
    update only. So nothing is found where a checkpoint was updated more than once. Nor is anything
    found at what a rollback by `ckpt` left behind: the update was taken back.
    """

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._found: list[tuple[CheckpointKey, Finding]] = []
        """Findings, each with the parent of the checkpoint."""
        self._updates: Counter[CheckpointKey] = Counter()
        """The number of updates by the checkpoint that was updated."""
        self._added: dict[str, list[str]] = defaultdict(list)
        """By namespace, the checkpoints that `ckpt` added."""
        self._has_writes = Capability.WRITES in reader.capabilities

    def at(self, seen: SeenCheckpoint) -> None:
        """Note the channels of messages that a checkpoint emptied."""
        moment, parent = seen.moment, seen.parent
        if moment.metadata.get(BY) == NAME:
            self._added[moment.key.checkpoint_ns].append(moment.key.checkpoint_id)
        if moment.source not in _SOURCES or parent is None or not self._has_writes:
            return
        self._updates[parent.key] += moment.source == "update"
        if FROM in moment.metadata:  # what `ckpt fork --set` writes is meant so
            return
        if self._reader.is_values_only or _stores_no_updates(moment):
            return
        for channel in sorted(moment.body.values):
            if not is_state(channel, moment.body) or not _is_empty(moment, channel):
                continue
            before = self._value_before(channel, parent)
            if not are_messages(before):
                continue
            written = (one.value for one in parent.writes if one.channel == channel)
            if not may_remove(decode(value) for value in written if value is not None):
                number = len(items_of(before) or ())
                text = f"{number} message{'' if number == 1 else 's'} before, none after"
                self._found.append((parent.key, seen.finding("messages-emptied", text, channel)))

    def end(self) -> Iterator[Finding]:
        """Yield what was found, once all checkpoints were seen."""
        return (
            finding
            for parent, finding in self._found
            if self._updates[parent] < 2 and not self._was_taken_back(finding)
        )

    def _was_taken_back(self, finding: Finding) -> bool:
        """Return whether the head's line leaves out a checkpoint for a later one of `ckpt`."""
        ns, own = finding.checkpoint_ns or "", finding.checkpoint_id or ""
        later = {one for one in self._added[ns] if one > own}
        head = self._reader.head(ns)
        if not later or head is None:
            return False
        line = self._reader.ancestry(ns, head)
        return own not in line and not later.isdisjoint(line)

    def _value_before(self, channel: str, parent: Moment) -> Value:
        stored = parent.body.values.get(channel)
        if stored is not None or channel not in parent.body.versions:
            return without_snapshot(stored)
        if channel not in self._reader.delta_channels(parent.key.checkpoint_ns):
            return None
        return read_state(self._reader, parent, [channel]).values.get(channel)


def _is_empty(moment: Moment, channel: str) -> bool:
    """Return whether an empty list is stored; nothing stored may mean a DeltaChannel."""
    stored = without_snapshot(moment.body.values.get(channel))
    return isinstance(stored, list) and not stored


def _stores_no_updates(moment: Moment) -> bool:
    """Return whether the writes of update_state are not stored, as before LangGraph 0.2.15."""
    return moment.body.v < 2
