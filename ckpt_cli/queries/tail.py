"""Follow the checkpoints of a thread while they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ckpt_backends.errors import NotFound, StoreChanged
from ckpt_backends.protocol import Store
from ckpt_cli.core.tasks.step_nodes import failures
from ckpt_cli.queries.history import Entry, branch_depths, made_by
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader

_Place: TypeAlias = tuple[str, str]
"""(checkpoint id, namespace), so that places sort by time."""


class Tail:
    """The checkpoints of a thread that were not shown yet."""

    def __init__(
        self, store: Store, thread_id: str, checkpoint_ns: str | None, *, all_ns: bool
    ) -> None:
        self._store = store
        self._thread_id = thread_id
        self._ns = None if all_ns else checkpoint_ns or ""
        self._seen: set[_Place] = set()
        self._heads: dict[_Place, tuple[int, frozenset[str]]] = {}
        """For the newest checkpoint seen in each namespace: its number of writes, and its
        events.
        """

    def last(self, number: int) -> list[Entry]:
        """Return the newest checkpoints, oldest first. Raises `NotFound` if there is no thread."""
        reader = ThreadReader(self._store, self._thread_id)
        if self._ns:
            self._ns = reader.namespace(self._ns)
        self._seen = self._places(reader)
        # Read the newest one even if it is not wanted, to notice later writes to it.
        found = list(self._entries(reader, sorted(self._seen)[-max(number, 1) :]))
        self._store.refresh()
        return list(map(self._shown, found)) if number else []

    def new(self) -> list[Entry]:
        """Return the checkpoints that were added since the last call, oldest first.

        A checkpoint that was the newest before is returned again if its step has since asked a
        question or failed, even if the failure was retried and other checkpoints follow. Raises
        `StoreChanged` if the thread was deleted.
        """
        try:
            reader = ThreadReader(self._store, self._thread_id)
        except NotFound:
            raise StoreChanged(f"thread '{self._thread_id}' was deleted meanwhile") from None
        places = self._places(reader)
        fresh = places - self._seen
        self._seen = places
        before = dict(self._heads)
        touched = {
            place
            for place, (writes, _) in before.items()
            if place in places and self._writes(place) != writes
        }
        found = [
            entry
            for entry in self._entries(reader, sorted(fresh | touched))
            if _place(entry) in fresh or _events(entry.moment) - before[_place(entry)][1]
        ]
        self._store.refresh()
        return list(map(self._shown, found))

    def _shown(self, entry: Entry) -> Entry:
        if not redaction.is_redacted(self._store):
            return entry
        return entry._replace(moment=redaction.moment(entry.moment))

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
                self._heads = {one: what for one, what in self._heads.items() if one[1] != ns} | {
                    place: (len(moment.writes), _events(moment))
                }
                yield Entry(
                    moment,
                    depths[ns][checkpoint_id],
                    reader.children(moment.key),
                    made_by(reader, moment),
                    reader.is_plaintext(moment),
                )


def _events(moment: Moment) -> frozenset[str]:
    """Return the questions and failures of a checkpoint's step."""
    runs = (*moment.step.tasks, *moment.step.others)
    asked = {f"{one.task_id} asked {one.interrupt_id}" for run in runs for one in run.questions}
    return frozenset(asked | {f"{run.id} failed: {run.error}" for run in failures(moment.step)})


def _place(entry: Entry) -> _Place:
    return entry.moment.key.checkpoint_id, entry.moment.key.checkpoint_ns
