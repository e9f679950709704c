"""Decoded checkpoints of a thread, with the tasks of their next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from ckpt_backends.checkpoint_ids import step_of, time_of
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import CLOSED
from ckpt_backends.errors import Unreadable
from ckpt_backends.model import Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core.channels import LOST_DELTA, NOT_STORED
from ckpt_cli.core.state import Body, source_from, step_from
from ckpt_cli.core.tasks.status import conditions_of, status_of
from ckpt_cli.core.tasks.tasks import Step

_FIRST_YEAR, _LAST_YEAR = 1, 9999


class DecodedCheckpoint:
    """A decoded checkpoint. It is no tuple, since a `Moment` has one more field."""

    __slots__ = ("body", "checkpoint", "metadata", "writes")

    def __init__(
        self,
        checkpoint: Checkpoint,
        body: Body,
        metadata: Mapping[str, Value],
        writes: Sequence[Write],
    ) -> None:
        self.checkpoint: Final = checkpoint
        self.body: Final = body
        self.metadata: Final = metadata
        self.writes: Final = writes

    @property
    def key(self) -> CheckpointKey:
        return self.checkpoint.key

    def check_readable(self) -> None:
        """Raise `Unreadable` if the body could not be read at all."""
        if self.body.problem is not None:
            raise unreadable(f"checkpoint '{self.key.checkpoint_id}'", self.body.problem)

    @property
    def number(self) -> int | None:
        """The step, from the metadata, or else from the id."""
        return number_of(self.key.checkpoint_id, self.metadata)

    @property
    def source(self) -> str | None:
        return source_from(self.metadata)

    @property
    def at(self) -> datetime | None:
        return self.checkpoint.at or moment_time(self.key.checkpoint_id, self.body)


class Moment(DecodedCheckpoint):
    """A checkpoint with the tasks of its next step."""

    __slots__ = ("step",)

    def __init__(
        self,
        checkpoint: Checkpoint,
        body: Body,
        metadata: Mapping[str, Value],
        writes: Sequence[Write],
        step: Step,
    ) -> None:
        super().__init__(checkpoint, body, metadata, writes)
        self.step: Final = step

    def with_step(self, step: Step) -> Moment:
        """Return the same checkpoint with other tasks."""
        return Moment(self.checkpoint, self.body, self.metadata, self.writes, step)

    @property
    def status(self) -> Status:
        """The worst of the conditions."""
        return status_of(self.step)

    @property
    def conditions(self) -> tuple[Status, ...]:
        """All conditions of the step, the worst first."""
        return conditions_of(self.step)


def check_names_values(key: CheckpointKey, body: Body) -> None:
    """Raise `Unreadable` if a body does not tell which values its checkpoint needs."""
    if body.problem is not None:
        raise unreadable(f"checkpoint '{key.checkpoint_id}'", body.problem)
    if "channel_versions" in body.lacks:
        raise Unreadable(f"checkpoint '{key.checkpoint_id}' does not name the values that it needs")


def unreadable(what: str, problem: Opaque) -> Unreadable:
    """Return the error for something that cannot be decoded.

    The reason may quote its bytes, so only `show` prints it, which obeys `--redact`.
    """
    if problem == LOST_DELTA:
        return Unreadable(f"{what} is {problem.reason}")
    if problem.reason.startswith(NOT_STORED):
        return Unreadable(
            f"{what} is {problem.reason}",
            hint="`ckpt diff --writes THREAD@REF` shows what its tasks wrote",
        )
    if not problem.reason.startswith(CLOSED):
        return Unreadable(f"cannot read {what}", hint="`ckpt show THREAD@REF` says why")
    reason, _, hint = problem.reason.partition("; ")
    return Unreadable(f"cannot read {what}: {reason}", hint=hint or None)


def moment_time(checkpoint_id: str, body: Body) -> datetime | None:
    """Return the time of a checkpoint, from its id, or else from the body's `ts`; None if
    unknown.
    """
    return time_of(checkpoint_id) or stored_time(body)


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


def number_of(checkpoint_id: str, metadata: Mapping[str, Value]) -> int | None:
    """Return the step, from the metadata, or else from the id."""
    step = step_from(metadata)
    return step_of(checkpoint_id) if step is None else step
