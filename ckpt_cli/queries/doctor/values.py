"""The checks of `ckpt doctor` that decode values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import split
from ckpt_backends.codec.memo import Memo
from ckpt_backends.codec.values import Cut, Opaque, PastLimit, Value, items_of
from ckpt_backends.encryption import is_encrypted, is_encrypted_type
from ckpt_backends.model import Capability, Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core import state
from ckpt_cli.core.doctor import types
from ckpt_cli.core.doctor.checks import (
    Readability,
    are_messages,
    holds_replaced,
    is_absent,
    is_broken_inside,
    is_damaged,
    is_replaced,
    may_remove,
    readability,
)
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.refs import short_refs
from ckpt_cli.queries.doctor.rows import SeenCheckpoint, Terms, ThreadReport
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import Moment, ThreadReader

_SHORT = 100
"""Bytes within which that text is."""
_MOST = 1000
"""Values that do not open with the key are listed up to this number."""


class UnreadableValues:
    """Looks at each checkpoint of a thread, and notes what this run cannot read."""

    def __init__(self, memo: Memo, *, has_bodies: bool) -> None:
        self._has_bodies = has_bodies
        """Whether the layout stores what a saver loads; others have values only."""
        self.values = 0
        """Number of different values that were decoded."""
        self.has_broken_body = False
        self._memo = memo
        self._unchecked = ""
        self._opened = False
        self._refused: list[Finding] = []

    def at(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield what is unreadable at a checkpoint."""
        moment = seen.moment
        yield from _replaced(seen)
        yield from self._of_body(seen)
        yield from self._of_metadata(seen)
        if seen.is_apart:
            yield from self._of_blobs(seen)
        else:
            self.values += len(seen.introduced & moment.body.values.keys())
            yield from self._inline(seen)
        for write in moment.writes:
            if write.value is not None and not self._is_sound(write.value, decode(write.value)):
                text = f"a write cannot be decoded: {_what(write.value, write.size)}"
                finding = seen.finding("value-unreadable", text, write.channel, write.task_id)
                value = decode(write.value)
                if not (is_absent(value) and (seen.is_young or seen.is_head)):
                    yield from self._judged(write.value, value, finding)

    def end(self) -> Iterator[Finding]:
        """Yield the values that do not open with a key that opens others."""
        if self._opened:
            yield from self._refused

    @property
    def unchecked(self) -> str:
        """Why some values could not be checked; `''` if all were."""
        if self._refused and not self._opened:
            return "its values are encrypted, and the key does not fit"
        return self._unchecked

    def _of_body(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        body, problem = seen.moment.checkpoint.body, seen.moment.body.problem
        if body is None:
            return
        lacks = seen.moment.body.lacks
        if lacks and self._has_bodies:
            self.has_broken_body = True
            named = ", ".join(f"'{one}'" for one in lacks)
            text = f"savers cannot load it or go on from it: it has no valid {named}"
            yield seen.finding("body-unreadable", text)
        if self._is_sound(body, problem):
            return
        text = f"the checkpoint cannot be decoded: {_what(body, len(body.data))}"
        self.has_broken_body |= problem is not None
        if not (is_absent(problem) and seen.is_young):
            yield from self._judged(body, problem, seen.finding("body-unreadable", text))

    def _of_metadata(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        body, metadata = seen.moment.checkpoint.body, seen.moment.checkpoint.metadata
        if metadata is None or not metadata.data:
            return
        if seen.moment.metadata and not any(map(is_damaged, seen.moment.metadata.values())):
            return
        # Some layouts store both in one value.
        if body is not None and body.data == metadata.data:
            return
        value = decode(metadata)
        text = f"its metadata cannot be decoded: {_what(metadata, len(metadata.data))}"
        finding = seen.finding("body-unreadable", text)
        if not seen.moment.metadata and isinstance(value, Opaque | dict | Cut | None):
            yield from self._judged(metadata, value, finding)
        else:
            yield finding

    def _of_blobs(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        for channel, blob in (seen.moment.checkpoint.blobs or {}).items():
            if channel not in seen.introduced or blob.value is None:
                continue
            self.values += 1
            value = seen.moment.body.values.get(channel)
            if self._is_sound(blob.value, value):
                continue
            what = _what(blob.value, blob.size)
            text = f"version {seen.version(channel)} cannot be decoded: {what}"
            finding = seen.value_finding("value-unreadable", text, channel)
            yield from self._judged(blob.value, value, finding)

    def _inline(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield values inside a body that are unreadable, although the body is not."""
        if not self._memo.unreadable:
            return
        for channel, value in seen.moment.body.values.items():
            if is_broken_inside(value):
                text = "its value in the checkpoint cannot be decoded"
                yield seen.finding("value-unreadable", text, channel)

    def _is_sound(self, typed: TypedBytes, value: Value) -> bool:
        """Return whether there is nothing to judge, as with almost all values."""
        if self._memo.unreadable or readability(value) is not Readability.READABLE:
            return False
        self._opened |= bool(typed.encrypted)
        return True

    def _judged(self, typed: TypedBytes, value: Value, finding: Finding) -> Iterator[Finding]:
        found = readability(value)
        if found is Readability.READABLE:
            self._opened |= bool(typed.encrypted)
            if self._memo.unreadable and is_broken_inside(value):
                yield finding
        elif found is Readability.DAMAGED:
            yield finding
        elif found is Readability.CLOSED:
            self._unchecked = self._unchecked or f"its values are {typed.problem}"
        elif found is Readability.REFUSED and len(self._refused) < _MOST:
            self._refused.append(finding)
        elif found is Readability.UNREAD:
            self._unchecked = self._unchecked or f"cannot read a value: {typed.problem}"
        elif found is Readability.FOREIGN:
            text = f"official savers cannot read values {_of_type(typed)}"
            self._unchecked = self._unchecked or text


def _replaced(seen: SeenCheckpoint) -> Iterator[Finding]:
    """Yield where LangGraph.js stored the error text of its serializer in the place of a value."""
    moment = seen.moment
    body = moment.checkpoint.body
    if body is not None and len(body.data) < _SHORT and is_replaced(decode(body)):
        text = "the checkpoint is the error text of LangGraph.js's serializer"
        yield seen.finding("value-replaced", text)
    if not moment.body.is_javascript:
        return
    for channel in sorted(seen.introduced & moment.body.values.keys()):
        value = moment.body.values[channel]
        if is_replaced(value):
            text = "its value is the error text of LangGraph.js's serializer"
            yield seen.finding("value-replaced", text, channel)
        elif seen.is_head and holds_replaced(value):
            text = "a message is the error text of LangGraph.js's serializer: those before are lost"
            yield seen.finding("value-replaced", text, channel)
    for write in moment.writes:
        if write.value is not None and write.size < _SHORT and is_replaced(decode(write.value)):
            text = "a write is the error text of LangGraph.js's serializer"
            yield seen.finding("value-replaced", text, write.channel, write.task_id)


def missing_value(seen: SeenCheckpoint, channel: str) -> Finding:
    """Return the finding for a value that a checkpoint names and that is not stored."""
    text = f"version {seen.version(channel)} is not stored"
    return seen.value_finding("value-missing", text, channel)


def _of_type(typed: TypedBytes) -> str:
    return f"of type '{typed.type}'" if typed.type else "without a type"


def _what(typed: TypedBytes, size: int) -> str:
    """Return type and size of a stored value, in words."""
    return f"{typed.type or 'unknown type'}, {size} byte{'' if size == 1 else 's'}"


Place: TypeAlias = tuple[object, ...]
"""The same for the same value in several checkpoints of a thread; hashable."""


class NamingValue(NamedTuple):
    """A stored value that names classes or functions, or that cannot be read."""

    key: CheckpointKey
    channel: str | None
    """None for the metadata, and for what a checkpoint holds besides its channels."""
    names: types.Names | None
    """None if the value cannot be read."""
    place: Place
    task_id: str | None = None
    """The task that wrote it; None if it belongs to a checkpoint."""


def naming_values(
    checkpoint: Checkpoint,
    writes: Iterable[Write],
    wanted: Callable[[types.TypeName], object] | None = None,
    named_in: Callable[[TypedBytes], types.Names] = types.body_names,
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
        if write.value is not None and (found := _names(write.value)) != types.NONE:
            place = (write.key, write.task_id, write.idx)
            yield NamingValue(write.key, write.channel, found, place, write.task_id)


def _of_checkpoint(
    checkpoint: Checkpoint,
    wanted: Callable[[types.TypeName], object] | None,
    named_in: Callable[[TypedBytes], types.Names],
) -> Iterator[tuple[str | None, types.Names | None]]:
    if checkpoint.body is not None and not _is_left_out(checkpoint.body):
        try:
            if wanted is None or any(map(wanted, named_in(checkpoint.body))):
                yield from types.names_by_channel(checkpoint.body).items()
        except (ValueError, PastLimit):
            yield None, None
    apart = {name: blob.value for name, blob in (checkpoint.blobs or {}).items()}
    for channel, typed in [*apart.items(), (None, checkpoint.metadata)]:
        if typed is not None and (found := _names(typed)) != types.NONE:
            yield channel, found


def _is_left_out(typed: TypedBytes) -> bool:
    """Return whether the layout does not store a value, so it names nothing."""
    return typed.problem.startswith(state.NOT_STORED)


def _names(typed: TypedBytes) -> types.Names | None:
    if _is_left_out(typed):
        return types.NONE
    try:
        return types.type_names(typed)
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


def type_findings(
    checkpoint: Checkpoint, writes: Iterable[Write], terms: Terms
) -> Iterator[Finding]:
    """Yield the dangerous names in a checkpoint and its writes, as far as their values were read.

    If strict mode is on, also yields the classes that it blocks.
    """
    checks, writes = TypeChecks(terms), list(writes)
    # Taking a body apart by channel is slow, and hardly ever is a name wrong.
    if checks.may_find(checkpoint, writes):
        yield from checks.at(checkpoint, writes)


class TypeChecks:
    """Checks the checkpoints of a thread. A value that several of them hold is reported once."""

    def __init__(self, terms: Terms, memo: Memo | None = None) -> None:
        self._terms = terms
        self._memo = memo
        """The cache with which the bodies were decoded and `gather_names` was called."""
        self._told: set[Place] = set()

    def may_find(self, checkpoint: Checkpoint, writes: Iterable[Write]) -> bool:
        """Return whether a name in a checkpoint or in writes is wrong, or a value is unreadable."""
        blobs = (blob.value for blob in (checkpoint.blobs or {}).values())
        parts = [checkpoint.metadata, *blobs, *(one.value for one in writes)]
        try:
            names = set(
                types.NONE if checkpoint.body is None else types.body_names(checkpoint.body)
            )
            names.update(*(types.type_names(one) for one in parts if one is not None))
        except (ValueError, PastLimit):
            return True
        return any(self._judged(one) is not None for one in names)

    def at(self, checkpoint: Checkpoint, writes: Iterable[Write]) -> Iterator[Finding]:
        """Yield what is new at a checkpoint, as `type_findings` does."""
        for value in naming_values(checkpoint, writes, self._judged, self._named_in):
            for named in sorted(value.names or ()):
                found = self._judged(named)
                if found is None or (named, *value.place) in self._told:
                    continue
                self._told.add((named, *value.place))
                yield Finding.at(value.key, *found, value.channel, value.task_id)

    def _named_in(self, body: TypedBytes) -> types.Names:
        """Return what a body names, and perhaps more. Raises the errors of `type_names`."""
        found = None if self._memo is None else self._memo.take_gathered(body.data)
        return types.body_names(body) if found is None else found

    def _judged(self, named: types.TypeName) -> tuple[str, str] | None:
        """Return the code and the detail of a finding about a name; None if it is harmless."""
        if types.is_dangerous(named):
            return "type-dangerous", _danger(named)
        if self._terms.strict_types and types.is_blocked(named):
            return "type-blocked", f"strict mode does not admit {named.text}"
        return None


def dangerous_findings(uses: Iterable[types.TypeUse]) -> Iterator[Finding]:
    """Yield a finding for each dangerous name, at the oldest value that names it."""
    for use in uses:
        if types.is_dangerous(use.named):
            yield Finding.at(
                use.key, "type-dangerous", _danger(use.named), use.channel, use.task_id
            )


def blocked_findings(uses: types.TypeUses) -> Iterator[Finding]:
    """Yield a finding for each class that strict mode blocks, at the oldest value that names it."""
    for use in uses.listed():
        if types.is_blocked(use.named) and not types.is_dangerous(use.named):
            values = "1 value" if use.count == 1 else f"{use.count} values"
            detail = f"strict mode does not admit {use.named.text}, found in {values}"
            yield replace(Finding.at(use.key, "type-blocked", detail, use.channel), ref=use.ref)


def _danger(named: types.TypeName) -> str:
    return f"decoding it would call {named.text}"


def gather_types(store: Store, thread_id: str, report: ThreadReport) -> Iterator[Finding]:
    """Add to a report all that the values of its thread name, and yield what is dangerous.

    Counts checkpoints and writes. If a value cannot be read, the report says so.
    """
    found = _StoredTypes()
    for checkpoint in store.checkpoints(thread_id, body=True, metadata=True, values=True):
        found.add(checkpoint, ())
    writes = 0
    for write in store.writes(thread_id, values=True):
        writes += 1
        found.add(Checkpoint(write.key, None), [write])
    report.types = found.uses()
    checked = report.checked
    # Other checks may have counted the same.
    checked.checkpoints = max(checked.checkpoints, len(found.ids))
    checked.writes = max(checked.writes, writes)
    if found.unread and not report.unchecked:
        some = "one" if found.unread == 1 else str(found.unread)
        report.unchecked = f"{some} of its values cannot be read"
    yield from dangerous_findings(report.types)


class _StoredTypes:
    """Gathers what a thread names. `unread` is the number of values that cannot be read."""

    def __init__(self) -> None:
        self.unread = 0
        self.ids: list[str] = []
        self._uses = types.TypeUses()
        self._seen: set[Place] = set()

    def add(self, checkpoint: Checkpoint, writes: Iterable[Write]) -> None:
        """Add what a checkpoint or a write names."""
        if not writes:
            self.ids.append(checkpoint.key.checkpoint_id)
        for value in naming_values(checkpoint, writes):
            if value.names is None:
                self.unread += self._is_new(value.place)
                continue
            for named in value.names:
                count = int(self._is_new((named, *value.place)))
                self._uses.add(types.TypeUse(named, count, value.key, value.channel, value.task_id))

    def uses(self) -> list[types.TypeUse]:
        """Return what was added, with short refs."""
        refs = short_refs(self.ids)
        return [replace(one, ref=refs.get(one.key.checkpoint_id)) for one in self._uses.listed()]

    def _is_new(self, place: Place) -> bool:
        is_new = place not in self._seen
        self._seen.add(place)
        return is_new


_SOURCES = ("update", "fork")


class EmptiedMessages:
    """Looks at each checkpoint that an update or a fork made.

    All updates of one checkpoint store their writes under one task id, and savers keep those of one
    update only. So nothing is found where a checkpoint was updated more than once. Nor is anything
    found at what a rollback by `ckpt` left behind: the update was taken back.
    """

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._found: list[tuple[CheckpointKey, Finding]] = []
        """Findings, each with the parent of the checkpoint."""
        self._updates: Counter[CheckpointKey] = Counter()
        """The number of updates by the checkpoint that was updated."""
        self._added: dict[str, list[str]] = defaultdict(list)
        """By namespace, the checkpoints that `ckpt` added."""
        self._has_writes = Capability.WRITES in reader.capabilities

    def at(self, seen: SeenCheckpoint) -> None:
        """Note the channels of messages that a checkpoint emptied."""
        moment, parent = seen.moment, seen.parent
        if moment.metadata.get(state.BY) == state.NAME:
            self._added[moment.key.checkpoint_ns].append(moment.key.checkpoint_id)
        if moment.source not in _SOURCES or parent is None or not self._has_writes:
            return
        self._updates[parent.key] += moment.source == "update"
        if state.FROM in moment.metadata:  # what `ckpt fork --set` writes is meant so
            return
        # Before LangGraph 0.2.15, the writes of update_state are not stored.
        if self._reader.is_values_only or moment.body.v < 2:
            return
        for channel in sorted(moment.body.values):
            if not state.is_state(channel, moment.body) or not _is_empty(moment, channel):
                continue
            before = self._value_before(channel, parent)
            if not are_messages(before):
                continue
            written = (one.value for one in parent.writes if one.channel == channel)
            if not may_remove(decode(value) for value in written if value is not None):
                number = len(items_of(before) or ())
                text = f"{number} message{'' if number == 1 else 's'} before, none after"
                self._found.append((parent.key, seen.finding("messages-emptied", text, channel)))

    def end(self) -> Iterator[Finding]:
        """Yield what was found, once all checkpoints were seen."""
        return (
            finding
            for parent, finding in self._found
            if self._updates[parent] < 2 and not self._was_taken_back(finding)
        )

    def _was_taken_back(self, finding: Finding) -> bool:
        """Return whether the head's line leaves out a checkpoint for a later one of `ckpt`."""
        ns, own = finding.checkpoint_ns or "", finding.checkpoint_id or ""
        later = {one for one in self._added[ns] if one > own}
        head = self._reader.head(ns)
        if not later or head is None:
            return False
        line = self._reader.ancestry(ns, head)
        return own not in line and not later.isdisjoint(line)

    def _value_before(self, channel: str, parent: Moment) -> Value:
        stored = parent.body.values.get(channel)
        if stored is not None or channel not in parent.body.versions:
            return state.without_snapshot(stored)
        if channel not in self._reader.delta_channels(parent.key.checkpoint_ns):
            return None
        return read_state(self._reader, parent, [channel]).values.get(channel)


def _is_empty(moment: Moment, channel: str) -> bool:
    """Return whether an empty list is stored; nothing stored may mean a DeltaChannel."""
    stored = state.without_snapshot(moment.body.values.get(channel))
    return isinstance(stored, list) and not stored


_CODE = "plaintext-among-encrypted"


class PlainRows:
    """Looks at each checkpoint of a thread, namespace by namespace, oldest first.

    What was stored before the first encrypted checkpoint is not reported: the agent got its key
    later. Type tags tell whether a row is encrypted, so no key is needed. Metadata is left out,
    because some savers never encrypt it.
    """

    def __init__(self) -> None:
        self._has_begun = False
        """Whether an encrypted checkpoint of the namespace was seen."""
        self._closes_bodies = False
        """Whether an encrypted body was seen: savers that store values apart may encrypt none."""
        self._ns: str | None = None

    def at(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        """Yield the plain rows of a checkpoint."""
        key = seen.moment.key
        if key.checkpoint_ns != self._ns:
            self._ns, self._has_begun, self._closes_bodies = key.checkpoint_ns, False, False
        body = seen.moment.checkpoint.body
        self._closes_bodies |= _is_closed(body)
        own: dict[str | None, bool] = dict(_introduced_blobs(seen))
        if body is not None and (self._closes_bodies or not seen.is_apart):
            own[None] = _is_closed(body)
        writes = [one for one in seen.moment.writes if one.value is not None]
        closed = [one for one in writes if _is_closed(one.value)]
        if not self._has_begun:
            # If only the first body of a thread is plain, it was not written before the key came.
            is_first = not key.checkpoint_ns and seen.moment.checkpoint.parent_checkpoint_id is None
            is_replaced = is_first and len(closed) == len(writes)
            if not any(own.values()) and not (closed and is_replaced):
                return
            self._has_begun = True
        for channel, is_closed in own.items():
            if is_closed:
                continue
            if channel is None:
                yield seen.finding(_CODE, "the checkpoint is stored unencrypted")
            else:
                text = f"version {seen.version(channel)} is stored unencrypted"
                yield seen.finding(_CODE, text, channel)
        for write in writes:
            if not _is_closed(write.value):
                text = "a write is stored unencrypted"
                yield seen.finding(_CODE, text, write.channel, write.task_id)


def _introduced_blobs(seen: SeenCheckpoint) -> Iterator[tuple[str, bool]]:
    """Yield the channels whose values were stored with a checkpoint, and whether encrypted."""
    versions = seen.moment.body.versions
    introduced: Iterable[str] = seen.introduced
    if seen.parent is None:  # it may have had one, whose values it still names
        newest = max(map(state.version_number, versions.values()), default=0)
        introduced = [name for name, one in versions.items() if state.version_number(one) == newest]
    blobs = seen.moment.checkpoint.blobs or {}
    for channel in sorted(introduced):
        if channel in blobs and not blobs[channel].inherited:
            yield channel, is_encrypted_type(blobs[channel].type)


def _is_closed(value: TypedBytes | None) -> bool:
    return value is not None and (bool(value.encrypted) or is_encrypted(value))
