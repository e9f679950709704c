"""Outlines of checkpoints, from which the status of most threads is told."""

from __future__ import annotations

from ckpt_backends.model import Blob, Checkpoint
from ckpt_backends.protocol import Store
from ckpt_backends.testing.filling import FilledStore


def test_outlines_tell_which_channels_have_a_value(store: Store, filled: FilledStore) -> None:
    keys = [one.key for thread_id in filled.threads for one in store.checkpoints(thread_id)]
    missing = keys[0]._replace(checkpoint_id="none")
    whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
    found = list(store.outlines_at([*keys, missing]))
    assert len(found) == len(whole)
    assert {one.key: _outline(one) for one in found} == {
        key: _outline(one) for key, one in whole.items()
    }
    assert not [*store.outlines_at([])]


def _outline(one: Checkpoint) -> Checkpoint:
    blobs = None if one.blobs is None else {name: Blob("", 0) for name in one.blobs}
    return one._replace(blobs=blobs, missing=frozenset())
