"""Changes the events of `AgentCoreMemorySaver`.

An event store only appends and removes. A change is collected first. Then what is new is added,
the newest root checkpoint last; an event that loses a part of its rows is stored anew without them;
and at last old events are removed. There is no lock and no transaction: what a killed run leaves is
an earlier state, or rows that are stored twice, and the same command completes it.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby

from ckpt_backends.aws.agentcore.connect import Event
from ckpt_backends.aws.agentcore.records import (
    CHECKPOINTS,
    EMPTY,
    VALUES,
    WRITES,
    blob_of,
    blob_of_writes,
    row_of,
    session_of,
    snapshot_metadata,
    versions_of,
    writes_session,
)
from ckpt_backends.aws.agentcore.store import (
    AgentCoreStore,
    Identity,
    ThreadEvents,
    identity_of,
    key_of,
    microseconds,
    moment,
    open_store,
)
from ckpt_backends.changes import BACKUPS, Remains, moved
from ckpt_backends.codec import decode
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import Kind, Progress, Record, TypedBytes, silent, time_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import (
    CopyTarget,
    Heads,
    NamespaceState,
    RecordStore,
    Rows,
    ThreadState,
    Where,
)
from ckpt_backends.rows import (
    Cell,
    Restored,
    Row,
    RowEdit,
    Standing,
    check_columns,
    conflict,
    restored,
    standing_of,
)
from ckpt_backends.servers import CHANGES, checked
from ckpt_backends.url import StoreUrl

_ITEMS, _BYTES = 100, 9_900_000
"""What the payload of an event may have. The service takes 10 MB."""
_TASK = ("task_id", "idx")
_MILLISECOND = 1000
_YEAR_9999 = 253_370_764_800_000_000
"""Microseconds since 1970."""


@checked(*CHANGES)
class WritableAgentCoreStore(RecordStore):
    """A memory, opened for changing."""

    def __init__(self, url: StoreUrl) -> None:
        self._store, self._url = AgentCoreStore(url), url

    @contextmanager
    def _transaction(
        self,
        thread_ids: Sequence[str],  # noqa: ARG002 - nothing can be locked
        *,
        exclusive: bool = False,  # noqa: ARG002
    ) -> Iterator[Rows]:
        with self._changing() as rows:
            yield rows

    @contextmanager
    def _changing(self) -> Iterator[_Rows]:
        self._store.refresh()
        rows = _Rows(self._store)
        yield rows
        rows.commit()
        self._store.refresh()

    def restore(self, rows: Iterable[Row]) -> Restored:
        counts: Counter[Standing] = Counter()
        with self._changing() as changed:
            known = (_known(row, self._store) for row in rows)
            for row, standing in standing_of(known, self._store.rows, self._store.row_key):
                counts[standing] += 1
                if standing is Standing.MISSING:
                    changed.put(row)
        return restored(counts)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with self._changing() as changed:
            view = changed.view(thread_id)
            for one in edits:
                if view.get(identity_of(one.stored)) != one.stored:
                    raise moved(thread_id)
                view[identity_of(one.new)] = one.new

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        return Remains(places=(BACKUPS,))

    def close(self) -> None:
        self._store.close()


def _known(row: Row, store: AgentCoreStore) -> Row:
    """A row of an archive that anyone may have written. Raises `Refused` and `Unsupported`."""
    names = ("thread_id", "checkpoint_ns", "actor_id", "type")
    needed: dict[str, tuple[str, ...]] = {
        CHECKPOINTS: ("checkpoint_id", "metadata_type", "at"),
        VALUES: ("channel", "version"),
        WRITES: ("checkpoint_id", "task_id", "task_path", "idx", "channel", "at"),
    }
    check_columns(row, store.columns, {*names, *needed.get(row.table, ())})
    for name in (*names, *needed[row.table]):
        if type(row.cells[name]) is not (int if name in {"at", "idx"} else str):
            raise Refused(f"a row of '{row.table}' has no '{name}' of its saver")
    at = row.cells.get("at", 0)
    if not isinstance(at, int) or not 0 <= at < _YEAR_9999:
        raise Refused(f"a row of '{row.table}' is of no time")
    return row


class _Rows(Rows):
    """The rows of threads as they are to be."""

    tables: Mapping[Kind, str] = {
        Kind.WRITE: WRITES,
        Kind.VALUE: VALUES,
        Kind.CHECKPOINT: CHECKPOINTS,
    }

    def __init__(self, store: AgentCoreStore) -> None:
        self._store = store
        self._stored: dict[str, ThreadEvents] = {}
        self._views: dict[str, dict[Identity, Row]] = {}
        self._sources: dict[str, str] = {}
        """By copied thread, the thread that has its values."""

    def view(self, thread_id: str) -> dict[Identity, Row]:
        """The rows of a thread, which may be changed."""
        if thread_id not in self._views:
            self._stored[thread_id] = self._store.loaded(thread_id)
            self._views[thread_id] = self._stored[thread_id].rows()
        return self._views[thread_id]

    def put(self, row: Row) -> None:
        """Add a row. Raises `StoreChanged` if there is one in its place."""
        thread_id, actor = (str(row.cells[name]) for name in ("thread_id", "actor_id"))
        view, stored = self.view(thread_id), self._stored[thread_id]
        if identity_of(row) in view:
            raise conflict(row.table)
        if (stored.actor or actor) != actor:
            raise Refused(f"thread '{thread_id}' belongs to the actor '{stored.actor}'")
        stored.actor = actor
        view[identity_of(row)] = row

    def _chosen(self, kind: Kind, where: Where) -> Iterator[Row]:
        for thread_id in where.thread_ids:
            for row in list(self.view(thread_id).values()):
                if row.table != self.tables[kind]:
                    continue
                cells = row.cells
                ns, channel, version = (
                    str(cells.get(name)) for name in ("checkpoint_ns", "channel", "version")
                )
                task = tuple(cells.get(name) for name in _TASK)
                if (
                    where.takes_value(ns, channel, version)
                    if kind is Kind.VALUE
                    else where.takes(ns, cells["checkpoint_id"], task)
                ):
                    yield row

    def heads(self, thread_ids: Sequence[str]) -> Heads:
        return {one: _heads(self.view(one)) for one in thread_ids}

    def states(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadState]:
        found = {}
        for thread_id in thread_ids:
            rows = dict.fromkeys(self.tables, 0)
            ids = []
            for row in self.view(thread_id).values():
                rows[next(kind for kind, table in self.tables.items() if table == row.table)] += 1
                if row.table == CHECKPOINTS:
                    ids.append(str(row.cells["checkpoint_id"]))
            found[thread_id] = ThreadState(time_of(max(ids)) if ids else None, rows)
        return found

    def count(self, kind: Kind, where: Where) -> int:
        return sum(1 for _ in self._chosen(kind, where))

    def add(self, records: Iterable[Record]) -> None:
        found = list(records)
        for record in found:
            view = self.view(record.key.thread_id)
            actor = self._stored[record.key.thread_id].actor or self._actor(found)
            about: dict[str, Cell] = {"actor_id": actor, "at": None}
            if record.kind is Kind.CHECKPOINT and _is_in_snapshots(view, record.key.checkpoint_ns):
                about["snapshot_version"] = 1
            row = row_of(record, about)
            self.put(row)
            named = versions_of(row) if record.kind is Kind.CHECKPOINT else None
            for channel, version in (named or {}).items():
                # The saver loads no checkpoint that names a version of which nothing is stored.
                mark = Record.apart(*record.key[:2], channel, version, TypedBytes(EMPTY, b""))
                if (VALUES, record.key.checkpoint_ns, channel, version) not in view:
                    self.put(row_of(mark, {"actor_id": actor, "at": None}))

    def _actor(self, records: Iterable[Record]) -> str:
        """The actor of a new thread. Raises `Unsupported` if nothing tells it."""
        told = (decode(one.metadata) for one in records if one.kind is Kind.CHECKPOINT)
        named = (one.get("actor_id") for one in told if isinstance(one, dict))
        actor = self._store.memory.actor or next(filter(None, named), None)
        if not isinstance(actor, str):
            raise Unsupported(
                "nothing tells the actor of the thread", hint="name one in the URL: ?actor=NAME"
            )
        return actor

    def copy(self, kind: Kind, where: Where, target: CopyTarget) -> int:
        number = 0
        self._sources[target.thread_id] = where.thread_ids[0]
        for row in self._chosen(kind, where):
            cells: dict[str, Cell] = {**row.cells, "thread_id": target.thread_id}
            if target.checkpoint_id is not None:
                cells |= {"checkpoint_id": target.checkpoint_id, "at": None}
            for name, tag, value in (
                ("checkpoint", "type", target.body),
                ("metadata", "metadata_type", target.metadata),
            ):
                if value is not None:
                    cells |= {name: value.data, tag: value.type}
            self.put(Row(row.table, cells))
            number += 1
        return number

    def remove(self, kind: Kind, where: Where) -> int:
        gone = list(self._chosen(kind, where))
        for row in gone:
            del self.view(str(row.cells["thread_id"]))[identity_of(row)]
        return len(gone)

    def named(self, where: Where) -> Iterator[tuple[str, str]]:
        thread_id = where.thread_ids[0]
        source = self._sources.get(thread_id, thread_id)
        for row in self._chosen(Kind.CHECKPOINT, where):
            versions = versions_of(row)
            yield from (
                _all_versions(self.view(source), row) if (versions is None) else versions.items()
            )

    def confirm(self, before: Heads, added: Mapping[tuple[str, str], int]) -> None:
        """Nothing: `commit` looks at all events."""

    def commit(self) -> None:
        """Carry out what was collected.

        Raises `CannotHold` before anything is stored, and `StoreChanged` if a thread that changes
        has other events than before.
        """
        self._store.refresh()
        for thread_id, stored in self._stored.items():
            ids, now = (
                {event.event_id for event, _ in one.events}
                for one in (stored, self._store.loaded(thread_id))
            )
            if now != ids and self._views[thread_id] != stored.rows():
                raise moved(thread_id)
        changes = [
            _Change(self._store, self._stored[one], view) for one, view in self._views.items()
        ]
        for one in changes:
            one.add()
        for one in changes:
            one.remove()


def _heads(view: Mapping[Identity, Row]) -> dict[str, NamespaceState]:
    found: dict[str, NamespaceState] = {}
    for row in view.values():
        if row.table == CHECKPOINTS:
            _, ns, own = key_of(row)
            known = found.get(ns, NamespaceState("", 0))
            found[ns] = NamespaceState(max(known.head, own), known.checkpoints + 1)
    return found


def _is_in_snapshots(view: Mapping[Identity, Row], ns: str) -> bool:
    """Whether the saver that stored the newest checkpoint of a namespace stores it whole."""
    head = _heads(view).get(ns)
    row = None if head is None else view[CHECKPOINTS, ns, head.head]
    return row is not None and bool(row.cells.get("snapshot_version"))


def _all_versions(view: Mapping[Identity, Row], row: Row) -> Iterator[tuple[str, str]]:
    """All values of a namespace: nothing tells which of them an encrypted body names."""
    for table, ns, *value in view:
        if table == VALUES and ns == row.cells["checkpoint_ns"]:
            channel, version = value
            yield channel, version


class _Change:
    """What is added to one thread and removed from it."""

    def __init__(
        self, store: AgentCoreStore, stored: ThreadEvents, view: Mapping[Identity, Row]
    ) -> None:
        self._memory, self._actor, self._view = store.memory, stored.actor, view
        before = {identity_of(row) for _, rows in stored.events for row in rows}
        self._new = [row for own, row in view.items() if own not in before]
        self._values = {identity_of(row) for row in self._new if row.table == VALUES}
        self._old: list[Event] = []
        """The events to remove."""
        self._rewritten: list[tuple[Event, list[Row]]] = []
        """Those that are stored anew, with the rows that stay."""
        self._newest: dict[Cell, int] = {}
        """By namespace, the time of the newest event."""
        for event, rows in stored.events:
            for row in rows:
                ns, at = row.cells["checkpoint_ns"], microseconds(event.at)
                self._newest[ns] = max(self._newest.get(ns, 0), at)
        self._plan(stored)

    def _plan(self, stored: ThreadEvents) -> None:
        changed = {
            id(event)
            for event, rows in stored.events
            if any(self._view.get(identity_of(row)) != row or self._gains(row) for row in rows)
        }
        # The events of a snapshot name each other, so they are stored anew together.
        parts = {_part_of(event) for event, _ in stored.events if id(event) in changed} - {""}
        touched = [
            (event, rows)
            for event, rows in stored.events
            if id(event) in changed or _part_of(event) in parts
        ]
        self._old = [event for event, _ in sorted(touched, key=_order)]
        safe = {
            identity_of(row)
            for event, rows in stored.events
            if event not in self._old
            for row in rows
        }
        left = [
            (
                event,
                {own: self._view[own] for row in rows if (own := identity_of(row)) in self._view},
            )
            for event, rows in touched
        ]
        whole = [row for _, rows in left for row in rows.values() if _is_snapshot(row)]
        self._new += whole
        safe.update(map(identity_of, whole), *map(self._values_of, whole))
        for event, rows in left:
            if kept := [row for own, row in rows.items() if own not in safe]:
                self._rewritten.append((event, kept))
            safe |= rows.keys()

    def _gains(self, row: Row) -> bool:
        """Whether a stored snapshot names a value that is new: the saver looks only inside it."""
        return (
            bool(self._values)
            and _is_snapshot(row)
            and not self._values.isdisjoint(self._values_of(row))
        )

    # Additions

    def add(self) -> None:
        """Store what is new: values, writes, then checkpoints."""
        made = [*self._of_values(), *self._of_writes()]
        rows = [row for row in self._new if row.table == CHECKPOINTS]
        for row in sorted(rows, key=lambda one: (not one.cells["checkpoint_ns"], key_of(one))):
            if not _is_snapshot(row):
                made.append((_session(row), self._at(row), [blob_of(row)]))
        for event, kept in reversed(self._rewritten):
            writes = [row for row in kept if row.table == WRITES]
            blobs = [blob_of(row) for row in kept if row.table != WRITES]
            for _, some in groupby(writes, key=key_of):
                blobs.append(blob_of_writes(some))
            made += [(event.session, microseconds(event.at), some) for some in _parts(blobs)]
        for session, at, blobs in made:
            self._memory.create(self._actor, session, moment(at), blobs)
        for row in sorted(rows, key=lambda one: (not one.cells["checkpoint_ns"], key_of(one))):
            if _is_snapshot(row):
                self._add_snapshot(row)

    def _at(self, row: Row) -> int:
        """The time of the event of a new row. A head gets a time after all others."""
        at = row.cells.get("at")
        if isinstance(at, int):
            return at
        _, ns, own = key_of(row)
        made = time_of(own)
        at = time.time_ns() // 1000 if made is None else microseconds(made)
        is_head = _heads(self._view)[ns].head == own
        if is_head and ns in self._newest:
            at = max(at, self._newest[ns] + _MILLISECOND)
        return at

    def _of_values(self) -> Iterator[tuple[str, int, list[str]]]:
        whole = {own for row in self._new if _is_snapshot(row) for own in self._values_of(row)}
        rows = [row for row in self._new if row.table == VALUES and identity_of(row) not in whole]
        now = time.time_ns() // 1000
        for session, some in groupby(rows, key=_session):
            yield from ((session, now, one) for one in _parts(map(blob_of, some)))

    def _of_writes(self) -> Iterator[tuple[str, int, list[str]]]:
        rows = [row for row in self._new if row.table == WRITES]
        now = time.time_ns() // 1000
        together = groupby(rows, lambda row: (key_of(row), row.cells["task_id"], row.cells["at"]))
        groups = [list(some) for _, some in together]
        # Those in front came last.
        for some in reversed(groups):
            at, key = some[0].cells["at"], key_of(some[0])
            owner = self._view.get((CHECKPOINTS, *key[1:]))
            session = session_of(*key[:2])
            if owner is not None and owner.cells.get("snapshot_version"):
                session = writes_session(key)
            yield session, at if isinstance(at, int) else now, [blob_of_writes(some)]

    def _values_of(self, row: Row) -> list[Identity]:
        """The values that belong to a snapshot."""
        versions, ns = versions_of(row), str(row.cells["checkpoint_ns"])
        named = _all_versions(self._view, row) if versions is None else versions.items()
        found = [(VALUES, ns, channel, version) for channel, version in named]
        return [own for own in found if own in self._view]

    def _add_snapshot(self, row: Row) -> None:
        """Store a whole checkpoint, the part with the checkpoint last."""
        thread_id, ns, own = key_of(row)
        session, at = session_of(thread_id, ns), self._at(row)
        parts = list(_parts(blob_of(self._view[one]) for one in self._values_of(row)))
        last = parts.pop() if parts and len(parts[-1]) < _ITEMS else []
        ids = [
            self._memory.create(
                self._actor,
                session,
                moment(at - _MILLISECOND * (len(parts) + 1 - number)),
                part,
                snapshot_metadata(own, "checkpoint_data"),
            )
            for number, part in enumerate(parts)
        ]
        whole = blob_of(row, {"chunk_event_ids": ids})
        if last and _size(whole) + sum(map(_size, last)) > _BYTES:
            at_before = moment(at - _MILLISECOND)
            about = snapshot_metadata(own, "checkpoint_data")
            ids.append(self._memory.create(self._actor, session, at_before, last, about))
            whole, last = blob_of(row, {"chunk_event_ids": ids}), []
        about = snapshot_metadata(own, "checkpoint")
        self._memory.create(self._actor, session, moment(at), [*last, whole], about)

    # Removals

    def remove(self) -> None:
        """Remove the old events, the newest root checkpoint last."""
        for event in self._old:
            self._memory.delete(self._actor, event.session, event.event_id)


def _is_snapshot(row: Row) -> bool:
    """Whether a row is a checkpoint whose event holds all of its values."""
    return row.table == CHECKPOINTS and bool(row.cells.get("snapshot_version"))


def _session(row: Row) -> str:
    return session_of(str(row.cells["thread_id"]), str(row.cells["checkpoint_ns"]))


def _part_of(event: Event) -> str:
    """The session and the checkpoint of which an event is a part, in snapshots; `''` otherwise."""
    match event.metadata:
        case {"lc_layout": _, "lc_checkpoint_id": {"stringValue": str(own)}}:
            return f"{event.session} {own}"
    return ""


def _order(one: tuple[Event, list[Row]]) -> tuple[bool, int]:
    event, rows = one
    root = any(row.table == CHECKPOINTS and not row.cells["checkpoint_ns"] for row in rows)
    return root, microseconds(event.at)


def _parts(blobs: Iterable[str]) -> Iterator[list[str]]:
    """The texts in lists that an event can hold."""
    some: list[str] = []
    size = 0
    for one in blobs:
        own = _size(one)
        if some and (len(some) >= _ITEMS or size + own > _BYTES):
            yield some
            some, size = [], 0
        some.append(one)
        size += own
    if some:
        yield some


def _size(blob: str) -> int:
    return len(json.dumps({"blob": blob}))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises what `open_store` raises."""
    open_store(url).close()
    return WritableAgentCoreStore(url)
