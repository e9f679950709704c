"""Copies of a thread's checkpoints, as rows to add to the thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ckpt_backends.changes.change import Change, CopyOfWrites, NewBlob
from ckpt_backends.checkpoint_ids import make_id
from ckpt_backends.codec.values import Opaque
from ckpt_backends.errors import NotFound, Unsupported
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, CheckpointKey, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import delta_channels, is_delta, is_state
from ckpt_cli.core.doctor.damage import is_encrypted
from ckpt_cli.core.forking.checkpoint_copy import (
    EMPTY_STEP,
    check_body,
    copy_checkpoint,
    empty_checkpoint,
    form_of,
)
from ckpt_cli.core.forking.edit_state import (
    ChannelEdit,
    EditedState,
    check_editable,
    edit_copy,
    raise_version,
    schedule_after_nodes,
)
from ckpt_cli.core.forking.marks import FROM, WRITES
from ckpt_cli.core.forking.plan import TouchedCheckpoint
from ckpt_cli.core.forking.versions import (
    greatest_version,
    is_numbered,
    next_version,
    raised_channel,
)
from ckpt_cli.core.random_numbers import random_bits
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.core.tasks.control_channels import RESUME
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader


@dataclass(slots=True)
class NewRows:
    """The rows that a plan adds, collected step by step."""

    store: Store
    """The store with the rows as stored, without what the reader decodes or hides."""
    added: list[TouchedCheckpoint] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    copies: list[CopyOfWrites] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    blobs: list[NewBlob] = field(default_factory=list)
    relied_on: list[CheckpointKey] = field(default_factory=list)

    def change(self, thread_id: str, heads: Mapping[str, str]) -> Change:
        """Return the change that adds the rows, if the thread still has these heads."""
        return Change(
            thread_id,
            heads,
            checkpoints=tuple(self.checkpoints),
            writes=tuple(self.writes),
            blobs=tuple(self.blobs),
            copies_of_writes=tuple(self.copies),
            relied_on=tuple(self.relied_on),
        )


@dataclass(frozen=True, slots=True)
class Root:
    """Options for the copy in the root namespace."""

    sibling: bool = False
    edits: tuple[ChannelEdit, ...] = ()
    edges: tuple[str, ...] | None = None
    """Edges that replace those of the target; None keeps them."""
    known: frozenset[str] = frozenset()
    """The channels that exist in the thread."""


def whole(rows: Store, key: CheckpointKey, channels: Collection[str] = ()) -> Checkpoint:
    """Return a checkpoint with its body, its metadata and the values of some channels.

    Raises `NotFound` if it does not exist.
    """
    for found in rows.checkpoints(
        key.thread_id,
        checkpoint_ns=key.checkpoint_ns,
        checkpoint_ids=[key.checkpoint_id],
        body=True,
        metadata=True,
        values=channels,
    ):
        return found
    raise NotFound(f"no checkpoint '{key.checkpoint_id}' in thread '{key.thread_id}'")


def null_writes(writes: Sequence[Write]) -> list[Write]:
    """Return the caller's writes that are part of a checkpoint's state: all except answers."""
    return [one for one in writes if one.task_id == NULL_TASK_ID and one.channel != RESUME]


def new_key(stored: Moment, tick: int) -> CheckpointKey:
    step = (stored.number or 0) + 1
    return stored.key._replace(checkpoint_id=make_id(tick, step, random_bits(48)))


def add_empty(made: NewRows, target: Moment, ns: str, tick: int, marks: Mapping[str, str]) -> None:
    """Add an empty checkpoint to a namespace that had none at the time of the target."""
    new_id = make_id(tick, EMPTY_STEP, random_bits(48))
    key = CheckpointKey(target.key.thread_id, ns, new_id)
    made.checkpoints.append(
        empty_checkpoint(key, whole(made.store, target.key), target.body, marks)
    )
    made.added.append(TouchedCheckpoint(key, None, "empty", None))


def add_copy(
    reader: ThreadReader,
    made: NewRows,
    stored: Moment,
    key: CheckpointKey,
    marks: Mapping[str, str],
    root: Root | None = None,
) -> str:
    """Add a copy of a checkpoint under a new key. Returns the reason for its form."""
    root = root or Root()
    original = whole(made.store, stored.key)
    body = read_body(original)
    check_body(stored.key, body)
    _check_values(original)
    form, why = form_of(body, _delta_writes(reader, stored), sibling=root.sibling)
    edited = edit_copy_of(reader, made.store, stored, key, root.edits, root.edges, root.known)
    kept = null_writes(stored.writes)
    kept = [one for one in kept if one.channel not in edited.dropped]
    all_marks: dict[str, str | int] = {FROM: stored.key.checkpoint_id, **marks}
    if kept or edited.writes:
        all_marks[WRITES] = len(kept) + len(edited.writes)
    if kept:
        tasks = tuple((one.task_id, one.idx) for one in kept)
        made.copies.append(CopyOfWrites(stored.key, key, tasks))
    made.writes += edited.writes
    made.blobs += edited.blobs
    copy = copy_checkpoint(
        original, body, key.checkpoint_id, form, stored.number or 0, all_marks, edited.body
    )
    made.checkpoints.append(copy)
    made.relied_on.append(stored.key)
    made.added.append(
        TouchedCheckpoint(key, copy.parent_checkpoint_id, form, stored.key.checkpoint_id)
    )
    return why


def edit_copy_of(
    reader: ThreadReader,
    rows: Store,
    stored: Moment,
    key: CheckpointKey,
    edits: Sequence[ChannelEdit],
    edges: Sequence[str] | None,
    known: Collection[str],
) -> EditedState:
    """Return what changes in a copy under this key, besides its id.

    In the same thread, this includes the version that LangGraph.js needs to keep the branches
    apart.
    """
    numbered = key.thread_id == stored.key.thread_id and is_numbered(stored.checkpoint, stored.body)
    channels = [edit.channel for edit in edits]
    channels += [raised_channel(stored.body)] if numbered else []
    original = whole(rows, stored.key, channels)
    if edits or edges is not None:
        check_editable(original)
        _check_open(stored)
    body = read_body(original)
    above = 0
    if numbered:
        ns = key.checkpoint_ns
        rest = reader.store.checkpoints(reader.thread_id, checkpoint_ns=ns, body=True)
        above = greatest_version(map(read_body, rest))
    version = next_version(body, above)
    kept = null_writes(stored.writes)
    delta = _all_delta(stored)
    found = edit_copy(original, body, key, edits, kept, delta, known, version)
    if edges is not None:
        schedule_after_nodes(found, original, body, key.checkpoint_ns, edges, version)
        # A `Command(goto=...)` of the caller would run in addition to what the node starts.
        found.dropped |= {one.channel for one in kept if not is_state(one.channel, body)}
    elif numbered and not found.blobs:
        raise_version(found, original, body, key.checkpoint_ns, version)
    return found


def _check_values(original: Checkpoint) -> None:
    """Raise `Unsupported` if the store cannot find the values that an encrypted body names."""
    if original.body is not None and original.body.encrypted and original.blobs is not None:
        raise Unsupported(
            f"cannot copy checkpoint '{original.key.checkpoint_id}': its body is encrypted",
            hint="it names its values; decrypt the thread first: `ckpt rekey THREAD --decrypt`",
        )


def _check_open(stored: Moment) -> None:
    """Raise `Unsupported` if a value stays encrypted: a new one would get another key."""
    for name, value in stored.body.values.items():
        if is_encrypted(value) and isinstance(value, Opaque):
            raise Unsupported(f"cannot edit: the value of '{name}' is {value.reason}")


def _delta_writes(reader: ThreadReader, stored: Moment) -> set[str]:
    """Return the DeltaChannels with writes on a checkpoint; if that is uncertain, possibly others
    too.

    Their values are rarely stored, and then as snapshots: a plain value after the step shows that a
    channel is not a DeltaChannel.
    """
    written = {one.channel for one in stored.writes if is_state(one.channel, stored.body)}
    found = _all_delta(stored)
    if unsure := written - found:
        children = reader.children(stored.key)
        if not children:
            return written - stored.body.versions.keys() | written & found
        for child in reader.store.checkpoints(
            reader.thread_id,
            checkpoint_ns=stored.key.checkpoint_ns,
            checkpoint_ids=children,
            body=True,
            metadata=True,
            values=unsure,
        ):
            body = read_body(child)
            found |= delta_channels(read_metadata(child)) | _snapshots(body)
            found |= {name for name in unsure if _is_rebuilt(body, name)}
    return written & found


def _all_delta(stored: Moment) -> set[str]:
    """Return the channels without a stored value at a checkpoint, or with a snapshot."""
    unset = {name for name in stored.body.versions if _is_rebuilt(stored.body, name)}
    return delta_channels(stored.metadata) | _snapshots(stored.body) | unset


def _snapshots(body: Body) -> set[str]:
    return {name for name, value in body.values.items() if is_delta(value)}


def _is_rebuilt(body: Body, channel: str) -> bool:
    """Return whether a channel was written before but has no stored value, like a DeltaChannel."""
    return channel in body.versions and channel not in body.values
