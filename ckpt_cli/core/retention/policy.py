"""Choose the threads that a purge keeps, and the checkpoints that it keeps in a thread.

A saver must still read a kept checkpoint exactly as before. Besides the row itself it needs the
ancestors that DeltaChannels are rebuilt from, the parent's writes with the Sends of a checkpoint of
format 1 to 3, and the state of subgraphs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckpt_backends.model import Status

PROTECTED = {
    Status.ERROR: ("its last step failed", "--include-error"),
    Status.INTERRUPTED: ("a question waits for an answer", "--include-interrupted"),
    Status.PENDING: ("a step is pending", "--include-pending"),
    Status.UNKNOWN: ("what runs next is unknown", "--include-pending"),
}
"""Conditions that protect a thread: the words for it, and the option that removes it too."""


def why_protected(conditions: Collection[Status], included: Collection[Status]) -> str:
    """Return why a thread in these conditions is kept; `''` if it may be removed.

    One condition that is not in `included` is enough to keep it.
    """
    held = [one for one in PROTECTED if one in conditions and one not in included]
    if not held:
        return ""
    options = dict.fromkeys(PROTECTED[one][1] for one in held)
    said = " and ".join(PROTECTED[one][0] for one in held)
    return f"{said} (to remove: {' '.join(options)})"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Which checkpoints of a thread are kept: those that any rule keeps, and always the newest."""

    last: int | None = None
    """Number of the newest checkpoints of the root namespace to keep."""
    within: timedelta | None = None
    """Keep checkpoints that are not older than this."""
    tips: bool = False
    """Keep the last checkpoint of each branch."""

    @property
    def is_empty(self) -> bool:
        return self.last is None and self.within is None and not self.tips


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """What must be known about a checkpoint to decide whether it is kept."""

    checkpoint_ns: str
    checkpoint_id: str
    parent: str | None
    at: datetime | None
    root: str | None = None
    """The root checkpoint whose step called this subgraph; None if it is not stored."""
    unfinished: bool = False
    """Its tasks stored something, but no checkpoint follows it."""
    needs_sends: bool = False
    """Its Sends are stored among its parent's writes."""
    missing: frozenset[str] = frozenset()
    """DeltaChannels that have a version here but no stored value."""
    stored: frozenset[str] = frozenset()
    """Channels that have a stored value here."""
    inherited: frozenset[str] = frozenset()
    """Channels with a value that is stored, at least partly, at an ancestor."""


Key = tuple[str, str]
"""Namespace and checkpoint id."""


def choose_kept(
    items: Sequence[RetentionCandidate], keep: RetentionRules, now: datetime
) -> dict[Key, list[str]]:
    """Return the checkpoints that are kept, each with the reasons.

    `items` are all checkpoints of a thread, newest first within each namespace.
    """
    chosen = _Chosen({(one.checkpoint_ns, one.checkpoint_id): one for one in items})
    root = [one for one in items if one.checkpoint_ns == ""]
    for one, reason in _by_policy(root, keep, now):
        chosen.add(one, reason)
    for one in _by_root(items, root, {one.checkpoint_id for one in root if one in chosen}):
        chosen.add(one, "subgraph of a kept checkpoint")
    return chosen.reasons


@dataclass(slots=True)
class _Chosen:
    items: Mapping[Key, RetentionCandidate]
    reasons: dict[Key, list[str]] = field(default_factory=dict)

    def __contains__(self, one: RetentionCandidate) -> bool:
        return (one.checkpoint_ns, one.checkpoint_id) in self.reasons

    def add(self, one: RetentionCandidate, reason: str) -> None:
        """Keep a checkpoint and everything that is needed to read it."""
        waiting = [(one, reason)]
        while waiting:
            here, why = waiting.pop()
            known = self.reasons.setdefault((here.checkpoint_ns, here.checkpoint_id), [])
            if why not in known:
                known.append(why)
                waiting += self._needed(here)

    def _needed(self, one: RetentionCandidate) -> Iterator[tuple[RetentionCandidate, str]]:
        parent = self._parent(one)
        if one.needs_sends and parent is not None:
            yield parent, "holds the Sends of a kept checkpoint"
        if parent is not None and one.inherited:
            # The parent may inherit the value too; this is checked when it is added.
            yield parent, f"holds the value of {', '.join(sorted(one.inherited))}"
        missing, passed = set(one.missing), {one.checkpoint_id}
        while missing and parent is not None and parent.checkpoint_id not in passed:
            passed.add(parent.checkpoint_id)
            yield parent, f"needed for DeltaChannel {', '.join(sorted(missing))}"
            missing -= parent.stored
            parent = self._parent(parent)

    def _parent(self, one: RetentionCandidate) -> RetentionCandidate | None:
        return self.items.get((one.checkpoint_ns, one.parent)) if one.parent else None


def _by_policy(
    root: Sequence[RetentionCandidate], keep: RetentionRules, now: datetime
) -> Iterator[tuple[RetentionCandidate, str]]:
    parents = {one.parent for one in root}
    for place, one in enumerate(root):
        if keep.last is not None and place < keep.last:
            yield one, "newest"
        if one.at is None:
            yield one, "unknown age"
        elif keep.within is not None and now - one.at <= keep.within:
            yield one, "within --keep-within"
        if keep.tips and one.checkpoint_id not in parents:
            yield one, "branch tip"
        if one.unfinished:
            yield one, "unfinished step"
        if place == 0:
            yield one, "newest"


def _by_root(
    items: Iterable[RetentionCandidate], root: Collection[RetentionCandidate], kept: Collection[str]
) -> Iterator[RetentionCandidate]:
    """Yield subgraph checkpoints with a caller that is kept, or that does not exist (yet).

    A stateful subgraph continues, after a return to a checkpoint, from its newest checkpoint older
    than that one; this one is kept too.
    """
    there = {one.checkpoint_id for one in root}
    older: dict[str, list[RetentionCandidate]] = {}
    for one in items:
        if not one.checkpoint_ns:
            continue
        if one.root is None or one.root not in there or one.root in kept:
            yield one
        if ":" not in one.checkpoint_ns:
            older.setdefault(one.checkpoint_ns, []).append(one)
    for known in older.values():
        for checkpoint_id in kept:
            found = next((one for one in known if one.checkpoint_id < checkpoint_id), None)
            if found is not None:
                yield found
