"""Find bodies, values and writes that cannot be decoded, and values that are not stored."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import Memo
from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.damage import (
    holds_replaced,
    is_absent,
    is_damaged,
    is_foreign,
    is_replaced,
)
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.readability import Readability, is_broken_inside, readability
from ckpt_cli.queries.doctor.seen import SeenCheckpoint

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
        elif found is Readability.FOREIGN and is_foreign(value):
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
