"""Tell in short what a step changed in the state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends.codec.values import Value
from ckpt_cli.core.values.equality import same


@dataclass(frozen=True, slots=True)
class StepChanges:
    """The channels that a step changed."""

    channels: tuple[str, ...]
    """In the order of their names."""
    added: Mapping[str, Sequence[Value]]
    """For each of these that is a list and only grew, the new items; at least one."""


def step_changes(
    changed: Collection[str], before: Mapping[str, Value], after: Mapping[str, Value]
) -> StepChanges:
    """Return what a step changed; `changed` are the channels that it wrote.

    `before` and `after` have their values; one that is left out is not known, or did not exist.
    """
    added = {}
    for name in sorted(changed):
        items = _added(before.get(name, []), after.get(name))
        if items:
            added[name] = items
    return StepChanges(tuple(sorted(changed)), added)


def _added(before: Value, after: Value) -> list[Value]:
    """Return the items that were appended to a list; none if anything else changed too."""
    if not isinstance(before, list) or not isinstance(after, list) or len(after) < len(before):
        return []
    return after[len(before) :] if same(before, after[: len(before)]) else []
