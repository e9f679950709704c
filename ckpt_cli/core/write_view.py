"""A checkpoint's writes with the task that each belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Write
from ckpt_cli.core.tasks import Step, owners, write_order


@dataclass(frozen=True, slots=True)
class Placed:
    """A write in its place."""

    write: Write
    node: str | None
    """None for the caller's writes, and where the task is not known."""
    path: str
    """The task path, rebuilt where the layout stores none."""
    instead: Value = None
    """What to show for the value, if not the value itself."""

    @property
    def value(self) -> Value:
        """The value, decoded anew each time; None where it was not read."""
        if self.instead is not None or self.write.value is None:
            return self.instead
        return decode(self.write.value)


def place(writes: Iterable[Write], step: Step) -> list[Placed]:
    """The writes in the order in which LangGraph applies them."""
    owned = owners(step)
    found: list[Placed] = []
    for write in write_order(writes, step):
        owner = owned.get(write.task_id)
        path = write.task_path or (owner.path if owner is not None else "")
        found.append(Placed(write, owner.node if owner is not None else None, path))
    return found
