"""Replaces values by their type and size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from ckpt_backends.errors import UsageError
from ckpt_backends.protocol import Store
from ckpt_backends.wrapper import WrappedStore
from ckpt_cli.core.redact import redact, redact_change, redact_metadata, redact_step, redact_write

if TYPE_CHECKING:
    from ckpt_backends.codec.values import Value
    from ckpt_cli.core.forking import CheckpointPlan
    from ckpt_cli.core.resume import UserMetadata
    from ckpt_cli.core.tasks import TaskWrite
    from ckpt_cli.core.values import Path, Selected
    from ckpt_cli.reading.states import State
    from ckpt_cli.reading.thread import Moment


class RedactedStore(WrappedStore):
    """A store with values that must not be shown."""


def is_redacted(store: Store) -> bool:
    """Return whether answers from a store must be redacted."""
    return isinstance(store, RedactedStore)


class Hidable(Protocol):
    """A record of an answer."""

    def redacted(self) -> Self:
        """Return it without values, and without texts that quote them."""


Record = TypeVar("Record", bound=Hidable)


def shown(store: Store, found: Record) -> Record:
    """Return a record as it may be shown."""
    return found.redacted() if is_redacted(store) else found


def refuse_raw(store: Store) -> None:
    """Raise `UsageError` if stored bytes would be shown although `--redact` is given."""
    if is_redacted(store):
        raise no_raw()


def no_raw() -> UsageError:
    """Return the error for showing stored bytes together with `--redact`."""
    return UsageError("--raw cannot be combined with --redact", hint="use one of them")


def carried_metadata(store: Store, metadata: Mapping[str, Value]) -> UserMetadata:
    """Return the metadata with which a graph resumes from a checkpoint, or from a copy of it."""
    from ckpt_cli.core.resume import user_metadata

    return user_metadata(redact_metadata(metadata) if is_redacted(store) else metadata)


def moment(found: Moment) -> Moment:
    """Return a checkpoint without its values."""
    return found.redacted()


def state(found: State) -> State:
    """Return a state with types and sizes in place of values."""
    return found.redacted()


def placed(found: TaskWrite) -> TaskWrite:
    """Return a write with type and size in place of its value."""
    instead = None if found.write.value is None else redact(found.value)
    return found._replace(write=redact_write(found.write), instead=instead)


def selected(found: Selected, asked: Path) -> Selected:
    """Return a place with type and size in place of its value; keys that were not asked for are
    hidden.
    """
    path = tuple(
        step if n == 0 or isinstance(step, int) or step in asked else "*"
        for n, step in enumerate(found.path)
    )
    return found._replace(path=path, value=redact(found.value))


def plan(found: CheckpointPlan) -> CheckpointPlan:
    """Return a plan for display, with types and sizes in place of values, questions and errors."""
    from dataclasses import replace  # late: most answers are not redacted

    changes = {name: redact_change(change) for name, change in found.changes.items()}
    return replace(
        found, changes=changes, now=None if found.now is None else redact_step(found.now)
    )
