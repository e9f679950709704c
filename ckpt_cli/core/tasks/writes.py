"""A checkpoint's writes, with the task of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Write
from ckpt_cli.core.tasks.tasks import Step, owners, write_order


@dataclass(frozen=True, slots=True)
class Placed:
    """A write with its node and task path."""

    write: Write
    node: str | None
    """None for the caller's writes, and if the task is not known."""
    path: str
    """The task path; computed if the layout stores none."""
    instead: Value = None
    """Value to show instead of the real one, for example when it is redacted."""

    @property
    def value(self) -> Value:
        """The decoded value, decoded again each time; None if it was not read."""
        if self.instead is not None or self.write.value is None:
            return self.instead
        return decode(self.write.value)


def place(writes: Iterable[Write], step: Step) -> list[Placed]:
    """Return the writes in the order in which LangGraph applies them, each with its task."""
    owned = owners(step)
    found: list[Placed] = []
    for write in write_order(writes, step):
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner is not None else "")
        found.append(Placed(write, owner.node if owner is not None else None, path))
    return found
