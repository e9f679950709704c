"""A thread's checkpoints as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from ckpt_backends.errors import NotFound, StoreChanged
from ckpt_backends.model import Status
from ckpt_backends.protocol import Store
from ckpt_cli.reading import redacted
from ckpt_cli.reading.history import Entry, branch_depths
from ckpt_cli.reading.thread import ThreadReader

_TOLD_AGAIN = {Status.INTERRUPTED, Status.ERROR}

_Place: TypeAlias = tuple[str, str]
"""Checkpoint id and namespace, so that places sort by time."""


class Tail:
    """What was told of a thread so far."""

    def __init__(
        self, store: Store, thread_id: str, checkpoint_ns: str | None, *, all_ns: bool
    ) -> None:
        self._store = store
        self._thread_id = thread_id
        self._ns = None if all_ns else checkpoint_ns or ""
        self._seen: set[_Place] = set()
        self._told: dict[_Place, tuple[int, Status]] = {}
        """Of each head, how many writes it had and its status."""

    def last(self, number: int) -> list[Entry]:
        """The newest checkpoints, oldest first. Raises `NotFound`."""
        reader = ThreadReader(self._store, self._thread_id)
        if self._ns:
            self._ns = reader.namespace(self._ns)
        self._seen = self._places(reader)
        # The newest is looked at even if it is not wanted, to see later what becomes of it.
        found = list(self._entries(reader, sorted(self._seen)[-max(number, 1) :]))
        self._store.refresh()
        return list(map(self._shown, found)) if number else []

    def new(self) -> list[Entry]:
        """What was added since, oldest first.

        A head comes again when it asks a question or has failed, since that is written later
        than the checkpoint. Raises `StoreChanged` where the thread is gone.
        """
        try:
            reader = ThreadReader(self._store, self._thread_id)
        except NotFound:
            raise StoreChanged(f"thread '{self._thread_id}' was deleted meanwhile") from None
        places = self._places(reader)
        fresh = places - self._seen
        self._seen = places
        before = dict(self._told)
        touched = {
            place
            for place, (writes, _) in before.items()
            if place in places and self._writes(place) != writes
        }
        found = [
            entry
            for entry in self._entries(reader, sorted(fresh | touched))
            if _place(entry) in fresh or _turned(entry.moment.status, before[_place(entry)][1])
        ]
        self._store.refresh()
        return list(map(self._shown, found))

    def _shown(self, entry: Entry) -> Entry:
        if not redacted.is_redacted(self._store):
            return entry
        return replace(entry, moment=redacted.moment(entry.moment))

    def _places(self, reader: ThreadReader) -> set[_Place]:
        namespaces = reader.namespaces if self._ns is None else [self._ns]
        return {(one.key.checkpoint_id, ns) for ns in namespaces for one in reader.index(ns)}

    def _writes(self, place: _Place) -> int:
        checkpoint_id, ns = place
        found = self._store.writes(
            self._thread_id, checkpoint_ns=ns, checkpoint_ids=[checkpoint_id]
        )
        return sum(1 for _ in found)

    def _entries(self, reader: ThreadReader, places: Iterable[_Place]) -> Iterator[Entry]:
        depths: dict[str, dict[str, int]] = {}
        for place in places:
            checkpoint_id, ns = place
            if ns not in depths:
                depths[ns] = branch_depths(reader.index(ns), reader.head(ns))
            for moment in reader.moments(ns, [checkpoint_id]):
                self._told = {told: what for told, what in self._told.items() if told[1] != ns} | {
                    place: (len(moment.writes), moment.status)
                }
                depth, children = depths[ns][checkpoint_id], reader.children(moment.key)
                yield Entry(moment, depth, children, reader.is_plaintext(moment))


def _turned(status: Status, before: Status) -> bool:
    return status in _TOLD_AGAIN and status != before


def _place(entry: Entry) -> _Place:
    return entry.moment.key.checkpoint_id, entry.moment.key.checkpoint_ns
