"""The list in a channel as stored: in the body, apart, or in the writes of ancestors."""

from __future__ import annotations

from ckpt_backends.codec.reassemble import Reassembly, Unbuildable
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, TypedBytes
from ckpt_cli.core.forking.delta_snapshot import inside_snapshot
from ckpt_cli.core.forking.edit_state import stored_value
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import delta_parts, rules_of
from ckpt_cli.threads.thread import ThreadReader


def stored_list(
    reader: ThreadReader, target: Moment, original: Checkpoint, channel: str
) -> TypedBytes:
    """Return the list in a channel, before the caller's writes. Items keep their bytes.

    `original` is the checkpoint of `target`, with the value of the channel. Raises `Unsupported`
    if the value is not stored and cannot be rebuilt from stored parts.
    """
    found = stored_value(original, target.body, channel)
    if found is not None and channel in target.body.values:
        return inside_snapshot(found)
    parts = delta_parts(reader, original, [channel])[channel]
    writes = [write for batch in reversed(parts.batches) for write in batch]
    seed = None if parts.seed is None else stored_value(*parts.seed, channel)
    stored = writes if seed is None else [inside_snapshot(seed), *writes]
    pieces = Reassembly()
    try:
        values = list(map(pieces.read, stored))
        base = None if seed is None else values.pop(0)
        merged, _ = rules_of(reader.store, target.body).merge(
            namespace_kind(target.key.checkpoint_ns), channel, base, values, delta=True
        )
        return pieces.write(merged, stored[0].type if stored else "")
    except Unbuildable as error:
        raise Unsupported(f"cannot rebuild the value of '{channel}': {error}") from error
