"""Finds out which checkpoint each value of a thread belongs to, and which values are inherited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from ckpt_backends.apps.three_table.cells import digest
from ckpt_backends.channel_names import is_control
from ckpt_backends.model import CheckpointKey

_TRIED = 3
"""Number of pairs of values that are compared for each channel."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A row of `checkpoints`."""

    key: CheckpointKey
    parent: str | None
    hash: str
    """In hex."""
    stored_hash: object
    """As the engine returns it."""
    at: datetime | None
    stored_at: object

    @property
    def order(self) -> tuple[datetime, int, str]:
        """By time, then by the number at the end of the id."""
        name = self.key.checkpoint_id
        return self.at or _NEVER, len(name), name


@dataclass(frozen=True, slots=True)
class Part:
    """A row of `checkpoint_blobs`, without its value."""

    hash: str
    stored_hash: object
    channel: str
    version: int
    type: str
    size: int


@dataclass(frozen=True, slots=True)
class ChannelParts:
    """A channel's value at a checkpoint: its parts, oldest first."""

    version: str
    """Used as the version: the hash of the last checkpoint that stores a part."""
    parts: tuple[Part, ...]
    at: str = ""
    """The hash of the checkpoint."""
    is_cut: bool = False
    """Whether an earlier part is missing in the store."""

    @property
    def is_inherited(self) -> bool:
        """Whether a part of it is stored with an ancestor."""
        return any(part.hash != self.at for part in self.parts)


@dataclass
class ThreadRows:
    """All checkpoints of a thread."""

    places: dict[tuple[str, str], CheckpointRow] = field(default_factory=dict)
    """By namespace and id, newest first within each namespace, namespaces in order."""

    @cached_property
    def by_id(self) -> dict[str, list[CheckpointRow]]:
        found: dict[str, list[CheckpointRow]] = {}
        for (_, name), one in self.places.items():
            found.setdefault(name, []).append(one)
        return found

    @cached_property
    def by_hash(self) -> dict[str, CheckpointRow]:
        """By hash, the newest checkpoint with this hash. The values of the hash belong to it."""
        found: dict[str, CheckpointRow] = {}
        for one in sorted(self.places.values(), key=lambda one: one.order):
            found[one.hash] = one
        return found

    @cached_property
    def shared(self) -> set[str]:
        """Hashes that do not identify one checkpoint: the namespace's, or used by several."""
        counts = Counter(one.hash for one in self.places.values())
        return {
            one.hash
            for one in self.places.values()
            if counts[one.hash] > 1 or one.hash == digest(one.key.checkpoint_ns)
        }

    def heads(self) -> dict[str, CheckpointRow]:
        """The newest checkpoint of each namespace."""
        found: dict[str, CheckpointRow] = {}
        for (ns, _), one in self.places.items():
            found.setdefault(ns, one)
        return found


def index_of(places: Iterable[CheckpointRow]) -> ThreadRows:
    """The index of these checkpoints."""
    newest_first = sorted(places, key=lambda one: one.order, reverse=True)
    newest_first.sort(key=lambda one: one.key.checkpoint_ns)
    return ThreadRows({(one.key.checkpoint_ns, one.key.checkpoint_id): one for one in newest_first})


class Values:
    """The values of a thread's checkpoints, derived from the keys of its rows.

    A thread is incremental if its checkpoints store only changes. A checkpoint then inherits from
    its parent the channels that it does not store, and a stored list contains only new items.
    """

    def __init__(
        self,
        index: ThreadRows,
        parts: Iterable[Part],
        written: Mapping[tuple[str, str], Iterable[str]],
        added: Iterable[str] = (),
    ) -> None:
        """Index the values.

        `written` maps (namespace, checkpoint id) to the channels that the tasks wrote to. `added`
        names channels of a thread that is not incremental that still store only their new items.
        """
        self.index = index
        self._own: dict[str, dict[str, list[Part]]] = {}
        for part in sorted(parts, key=lambda one: one.version):
            self._own.setdefault(part.hash, {}).setdefault(part.channel, []).append(part)
        self._written = {key: set(names) for key, names in written.items()}
        self._channels = {name for own in self._own.values() for name in own}
        self._added = set(added)
        self._named: dict[tuple[str, str], dict[str, ChannelParts]] = {}
        places = index.places.values()
        self.is_incremental = any(map(self._leaves_out, places)) and not any(
            map(self._repeats, places)
        )

    def is_stored(self, place: CheckpointRow) -> bool:
        """Whether the values of a checkpoint still exist: no newer checkpoint has its hash."""
        return self.index.by_hash[place.hash] is place

    def own(self, place: CheckpointRow) -> Mapping[str, Sequence[Part]]:
        """By channel, the values that are stored with a checkpoint itself."""
        return self._own.get(place.hash, {}) if self.is_stored(place) else {}

    @property
    def orphaned(self) -> dict[str, object]:
        """Hashes of values without a checkpoint: by hash in hex, the hash as stored."""
        return {part.hash: part.stored_hash for part in self.orphans()}

    def orphans(self) -> Iterable[Part]:
        """The parts of values without a checkpoint."""
        return (
            part
            for name, own in self._own.items()
            if name not in self.index.by_hash
            for parts in own.values()
            for part in parts
        )

    def pairs(self) -> Iterable[tuple[str, Part, Part]]:
        """Up to `_TRIED` samples for each channel: (channel, the parent's part, the child's)."""
        seen: Counter[str] = Counter()
        for place in self.index.places.values():
            parent = self._parent(place)
            before = {} if parent is None else self.own(parent)
            for name, parts in self.own(place).items():
                if name in before and seen[name] < _TRIED:
                    seen[name] += 1
                    yield name, before[name][0], parts[0]

    def named(self, place: CheckpointRow) -> Mapping[str, ChannelParts]:
        """The values of a checkpoint by channel. A value without parts is missing in the store."""
        line: list[CheckpointRow] = []
        here: CheckpointRow | None = place
        while here is not None and _key(here) not in self._named and here not in line:
            line.append(here)
            here = self._parent(here)
        for one in reversed(line):
            parent = self._parent(one)
            known = {} if parent is None else self._named.get(_key(parent), {})
            self._named[_key(one)] = self._with(one, known)
        return self._named[_key(place)]

    def _with(
        self, place: CheckpointRow, inherited: Mapping[str, ChannelParts]
    ) -> dict[str, ChannelParts]:
        if not self.is_stored(place):
            return {}
        own, at = self.own(place), place.hash
        lost = self._lost(place, own)
        inherits = self.is_incremental or not own
        found = {
            name: replace(one, at=at)
            for name, one in inherited.items()
            if inherits and name not in lost and not _is_passing(name)
        }
        for name, parts in own.items():
            earlier = inherited.get(name) if self._goes_on(name) else None
            if earlier is None:
                found[name] = ChannelParts(at, tuple(parts), at)
            elif self._is_copy(place, name, parts):
                found[name] = ChannelParts(at, earlier.parts, at, earlier.is_cut)
            else:
                is_cut = earlier.is_cut or not earlier.parts
                found[name] = ChannelParts(at, (*earlier.parts, *parts), at, is_cut)
        return found | {name: ChannelParts(at, (), at) for name in lost}

    def _is_copy(self, place: CheckpointRow, channel: str, parts: Sequence[Part]) -> bool:
        """Whether a rollback copied the value from the parent; otherwise a step added to it."""
        parent = self._parent(place)
        if parent is None or channel in self._written.get(_key(place), ()):
            return False
        return _alike(self.own(parent).get(channel, ()), parts)

    def is_pieced(self, place: CheckpointRow, channel: str) -> bool:
        """Whether a value is merged from parts of several checkpoints.

        Such a value cannot be copied to another checkpoint.
        """
        named = self.named(place).get(channel)
        return self._goes_on(channel) and (
            named is None or not named.parts or len({part.hash for part in named.parts}) > 1
        )

    def _goes_on(self, channel: str) -> bool:
        return self.is_incremental or channel in self._added

    def _lost(self, place: CheckpointRow, own: Mapping[str, object]) -> set[str]:
        """The channels that were written to but that the checkpoint does not store.

        A channel that no checkpoint of the thread stores is not part of the state and does not
        count, unless this checkpoint stores no channel at all.
        """
        written = self._written.get(_key(place), set()) - own.keys()
        return written & self._channels if own else written

    def _leaves_out(self, place: CheckpointRow) -> bool:
        """Whether it stores fewer channels than its parent, not counting missing values."""
        parent = self._parent(place)
        own = self.own(place)
        if parent is None or not own:
            return False
        left = self.own(parent).keys() - own.keys() - self._lost(place, own)
        return not all(map(_is_passing, left))

    def _repeats(self, place: CheckpointRow) -> bool:
        """Whether it stores a value that its step did not write, equal to the parent's value."""
        parent, written = self._parent(place), self._written.get(_key(place))
        if parent is None or not written:
            return False  # A rollback copies values without a step.
        own, before = self.own(place), self.own(parent)
        return any(
            name not in written and not _is_passing(name) and _alike(own[name], before[name])
            for name in own.keys() & before.keys()
        )

    def _parent(self, place: CheckpointRow) -> CheckpointRow | None:
        if place.parent is None:
            return None
        found = self.index.places.get((place.key.checkpoint_ns, place.parent))
        return found if found is not place else None


def _alike(one: Sequence[Part], other: Sequence[Part]) -> bool:
    """Whether parts may be equal, judged by their types and sizes."""
    return [(part.type, part.size) for part in one] == [(part.type, part.size) for part in other]


def _is_passing(channel: str) -> bool:
    """Whether a channel exists for one step only. If it is not stored, it is empty."""
    return channel == "__start__" or is_control(channel)


def _key(place: CheckpointRow) -> tuple[str, str]:
    return place.key.checkpoint_ns, place.key.checkpoint_id
