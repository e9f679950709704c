"""Finds the threads of which any checkpoint matches a filter, not only the newest one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import NO_KEY, is_encrypted_field
from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.model import TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.filters.evaluate import Facts, decision, values_at
from ckpt_cli.core.filters.language import METADATA, VALUES, Field, Filter, fields_in
from ckpt_cli.core.state import source_from, step_from
from ckpt_cli.queries.filtered_threads import ThreadChooser
from ckpt_cli.queries.selection import Watch
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

# Find the threads of which any checkpoint matches a filter, not only the newest one.
#
# A run stores the metadata of its config in each checkpoint. So one thread may have checkpoints
# that name its user, and others, such as those of a run that was resumed without metadata, that
# do not.


OF_CHECKPOINTS = frozenset({"source", "step", METADATA, VALUES})
"""The fields that each checkpoint has its own values of."""

_CLOSED_FIELD = Opaque("json+aes", 0, "", NO_KEY)

Known = Mapping[str, Value] | Opaque
"""Metadata or values; `Opaque` if they cannot be read."""


class EverMatching:
    """Finds the threads of a store of which any checkpoint matches, in any namespace.

    `metadata`, `values`, `source` and `step` are those of a checkpoint; other fields are those of
    the thread as it is. It reads all checkpoints, which no list of threads does.
    """

    def __init__(self, store: Store, wanted: Filter, now: datetime) -> None:
        self.unread = 0
        """Threads that did not match, and have metadata or values that cannot be read."""
        self._store = store
        self._decide = decision(wanted)
        self._inference = TriggerInference(store)
        self._chooser = ThreadChooser(store, wanted, self._inference, now)
        fields = tuple(fields_in(wanted))
        self._fields = frozenset(one.name for one in fields)
        firsts = {one.path[0] for one in fields if one.name == VALUES}
        self._channels = [one for one in firsts if isinstance(one, str)]
        self._has_any_channel = len(self._channels) < len(firsts)

    def thread_ids(self, watch: Watch = iter) -> set[str]:
        """Return the ids of the threads that match."""
        threads = list(watch(self._store.threads()))
        found = {one.thread.thread_id for one in self._chooser.choose(threads)}
        if not self._fields.isdisjoint(OF_CHECKPOINTS):
            for thread in threads:
                if thread.thread_id not in found and self._has_matched(
                    ThreadReader(self._store, thread, self._inference)
                ):
                    found.add(thread.thread_id)
        return found

    def _has_matched(self, reader: ThreadReader) -> bool:
        of_thread: Facts | None = None
        is_unread = False
        try:
            for metadata, values in self._checkpoints(reader):
                of_thread = of_thread or self._chooser.facts_of(reader.thread, OF_CHECKPOINTS)
                found = self._decide(checkpoint_facts(metadata, values, of_thread))
                if found:
                    return True
                is_unread |= found is None
        except (NotFound, Unreadable):
            is_unread = True
        self.unread += is_unread
        return False

    def _checkpoints(self, reader: ThreadReader) -> Iterator[tuple[Known, Known]]:
        """Yield the metadata and the values of each checkpoint, as far as they are asked for."""
        if VALUES not in self._fields:
            for one in self._store.checkpoints(reader.thread_id, metadata=True):
                yield read_known(one.metadata), {}
            return
        channels = None if self._has_any_channel else self._channels
        for ns in reader.namespaces:
            for each in reader.decoded(ns, state=True if channels is None else channels):
                problem = each.body.problem
                values = problem or read_state(reader, each, channels).values
                yield read_known(each.checkpoint.metadata), values


def read_known(stored: TypedBytes | None) -> Known:
    """Return metadata as stored; `Opaque` if it cannot be read, and for each field that is still
    encrypted.
    """
    value = None if stored is None else decode(stored)
    if isinstance(value, Opaque):
        return value
    found = value if isinstance(value, dict) else {}
    return {
        key: _CLOSED_FIELD if is_encrypted_field(one) else one
        for key, one in found.items()
        if isinstance(key, str)
    }


def checkpoint_facts(metadata: Known, values: Known | None, of_thread: Facts) -> Facts:
    """Return what a filter may ask about one checkpoint.

    What cannot be read stays unknown, and so do all values without `values`.
    """

    def facts(field: Field) -> Sequence[Value] | None:
        if field.name == VALUES:
            return None if values is None else _at(values, field)
        if field.name == METADATA:
            return _at(metadata, field)
        if field.name not in OF_CHECKPOINTS:
            return of_thread(field)
        if isinstance(metadata, Opaque):
            return None
        return (source_from(metadata) if field.name == "source" else step_from(metadata),)

    return facts


def _at(root: Known, field: Field) -> Sequence[Value] | None:
    found = (root,) if isinstance(root, Opaque) else values_at(root, field.path)
    return None if any(isinstance(one, Opaque) for one in found) else found
