"""The body of a checkpoint: its channels, versions and values, and the nodes that they trigger."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import chain
from math import isfinite
from operator import methodcaller
from typing import Any, NamedTuple

from ckpt_backends.codec import DELTA_SNAPSHOT, UNDEFINED, decode, decode_channel, decode_checkpoint
from ckpt_backends.codec.values import REDIS_JSON, Cut, Opaque, Tagged, Value, items_of
from ckpt_backends.model import NULL_TASK_ID, Blob, BlobKey, Checkpoint, TypedBytes, Write
from ckpt_cli.core.values import fields_of

ERROR = "__error__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"
SENDS = "__pregel_tasks"
START, END = "__start__", "__end__"
"""The input of a run, and what a functional `@entrypoint` returned."""
NOT_NODES = frozenset({"__input__", "__interrupt__", "__snapshot_bumps__"})
"""Keys of `versions_seen` that are not nodes."""

Version = str | int | float
"""A channel version: zero-padded text from Python savers, a number from LangGraph.js."""
_VERSION_TYPES = (str, int, float)
"""The same, for `isinstance`, which is slower with a union."""
_TEXT, _NUMBERS, _MAPS = frozenset({str}), frozenset(_VERSION_TYPES), frozenset({dict})
_values_of = methodcaller("values")


class Body(NamedTuple):
    """The content of a checkpoint body. What is missing or has a wrong type is left empty."""

    v: int
    """Format of the body: 1 to 4; 0 if it is not known."""
    ts: str | None
    values: Mapping[str, Value]
    """Stored channel values, including control channels; delta snapshots are still wrapped.

    A value that is stored apart and was not read is a `Cut` of None. A channel that holds
    JavaScript's `undefined` is left out.
    """
    versions: Mapping[str, Version]
    seen: Mapping[str, Mapping[str, Version]]
    """The channel versions that each node has seen."""
    pending_sends: Value
    """Inline Sends of bodies with `v` < 4; None if they are stored among the parent's writes."""
    problem: Opaque | None = None
    """Set if the body could not be read at all."""
    updated: frozenset[str] = frozenset()
    """The channels that the last step wrote to; empty if the library stored none."""
    own_id: str | None = None
    """The checkpoint's id as the body says it; the first releases for Redis have it only there."""
    lacks: tuple[str, ...] = ()
    """The keys that it lacks, or has with a value of a wrong type, and that savers cannot do
    without."""

    @property
    def is_javascript(self) -> bool:
        """Whether LangGraph.js wrote it: `Date.toISOString` ends in Z, Python's time in an offset.

        Its bodies with `v` 1 differ from those with `v` 4 in where Sends are stored, and before
        0.2.74 in the names of edges.
        """
        return self.ts is not None and self.ts.endswith("Z")

    @property
    def names_edges(self) -> bool:
        """Whether only edges have channels besides the state; in older bodies nodes have too.

        LangGraph.js 0.2.49 names edges `__start__:NODE` and `branch:SOURCE:CONDITION:NODE`, and
        0.2.74 `branch:to:NODE`.
        """
        if self.v not in {1, 2, 3}:
            return True
        return self.is_javascript and not any(map(_OLD_EDGE.match, self.versions))


_OLD_EDGE = re.compile("__start__:.|branch:(?!to:)")


def read_body(
    checkpoint: Checkpoint, decode_body: Callable[[TypedBytes], Value] = decode_checkpoint
) -> Body:
    """Return the body of a checkpoint that was loaded with `body=True`.

    `BodySkimmer.decode` decodes it without large values: each then is a `Cut` of None.
    """
    raw = decode_body(checkpoint.body) if checkpoint.body is not None else None
    problem = raw if isinstance(raw, Opaque) else None
    fields = raw if isinstance(raw, dict) else {}
    is_known = problem is None and checkpoint.body is not None and not isinstance(raw, Cut)
    v, ts = fields.get("v"), fields.get("ts")
    values, sends = _text_keys(fields.get("channel_values")), fields.get("pending_sends")
    if checkpoint.blobs is not None:
        values = values | {name: _blob_value(name, blob) for name, blob in checkpoint.blobs.items()}
        sends = _inline_sends(sends)
    elif checkpoint.body is not None and checkpoint.body.type == REDIS_JSON:
        # Always an empty list in this layout: the Sends are stored among the parent's writes.
        sends = sends or None
    if Tagged in map(type, values.values()):
        values = {
            channel: value
            for channel, value in values.items()
            # Comparing only what may be equal: this runs for each channel of each checkpoint.
            if type(value) is not Tagged or value != UNDEFINED
        }
    return Body(
        v if isinstance(v, int) else 0,
        ts if isinstance(ts, str) else None,
        values,
        _versions(fields.get("channel_versions")),
        _seen(fields.get("versions_seen")),
        sends,
        problem,
        _names(fields.get("updated_channels")),
        own if isinstance(own := fields.get("id"), str) else None,
        _lacking(fields, is_apart=checkpoint.blobs is not None) if is_known else (),
    )


def named_blobs(one: Checkpoint, body: Body | None = None) -> set[BlobKey]:
    """Return the values that a checkpoint refers to, if values are stored apart.

    `body` is its body, if that is read. A value that it refers to may not be stored: a channel may
    have none, or a small one is in the body.
    """
    if one.blobs is None:
        return set()
    versions = (read_body(one) if body is None else body).versions
    ns = one.key.checkpoint_ns
    return {BlobKey(ns, channel, str(version)) for channel, version in versions.items()}


def _lacking(fields: Mapping[Value, Value], *, is_apart: bool) -> tuple[str, ...]:
    """Return the keys without which LangGraph cannot load a checkpoint, or not go on from it.

    `_migrate_checkpoint`, `channels_from_checkpoint`, `prepare_next_tasks`, `apply_writes` and
    `_prepare_state_snapshot` in `langgraph/pregel` read them without a default. With `is_apart`, a
    saver adds the values from other rows.
    """
    values, versions = fields.get("channel_values"), fields.get("channel_versions")
    seen = fields.get("versions_seen")
    is_right = {
        "v": type(fields.get("v")) in {int, float},
        "id": isinstance(fields.get("id"), str),
        "ts": "ts" in fields,
        "channel_values": is_apart or isinstance(values, dict),
        "channel_versions": isinstance(versions, dict)
        and all(isinstance(one, _VERSION_TYPES) for one in versions.values()),
        "versions_seen": isinstance(seen, dict)
        and all(isinstance(one, dict) for one in seen.values()),
    }
    return tuple(name for name, right in is_right.items() if not right)


def read_metadata(checkpoint: Checkpoint) -> dict[str, Value]:
    """Return the metadata of a checkpoint loaded with `metadata=True`; `{}` if unreadable."""
    if checkpoint.metadata is None:
        return {}
    return _text_keys(decode(checkpoint.metadata))


def caller_of(one: Checkpoint, ns: str = "") -> str | None:
    """Return the checkpoint of a namespace, by default of the root, with the step that called a
    subgraph; None if it is not stored.
    """
    parents = read_metadata(one).get("parents")
    found = parents.get(ns) if isinstance(parents, dict) else None
    return found if isinstance(found, str) else None


def step_from(metadata: Mapping[str, Value]) -> int | None:
    """Return `metadata.step` if it is a number, otherwise None."""
    step = metadata.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def source_from(metadata: Mapping[str, Value]) -> str | None:
    """Return `metadata.source`: input, loop, update or fork."""
    source = metadata.get("source")
    return source if isinstance(source, str) else None


def _blob_value(channel: str, blob: Blob) -> Value:
    if blob.value is None:
        return Cut(None, blob.size, "not read")
    return decode_channel(blob.value, channel)


def _inline_sends(sends: Value) -> Value:
    """Return the inline Sends in layouts that store values apart.

    PostgreSQL savers up to 1.0.4 store them as `[type, base64]`; later ones store an empty list,
    and the Sends are among the parent's writes.
    """
    match sends:
        case [str(tag), str(text)]:
            try:
                return decode(TypedBytes(tag, a2b_base64(text)))
            except ValueError:
                return sends
    return sends or None


def _names(value: Value) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    return frozenset(name for name in value if isinstance(name, str))


def _text_keys(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        return {}
    if _TEXT.issuperset(map(type, value)):
        return value  # type: ignore[return-value]
    return {key: item for key, item in value.items() if isinstance(key, str)}


def _seen(value: Value) -> Mapping[str, Mapping[str, Version]]:
    maps: dict[str, Any] = _text_keys(value)
    # Almost all are right, and this runs for each node of each checkpoint.
    if _MAPS.issuperset(map(type, maps.values())):
        keys, versions = chain(*maps.values()), chain(*map(_values_of, maps.values()))
        if _TEXT.issuperset(map(type, keys)) and _NUMBERS.issuperset(map(type, versions)):
            return maps
    return {node: _versions(seen) for node, seen in maps.items()}


def _versions(value: Value) -> dict[str, Version]:
    if not isinstance(value, dict):
        return {}
    if _TEXT.issuperset(map(type, value)) and _NUMBERS.issuperset(map(type, value.values())):
        return value  # type: ignore[return-value]
    return {
        key: item
        for key, item in value.items()
        if isinstance(key, str) and isinstance(item, _VERSION_TYPES) and not isinstance(item, bool)
    }


BY = "forked_by"
"""Metadata key that marks a checkpoint that `ckpt` added."""
FROM = "forked_from"
"""Metadata key: the id of the copied checkpoint."""
WITH = "forked_with"
"""Metadata key in a subgraph's namespace: the root checkpoint that was added with this one."""
WRITES = "forked_writes"
"""Metadata key: the number of writes that were added with it."""
THREAD = "forked_from_thread"
"""Metadata key: the thread that this thread was copied from."""
CHECKPOINTS = "forked_checkpoints"
"""Metadata key: the number of checkpoints that were copied with it."""
REASON = "reason"
NAME = "ckpt"
MARKS = frozenset({BY, FROM, WITH, WRITES, THREAD, CHECKPOINTS})


ROOT = "__root__"
"""The only channel of a graph whose state is a single value."""
NOT_STORED = "not stored: "
"""Start of the reason text if a layout does not store a value."""
LOST_DELTA = Opaque(
    "DeltaChannel",
    0,
    "",
    f"{NOT_STORED}it is rebuilt from earlier checkpoints, and the shallow saver keeps none",
)
"""Shown for a DeltaChannel between two snapshots, if the store keeps only the newest checkpoint."""
PREVIOUS = "__previous__"
"""Channel with the value that a functional `@entrypoint` saved for its next run."""
MEANINGS = {END: "returned by the @entrypoint", PREVIOUS: "saved for the next run"}
"""Explanations of channels that LangGraph names, as shown to the user."""

_EDGES = ("branch:", "join:", "start:")


def given_input(body: Body, metadata: Mapping[str, Value]) -> Value:
    """Return the input with which a run began at a checkpoint, if it is stored there, else None.

    It waits in `__start__` until the next step takes it in. LangGraph before 0.5 also has it in
    the metadata, as what was written (`_put_checkpoint` in `langgraph/pregel/_loop.py`).
    """
    if START in body.values:
        return body.values[START]
    wrote = metadata.get("writes") if metadata.get("source") == "input" else None
    return wrote.get(START, wrote) if isinstance(wrote, dict) else None


def is_state(channel: str, body: Body) -> bool:
    """Return whether a channel holds state of the agent, rather than tasks to run next.

    Bodies with `v` < 4 also have one channel for each node, which holds the node's name.
    """
    if channel.startswith("__"):
        return channel in {ROOT, END, PREVIOUS}
    if channel.startswith(_EDGES):
        return False
    if body.names_edges:
        return True
    return channel not in body.seen and body.values.get(channel) != channel


def state_values(body: Body) -> dict[str, Value]:
    """Return the stored state, sorted by channel name, with delta snapshots unwrapped.

    The libraries that wrote formats 1 and 2 read a stored None as a channel without a value
    (`from_checkpoint` in `langgraph/channels`, until 0.3; LangGraph.js 0.2.49, but not 0.2.74).
    """
    return {
        channel: without_snapshot(body.values[channel])
        for channel in sorted(body.values)
        if is_state(channel, body)
        and (body.v not in {1, 2} or body.names_edges or body.values[channel] is not None)
    }


def is_delta(value: Value) -> bool:
    """Return whether a stored value is the snapshot of a DeltaChannel."""
    return isinstance(value, Tagged) and value.type == DELTA_SNAPSHOT


def without_snapshot(value: Value) -> Value:
    """Return the value of a delta snapshot, or any other value unchanged."""
    return value.payload if isinstance(value, Tagged) and is_delta(value) else value


def delta_channels(metadata: Mapping[str, Value]) -> set[str]:
    """Return the DeltaChannels that the metadata of one checkpoint names.

    The counter of a channel is removed right after its snapshot, so one checkpoint may not name all
    of them.
    """
    counters = metadata.get("counters_since_delta_snapshot")
    return (
        {name for name in counters if isinstance(name, str)}
        if isinstance(counters, dict)
        else set()
    )


_PARTS = 50
"""Number of parts of a join's name that are tried together; if there are more, each is a name."""
_JOINS = 100
"""Number of joins that are listed."""

Readers = Mapping[str, Collection[str]]
"""Maps a channel to the nodes that subscribe to it."""


class Join(NamedTuple):
    """A node that waits for several others, of which some have finished."""

    node: str
    waits_for: tuple[str, ...]
    has: tuple[str, ...]


class Ready(NamedTuple):
    """The nodes that are ready, and the channels with a value but without a known reader."""

    fired: dict[str, set[str]]
    """For each ready node, the channels that triggered it."""
    unread: list[str]
    """Only channels that a node may read."""


def learn(bodies: Iterable[Body]) -> dict[str, set[str]]:
    """Return the nodes that read each channel, as seen in checkpoint bodies.

    A channel that was emptied but has no known reader is included with no nodes.
    """
    readers: dict[str, set[str]] = {}
    for body in bodies:
        values = body.values
        pairs = [
            (channel, node)
            for node, seen in body.seen.items()
            if seen and node not in NOT_NODES
            for channel in seen
        ]
        for channel in body.versions:
            if (named := named_node(channel)) is not None:
                pairs.append((channel, named))
            elif channel not in values and channel not in readers:
                readers[channel] = set()
        for channel, node in pairs:
            if channel in readers:
                readers[channel].add(node)
            else:
                readers[channel] = {node}
    return readers


def find_ready(
    body: Body,
    own: Readers,
    learned_thread: Callable[[], Readers],
    delta_channels: Iterable[str],
    chosen: Collection[str] = (),
) -> Ready:
    """Return the nodes that are ready; `own` are the readers that the body itself names.

    `chosen` are channels that have a value though the body does not contain it.
    """
    ready = Ready({}, [])
    is_state_graph, newest = _is_state_graph(body), 0.0
    channels = [
        name for name, value in body.values.items() if not _waits(name) or is_available(name, value)
    ]
    channels += [name for name in chosen if name.startswith("branch:") and name not in channels]
    if not is_state_graph:
        # A DeltaChannel between snapshots is not stored, and it can trigger a node only in a graph
        # of bare Pregel nodes.
        stored = body.values.keys()
        channels += [c for c in delta_channels if c in body.versions and c not in stored]
        newest = max(map(_number, body.versions.values()), default=0.0)

    def may_be_read(channel: str) -> bool:
        if is_state_graph:
            return channel == START or (is_output(body, channel) and not has_ended(channel))
        return _number(body.versions[channel]) == newest

    def has_ended(channel: str) -> bool:
        # A node of a plain `Graph` that leads to its end writes to this channel, too.
        ended = body.versions.get(END) if END in body.values else None
        return ended is not None and _number(ended) == _number(body.versions[channel])

    for channel in channels:
        if channel == SENDS:
            continue
        nodes = own.get(channel, ())
        if not is_state_graph:
            nodes = {*nodes, *learned_thread().get(channel, ())}
        elif not nodes and channel == START and has_branches(body):
            nodes = {START}
        if not nodes and channel in body.versions and may_be_read(channel):
            ready.unread.append(channel)
        for node in nodes:
            if node not in NOT_NODES and is_new(body, channel, node):
                ready.fired.setdefault(node, set()).add(channel)
    return ready


def is_output(body: Body, channel: str) -> bool:
    """Return whether a channel with a value is that of a node, which the nodes after it read.

    Until LangGraph 0.3.15 a node of a StateGraph writes its name to a channel with the same name,
    one of a plain `Graph` what it returns.
    """
    is_known = channel in body.seen and channel not in NOT_NODES and channel != START
    return not body.names_edges and (is_known or body.values.get(channel) == channel)


@lru_cache(1024)
def named_node(channel: str) -> str | None:
    """Return the node that a channel triggers according to its name; None if it names none."""
    kind, _, rest = channel.partition(":")
    if kind in ("start", "__start__"):  # the latter before LangGraph.js 0.2.74
        return rest or None
    if kind == "branch" and rest.startswith("to:"):
        return rest.removeprefix("to:") or None
    if kind in ("branch", "join") and ":" in rest and not channel.endswith("::then"):
        return rest.rpartition(":")[2] or None
    return None


@lru_cache(1024)
def _waits(channel: str) -> bool:
    """Return whether it depends on its value if a channel is available."""
    return channel.startswith(("branch:", "join:")) or channel.endswith("::then")


def is_available(channel: str, value: Value) -> bool:
    """Return whether a stored channel value can trigger a node."""
    items = items_of(value)
    if items is not None and len(items) == 2:
        if channel.startswith(("branch:", "join:")) and isinstance(items[1], bool):
            # The channel of a deferred node: `[value, finished]`.
            return items[1] and (is_joined(channel, items[0]) or not channel.startswith("join:"))
        if channel.endswith("::then"):
            expected, seen = map(_members, items)
            return bool(expected) and expected == seen
    if channel.startswith("join:") and named_node(channel) is not None:
        return is_joined(channel, value)
    return True


def half_filled(
    body: Body, others: Callable[[], Collection[str]], arriving: Mapping[str, Collection[str]]
) -> tuple[Join, ...]:
    """Return the joins of which some members have finished and others have not, by node.

    `arriving` are the nodes that finished since the checkpoint, by the channel of the join.

    The members are a part of the channel's name, `join:A+B:N`. A plus sign may also belong to a
    name; then what is known of the graph decides, and `others` is asked for names of other nodes.
    """
    known: set[str] | None = None
    found: list[Join] = []
    for channel in dict.fromkeys((*body.values, *arriving)):
        if not channel.startswith("join:") or (node := named_node(channel)) is None:
            continue
        come, value = arriving.get(channel, ()), body.values.get(channel)
        if come and is_available(channel, value):
            value = None  # It made its node run in this step, and is empty again.
        items = items_of(value)
        is_deferred = items is not None and len(items) == 2 and isinstance(items[1], bool)
        arrived = items[0] if items is not None and is_deferred else value
        has = _members(arrived).union(come)
        if not has or is_joined(channel, arrived, come) or len(found) >= _JOINS:
            continue
        if known is None:
            known = {*body.seen, *filter(None, map(named_node, body.versions))} - NOT_NODES
        awaited = channel.removeprefix("join:").rpartition(":")[0]
        names = _split(awaited, has, known)
        if not known.union(has).issuperset(names) and len(names) > len(has) + 1:
            names = _split(awaited, has, known.union(others()))
        waits_for = tuple(name for name in names if name not in has)
        found.append(Join(node, waits_for, tuple(name for name in names if name in has)))
    return tuple(sorted(found))


def _split(awaited: str, has: Collection[str], known: Collection[str]) -> list[str]:
    """Split names that are joined by plus signs: into those that arrived, then known ones."""
    parts = awaited.split("+")
    if len(parts) > _PARTS:
        return list(dict.fromkeys(parts))
    # For each number of parts: the best score so far, and its names.
    best: list[tuple[tuple[int, int, int], list[str]]] = [((0, 0, 0), [])]
    for end in range(1, len(parts) + 1):
        ways = []
        for begin in range(end):
            (arrived, familiar, count), names = best[begin]
            name = "+".join(parts[begin:end])
            if name in names:
                continue
            score = (arrived + (name in has), familiar + (name in known), count + 1)
            ways.append((score, [*names, name]))
        best.append(max(ways, default=((-1, -1, -1), parts[:end])))
    return best[-1][1]


def is_new(body: Body, channel: str, node: str) -> bool:
    """Return whether a channel with a value has a version that the node has not seen."""
    seen = body.seen.get(node)
    version = body.versions.get(channel)
    if version is None:
        return seen is None and body.v >= 4 and not body.is_javascript
    if seen is None or channel not in seen:
        return True
    return is_greater(version, seen[channel])


def has_branches(body: Body) -> bool:
    """Return whether it is a StateGraph's body in the current format, with nodes in channels."""
    if body.v < 3 and not body.is_javascript:
        return False
    return any(name.startswith("branch:to:") for name in body.versions)


def _is_state_graph(body: Body) -> bool:
    """Return whether state channels trigger nothing in this graph; this includes `@entrypoint`."""
    return any(name == START or named_node(name) is not None for name in body.versions)


def is_joined(channel: str, value: Value, arriving: Collection[str] = ()) -> bool:
    """Return whether all nodes that a join waits for have arrived, with those that are `arriving`.

    Names may contain a plus sign, so the total length is compared instead of the names.
    """
    items = items_of(value)
    if items is not None and len(items) == 2 and isinstance(items[1], bool):
        value = items[0]  # of a deferred node: `[arrived, finished]`
    members = _members(value) | set(arriving)
    awaited = channel.removeprefix("join:").rpartition(":")[0]
    return bool(members) and sum(map(len, members)) + len(members) - 1 == len(awaited)


def _members(value: Value) -> set[str]:
    items = value.payload if isinstance(value, Tagged) else value
    if isinstance(items, Cut | Opaque) or not isinstance(items, list):
        return set()
    if len(items) == 1 and isinstance(items[0], list):
        items = items[0]
    return {item for item in items if isinstance(item, str)}


def is_greater(version: Version, seen: Version) -> bool:
    """Return whether a version is newer than another one of the thread."""
    if isinstance(version, str) and isinstance(seen, str):
        return version > seen
    return _number(version) > _number(seen)


_MOST_DIGITS = 40
"""Savers write 32 digits."""


def version_number(version: Version) -> int:
    """Return the number that a version begins with; 0 if there is none."""
    if not isinstance(version, str):
        return int(version) if isfinite(version) else 0
    digits = version.partition(".")[0]
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else 0


def _number(version: Version) -> float:
    """Return the counter in a version, for threads that mix text and number versions."""
    try:
        return float(version.partition(".")[0]) if isinstance(version, str) else float(version)
    except (ValueError, OverflowError):
        return 0.0


def written_by_caller(body: Body, writes: Iterable[Write]) -> set[str]:
    """Return the channels that the caller wrote to, which LangGraph.js counts for what runs next.

    The Python libraries count them only in the checkpoint that contains what was written. Source:
    `_prepareStateSnapshot` in `@langchain/langgraph/dist/pregel/index.js`, 0.2.74 and 1.7.3.
    """
    if not body.is_javascript:
        return set()
    return {write.channel for write in writes if write.task_id == NULL_TASK_ID}


def sent_nodes(
    body: Body,
    parent_sends: Callable[[], Sequence[Write]],
    own_sends: Callable[[], Sequence[Write]] | None,
) -> list[str | None] | None:
    """Return the node of each pending Send, None for an unreadable one; None if all are unreadable.

    Bodies before format 4 hold Sends inline; if the layout does not store them there, they are
    among the parent's writes. `own_sends` is given if the Sends of the caller count too.
    """
    packets: Value = body.values.get(SENDS)
    if body.v < 4:
        packets = body.pending_sends
        if packets is None:
            packets = _packets(parent_sends())
    if own_sends is not None and (packets is None or isinstance(packets, list)):
        sent = _packets(write for write in own_sends() if write.task_id == NULL_TASK_ID)
        # From format 4 on they are a channel, and new Sends replace older ones.
        packets = sent if sent is None or body.v >= 4 else [*(packets or ()), *sent]
    if packets is None and body.v < 4:
        return None
    if isinstance(packets, Opaque | Cut):
        return None
    return [_sent_node(packet) for packet in packets] if isinstance(packets, list) else []


def sends_among(writes: Iterable[Write]) -> list[str | None] | None:
    """Return the node of each Send among some writes, None for an unreadable one; None if the
    values of the writes were not read.
    """
    packets = _packets(writes)
    return None if packets is None else list(map(_sent_node, packets))


def _packets(writes: Iterable[Write]) -> list[Value] | None:
    """Return the Sends among some writes, in order; None if one was not read."""
    sent = [write for write in writes if write.channel == SENDS]
    sent.sort(key=lambda write: (write.task_path, write.task_id, write.idx))
    values = [write.value for write in sent if write.value is not None]
    return list(map(decode, values)) if len(values) == len(sent) else None


def _sent_node(packet: Value) -> str | None:
    """Return the node of a Send: `Send(node, arg)` in Python, `{node, args}` in LangGraph.js."""
    payload = packet.payload if isinstance(packet, Tagged) else packet
    node = fields_of(packet).get("node")
    if isinstance(packet, Tagged) and isinstance(payload, list) and payload:
        node = payload[0]
    return node if isinstance(node, str) else None


# Learn which nodes follow a node, from what happened after it in the checkpoints of a graph.
#
# Until LangGraph 0.3.15 a node writes to a channel with its name, and the nodes at the end of its
# edges subscribe to that channel. No checkpoint stores the subscriptions, so one that waits at
# `interrupt_before` or `interrupt_after` equals one after a last node. What tells them apart is a
# later checkpoint: a run, and also a new input, notes in `versions_seen` every node that
# subscribes to a channel with a new value. Source: `apply_writes` in `langgraph/pregel/algo.py`
# and `_first` in `langgraph/pregel/loop.py`, 0.2.14 and 0.2.70.


_ENTRIES = ("start:", f"{START}:")
"""How Python and, before 0.2.74, LangGraph.js begin the names of edges from the start."""
_Seen = Mapping[str, Mapping[str, object]]


class Followers(NamedTuple):
    """What the checkpoints of one thread tell about the edges of one graph."""

    passed: dict[str, frozenset[str]]
    """For each node after which a run or an input came: all nodes that follow it; none at an end.
    """
    updated: dict[str, set[str]]
    """For each node, other nodes as which `update_state` was called right after it."""
    ran: set[str]
    """The nodes that ran."""
    entries: set[str] | None
    """The channels of edges from the start; None if no run began."""
    joins: set[str]
    """The channels of joins, to which each of their members writes."""
    state: set[str]
    """The channels of the state that were written."""

    def agrees(self, other: Followers) -> bool:
        """Return whether both probably come from one graph: what both know is the same."""
        if None not in (self.entries, other.entries) and self.entries != other.entries:
            return False
        if not (self.state <= other.state or other.state <= self.state):
            return False
        if self._lacks(other.joins) or other._lacks(self.joins):
            return False
        common = self.passed.keys() & other.passed.keys()
        return all(self.passed[node] == other.passed[node] for node in common)

    def _lacks(self, joins: set[str]) -> bool:
        """Return whether a member of one of these joins ran, and did not write to it."""
        members = (
            f"+{one.removeprefix('join:').rpartition(':')[0]}+" for one in joins - self.joins
        )
        return any(f"+{node}+" in names for names in members for node in self.ran)


class _Child(NamedTuple):
    """What is needed of a checkpoint until its parent is read."""

    source: str | None
    chosen: Mapping[str, object]
    """The nodes whose channels have a value, with the versions."""
    seen: _Seen


def learn_followers(checkpoints: Iterable[tuple[str, str | None, str | None, Body]]) -> Followers:
    """Return what checkpoints tell, given (id, parent id, source, body) of each, newest first."""
    found = Followers({}, {}, set(), None, set(), set())
    nodes: set[str] = set()
    channels: set[str] = set()
    children: dict[str, list[_Child]] = {}
    for checkpoint_id, parent_id, source, body in checkpoints:
        nodes.update(body.seen)
        channels.update(body.versions)
        found.ran.update(node for node, read in body.seen.items() if read)
        held = {name: body.versions.get(name) for name in body.values if is_output(body, name)}
        for child in children.pop(checkpoint_id, ()):
            _compare(found, held, child)
        if parent_id is not None:
            children.setdefault(parent_id, []).append(_Child(source, held, body.seen))
    edges = {name for name in channels if ":" in name}
    return found._replace(
        entries={one for one in edges if one.startswith(_ENTRIES)} if START in nodes else None,
        joins={name for name in edges if name.startswith("join:")},
        state=channels - edges - nodes - {START},
    )


def _compare(found: Followers, held: Mapping[str, object], child: _Child) -> None:
    """Add what a checkpoint and one of its children tell."""
    if child.source == "update":
        nodes = {name for name, version in child.chosen.items() if held.get(name) != version}
        for name in held:
            found.updated.setdefault(name, set()).update(nodes - {name})
        return
    if child.source not in {"loop", "input"}:
        return
    for name, version in held.items():
        # The newest answer stays: the graph may have been changed.
        if version is not None and name not in found.passed:
            found.passed[name] = frozenset(
                node
                for node, read in child.seen.items()
                if node not in NOT_NODES and read.get(name) == version
            )


def followers_of(
    node: str, own: Followers, others: Callable[[], Iterable[Followers]]
) -> Collection[str] | None:
    """Return the nodes that follow a node: none if the graph ends there, None if it is not known.

    `own` is from the thread asked about. `others` are from other threads, and perhaps from other
    graphs; they are read only if the thread itself does not tell.

    Where a run has passed the node, the answer is sure. Else the one node as which `update_state`
    was called after it is taken, if it never ran: the caller acted for a node that waited. A node
    that ran without following this one was only chosen to go on from there.
    """
    if node in own.passed:
        return own.passed[node]
    alike = [own, *(one for one in others() if one.agrees(own))]
    answers = {one.passed[node] for one in alike if node in one.passed}
    if answers:
        return answers.pop() if len(answers) == 1 else None
    ran = {name for one in alike for name in one.ran}
    for some in ([own], alike):
        updated = {name for one in some for name in one.updated.get(node, ())} - ran
        if len(updated) == 1:
            return updated
    return None


# The time of a checkpoint.


_FIRST_YEAR, _LAST_YEAR = 1, 9999


def stored_time(body: Body) -> datetime | None:
    """Return the time of a body's `ts`, which LangGraph calls `created_at`; None if unknown."""
    if body.ts is None:
        return None
    try:
        found = datetime.fromisoformat(body.ts)
    except ValueError:
        return None
    # Times in the first or last year of the calendar cannot be converted to every time zone.
    sane = found.tzinfo is not None and _FIRST_YEAR < found.year < _LAST_YEAR
    return found if sane else None
