"""Measure what uses the space of a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from ckpt_backends.codec import channel_sizes
from ckpt_backends.model import Capability, StoreInfo, TypedBytes, Usage
from ckpt_backends.protocol import Store
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.size_sums import ByteSum, Ranking, SizeTally, rank

By: TypeAlias = Literal["thread", "channel", "ns", "type", "table"]
BYS: tuple[By, ...] = ("thread", "channel", "ns", "type", "table")

METADATA = "metadata"
_QUICK = 256 << 20
"""Maximum bytes of bodies to scan, unless all are requested."""

_ONE_BY_ONE = 8
"""Number of threads that are measured one by one; for more, all of the store is."""

Watch: TypeAlias = Callable[[Iterable[str]], Iterable[str]]


@dataclass(frozen=True, slots=True, order=True)
class ChannelSize:
    """A channel, or a part of a checkpoint that belongs to no channel."""

    name: str | None
    part: Literal["channel", "metadata", "bookkeeping", "unread", "not scanned"] = "channel"

    def __str__(self) -> str:
        return self.name if self.name is not None else f"({self.part})"


@dataclass(frozen=True, slots=True)
class Scanned:
    """How many checkpoints were scanned to measure channels."""

    bodies: int
    bytes: int
    of_bodies: int
    of_bytes: int


@dataclass(frozen=True, slots=True)
class Survey:
    """A store, or some threads of it, in bytes."""

    info: StoreInfo
    bytes: int
    """Stored length of all values."""
    tables: Ranking[tuple[str, str]]
    threads: Ranking[str]
    namespaces: Ranking[str]
    types: Ranking[str]
    channels: Ranking[ChannelSize] | None
    """None if bodies were not scanned."""
    scanned: Scanned | None
    chosen: int | None = None
    """Number of threads that were chosen; None if all are measured."""


def survey(
    store: Store, names: Collection[str] | None, top: int, *, scan: bool, whole: bool, watch: Watch
) -> Survey:
    """Measure a store, or the threads with these ids.

    With `scan`, bodies are scanned for the sizes of channels: all with `whole`, otherwise those of
    the largest threads, up to a limit. `watch` wraps the ids of the threads to scan, to show
    progress.
    """
    tables, namespaces, types = SizeTally[tuple[str, str]](), SizeTally[str](), SizeTally[str]()
    channels = SizeTally[ChannelSize]()
    bodies = SizeTally[None]()
    info = store.describe()
    has_inline = Capability.INLINE_VALUES in info.capabilities

    def threads() -> Iterator[ByteSum[str]]:
        for thread, used in groupby(_usage(store, names), lambda one: one.thread_id):
            rows = size = 0
            others = Counter[tuple[str, str]]()
            for one in used:
                count = 0 if one.column == METADATA else one.rows
                tables.add((one.table, one.column), one.rows, one.bytes)
                namespaces.add(namespace_kind(one.checkpoint_ns), count, one.bytes)
                types.add(one.type, count, one.bytes)
                _tell_types_apart(others, one)
                if _is_body(one) and not has_inline:
                    channels.add(ChannelSize(None, "bookkeeping"), one.rows, one.bytes)
                elif _is_body(one):
                    bodies.add(None, one.rows, one.bytes)
                else:
                    channels.add(_channel(one), one.rows, one.bytes)
                rows, size = rows + count, size + one.bytes
            for (_, kind), number in others.items():
                types.add(kind, max(0, number), 0)
            yield ByteSum(thread, rows, size)

    largest = rank(threads(), top)
    scanned = None
    if scan and has_inline:
        of = next(iter(bodies.amounts()), ByteSum(None, 0, 0))
        chosen: Iterable[str] = ()
        if whole and names is not None:
            chosen = names
        elif whole:
            chosen = (thread.thread_id for thread in store.threads())
        else:
            chosen = [one.key for one in largest.top]
        scanned = _scan(store, watch(chosen), channels, of, None if whole else _QUICK)
    return Survey(
        info,
        largest.total,
        rank(tables.amounts(), top),
        largest,
        rank(namespaces.amounts(), top),
        rank(types.amounts(), top),
        rank(channels.amounts(), top) if scan else None,
        scanned,
        None if names is None else len(names),
    )


def _usage(store: Store, names: Collection[str] | None) -> Iterator[Usage]:
    """Yield what is stored, thread by thread."""
    if names is None:
        yield from store.usage()
    elif len(names) <= _ONE_BY_ONE:
        for name in names:
            yield from store.usage(name)
    else:
        yield from (one for one in store.usage() if one.thread_id in names)


def _scan(
    store: Store,
    threads: Iterable[str],
    channels: SizeTally[ChannelSize],
    of: ByteSum[None],
    limit: int | None,
) -> Scanned:
    """Add the sizes of channels inside bodies; stop after `limit` bytes."""
    number = size = 0
    for body in _bodies(store, threads):
        if limit is not None and size >= limit:
            break
        number, size = number + 1, size + len(body.data)
        sizes = channel_sizes(body)
        if sizes is None:
            channels.add(ChannelSize(None, "unread"), 1, len(body.data))
            continue
        for name, length in sizes.items():
            channels.add(ChannelSize(name), 1, length)
        channels.add(ChannelSize(None, "bookkeeping"), 1, len(body.data) - sum(sizes.values()))
    if size < of.bytes:
        channels.add(ChannelSize(None, "not scanned"), of.rows - number, of.bytes - size)
    return Scanned(number, size, of.rows, of.bytes)


def _bodies(store: Store, threads: Iterable[str]) -> Iterator[TypedBytes]:
    for thread_id in threads:
        for one in store.checkpoints(thread_id, body=True):
            if one.body is not None:
                yield one.body


def _tell_types_apart(others: Counter[tuple[str, str]], used: Usage) -> None:
    """Count the rows of which the metadata has another type than the body, by namespace and type.

    A row counts once for each type that it has.
    """
    if used.channel is None:
        sign = 1 if used.column == METADATA else -1
        others[used.checkpoint_ns, used.type] += sign * used.rows


def _is_body(usage: Usage) -> bool:
    return usage.channel is None and usage.column != METADATA


def _channel(usage: Usage) -> ChannelSize:
    return ChannelSize(None, "metadata") if usage.channel is None else ChannelSize(usage.channel)
