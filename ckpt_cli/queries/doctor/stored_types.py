"""All classes and functions that the values of a thread name, each value counted once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ckpt_backends.model import Checkpoint, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.type_use import TypeUse, TypeUses
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.queries.doctor.naming_values import Place, naming_values
from ckpt_cli.queries.doctor.terms import ThreadReport
from ckpt_cli.queries.doctor.types import dangerous_findings


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
        self._uses = TypeUses()
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
                self._uses.add(TypeUse(named, count, value.key, value.channel, value.task_id))

    def uses(self) -> list[TypeUse]:
        """Return what was added, with short refs."""
        refs = short_refs(self.ids)
        return [replace(one, ref=refs.get(one.key.checkpoint_id)) for one in self._uses.listed()]

    def _is_new(self, place: Place) -> bool:
        is_new = place not in self._seen
        self._seen.add(place)
        return is_new
