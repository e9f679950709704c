"""Counts what threads take: bytes, writes, tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property, partial
from itertools import groupby
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ckpt_backends import model
from ckpt_backends.codec import channel_sizes, decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import (
    MODEL_ROLES,
    Message,
    TokenCounts,
    as_message,
    counts_of,
    model_of,
)
from ckpt_cli.core.diff import json_size
from ckpt_cli.core.lineage import is_subgraph_call, namespace_kind
from ckpt_cli.core.refs import just_made
from ckpt_cli.core.resume import WhyCode
from ckpt_cli.core.state import SENDS, START, is_state, read_body
from ckpt_cli.core.stats import CALLER, UNKNOWN, UPDATE, Grouping, Stats, StatsPart
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.core.tasks import (
    CONTROL,
    UPDATE_PATH,
    node_path,
    path_text,
    pulled_node,
    task_writes,
    tasks_by_id,
)
from ckpt_cli.core.timeline import Durations, NodeTime, TimedStep, node_times
from ckpt_cli.core.usage import (
    ByteSum,
    FoundMessage,
    MessageLedger,
    Origin,
    Ranking,
    SizeTally,
    Told,
    rank,
)
from ckpt_cli.core.values import unwrap
from ckpt_cli.queries.heads import heads_of, status_of_head
from ckpt_cli.queries.incidents import NOBODY, failures_of_threads, open_questions
from ckpt_cli.queries.timeline import read_steps
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import ThreadReader, TriggerInference, why_of
from ckpt_cli.reading.users import user_key_of, users_of_threads
from ckpt_cli.reading.workers import Each, each

if TYPE_CHECKING:
    from ckpt_cli.reading.executor import Executor


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

    info: model.StoreInfo
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
    has_inline = model.Capability.INLINE_VALUES in info.capabilities

    def threads() -> Iterator[ByteSum[str]]:
        for thread, used in groupby(_usage(store, names), lambda one: one.thread_id):
            rows = size = 0
            others = Counter[tuple[str, str]]()
            for one in used:
                if one.column == METADATA and not one.bytes:
                    continue  # the layout stores it in one text with the body
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


def _usage(store: Store, names: Collection[str] | None) -> Iterator[model.Usage]:
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


def _bodies(store: Store, threads: Iterable[str]) -> Iterator[model.TypedBytes]:
    for thread_id in threads:
        for one in store.checkpoints(thread_id, body=True):
            if one.body is not None:
                yield one.body


def _tell_types_apart(others: Counter[tuple[str, str]], used: model.Usage) -> None:
    """Count the rows of which the metadata has another type than the body, by namespace and type.

    A row counts once for each type that it has.
    """
    if used.channel is None:
        sign = 1 if used.column == METADATA else -1
        others[used.checkpoint_ns, used.type] += sign * used.rows


def _is_body(usage: model.Usage) -> bool:
    return usage.channel is None and usage.column != METADATA


def _channel(usage: model.Usage) -> ChannelSize:
    return ChannelSize(None, "metadata") if usage.channel is None else ChannelSize(usage.channel)


# Count the tokens of a thread's messages, each message once.
#
# Messages come from the writes of tasks, so those that were removed or trimmed since are counted
# too. A state is read only where the writes that made it are not stored.


INPUT = "(input)"
"""Shown as the node of messages that a run was started with."""
_PLAIN = frozenset({"msgpack", "json", "redis-json", "bson", "bson-plain", "pickle"})
"""Types whose bytes contain the names of the fields."""
_MARKS = (b"usage", b"Usage", b"AIMessage", b"assistant", b"\xa2ai", b'"ai"')
"""One of these is in the names of all fields that tell tokens, or in a message of a model."""
_DEEPEST = 8
"""Lists and dicts in which messages are looked for, one inside the other."""
_AT_ONCE = 50


class ThreadMessages(NamedTuple):
    """The messages of models in a thread, each once."""

    found: Sequence[FoundMessage]
    unread: int
    """Number of values that could not be read, whose messages are missing."""


def messages_of(reader: ThreadReader, checkpoint_ns: str | None = None) -> ThreadMessages:
    """Return the messages of models in a thread, on all branches."""
    with remembering() as memo:
        return ThreadMessages([*_ledger(reader, checkpoint_ns).messages()], memo.unreadable)


def thread_messages(
    reader: ThreadReader, *, with_nodes: bool
) -> Iterator[tuple[FoundMessage, str | None]]:
    """Yield each message that tells its tokens, and with `with_nodes` the node that wrote it."""
    found = [one for one in messages_of(reader).found if one.tokens.messages]
    nodes = nodes_of(reader, found) if with_nodes else {}
    for one in found:
        yield one, INPUT if with_nodes and _is_input(one.origin) else nodes.get(one.origin)


def _ledger(reader: ThreadReader, only: str | None) -> MessageLedger:
    """Return all messages of models, from writes and from states without stored writes."""
    found = MessageLedger()
    indexes = reader.indexes() if only is None else {only: reader.index(only)}
    index = {(ns, one.key.checkpoint_id): one for ns, some in indexes.items() for one in some}
    stored: set[tuple[str, str]] = set()
    for write in reader.writes(only, values=True):
        key = write.key.checkpoint_ns, write.key.checkpoint_id
        if write.channel in CONTROL:
            continue
        stored.add(key)
        if write.channel != SENDS and write.value is not None and _may_tell(write.value):
            at = write.at or _time(index.get(key), key[1])
            origin = Origin(*key, write.task_id, write.task_path, write.node, at)
            told = _told(decode(write.value))
            found.add_list(write.channel, origin, _given(told) if _is_input(origin) else told)
    _add_states(reader, found, index, stored)
    return found


def _add_states(
    reader: ThreadReader,
    found: MessageLedger,
    index: dict[tuple[str, str], model.Checkpoint],
    stored: set[tuple[str, str]],
) -> None:
    """Add the messages in states that are not made of stored writes, and in the newest ones."""
    parents = {(ns, one.parent_checkpoint_id) for (ns, _), one in index.items()}
    wanted = (
        one.key
        for key, one in index.items()
        if (key not in parents and not is_subgraph_call(key[0]))
        or not _is_explained(key, one, index, stored, reader)
    )
    for some in model.in_chunks(wanted, _AT_ONCE):
        for one in reader.store.checkpoints_at(some, body=True, values=True):
            ns, checkpoint_id = one.key.checkpoint_ns, one.key.checkpoint_id
            origin = Origin(ns, checkpoint_id, at=_time(one, checkpoint_id))
            for channel, value in read_body(one).values.items():
                if channel != SENDS:
                    told = _told(value)
                    found.add_state(origin, _given(told) if channel == START else told)


def _is_explained(
    key: tuple[str, str],
    one: model.Checkpoint,
    index: dict[tuple[str, str], model.Checkpoint],
    stored: set[tuple[str, str]],
    reader: ThreadReader,
) -> bool:
    """Return whether the writes that made a checkpoint are stored."""
    if reader.is_values_only:
        return key in stored
    parent = key[0], one.parent_checkpoint_id or ""
    if parent not in index:
        # The first checkpoint of a graph holds its input, which `__start__` writes.
        return not parent[1] and model.step_of(key[1]) == -1
    steps = model.step_of(parent[1]), model.step_of(key[1])
    # With durability="exit", only the writes of one of several steps are stored.
    follows = None in steps or (steps[1] or 0) - (steps[0] or 0) in {0, 1}
    return parent in stored and follows


def _may_tell(value: model.TypedBytes) -> bool:
    return value.type not in _PLAIN or any(mark in value.data for mark in _MARKS)


def _time(one: model.Checkpoint | None, checkpoint_id: str) -> datetime | None:
    return (None if one is None else one.at) or model.time_of(checkpoint_id)


def _told(value: Value, depth: int = 0) -> Iterator[tuple[Message, FoundMessage | None]]:
    """Yield the messages in a value in their order, with their tokens if they tell them."""
    message = as_message(value)
    if message is not None:
        tokens = counts_of(message)
        if tokens is None and message.role in MODEL_ROLES:
            tokens = TokenCounts()
        yield message, None if tokens is None else FoundMessage(model_of(message), tokens)
        return
    held = unwrap(value)
    if held is None or depth >= _DEEPEST:
        return
    for item in held.values() if isinstance(held, dict) else held:
        yield from _told(item, depth + 1)


def _is_input(origin: Origin) -> bool:
    return origin.own_node == START


def _given(told: Told) -> Told:
    """Leave out what an input has without usage data: the caller, and no model, wrote it there."""
    return ((message, one if one and one.tokens.messages else None) for message, one in told)


def nodes_of(reader: ThreadReader, messages: Iterable[FoundMessage]) -> dict[Origin, str]:
    """Return the path of the node that wrote each message, as far as known."""
    found: dict[Origin, str] = {}
    unnamed: dict[str, list[Origin]] = {}
    for origin in {one.origin for one in messages}:
        name = _named(origin)
        if name is not None:
            found[origin] = name
        elif origin.task_id is not None:
            unnamed.setdefault(origin.checkpoint_ns, []).append(origin)
    for ns, origins in unnamed.items():
        by_checkpoint: dict[str, list[Origin]] = {}
        for origin in origins:
            by_checkpoint.setdefault(origin.checkpoint_id, []).append(origin)
        for moment in reader.moments(ns, by_checkpoint):
            tasks = tasks_by_id(moment.step)
            for origin in by_checkpoint[moment.key.checkpoint_id]:
                task = tasks.get(origin.task_id or "")
                if task is not None and task.node is not None:
                    found[origin] = path_text(node_path(ns, [task.node]))
    return found


def _named(origin: Origin) -> str | None:
    if origin.task_id == model.NULL_TASK_ID:
        return CALLER
    if origin.task_path.startswith(UPDATE_PATH):
        return UPDATE
    if origin.own_node is None:
        return None
    return path_text(node_path(origin.checkpoint_ns, [origin.own_node]))


# Count what threads wrote, how long their nodes took, and what their tokens cost.
#
# Each thread is read once for all of these. Only counting tokens decodes values: those of
# messages.


@dataclass(frozen=True, slots=True)
class Range:
    """A time range of checkpoints; both bounds are inclusive."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, at: datetime | None) -> bool:
        """Return whether a time is in the range; an unknown time is only in a range without
        bounds.
        """
        if at is None:
            return self.is_all
        return (self.since is None or self.since <= at) and (self.until is None or at <= self.until)


@dataclass(frozen=True, slots=True)
class StatsQuery:
    """What is counted, by which keys."""

    by: tuple[Grouping, ...]
    parts: StatsPart
    within: Range = Range()
    zone: tzinfo = UTC
    """The time zone of days."""


def thread_stats(
    reader: ThreadReader, wanted: StatsQuery, checkpoint_ns: str | None = None
) -> Stats:
    """Return what one thread wrote, how long it took, and what it cost, on all branches."""
    return _ThreadCount(reader, wanted, checkpoint_ns).stats()


def threads_stats(
    store: Store, executor: Executor, threads: Iterable[model.Thread], wanted: StatsQuery
) -> Iterator[Stats]:
    """Yield the statistics of each thread, in the order given."""
    return executor.run(store, threads, partial(_counting, wanted))


def _counting(wanted: StatsQuery, store: Store) -> Each[Stats]:
    inference = TriggerInference(store)

    def count(thread_id: str) -> Stats:
        try:
            return thread_stats(ThreadReader(store, thread_id, inference), wanted)
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return Stats(wanted.by, wanted.parts)

    return each(count)


def _user_of(reader: ThreadReader) -> str | None:
    store = reader.store
    key = user_key_of(store)
    if key is None:
        return reader.thread.user
    return users_of_threads(store, [reader.thread], key).get(reader.thread_id)


class _ThreadCount:
    """Counts one thread."""

    def __init__(self, reader: ThreadReader, wanted: StatsQuery, only: str | None) -> None:
        """`only` is the namespace that is counted; None for all."""
        self.reader = reader
        self.wanted = wanted
        self.only = only
        self.found = Stats(wanted.by, wanted.parts, threads=1)
        self.said: dict[str, str | None] = {"thread": reader.thread_id}
        self._in_range: dict[str, set[str]] = {}
        if "user" in wanted.by:
            hidden = is_redacted(reader.store) and not reader.store.records_users
            self.said["user"] = None if hidden else _user_of(reader)

    @cached_property
    def _keys(self) -> list[model.Write]:
        """The writes of the thread, without their values."""
        return list(self.reader.writes(self.only))

    def stats(self) -> Stats:
        """Return the sums."""
        parts = self.wanted.parts
        if self.only is None:
            # One query, where each namespace would need its own.
            self.reader.indexes()
        if StatsPart.WRITES in parts:
            by_namespace: dict[str, list[model.Write]] = {}
            for write in self._keys:
                by_namespace.setdefault(write.key.checkpoint_ns, []).append(write)
            for ns in self.reader.namespaces if self.only is None else [self.only]:
                self._count_namespace(ns, by_namespace.get(ns, []))
        if StatsPart.TIMES in parts:
            self._count_times()
        if StatsPart.TOKENS in parts:
            self._count_tokens()
        return self.found

    def _day(self, at: datetime | None) -> str | None:
        if at is None or "day" not in self.wanted.by or not 1 < at.year < 9999:
            return None
        return at.astimezone(self.wanted.zone).date().isoformat()

    def _ids(self, ns: str) -> set[str] | None:
        """Return the checkpoints of a namespace that were made in the range; None for all."""
        within = self.wanted.within
        if within.is_all:
            return None
        if ns not in self._in_range:
            times = self.reader.times(ns)
            ids = {one for one, at in times.items() if within.holds(at)}
            if within.until is not None:
                ids |= set(just_made(within.until, times, partial(self.reader.stored_time, ns)))
            self._in_range[ns] = ids
        return self._in_range[ns]

    def _is_counted(self, ns: str, checkpoint_id: str) -> bool:
        ids = self._ids(ns)
        return ids is None or checkpoint_id in ids

    def _count_namespace(self, ns: str, writes: Iterable[model.Write]) -> None:
        reader, ids = self.reader, self._ids(ns)
        times = reader.times(ns) if "day" in self.wanted.by else {}
        for write, node in self._named(ns, writes, ids):
            path = node
            if node not in {CALLER, UPDATE, UNKNOWN}:
                path = path_text(node_path(ns, [node]))
            day = self._day(write.at or times.get(write.key.checkpoint_id))
            amounts = self.found.of(node=path, channel=write.channel, day=day, **self.said)
            amounts.writes += 1
            amounts.bytes += write.size
        if StatsPart.STORED in self.wanted.parts:
            self._count_values(ns, ids)
        self.found.checkpoints += len(reader.index(ns) if ids is None else ids)

    def _named(
        self, ns: str, writes: Iterable[model.Write], ids: set[str] | None
    ) -> Iterator[tuple[model.Write, str]]:
        """Yield the writes of these checkpoints with the node in their task path.

        For Sends and rows without a path, the node is found with the checkpoint's body.
        """
        reader = self.reader
        if reader.is_values_only:
            # They have their own node and time.
            for write in writes:
                if self.wanted.within.holds(write.at):
                    yield write, write.node or UNKNOWN
            return
        open_ids: list[str] = []
        for checkpoint_id, group in groupby(writes, lambda one: one.key.checkpoint_id):
            if ids is not None and checkpoint_id not in ids:
                continue
            here = list(group)
            nodes = [_node_in_path(write) for write in here]
            if None in nodes:
                open_ids.append(checkpoint_id)
                continue
            yield from zip(here, (node or UNKNOWN for node in nodes), strict=True)
        for some in model.in_chunks(open_ids):
            for moment in reader.moments(ns, some):
                for placed in task_writes(moment.writes, moment.step):
                    by_hand = placed.path.startswith(UPDATE_PATH)
                    node = placed.node or (UPDATE if by_hand else UNKNOWN)
                    yield (
                        placed.write,
                        CALLER if placed.write.task_id == model.NULL_TASK_ID else node,
                    )

    def _count_values(self, ns: str, ids: set[str] | None) -> None:
        seen: set[tuple[str, object]] = set()
        for one in self.reader.checkpoints(ns, ids, body=True):
            if one.blobs is not None:
                _count_blobs(one, seen, self.found)
            elif one.body is not None:
                for channel, size in (channel_sizes(one.body) or {}).items():
                    self.found.value(channel, size)

    def _count_times(self) -> None:
        """Add the times of steps that ended in the range."""
        keys = self._keys if self.only is None else None
        found = [
            one
            for one in read_steps(self.reader, whole=False, writes=keys).all_steps()
            if self._is_counted(one.checkpoint_ns, one.checkpoint_id)
            and (self.only is None or one.checkpoint_ns == self.only)
        ]
        root = [one for one in found if one.checkpoint_ns == (self.only or "")]
        self.found.steps = len(root)
        self.found.running_seconds = sum(filter(None, map(_running, root)))
        self.found.waiting_seconds = sum(one.waiting_seconds for one in root)
        self.found.idle_seconds = sum(one.seconds or 0.0 for one in root if one.kind == "idle")
        by_day: dict[str | None, list[TimedStep]] = {}
        for one in found:
            by_day.setdefault(self._day(one.ended_at), []).append(one)
        for day, steps in by_day.items():
            times = node_times(steps)
            if "node" not in self.wanted.by:
                # Of steps, since nodes inside others or beside them would count twice.
                whole = (one for one in steps if one.checkpoint_ns == (self.only or ""))
                took = (_running(one) for one in whole if not one.is_start)
                seconds = Durations(one for one in took if one is not None)
                times = {"": NodeTime(sum(one.runs for one in times.values()), seconds=seconds)}
            for node, time in times.items():
                self.found.of(node=node, day=day, **self.said).time.merge(time)

    def _count_tokens(self) -> None:
        """Add the tokens of messages that were written in the range."""
        messages = messages_of(self.reader, self.only)
        within = [
            one
            for one in messages.found
            if (
                self.wanted.within.holds(one.origin.at)
                if self.reader.is_values_only
                else self._is_counted(one.origin.checkpoint_ns, one.origin.checkpoint_id)
            )
        ]
        kept = [one for one in within if one.tokens.messages]
        self.found.unread = messages.unread
        self.found.without_usage = len(within) - len(kept)
        nodes = nodes_of(self.reader, kept) if "node" in self.wanted.by else {}
        hidden = is_redacted(self.reader.store)
        for one in kept:
            self.found.of(
                node=nodes.get(one.origin, UNKNOWN),
                model=None if hidden else one.model,
                day=self._day(one.origin.at),
                **self.said,
            ).spend(one.model, one.tokens)


def _running(step: TimedStep) -> float | None:
    """Return how long the nodes of a step ran; None if that is not known, or if it was idle."""
    if step.kind == "idle" or step.seconds is None:
        return None
    return step.seconds - step.waiting_seconds


def _node_in_path(write: model.Write) -> str | None:
    if write.task_id == model.NULL_TASK_ID:
        return CALLER
    if write.task_path.startswith(UPDATE_PATH):
        return UPDATE
    return pulled_node(write.task_path) if write.task_path else None


def _count_blobs(one: model.Checkpoint, seen: set[tuple[str, object]], found: Stats) -> None:
    """Count values that are stored apart, each version of a channel once."""
    body = read_body(one)
    for channel, blob in (one.blobs or {}).items():
        key = (channel, body.versions.get(channel))
        if key not in seen:
            seen.add(key)
            found.value(channel, blob.size)
    for channel, value in body.values.items():
        if channel not in (one.blobs or {}) and is_state(channel, body):
            found.value(channel, json_size(value))


@dataclass(slots=True)
class StoreMetrics:
    """The numbers of one store; None for what was not read or is not stored."""

    url: str
    """The store without a password."""
    layout: str
    bytes: int | None
    """What the store uses on disk, as its engine reports it."""
    threads: int = 0
    checkpoints: int = 0
    newest_at: datetime | None = None
    """Time of the newest checkpoint."""
    statuses: Counter[model.Status] | None = None
    """Threads by status."""
    pending: Counter[WhyCode] | None = None
    """Pending threads by why they do not go on, as far as rows tell."""
    questions: int | None = None
    """Questions that wait for an answer."""
    oldest_question_at: datetime | None = None
    failed: int | None = None
    """Failed tasks that wait for a retry."""
    asking: Counter[str] | None = None
    """Open questions by user; None if that was not asked for."""
    failing: Counter[str] | None = None
    """Failed tasks by user."""
    seconds: float = 0.0
    """How long the measuring took."""


def measure(
    store: Store,
    threads: Iterable[model.Thread],
    now: datetime,
    *,
    since: datetime | None = None,
    heads: bool = True,
    by_user: bool = False,
) -> StoreMetrics:
    """Return the numbers of a store with these threads; some hundred are in memory at a time.

    The head of every thread is read for its status, unless `heads` is false. Questions and failed
    tasks are read only of threads that have one at their head. `since` leaves out tasks that
    failed earlier. With `by_user`, questions and failed tasks are also counted by user.
    """
    started = monotonic()
    info = store.describe()
    found = StoreMetrics(info.url, info.layout, info.size)
    has_tasks = limit("errors", info.capabilities) is None
    if heads:
        found.statuses, found.pending = Counter(), Counter()
    if has_tasks:
        found.questions = found.failed = 0
        found.asking, found.failing = (Counter(), Counter()) if by_user else (None, None)
    inference = TriggerInference(store)
    for some in model.in_chunks(threads):
        _add_index(found, some)
        if heads:
            _add_heads(found, store, some, inference, now)
        if has_tasks:
            _add_tasks(found, store, some, since)
    found.seconds = monotonic() - started
    return found


def _add_heads(
    found: StoreMetrics,
    store: Store,
    threads: list[model.Thread],
    inference: TriggerInference,
    now: datetime,
) -> None:
    heads = heads_of(store, threads, inference)
    for one in threads:
        head = heads.get(one.thread_id)
        status = status_of_head(one, head)
        if found.statuses is not None:
            found.statuses[status] += 1
        if found.pending is not None and head is not None and status is model.Status.PENDING:
            why = why_of(ThreadReader(store, one, inference), head, now)
            if why is not None:
                found.pending[why.code] += 1


def _add_index(found: StoreMetrics, threads: list[model.Thread]) -> None:
    found.threads += len(threads)
    found.checkpoints += sum(one.checkpoints for one in threads)
    times = [one.last_at for one in threads if one.last_at is not None]
    found.newest_at = max([*times, *filter(None, [found.newest_at])], default=None)


def _add_tasks(
    found: StoreMetrics, store: Store, threads: list[model.Thread], since: datetime | None
) -> None:
    asked = list(open_questions(store, threads))
    times = [one.since for one in asked if one.since is not None]
    found.questions = (found.questions or 0) + len(asked)
    found.oldest_question_at = min(
        [*times, *filter(None, [found.oldest_question_at])], default=None
    )
    failed = list(failures_of_threads(store, threads, since=since))
    found.failed = (found.failed or 0) + len(failed)
    if found.asking is not None and found.failing is not None:
        found.asking.update(one.user or NOBODY for one in asked)
        found.failing.update(one.user or NOBODY for one in failed)
