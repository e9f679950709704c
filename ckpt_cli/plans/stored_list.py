"""The list in a channel as stored: in the body, apart, or in the writes of ancestors."""

from __future__ import annotations

from ckpt_backends.codec.reassemble import Reassembly, Unbuildable
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, TypedBytes
from ckpt_cli.core.forking.delta_snapshot import inside_snapshot
from ckpt_cli.core.forking.edit_state import stored_value
from ckpt_cli.core.replay.unknown_reducer import fold
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import delta_parts
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
    pieces = Reassembly()
    try:
        base = None
        tag = "msgpack"
        if parts.seed is not None:
            seed = stored_value(*parts.seed, channel)
            if seed is not None:
                base, tag = pieces.read(inside_snapshot(seed)), seed.type
        writes = [pieces.read(write) for batch in reversed(parts.batches) for write in batch]
        return pieces.write(fold(base, writes)[0], tag)
    except Unbuildable as error:
        raise Unsupported(f"cannot rebuild the value of '{channel}': {error}") from error
