"""The stored values of checkpoints and writes that name classes or functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ckpt_backends.codec import decode
from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.split import split
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_cli.core.channels import NOT_STORED
from ckpt_cli.core.doctor.named_types import NONE, Names, TypeName
from ckpt_cli.core.doctor.type_names import body_names, names_by_channel, type_names

Place: TypeAlias = tuple[object, ...]
"""The same for the same value in several checkpoints of a thread; hashable."""


class NamingValue(NamedTuple):
    """A stored value that names classes or functions, or that cannot be read."""

    key: CheckpointKey
    channel: str | None
    """None for the metadata, and for what a checkpoint holds besides its channels."""
    names: Names | None
    """None if the value cannot be read."""
    place: Place
    task_id: str | None = None
    """The task that wrote it; None if it belongs to a checkpoint."""


def naming_values(
    checkpoint: Checkpoint,
    writes: Iterable[Write],
    wanted: Callable[[TypeName], object] | None = None,
    named_in: Callable[[TypedBytes], Names] = body_names,
) -> Iterator[NamingValue]:
    """Yield what a checkpoint and writes hold that names something, as far as it was read.

    With `wanted`, a body is not taken apart unless it contains such a name; `named_in` returns all
    that may be in it.
    """
    key = checkpoint.key
    versions: Mapping[Value, Value] | None = None
    for channel, names in _of_checkpoint(checkpoint, wanted, named_in):
        if versions is None:
            versions = _versions(checkpoint)
        version = versions.get(channel)
        # What has no version is stored once for each checkpoint.
        stored = (key.checkpoint_id,) if version is None else ("version", version)
        yield NamingValue(key, channel, names, (key.checkpoint_ns, channel, *stored))
    for write in writes:
        if write.value is not None and (found := _names(write.value)) != NONE:
            place = (write.key, write.task_id, write.idx)
            yield NamingValue(write.key, write.channel, found, place, write.task_id)


def _of_checkpoint(
    checkpoint: Checkpoint,
    wanted: Callable[[TypeName], object] | None,
    named_in: Callable[[TypedBytes], Names],
) -> Iterator[tuple[str | None, Names | None]]:
    if checkpoint.body is not None and not _is_left_out(checkpoint.body):
        try:
            if wanted is None or any(map(wanted, named_in(checkpoint.body))):
                yield from names_by_channel(checkpoint.body).items()
        except (ValueError, PastLimit):
            yield None, None
    apart = {name: blob.value for name, blob in (checkpoint.blobs or {}).items()}
    for channel, typed in [*apart.items(), (None, checkpoint.metadata)]:
        if typed is not None and (found := _names(typed)) != NONE:
            yield channel, found


def _is_left_out(typed: TypedBytes) -> bool:
    """Return whether the layout does not store a value, so it names nothing."""
    return typed.problem.startswith(NOT_STORED)


def _names(typed: TypedBytes) -> Names | None:
    if _is_left_out(typed):
        return NONE
    try:
        return type_names(typed)
    except (ValueError, PastLimit):
        return None


def _versions(checkpoint: Checkpoint) -> Mapping[Value, Value]:
    """Return the versions of a checkpoint's channels; none if they cannot be read."""
    if checkpoint.body is None:
        return {}
    try:
        found = split(checkpoint.body).get("channel_versions")
    except ValueError:
        return {}
    versions = None if found is None else decode(found)
    return versions if isinstance(versions, dict) else {}
