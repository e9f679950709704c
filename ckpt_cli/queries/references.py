"""What a checkpoint refers to: values that are stored apart, and the root checkpoint of a call."""

from __future__ import annotations

from collections.abc import Collection

from ckpt_backends.model import BlobKey, Checkpoint
from ckpt_backends.protocol import Store
from ckpt_cli.core.state import Body, read_metadata


def named_blobs(ns: str, one: Checkpoint, body: Body) -> set[BlobKey]:
    """Return the values that a checkpoint refers to, if values are stored apart.

    A value that it refers to may not be stored: a channel may have none, or a small one is in the
    body.
    """
    if one.blobs is None:
        return set()
    return {BlobKey(ns, channel, str(version)) for channel, version in body.versions.items()}


def root_of(one: Checkpoint) -> str | None:
    """Return the root checkpoint with the step that called a subgraph; None if it is not stored."""
    parents = read_metadata(one).get("parents")
    root = parents.get("") if isinstance(parents, dict) else None
    return root if isinstance(root, str) else None


def sizes_of_blobs(
    store: Store, thread_id: str, keys: Collection[BlobKey] | None = None
) -> dict[BlobKey, tuple[int, int]]:
    """Return (rows, bytes) of the values that are stored apart; with `keys`, only of those."""
    found: dict[BlobKey, tuple[int, int]] = {}
    for key, size in store.blobs(thread_id):
        if keys is None or key in keys:
            number, taken = found.get(key, (0, 0))
            found[key] = number + 1, taken + size
    return found
