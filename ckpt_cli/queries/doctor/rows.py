"""The checks of `ckpt doctor` that read keys, heads and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from ckpt_backends import model
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import (
    Counterparts,
    as_message,
    call_ids,
    is_conversation,
    last_calling,
    last_turn,
    result_ids,
)
from ckpt_cli.core.doctor import checks
from ckpt_cli.core.doctor.findings import Checked, Finding
from ckpt_cli.core.doctor.types import TypeUse
from ckpt_cli.core.lineage import is_in_call, is_stateful
from ckpt_cli.core.replay import Replayed
from ckpt_cli.core.state import (
    SENDS,
    Version,
    caller_of,
    delta_channels,
    named_blobs,
    version_number,
)
from ckpt_cli.core.state import without_snapshot as without_snapshot_of_channels
from ckpt_cli.core.values import fields_of
from ckpt_cli.reading.states import State, read_state
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import Moment, ThreadReader


class SeenCheckpoint(NamedTuple):
    """A checkpoint, decoded, with the values of its channels and writes."""

    moment: Moment
    parent: Moment | None
    """None if it has none, or one that is not stored or is stored as a younger one."""
    introduced: frozenset[str]
    """Channels with another version than at the parent; all channels without a parent."""
    is_young: bool
    """Whether an agent may still be storing what belongs to it."""
    is_head: bool
    """Whether an agent may be storing writes of it now, however old it is."""

    @property
    def is_apart(self) -> bool:
        """Whether its values are stored apart from its body."""
        return self.moment.checkpoint.blobs is not None

    @property
    def stored_here(self) -> model.Checkpoint:
        """The checkpoint without values that were stored with an earlier one."""
        blobs = self.moment.checkpoint.blobs
        if blobs is None:
            return self.moment.checkpoint
        new = {name: blob for name, blob in blobs.items() if name in self.introduced}
        return self.moment.checkpoint._replace(blobs=new)

    def version(self, channel: str) -> Version | None:
        """Return the version of a channel."""
        return self.moment.body.versions.get(channel)

    def finding(
        self, code: str, detail: str, channel: str | None = None, task_id: str | None = None
    ) -> Finding:
        """Return a finding at this checkpoint."""
        return Finding.at(self.moment.key, code, detail, channel, task_id)

    def value_finding(self, code: str, detail: str, channel: str) -> Finding:
        """Return a finding about the value of a channel that is stored apart."""
        version = self.version(channel)
        return Finding.at(self.moment.key, code, detail, channel, version=version)


def seen_checkpoint(
    moment: Moment, parent: Moment | None, before: datetime, *, is_head: bool
) -> SeenCheckpoint:
    """Compare the channel versions of a checkpoint with those of its parent.

    What was stored after `before` is young.
    """
    at = moment.at
    is_young = at is not None and at >= before
    versions = moment.body.versions
    if parent is None:
        return SeenCheckpoint(moment, None, frozenset(versions), is_young, is_head)
    changed = versions.items() - parent.body.versions.items()
    introduced = frozenset(name for name, _ in changed)
    return SeenCheckpoint(moment, parent, introduced, is_young, is_head)


_BACKGROUND = timedelta(seconds=2)
"""How long the rows of a step may follow its checkpoint."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be checked. Can be sent to another process."""

    now: datetime
    before: datetime
    """What is younger is not reported if an agent may still be writing it."""
    deep: bool = False
    """Whether every value of every checkpoint is decoded, and every step replayed."""
    reducers: Mapping[str, str] = field(default_factory=dict)
    """The reducers that the user named, by channel."""
    ignored: frozenset[str] = frozenset()
    """Codes that are not reported."""
    strict_types: bool = False
    """Whether to report classes that LANGGRAPH_STRICT_MSGPACK blocks."""
    evicted: str = ""
    """Why the engine itself may have removed rows of a thread, in words; `''` if it did not."""
    types: bool = False
    """Whether to gather all classes that values name, which reads every value."""
    together: bool = False
    """Whether threads that contradict themselves are judged last, by all threads."""

    @property
    def grace(self) -> str:
        """The age up to which rows are left alone, as options take it."""
        seconds = max(0, int((self.now - self.before).total_seconds()))
        units = (("d", 86_400), ("h", 3_600), ("m", 60))
        fitting = (one for one in units if seconds and seconds % one[1] == 0)
        unit, length = next(fitting, ("s", 1))
        return f"{seconds // length}{unit}"

    @property
    def settled(self) -> datetime:
        """When a step must have been stored whose rows should all be there by now.

        A saver stores writes in the background, some even after the checkpoint that they led to.
        """
        return max(self.before, self.now - _BACKGROUND)


@dataclass(frozen=True, slots=True)
class ThreadToCheck:
    """A thread, and what is known about it before it is read."""

    thread_id: str
    thread: model.Thread | None
    """None if only its id is known; it may have no checkpoint."""
    is_suspect: bool
    """Whether its keys may contradict each other."""


@dataclass(slots=True)
class ThreadReport:
    """What was found in one thread."""

    thread_id: str
    findings: list[Finding] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)
    unchecked: str = ""
    """Why it could not be checked completely; `''` if it was."""
    replayed: Replayed | None = None
    """By what other threads are judged, and what is to be judged last; None if not replayed."""
    types: list[TypeUse] = field(default_factory=list)
    """The classes that its values name, if they were to be gathered."""


_Missing = dict[str, dict[str, checks.WritesOfOne]]
"""By namespace and id, the writes of checkpoints that are not stored."""


def key_findings(
    store: Store, thread_id: str, layout: model.Capability, terms: Terms, checked: Checked
) -> Iterator[Finding]:
    """Yield what is wrong with the keys of a thread, which may have writes only.

    `layout` is what the store describes. Counts the checkpoints and writes that it looks at.
    """
    spaces = {
        ns: list(group)
        for ns, group in groupby(store.checkpoints(thread_id), lambda one: one.key.checkpoint_ns)
    }
    if not terms.deep:  # the deep check counts them
        checked.checkpoints += sum(map(len, spaces.values()))
    yield from _ahead(spaces, terms)
    if model.Capability.HISTORY not in layout:
        # A shallow layout stores writes of more checkpoints than it keeps, and parents never.
        return
    missing, writes = _missing(store, thread_id, spaces)
    if not terms.deep:
        checked.writes += writes
    ids = {one.key.checkpoint_id for checkpoints in spaces.values() for one in checkpoints}
    for ns, checkpoints in spaces.items():
        yield from checks.lineage_findings(checkpoints, missing.get(ns, {}), ids)
    if missing and not _expires(store, thread_id, spaces):
        for ns, lost in missing.items():
            head = next(iter(spaces.get(ns, ())), None)
            for checkpoint_id, of_one in lost.items():
                if checks.is_orphaned(checkpoint_id, of_one, head, terms.before):
                    yield checks.orphan_finding(
                        model.CheckpointKey(thread_id, ns, checkpoint_id), of_one
                    )


def _ahead(spaces: dict[str, list[model.Checkpoint]], terms: Terms) -> Iterator[Finding]:
    # A long check meets checkpoints that were stored after it began.
    now = max(terms.now, datetime.now(UTC))
    for checkpoints in spaces.values():
        found = checks.ahead_finding(checkpoints[0], now, terms.now - terms.before)
        if found is not None:
            yield found


def _missing(
    store: Store, thread_id: str, spaces: dict[str, list[model.Checkpoint]]
) -> tuple[_Missing, int]:
    """Return the writes of checkpoints that are not stored, and the number of all writes."""
    stored = {
        (ns, one.key.checkpoint_id) for ns, checkpoints in spaces.items() for one in checkpoints
    }
    found: _Missing = {}
    number = 0
    for write in store.writes(thread_id):
        number += 1
        ns, checkpoint_id = write.key.checkpoint_ns, write.key.checkpoint_id
        if (ns, checkpoint_id) not in stored:
            lost = found.setdefault(ns, {}).setdefault(checkpoint_id, checks.WritesOfOne())
            lost.add(write.task_id, write.at)
    return found, number


def _expires(store: Store, thread_id: str, spaces: dict[str, list[model.Checkpoint]]) -> bool:
    """Return whether the thread has a time to live: its writes may outlive their checkpoints."""
    if not store.keys_expire:
        return False
    for ns, checkpoints in spaces.items():
        head = checkpoints[0].key.checkpoint_id
        for one in store.expiries(thread_id, ns, [head]):
            if one.at is not None or one.writes_at is not None:
                return True
    return False


class Orphans:
    """Looks at each checkpoint of a thread, and finds at the end what none of them refers to.

    What an agent may have written since `before` is not reported.
    """

    def __init__(self, reader: ThreadReader, before: datetime) -> None:
        self._reader = reader
        self._before = before
        self._named: set[model.BlobKey] = set()
        self._newest: dict[str, int] = {}
        """By namespace, the greatest number of a version that a checkpoint names."""
        self._replaced: set[str] = set()
        """Namespaces in which LangGraph 0.2 replaced a checkpoint, but not its values."""
        self._calls: Counter[tuple[str, str]] = Counter()
        """The number of checkpoints by namespace of a call and root checkpoint."""
        self._memories: dict[str, tuple[str, str]] = {}
        """By namespace of a stateful subgraph: its head, and the root checkpoint that called it."""
        self._copied: dict[str, Value] = {}
        """By root checkpoint that `ckpt` made: the one of which it is a copy."""
        self._own_ids: set[str | None] = set()
        """The ids that the bodies of root checkpoints say, which may differ from the stored."""

    def at(self, seen: SeenCheckpoint) -> None:
        """Note what a checkpoint refers to."""
        checkpoint, body = seen.moment.checkpoint, seen.moment.body
        ns = checkpoint.key.checkpoint_ns
        named = named_blobs(checkpoint, body)
        if named:
            self._named |= named
            newest = max(map(version_number, body.versions.values()))
            self._newest[ns] = max(newest, self._newest.get(ns, 0))
        if checkpoint.parent_checkpoint_id == checkpoint.key.checkpoint_id:
            self._replaced.add(ns)
        if not ns:
            self._own_ids.add(body.own_id)
            self._copied[checkpoint.key.checkpoint_id] = seen.moment.metadata.get("forked_from")
        root = caller_of(checkpoint) if ns else None
        if is_in_call(ns) and root is not None:
            self._calls[ns, root] += 1
        elif seen.is_head and root is not None:
            self._memories[ns] = checkpoint.key.checkpoint_id, root

    def calls(self) -> Iterator[Finding]:
        """Yield subgraph calls whose root checkpoint was deleted, although older ones are stored.

        Where none is older, the history was pruned.
        """
        roots = {one.key.checkpoint_id for one in self._reader.index("")}
        head = self._reader.head("")
        for (ns, root), number in sorted(self._calls.items()):
            if (
                root in roots
                or root in self._own_ids
                or not _is_hole(root, min(roots, default=""), head, self._before)
            ):
                continue
            many = "1 checkpoint was" if number == 1 else f"{number} checkpoints were"
            yield Finding(
                code="namespace-orphaned",
                detail=f"{many} made at root checkpoint {root}, which is not stored",
                thread_id=self._reader.thread_id,
                checkpoint_ns=ns,
            )

    def memories(self) -> Iterator[Finding]:
        """Yield stateful subgraphs that another branch than that of the head called last.

        A subgraph with `checkpointer=True` has one namespace for all calls, which names no task,
        and goes on from its newest checkpoint (`recast_checkpoint_ns` in `langgraph/_internal`).
        """
        head = self._reader.head("")
        if not self._memories or head is None or not self._is_idle():
            return
        stored = {one.key.checkpoint_id for one in self._reader.index("")}
        line = set(self._reader.ancestry("", head))
        known = {*line, *(self._copied.get(one) for one in line)}
        for ns, (own, root) in sorted(self._memories.items()):
            if root in stored and root not in known:
                key = model.CheckpointKey(self._reader.thread_id, ns, own)
                text = f"root checkpoint {root} called it last, which is no ancestor of the head"
                yield Finding.at(key, "memory-of-abandoned-branch", f"{text} {head}")

    def _is_idle(self) -> bool:
        last_at = self._reader.thread.last_at
        return last_at is None or last_at < self._before

    def values(self) -> Iterator[Finding]:
        """Yield the values that no checkpoint names. All bodies must have been read."""
        is_idle = self._is_idle()
        for key, size in self._reader.store.blobs(self._reader.thread_id):
            number = version_number(key.version)
            is_old = 0 < number <= self._newest.get(key.checkpoint_ns, 0)
            if key in self._named or key.checkpoint_ns in self._replaced:
                continue
            if is_old or is_idle:
                yield Finding(
                    code="value-orphaned",
                    detail=f"no checkpoint names version {key.version}, {size} bytes",
                    thread_id=self._reader.thread_id,
                    checkpoint_ns=key.checkpoint_ns,
                    channel=key.channel,
                    version=key.version,
                )


def _is_hole(root: str, oldest: str, head: str | None, before: datetime) -> bool:
    """Return whether a missing root checkpoint was stored after one that is still there.

    Savers commit root checkpoints in order: one that is older than the head will not follow.
    """
    if head is None:
        at = model.time_of(root)
        return at is not None and at < before
    return oldest < root < head


class MissingParents:
    """Looks at each checkpoint of a thread, namespace by namespace, oldest first."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._ns: str | None = None
        self._chains = checks.DeltaChains()
        self._ids: Collection[str] = ()
        self._older: set[tuple[str, Version]] = set()
        """What the older checkpoints of the namespace wrote."""
        # The saver of a layout that is only read may have lost checkpoints itself.
        self._proves = model.Capability.ADDING in reader.capabilities

    def at(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield what a checkpoint lacks because its parent, or an ancestor, is missing."""
        yield from self._missing(seen)
        self._older.update(checks.new_versions(seen.moment.body))

    def _missing(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        if not self._reader.has_history or seen.is_young:
            return
        checkpoint, body = seen.moment.checkpoint, seen.moment.body
        ns = checkpoint.key.checkpoint_ns
        if ns != self._ns:
            self._ns, self._chains, self._older = ns, checks.DeltaChains(), set()
            self._ids = {one.key.checkpoint_id for one in self._reader.index(ns)}
        parent_id = checkpoint.parent_checkpoint_id
        is_cut = parent_id is not None and parent_id not in self._ids
        unset = body.versions.keys() - body.values.keys()
        if parent_id is None or is_cut:
            unset &= self._reader.delta_channels(ns)
        if is_cut:
            # Without a step since the snapshot, or since the channel was empty, nothing is lost.
            metadata = seen.moment.metadata
            unset = {one for one in unset if checks.supersteps(metadata, one) != 0}
        own = checkpoint.key.checkpoint_id
        unwritten: Collection[str] = ()
        if seen.parent is not None:
            written = {one.channel for one in seen.parent.writes}
            unwritten = checks.without_writes(seen.moment.metadata, seen.parent.metadata, written)
        lost = self._chains.lost_at(
            own, parent_id, unset, is_cut=is_cut or parent_id is None, unwritten=unwritten
        )
        for channel in sorted(lost):
            if channel in unwritten:
                text = f"its step wrote to '{channel}', and none of these writes is stored"
            elif is_cut and parent_id is not None:
                text = checks.without_snapshot(channel, parent_id)
            else:
                text = checks.without_past(channel, own, own)
            yield seen.finding("delta-unanchored", text, channel)
        if is_cut and self._proves and self._has_older_ancestor(seen):
            text = f"its parent {parent_id} is not stored, although an older ancestor is"
            yield seen.finding("parent-missing", text)

    def _has_older_ancestor(self, seen: SeenCheckpoint) -> bool:
        """Return whether an ancestor is stored: a prune removes the oldest checkpoints first.

        A stateful subgraph keeps one checkpoint for each root checkpoint that is kept.
        """
        ns = seen.moment.key.checkpoint_ns
        if is_stateful(ns):
            return False
        return not self._older.isdisjoint(checks.known_versions(seen.moment.body))


def conversation_findings(reader: ThreadReader, head: Moment, terms: Terms) -> Iterator[Finding]:
    """Yield what is wrong with the messages at a head that was read with its state.

    A run in flight is left alone: its next step may add the results.
    """
    is_young = head.at is not None and head.at > terms.before
    if is_young and head.status in {model.Status.PENDING, model.Status.UNKNOWN}:
        return
    state = _state_with_messages(reader, head)
    found = _lists(state)
    names = not is_redacted(reader.store)
    yield from library_findings(head.key, state)
    for channel, items in conversations(found).items():
        others = counterparts(head, found, channel)
        yield from checks.message_findings(head.key, channel, items, others, names=names)
        yield from checks.repeated_calls(head.key, channel, items, names=names)


def library_findings(key: model.CheckpointKey, state: State) -> Iterator[Finding]:
    """Yield the channels of a head of which releases of LangGraph read different messages."""
    for channel, one in state.by_library.items():
        number = f"{one.items} message{'' if one.items == 1 else 's'}"
        text = f"'{channel}' has {number} as LangGraph {one.release} reads it, and"
        text = f"{text} {one.other_items} as {one.other} does"
        yield Finding.at(key, "state-by-library", text, channel)


def message_lists(reader: ThreadReader, moment: Moment) -> dict[str, list[Value]]:
    """Return the channels that hold a list with messages, at a checkpoint read with its state.

    A rebuilt value is left out unless it consists of messages only: then its reducer is likely
    to be that of messages.
    """
    return _lists(_state_with_messages(reader, moment))


def _state_with_messages(reader: ThreadReader, moment: Moment) -> State:
    """Return the state, with the stored lists of messages and the DeltaChannels rebuilt."""
    stored = moment.body.values
    # The metadata names the DeltaChannels without a stored value. To look for others, all
    # checkpoints of the thread would be read.
    names = {
        name for name, value in stored.items() if _has_messages(without_snapshot_of_channels(value))
    }
    return read_state(reader, moment, names | delta_channels(moment.metadata))


def _lists(state: State) -> dict[str, list[Value]]:
    return {
        name: value
        for name, value in state.values.items()
        if isinstance(value, list)
        and _has_messages(value)
        and (name not in state.rebuilt or all(as_message(one) is not None for one in value))
    }


def conversations(lists: Mapping[str, list[Value]]) -> dict[str, list[Value]]:
    """Return those of these lists that are conversations."""
    return {name: items for name, items in lists.items() if is_conversation(items)}


def counterparts(
    moment: Moment, found: Mapping[str, Sequence[Value]], channel: str
) -> Counterparts:
    """Return where the calls and results of a channel may have their counterparts.

    These are other lists of messages at the same checkpoint, and pending Sends: agents start one
    task for each call.
    """
    answered, called = set[str](), set[str]()
    for name, items in found.items():
        if name != channel:
            answered |= result_ids(items)
            called |= call_ids(items)
    open_from = _open_from(moment, found[channel], channel)
    is_final = moment.step.next == () and model.Status.INTERRUPTED not in moment.conditions
    return Counterparts(open_from, _sent_calls(moment), answered, called, is_final)


def _open_from(moment: Moment, items: Sequence[Value], channel: str) -> int:
    """Return the index of the first message with calls that a task may still answer.

    If a node runs next, it may answer the calls since the last message of a person. If a question
    waits, it may concern the last calls, whatever follows them.
    """
    if moment.step.next == ():
        return len(items)
    if model.Status.INTERRUPTED in moment.conditions:
        return min(last_turn(items), last_calling(items))
    if any(one.task_id == model.NULL_TASK_ID and one.channel == channel for one in moment.writes):
        # What runs next was decided before the caller added messages.
        stored = without_snapshot_of_channels(moment.body.values.get(channel))
        return last_turn(stored) if isinstance(stored, list) else 0
    return last_turn(items)


def _sent_calls(moment: Moment) -> set[str]:
    """Return the ids of the tool calls that pending Sends have as their argument.

    `create_agent` sends a list with the call, `create_react_agent` a dict with the call and the
    state.
    """
    packets = moment.body.values.get(SENDS) or moment.body.pending_sends
    found: set[str] = set()
    for packet in packets if isinstance(packets, list) else ():
        payload = packet.payload if isinstance(packet, Tagged) else packet
        parts = payload[1:] if isinstance(payload, list) else list(fields_of(packet).values())
        parts += [item for part in parts if isinstance(part, list) for item in part]
        parts += [part.get("tool_call") for part in parts if isinstance(part, dict)]
        for part in parts:
            call_id = part.get("id") if isinstance(part, dict) and "args" in part else None
            found |= {call_id} if isinstance(call_id, str) else set()
    return found


def _has_messages(value: Value) -> bool:
    return isinstance(value, list) and any(as_message(one) is not None for one in value)
