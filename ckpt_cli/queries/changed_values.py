"""Find the values of a state that its step changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ckpt_cli.core.diff.state_diff import ChannelChange
from ckpt_cli.core.values.paths import Path
from ckpt_cli.core.values.weight import is_larger
from ckpt_cli.queries.diff import compare
from ckpt_cli.queries.show import CheckpointView
from ckpt_cli.threads import redaction
from ckpt_cli.threads.target import Target

Change = Literal["added", "changed"]

_LARGEST = 2_000_000
"""Maximum number of parts and characters of a channel that is compared with the one before."""


def changed_values(target: Target, found: CheckpointView) -> dict[Path, Change]:
    """Return the paths of what is new or not the same as in the parent, and of what holds it.

    A very large channel is told as a whole. Nothing is told if the parent is not stored. Raises
    `Unreadable` if the parent cannot be read.
    """
    names = list(found.state.values)
    parent = found.moment.checkpoint.parent_checkpoint_id
    if parent is None:
        return {(name,): "added" for name in names}
    reader, ns = target.reader, target.checkpoint_ns
    if all(one.key.checkpoint_id != parent for one in reader.index(ns)):
        return {}
    before = reader.stored(ns, parent).body.versions
    now = found.moment.body.versions
    if before and now:
        names = [name for name in names if before.get(name) != now.get(name)]
    changes: dict[Path, Change] = {
        (name,): "changed" if name in before else "added" for name in names
    }
    if redaction.is_redacted(reader.store):
        return changes
    small = [name for name in names if not is_larger(found.state.values[name], _LARGEST)]
    for name in small:
        del changes[(name,)]
    if small:
        changes |= _inside(compare(target, None, small).changes)
    return changes


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
