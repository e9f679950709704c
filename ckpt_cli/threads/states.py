"""Read the values of a checkpoint's channels as the agent sees them."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Blob, Checkpoint, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_backends.wrapper import WrappedStore
from ckpt_cli.core.channels import (
    LOST_DELTA,
    delta_channels,
    is_state,
    state_values,
    without_snapshot,
)
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.state import Body, read_body
from ckpt_cli.threads.checkpoint import DecodedCheckpoint
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.core.replay.unknown_reducer import OtherReading, Rules


class RuledStore(WrappedStore):
    """A store of which the user told how values that are not stored are rebuilt."""

    def __init__(self, inner: Store, rules: "Rules") -> None:
        super().__init__(inner)
        self.rules = rules


def rules_of(store: Store, body: Body) -> "Rules":
    """Return what was told about a store, also if another wrapper is around it.

    `body` is of the checkpoint that is rebuilt: releases of LangGraph.js do not differ.
    """
    from ckpt_cli.core.replay.unknown_reducer import JAVASCRIPT, NO_RULES

    inner, found = store, NO_RULES
    while isinstance(inner, WrappedStore):
        if isinstance(inner, RuledStore):
            found = inner.rules
        inner = inner.inner
    return found._replace(library=JAVASCRIPT) if body.is_javascript else found


class State(NamedTuple):
    """The values of a checkpoint's channels as the agent sees them."""

    values: Mapping[str, Value]
    rebuilt: Mapping[str, str]
    """Channels with a value that is not stored, and how it was rebuilt."""
    by_library: "Mapping[str, OtherReading]" = MappingProxyType({})
    """Channels with a rebuilt value that depends on the release of LangGraph."""

    @property
    def unstored(self) -> list[str]:
        """Channels with a value that is not stored and cannot be rebuilt."""
        return [name for name, value in self.values.items() if value == LOST_DELTA]


def read_state(
    reader: ThreadReader, moment: DecodedCheckpoint, channels: Collection[str] | None = None
) -> State:
    """Return the values at a checkpoint: DeltaChannels rebuilt, the caller's writes applied.

    With `channels`, only those are rebuilt. The checkpoint must have been read with its state,
    or with these channels of it.
    """
    values = dict(state_values(moment.body))
    rebuilt = _merged(values, moment.checkpoint.blobs) if moment.checkpoint.blobs else {}
    missing = _unstored(reader, moment, channels)
    if missing and not reader.has_history:
        values |= dict.fromkeys(missing, LOST_DELTA)
        missing.clear()
    differing: dict[str, OtherReading] = {}
    for name, one in rebuild_deltas(reader, moment.checkpoint, moment.body, missing):
        values[name], rebuilt[name] = one.value, one.how
        if one.differs is not None:
            differing[name] = one.differs
    ns = moment.key.checkpoint_ns
    for name, writes in _null_writes(reader, moment).items():
        if values.get(name) != LOST_DELTA and (channels is None or name in channels):
            from ckpt_cli.core.replay.unknown_reducer import one_step

            values[name], how = rules_of(reader.store, moment.body).merge(
                namespace_kind(ns),
                name,
                values.get(name),
                one_step(writes),
                delta=name in rebuilt or name in reader.delta_channels(ns),
            )
            earlier = f"{rebuilt[name]}, " if name in rebuilt else ""
            rebuilt[name] = f"{earlier}with the caller's writes ({how})"
    return State(dict(sorted(values.items())), rebuilt, differing)


def state_channels(reader: ThreadReader, moment: DecodedCheckpoint) -> list[str]:
    """Return the names of the channels that `read_state` gives, without reading their values."""
    if moment.checkpoint.blobs is not None and moment.body.is_javascript:
        # Only the value tells that a channel holds `undefined`, which is as no value.
        key = moment.key
        moment = reader.stored(key.checkpoint_ns, key.checkpoint_id, state=True)
    found = {*state_values(moment.body), *_unstored(reader, moment, None)}
    if not reader.is_values_only:
        found |= {
            write.channel
            for write in moment.writes
            if write.task_id == NULL_TASK_ID and is_state(write.channel, moment.body)
        }
    return sorted(found)


def _null_writes(reader: ThreadReader, moment: DecodedCheckpoint) -> dict[str, list[Value]]:
    """Return the caller's writes to state channels with `Command(update=...)`, by channel."""
    names = {
        write.channel
        for write in moment.writes
        if write.task_id == NULL_TASK_ID and is_state(write.channel, moment.body)
    }
    grouped: dict[str, list[Value]] = {}
    if not names or reader.is_values_only:  # they are already part of the stored value
        return grouped
    key = moment.key
    for write in reader.store.writes(
        reader.thread_id,
        checkpoint_ns=key.checkpoint_ns,
        checkpoint_ids=[key.checkpoint_id],
        channels=names,
        values=True,
    ):
        if write.task_id == NULL_TASK_ID and write.value is not None:
            grouped.setdefault(write.channel, []).append(decode(write.value))
    return grouped


def _merged(values: Mapping[str, Value], blobs: Mapping[str, Blob]) -> dict[str, str]:
    """Return the channels whose value is stored in several parts, and how these were merged."""
    # Imported late: few layouts have such values.
    from ckpt_backends.codec.merged import MERGED, how_merged

    return {
        name: f"rebuilt (assumed {how_merged(values[name])})"
        for name, blob in blobs.items()
        if blob.type.startswith(MERGED) and name in values
    }


def _unstored(
    reader: ThreadReader, moment: DecodedCheckpoint, channels: Collection[str] | None
) -> set[str]:
    """Return the DeltaChannels, of these, that may have no stored value at this checkpoint."""
    unset = {
        name
        for name in moment.body.versions
        if name not in moment.body.values
        and is_state(name, moment.body)
        and (channels is None or name in channels)
    }
    if not unset:
        return unset
    found = delta_channels(moment.metadata)
    if unset <= found:
        return unset
    return unset & (found | reader.delta_channels(moment.key.checkpoint_ns))


class DeltaParts:
    """What the value of a DeltaChannel is rebuilt from."""

    __slots__ = ("batches", "seed")

    def __init__(self) -> None:
        self.batches: list[list[TypedBytes]] = []
        """The writes of ancestors, those of the nearest first."""
        self.seed: tuple[Checkpoint, Body] | None = None
        """The ancestor that stores the value; None if there is none."""


def delta_parts(
    reader: ThreadReader, checkpoint: Checkpoint, names: Collection[str]
) -> dict[str, DeltaParts]:
    """Return what the values of some DeltaChannels are rebuilt from.

    A checkpoint's own writes are not part of its value; those of the ancestor that stores the
    value are.
    """
    if not names:  # Its ancestors need not be listed.
        return {}
    found = {name: DeltaParts() for name in names}
    open_names = set(names)
    for ancestor in _ancestors(reader, checkpoint, open_names):
        if not open_names:
            break
        key = ancestor.key
        for name in open_names:
            found[name].batches.append([])
        for write in reader.store.writes(
            reader.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_ids=[key.checkpoint_id],
            channels=open_names,
            values=True,
        ):
            if write.value is not None:
                found[write.channel].batches[-1].append(write.value)
        body = read_body(ancestor)
        for name in open_names & set(body.values):
            found[name].seed = ancestor, body
        open_names -= set(body.values)
    return found


class RebuiltDelta(NamedTuple):
    """The value of a DeltaChannel."""

    value: Value
    how: str
    differs: "OtherReading | None"


def rebuild_deltas(
    reader: ThreadReader, checkpoint: Checkpoint, body: Body, names: set[str]
) -> Iterator[tuple[str, RebuiltDelta]]:
    """Yield DeltaChannel values, rebuilt from the writes of ancestors since the last stored
    value.
    """
    if not names:
        return
    # Most states are stored whole.
    from ckpt_cli.core.replay.unknown_reducer import other_reading

    rules = rules_of(reader.store, body)
    graph = namespace_kind(checkpoint.key.checkpoint_ns)
    for name, parts in sorted(delta_parts(reader, checkpoint, names).items()):
        writes = [decode(write) for batch in reversed(parts.batches) for write in batch]
        seed = None if parts.seed is None else without_snapshot(parts.seed[1].values[name])
        value, how = rules.merge(graph, name, seed, writes, delta=True)
        other = other_reading(rules, graph, name, value, seed, writes)
        more = "" if other is None else other.told
        yield name, RebuiltDelta(value, f"rebuilt ({how}){more}", other)


def _ancestors(
    reader: ThreadReader, checkpoint: Checkpoint, names: Collection[str]
) -> Iterator[Checkpoint]:
    """Yield the ancestors, nearest first, with the values of some channels; stops at a
    missing one.
    """
    ns = checkpoint.key.checkpoint_ns
    for one in reader.ancestry(ns, checkpoint.key.checkpoint_id)[1:]:
        yield from reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=[one], body=True, values=names
        )
