"""What `Store.checkpoints` and `Store.writes` are asked for, as one value."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Collection
from typing import NamedTuple, TypedDict


class CheckpointOptions(TypedDict, total=False):
    """The keyword arguments of `Store.checkpoints`, for a method that passes them on."""

    checkpoint_ns: str | None
    checkpoint_ids: Collection[str] | None
    body: bool
    metadata: bool
    values: bool | Collection[str]


class WriteOptions(TypedDict, total=False):
    """The keyword arguments of `Store.writes`, for a method that passes them on."""

    checkpoint_ns: str | None
    checkpoint_ids: Collection[str] | None
    channels: Collection[str] | None
    values: bool | Collection[str]


class CheckpointQuery(NamedTuple):
    """What `Store.checkpoints` was asked for, with its defaults."""

    checkpoint_ns: str | None = None
    checkpoint_ids: Collection[str] | None = None
    body: bool = False
    metadata: bool = False
    values: bool | Collection[str] = False


class WriteQuery(NamedTuple):
    """What `Store.writes` was asked for, with its defaults."""

    checkpoint_ns: str | None = None
    checkpoint_ids: Collection[str] | None = None
    channels: Collection[str] | None = None
    values: bool | Collection[str] = False
