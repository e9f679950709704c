"""All classes and functions that the values of a thread name, each value counted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckpt_backends.codec import decode
from ckpt_backends.codec.split import split
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Checkpoint
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Checked
from ckpt_cli.core.doctor.type_use import TypeUse, TypeUses
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.queries.doctor.terms import ThreadReport
from ckpt_cli.queries.doctor.types import NamingValue, naming_values


def gather_types(store: Store, thread_id: str, report: ThreadReport, *, count: bool) -> None:
    """Add to a report all that the values of its thread name.

    Counts the checkpoints and writes with `count`. If a value cannot be read, the report says so.
    """
    found = _StoredTypes(store, thread_id, report.checked if count else Checked())
    report.types = found.uses()
    if found.unread and not report.unchecked:
        report.unchecked = (
            f"{found.unread} of its values cannot be read"
            if found.unread > 1
            else "one of its values cannot be read"
        )


class _StoredTypes:
    """Reads a thread. `unread` is the number of values that could not be read."""

    def __init__(self, store: Store, thread_id: str, checked: Checked) -> None:
        self.unread = 0
        self._store = store
        self._thread_id = thread_id
        self._checked = checked
        self._seen: set[tuple[object, ...]] = set()

    def uses(self) -> list[TypeUse]:
        """Read all checkpoints and writes, one at a time, and return what they name."""
        uses, ids = TypeUses(), []
        for checkpoint in self._store.checkpoints(
            self._thread_id, body=True, metadata=True, values=True
        ):
            ids.append(checkpoint.key.checkpoint_id)
            self._checked.checkpoints += 1
            self._add(uses, checkpoint, list(naming_values(checkpoint, ())))
        for write in self._store.writes(self._thread_id, values=True):
            self._checked.writes += 1
            for value in naming_values(Checkpoint(write.key, None), [write]):
                self._count(uses, value, (write.key, write.task_id, write.idx))
        refs = short_refs(ids)
        return [replace(one, ref=refs.get(one.key.checkpoint_id)) for one in uses.listed()]

    def _add(self, uses: TypeUses, checkpoint: Checkpoint, values: list[NamingValue]) -> None:
        if not values:
            return
        key = checkpoint.key
        versions = _versions(checkpoint)
        for value in values:
            version = versions.get(value.channel)
            # What has no version is stored once for each checkpoint.
            at = (key.checkpoint_id,) if version is None else ("version", version)
            self._count(uses, value, (key.checkpoint_ns, value.channel, *at))

    def _count(self, uses: TypeUses, value: NamingValue, place: tuple[object, ...]) -> None:
        if value.names is None:
            self.unread += place not in self._seen
            self._seen.add(place)
            return
        for named in value.names:
            is_new = (named, *place) not in self._seen
            self._seen.add((named, *place))
            uses.add(TypeUse(named, int(is_new), value.key, value.channel))


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
