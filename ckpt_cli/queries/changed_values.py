"""Find the values of a state that its step changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ckpt_backends.errors import NotFound
from ckpt_cli.core.channels import state_values
from ckpt_cli.core.diff.state_diff import ChannelChange, diff_channels
from ckpt_cli.core.values.paths import Path
from ckpt_cli.queries.show import CheckpointView
from ckpt_cli.threads import redaction
from ckpt_cli.threads.target import Target

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
    if redaction.is_redacted(reader.store):
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
