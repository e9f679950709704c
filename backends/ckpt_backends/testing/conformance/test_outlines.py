"""Outlines of checkpoints, from which the status of most threads is told."""

from collections import Counter
from typing import Any

from ckpt_backends.codec import decode, decode_checkpoint
from ckpt_backends.model import Checkpoint, is_reserved
from ckpt_backends.protocol import Store
from ckpt_backends.testing.filling import FilledStore


def test_outlines_tell_which_channels_have_a_value(store: Store, filled: FilledStore) -> None:
    keys = [one.key for thread_id in filled.threads for one in store.checkpoints(thread_id)]
    missing = keys[0]._replace(checkpoint_id="none")
    whole = {one.key: one for one in store.checkpoints_at(keys, body=True, metadata=True)}
    found = list(store.outlines_at([*keys, missing]))
    assert Counter(key for _, alike in found for key in alike) == Counter(whole.keys())
    for outline, alike in found:
        assert _outline(outline) == _outline(whole[outline.key])
        assert _triggers(outline) == _triggers(whole[outline.key])
        assert outline.key in alike
        assert {_shape(whole[key]) for key in alike} == {_shape(outline)}
    assert not [*store.outlines_at([])]


def _outline(one: Checkpoint) -> Checkpoint:
    return one._replace(blobs=None, missing=frozenset())


def _triggers(one: Checkpoint) -> set[str] | None:
    """The channels with a blob that LangGraph controls itself by, or that a node has seen."""
    body: Any = decode_checkpoint(one.body) if one.body else None
    seen = body.get("versions_seen", {}) if isinstance(body, dict) else {}
    read = {channel for channels in seen.values() for channel in channels}
    if one.blobs is None:
        return None
    return {name for name in one.blobs if name in read or is_reserved(name)}


def _shape(one: Checkpoint) -> str:
    """What an outline tells about each checkpoint that it stands for."""
    body: Any = decode_checkpoint(one.body) if one.body else None
    body = body if isinstance(body, dict) else {}
    metadata: Any = decode(one.metadata) if one.metadata else {}
    values, versions = body.get("channel_values", {}), body.get("channel_versions", {})
    parts = (
        body.get("v"),
        metadata.get("source"),
        {*values, *(_triggers(one) or ())},
        {channel: type(version) for channel, version in versions.items()},
        {node: {*seen} for node, seen in body.get("versions_seen", {}).items()},
        values.get("__pregel_tasks"),
    )
    return repr([sorted(part, key=repr) if isinstance(part, set) else part for part in parts])
