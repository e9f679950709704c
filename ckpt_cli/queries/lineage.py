"""Read what a filter asks about each checkpoint of a lineage, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID, Status
from ckpt_cli.core.filters.evaluate import values_at
from ckpt_cli.core.filters.language import METADATA, VALUES, Field
from ckpt_cli.core.state import read_metadata, source_from
from ckpt_cli.core.tasks.tasks import blocking_error
from ckpt_cli.reading.states import StateTimeline, read_state
from ckpt_cli.reading.thread import ThreadReader, number_of

FIELDS_OF_CHECKPOINT = (VALUES, METADATA, "step", "source", "next", "status", "error")
"""The fields of the filter language that a checkpoint has; the others are about a thread."""
_OF_METADATA = frozenset({METADATA, "step", "source"})
_OF_STEP = frozenset({"next", "status", "error"})
_AT_ONCE = 200

Found = TypeVar("Found")
Values = Mapping[str, Value] | Opaque
"""The state of a checkpoint; `Opaque` if its body cannot be read."""


@dataclass(frozen=True, slots=True)
class _StepFacts:
    conditions: tuple[Status, ...]
    next: tuple[str, ...] | None
    error: str | None


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What is known about one checkpoint. As a function, it is the `Facts` of a filter.

    It answers None, which means not known, for a value that cannot be read.
    """

    checkpoint_id: str
    metadata: Mapping[str, Value] | None = None
    step: _StepFacts | None = None
    values: Values | None = None

    def __call__(self, field: Field) -> Sequence[Value] | None:
        match field.name:
            case "values":
                return None if self.values is None else _readable(self.values, field)
            case "status":
                return None if self.step is None else self.step.conditions
            case "next":
                return None if self.step is None else self.step.next
            case "error":
                return None if self.step is None else (self.step.error,)
        if self.metadata is None:
            return None
        match field.name:
            case "step":
                return (number_of(self.checkpoint_id, self.metadata),)
            case "source":
                return (source_from(self.metadata),)
        return values_at(self.metadata, field.path)


def _readable(values: Values, field: Field) -> Sequence[Value] | None:
    found = (values,) if isinstance(values, Opaque) else values_at(values, field.path)
    return None if any(isinstance(one, Opaque) for one in found) else found


class Lineage:
    """Checkpoints of one namespace, oldest first, each the parent of the next."""

    def __init__(self, reader: ThreadReader, checkpoint_ns: str, ids: Sequence[str]) -> None:
        self._reader = reader
        self._ns = checkpoint_ns
        self._ids = ids

    def facts(
        self, fields: Collection[str], channels: Collection[str] | None
    ) -> Iterator[CheckpointFacts]:
        """Yield the facts for these fields, oldest first; missing checkpoints are left out.

        `channels` limits which values are read. A value that did not change is decoded once.
        """
        metadata = self._metadata if _OF_METADATA.intersection(fields) else None
        steps = self._steps if _OF_STEP.intersection(fields) else None
        metadata_of, step_of = _Ahead(self._ids, metadata), _Ahead(self._ids, steps)
        states: Iterator[tuple[str, Values | None]] = ((one, None) for one in self._ids)
        if VALUES in fields:
            states = self._states(channels)
        for checkpoint_id, values in states:
            yield CheckpointFacts(
                checkpoint_id, metadata_of(checkpoint_id), step_of(checkpoint_id), values
            )

    def facts_at(
        self, checkpoint_id: str, fields: Collection[str], channels: Collection[str] | None
    ) -> CheckpointFacts:
        """Return the same for one checkpoint, without reading others."""
        values: Values | None = None
        if VALUES in fields:
            values = self._state(checkpoint_id, channels)
        metadata = self._metadata([checkpoint_id]) if _OF_METADATA.intersection(fields) else {}
        steps = self._steps([checkpoint_id]) if _OF_STEP.intersection(fields) else {}
        return CheckpointFacts(
            checkpoint_id, metadata.get(checkpoint_id), steps.get(checkpoint_id), values
        )

    def _metadata(self, ids: Sequence[str]) -> dict[str, dict[str, Value]]:
        stored = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, metadata=True
        )
        return {one.key.checkpoint_id: read_metadata(one) for one in stored}

    def _steps(self, ids: Sequence[str]) -> dict[str, _StepFacts]:
        return {
            one.key.checkpoint_id: _StepFacts(
                one.conditions, one.step.next, blocking_error(one.step)
            )
            for one in self._reader.moments(self._ns, ids)
        }

    def _states(self, channels: Collection[str] | None) -> Iterator[tuple[str, Values]]:
        written = self._with_caller_writes(channels)
        for point in StateTimeline(self._reader, self._ns, set(self._ids), channels):
            checkpoint_id = point.checkpoint.key.checkpoint_id
            if checkpoint_id in written:
                yield checkpoint_id, self._state(checkpoint_id, channels)
            else:
                yield checkpoint_id, point.body.problem or point.values

    def _state(self, checkpoint_id: str, channels: Collection[str] | None) -> Values:
        wanted = True if channels is None else channels
        try:
            stored = self._reader.stored(self._ns, checkpoint_id, state=wanted)
        except NotFound:
            return {}
        return stored.body.problem or read_state(self._reader, stored, channels).values

    def _with_caller_writes(self, channels: Collection[str] | None) -> set[str]:
        """Return the checkpoints with a state that the caller's own writes change."""
        stored = self._reader.store.writes(
            self._reader.thread_id, checkpoint_ns=self._ns, channels=channels
        )
        return {one.key.checkpoint_id for one in stored if one.task_id == NULL_TASK_ID}


class _Ahead(Generic[Found]):
    """Answers for one checkpoint after the other, in their order; reads some at once."""

    def __init__(
        self, ids: Sequence[str], read: Callable[[Sequence[str]], Mapping[str, Found]] | None
    ) -> None:
        self._ids = ids
        self._read = read
        self._next = 0
        self._found: Mapping[str, Found] = {}

    def __call__(self, checkpoint_id: str) -> Found | None:
        while self._read is not None and checkpoint_id not in self._found:
            some = self._ids[self._next : self._next + _AT_ONCE]
            if not some:
                return None
            self._found = self._read(some)
            self._next += len(some)
        return self._found.get(checkpoint_id)
