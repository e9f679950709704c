"""What was seen of a thread while its parts are converted."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import TypeAlias

from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.transfer.bodies import OpenBody
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Form, Language
from ckpt_backends.transfer.kept_values import KeptValues
from ckpt_backends.transfer.parts import ValuePart
from ckpt_backends.transfer.pending_sends import PendingSends
from ckpt_backends.transfer.sealing import Sealing
from ckpt_backends.transfer.unordered import without_order
from ckpt_backends.transfer.values import is_snapshot
from ckpt_backends.transfer.versions import absent_version, replace_version
from ckpt_backends.transfer.write_order import ArrivalOrder

ValuePlace: TypeAlias = tuple[str, str, str]
"""Namespace, channel and version."""
EMPTY = "empty"
"""The type of a mark for a channel without a value."""
_APART = b""
"""In place of the digest of a value that the source stores apart."""
_ROOM = 8 << 20
"""Bytes of the values that are kept to compare them. Most are parts that are kept anyway."""


class LastValues:
    """The last value of each channel of a namespace, and what became of it."""

    def __init__(self) -> None:
        self.stored: dict[str, TypedBytes] = {}
        self.stays: dict[str, TypedBytes | None] = {}
        """By channel, the value that stays in the body."""
        self._versions: dict[str, str] = {}

    def is_same(self, channel: str, stored: TypedBytes, version: str | None) -> bool:
        """Whether the last value is the same object with the same version."""
        return self.stored.get(channel) is stored and self._versions[channel] == version

    def note(
        self, channel: str, stored: TypedBytes, version: str, stays: TypedBytes | None
    ) -> None:
        """Remember a value."""
        self.stored[channel], self.stays[channel] = stored, stays
        self._versions[channel] = version


class SeenThread:
    """What was seen of a thread so far."""

    def __init__(self, kept: KeptValues, target: Form, sealing: Sealing) -> None:
        self.kept = kept
        self._is_javascript = target.language is Language.JAVASCRIPT
        self.sends = PendingSends(kept, sealing.opened)
        self._last: dict[str, LastValues] = {}
        self.order = ArrivalOrder()
        self._seen: dict[ValuePlace, TypedBytes | bytes] = {}
        """By namespace, channel and version, the value; of those without room, the digest."""
        self._room = _ROOM
        self._valued: set[ValuePlace] = set()
        """Versions whose value is stored apart, and so belongs to each checkpoint that names them.
        This is right for the snapshots of DeltaChannels, which are not among them."""
        self._absent: dict[ValuePlace, str] = {}
        """By namespace, channel and version of a channel without a value, the thread's id."""

    def note_apart(self, place: ValuePlace) -> None:
        """Remember that the source stores a value apart, so that it wins over any in a body."""
        self._seen[place] = _APART

    def values_of(self, checkpoint_ns: str) -> LastValues:
        """The last values of a namespace."""
        if (last := self._last.get(checkpoint_ns)) is None:
            last = self._last[checkpoint_ns] = LastValues()
        return last

    def is_new(
        self, place: ValuePlace, value: TypedBytes, named: str, *, is_apart: bool = True
    ) -> bool:
        """Whether a value is new. Raises `CannotHold` if its version has another value, or has none
        elsewhere and the target stores it apart.
        """
        known = self._seen.get(place)
        if known is None:
            self._room -= len(value.data)
            self._seen[place] = value if self._room > 0 else _digest(value)
            if is_apart and not _is_delta(value):
                if place in self._absent:
                    raise CannotHold(
                        f"{named} has a value, but version '{place[2]}' elsewhere none"
                    )
                self._valued.add(place)
            return True
        if known not in (value, _APART) and _digest(known) != _digest(value):
            raise CannotHold(f"{named} has another value than version '{place[2]}' elsewhere")
        return False

    def note_absent(self, key: CheckpointKey, found: OpenBody) -> None:
        """Remember the channels of a body that have a version, but no value in the body.

        LangGraph 0.2 took None for no value when it loaded a checkpoint, so that it left the
        channel out of the next one, with the same version. Where a version has one value for
        all checkpoints, such a channel gets a version of its own. Branches of LangGraph.js may use
        the same numbers; they are refused.
        """
        versions, values = found.versions, found.values
        for channel in [one for one in versions if one not in values]:
            version = versions[channel]
            place = key.checkpoint_ns, channel, version
            if place in self._valued:
                own = None if self._is_javascript else absent_version(version)
                if own is None:
                    raise CannotHold(
                        f"channel '{channel}' of {checkpoint_words(key)} has no value, but version"
                        f" '{version}' elsewhere"
                    )
                replace_version(found, channel, version, own)
                place = key.checkpoint_ns, channel, own
            self._absent[place] = key.thread_id

    def end(self, target: Form) -> Iterator[ValuePart]:
        """The marks of channels without a value, which are known at the end only.

        The snapshot of a DeltaChannel is stored with one of the checkpoints of its version.
        """
        if not target.marks_absent:
            return
        for place, thread_id in self._absent.items():
            if place not in self._seen:
                yield ValuePart(thread_id, *place, TypedBytes(EMPTY, b""))


def checkpoint_words(key: CheckpointKey) -> str:
    """A checkpoint in a message."""
    return f"checkpoint '{key.checkpoint_id}'"


def _digest(value: TypedBytes | bytes) -> bytes:
    """The digest of a value without regard to the order of sets; a digest as it is."""
    if isinstance(value, bytes):
        return value
    data = value.type.encode("utf-8", "surrogatepass") + b"\0" + without_order(value)
    return blake2b(data, digest_size=8).digest()


def _is_delta(value: TypedBytes) -> bool:
    """Whether a value is the snapshot of a DeltaChannel.

    It is stored with one of the checkpoints of its version, and is right for all of them.
    """
    return is_snapshot(value) or b'"DeltaSnapshot"' in value.data[:64]
