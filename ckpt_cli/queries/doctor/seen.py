"""One checkpoint of a thread that is checked value by value."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ckpt_backends.model import Checkpoint
from ckpt_cli.core.doctor.codes import Severity
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.state import Version
from ckpt_cli.threads.checkpoint import Moment


class SeenCheckpoint(NamedTuple):
    """A checkpoint, decoded, with the values of its channels and writes."""

    moment: Moment
    parent: Moment | None
    """None if it has none, or one that is not stored or is stored as a younger one."""
    introduced: frozenset[str]
    """Channels with another version than at the parent; all channels without a parent."""
    is_young: bool
    """Whether an agent may still be storing what belongs to it."""
    is_head: bool
    """Whether an agent may be storing writes of it now, however old it is."""

    @property
    def is_apart(self) -> bool:
        """Whether its values are stored apart from its body."""
        return self.moment.checkpoint.blobs is not None

    @property
    def stored_here(self) -> Checkpoint:
        """The checkpoint without values that were stored with an earlier one."""
        blobs = self.moment.checkpoint.blobs
        if blobs is None:
            return self.moment.checkpoint
        new = {name: blob for name, blob in blobs.items() if name in self.introduced}
        return self.moment.checkpoint._replace(blobs=new)

    def version(self, channel: str) -> Version | None:
        """Return the version of a channel."""
        return self.moment.body.versions.get(channel)

    def finding(
        self,
        code: str,
        detail: str,
        channel: str | None = None,
        task_id: str | None = None,
        own_severity: Severity | None = None,
    ) -> Finding:
        """Return a finding at this checkpoint."""
        key = self.moment.key
        return Finding(
            code=code,
            detail=detail,
            thread_id=key.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_id=key.checkpoint_id,
            channel=channel,
            task_id=task_id,
            own_severity=own_severity,
        )

    def value_finding(self, code: str, detail: str, channel: str) -> Finding:
        """Return a finding about the value of a channel that is stored apart."""
        found = self.finding(code, detail, channel)
        return replace(found, version=str(self.version(channel)))


def seen_checkpoint(
    moment: Moment, parent: Moment | None, before: datetime, *, is_head: bool
) -> SeenCheckpoint:
    """Compare the channel versions of a checkpoint with those of its parent.

    What was stored after `before` is young.
    """
    at = moment.at
    is_young = at is not None and at >= before
    versions = moment.body.versions
    if parent is None:
        return SeenCheckpoint(moment, None, frozenset(versions), is_young, is_head)
    changed = versions.items() - parent.body.versions.items()
    introduced = frozenset(name for name, _ in changed)
    return SeenCheckpoint(moment, parent, introduced, is_young, is_head)
