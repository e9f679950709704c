"""Reads the events of `AgentCoreMemorySaver`.

The service tells of an event only its time, so the events of a thread are read as a whole, as the
saver reads them. There are no snapshots of the memory: what was read is kept until `refresh`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Unpack

from ckpt_backends import shell
from ckpt_backends.aws.agentcore.connect import Event, MemoryEvents
from ckpt_backends.aws.agentcore.declaration import BACKEND
from ckpt_backends.aws.agentcore.records import (
    CHECKPOINTS,
    COLUMNS,
    EMPTY,
    VALUES,
    WRITES,
    opened,
    place_of,
    rows_in,
    session_of,
    typed,
    versions_in,
    writes_session,
)
from ckpt_backends.aws.engine import AT_ONCE
from ckpt_backends.base import BaseStore, thread_of
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    Write,
    is_read,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    Store,
    WriteOptions,
    WriteQuery,
)
from ckpt_backends.rows import Cell, Row
from ckpt_backends.servers import STORE, checked
from ckpt_backends.url import StoreUrl

_REMEMBERED = 50
"""Threads that are kept in memory."""
_LOOKED_AT = 40
"""Events of a session, among which one must be of the saver."""
_OF_SUBGRAPH, _OF_WRITES = re.compile(r"[0-9a-f]{64}"), re.compile(r"lgw-[0-9a-f]{32}-[0-9a-f]{32}")
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
Identity = tuple[str, ...]


def identity_of(row: Row) -> Identity:
    """What no other row of a thread has."""
    names = {
        VALUES: ("checkpoint_ns", "channel", "version"),
        WRITES: ("checkpoint_ns", "checkpoint_id", "task_id", "idx"),
        CHECKPOINTS: ("checkpoint_ns", "checkpoint_id"),
    }
    return row.table, *(str(row.cells.get(name)) for name in names[row.table])


def microseconds(at: datetime) -> int:
    """A time as the cell `at`."""
    return round((at - _EPOCH) / _MICROSECOND)


def moment(at: int) -> datetime:
    """The time of an event, from the cell `at`."""
    return _EPOCH + at * _MICROSECOND


@dataclass(slots=True)
class ThreadEvents:
    """The events of a thread, as they are stored."""

    actor: str = ""
    events: list[tuple[Event, list[Row]]] = field(default_factory=list)
    """With the rows that each holds, the newest first."""

    def rows(self) -> dict[Identity, Row]:
        """The rows as the saver finds them: of two that are alike, the older one.

        Values, then writes in the order of the saver, then checkpoints.
        """
        found: dict[Identity, Row] = {}
        for row in chain.from_iterable(rows for _, rows in self.events):
            found[identity_of(row)] = row
        order = list(COLUMNS)
        return dict(sorted(found.items(), key=lambda pair: order.index(pair[0][0])))


@checked(*STORE)
class AgentCoreStore(BaseStore):
    """A memory, opened for reading."""

    columns = COLUMNS

    def __init__(self, url: StoreUrl) -> None:
        self.memory, self._url = MemoryEvents(url), url
        self._known: dict[str, ThreadEvents] = {}

    def close(self) -> None:
        self.memory.close()

    def refresh(self) -> None:
        self._known.clear()
        vars(self).pop("_sessions", None)

    def describe(self) -> StoreInfo:
        return StoreInfo(
            layout="agentcore",
            url=str(self.memory.url),
            engine="Bedrock AgentCore Memory",
            saver="langgraph-checkpoint-aws, AgentCoreMemorySaver",
            capabilities=BACKEND.layouts["agentcore"],
            tables=tuple(COLUMNS),
            size=None,
        )

    # Sessions

    @cached_property
    def _sessions(self) -> Mapping[str, tuple[str, Mapping[str, str]]]:
        """By thread, its actor, and by namespace the session. Raises `Unsupported`."""
        found: dict[str, tuple[str, dict[str, str]]] = {}
        listed = [(actor, one) for actor in self.memory.actors() for one in self._of(actor)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            places = list(pool.map(self._place, *zip(*listed, strict=True))) if listed else []
        for (actor, session), place in zip(listed, places, strict=True):
            if place is None:
                continue
            thread_id, ns = place
            other, spaces = found.setdefault(thread_id, (actor, {}))
            if other != actor:
                # The service lists a session for up to a day after its last event is gone.
                if not self._has_events(actor, session):
                    continue
                if any(self._has_events(other, one) for one in spaces.values()):
                    raise Unsupported(
                        f"thread '{thread_id}' belongs to several actors, such as '{other}' and"
                        f" '{actor}'",
                        hint="name one in the URL: ?actor=NAME",
                    )
                _, spaces = found[thread_id] = actor, {}
            spaces[ns] = session
        return found

    def _has_events(self, actor: str, session: str) -> bool:
        return any(True for _ in self.memory.events(actor, session))

    def _of(self, actor: str) -> list[str]:
        return [one for one in self.memory.sessions(actor) if not _OF_WRITES.fullmatch(one)]

    def _place(self, actor: str, session: str) -> tuple[str, str] | None:
        """The thread and the namespace of a session; None if it is not one of the saver."""
        if not _OF_SUBGRAPH.fullmatch(session):
            return session, ""
        for number, event in enumerate(self.memory.events(actor, session)):
            found = [fields for one in event.blobs if (fields := opened(one))]
            for place in filter(None, map(place_of, found)):
                return place if session_of(*place) == session else None
            if number >= _LOOKED_AT and not found:
                break
        return None

    def loaded(self, thread_id: str) -> ThreadEvents:
        """The events of a thread."""
        if thread_id not in self._known:
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[thread_id] = self._load(thread_id)
        return self._known[thread_id]

    def _load(self, thread_id: str) -> ThreadEvents:
        actor, spaces = self._sessions.get(thread_id, ("", {}))
        found = ThreadEvents(actor)
        for ns, session in spaces.items():
            self._add(found, session, {"thread_id": thread_id, "checkpoint_ns": ns})
        snapshots = [
            CheckpointKey(thread_id, str(row.cells["checkpoint_ns"]), own)
            for row in chain.from_iterable(rows for _, rows in found.events)
            if row.cells.get("snapshot_version") and (own := str(row.cells["checkpoint_id"]))
        ]
        for key in snapshots:
            self._add(found, writes_session(key), {**key._asdict(), "checkpoint_id": None})
        self._count(found)
        return found

    def _add(self, found: ThreadEvents, session: str, place: Mapping[str, Cell]) -> None:
        for event in self.memory.events(found.actor, session):
            at = microseconds(event.at)
            about = {"thread_id": place["thread_id"], "checkpoint_ns": place["checkpoint_ns"]}
            cells: dict[str, Cell] = {**about, "actor_id": found.actor, "at": at}
            rows = [row for one in event.blobs for row in rows_in(opened(one), cells)]
            found.events.append((event, rows))

    @staticmethod
    def _count(found: ThreadEvents) -> None:
        """Number the writes of each task in the order of arrival; the saver stores no `idx`."""
        numbers: Counter[tuple[Cell, ...]] = Counter()
        for place, (event, rows) in reversed(list(enumerate(found.events))):
            for at, row in enumerate(rows):
                if row.table == WRITES:
                    names = ("checkpoint_ns", "checkpoint_id", "task_id")
                    task = tuple(row.cells[name] for name in names)
                    rows[at] = Row(WRITES, {**row.cells, "idx": numbers[task]})
                    numbers[task] += 1
            found.events[place] = event, rows

    # Threads

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        wanted = sorted(self._sessions)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = [one for one in pool.map(self._summed_up, wanted) if one is not None]
        found.sort(key=lambda one: str(one.last), reverse=True)
        yield from found[:limit]

    def _summed_up(self, thread_id: str) -> Thread | None:
        known = self._known.get(thread_id)
        if known is None:
            known = self._load(thread_id)
            if len(self._known) < _REMEMBERED:
                self._known[thread_id] = known
        return thread_of(thread_id, list(self._outlines(known)))

    def thread(self, thread_id: str) -> Thread | None:
        return thread_of(thread_id, list(self._outlines(self.loaded(thread_id))))

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        ids = (one for one in sorted(self._sessions) if one.startswith(prefix) and one > after)
        yield from list(ids)[:limit]

    def suspect_threads(self) -> Iterator[str]:
        return (one for one in sorted(self._sessions) if self.loaded(one).rows())

    def _outlines(self, found: ThreadEvents) -> Iterator[Checkpoint]:
        for row in _in_order(row for row in found.rows().values() if row.table == CHECKPOINTS):
            yield Checkpoint(key_of(row), _parent(row))

    # Checkpoints and writes

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked, rows = CheckpointQuery(**options), self.loaded(thread_id).rows()
        for row in _in_order(_chosen(CHECKPOINTS, rows.values(), asked)):
            found = Checkpoint(
                key_of(row),
                _parent(row),
                typed(row, "checkpoint") if asked.body else None,
                typed(row, "metadata", "metadata_type") if asked.metadata else None,
            )
            yield self.with_named_values(found, asked.values) if asked.body else found

    def with_named_values(
        self, checkpoint: Checkpoint, values: bool | Collection[str]
    ) -> Checkpoint:
        ns, rows = checkpoint.key.checkpoint_ns, self.loaded(checkpoint.key.thread_id).rows()
        versions = {} if checkpoint.body is None else versions_in(checkpoint.body) or {}
        named = {one: rows.get((VALUES, ns, one, at)) for one, at in versions.items()}
        missing = frozenset(one for one, value in named.items() if value is None)
        return checkpoint._replace(blobs=dict(_blobs(named, values)), missing=missing)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        rows = _chosen(WRITES, self.loaded(thread_id).rows().values(), asked)
        for row in sorted(rows, key=key_of):
            task_id, path, channel = (
                str(row.cells[name]) for name in ("task_id", "task_path", "channel")
            )
            if asked.channels is not None and channel not in asked.channels:
                continue
            value, idx = typed(row, "value"), row.cells["idx"]
            wanted = asked.values if isinstance(asked.values, bool) else channel in asked.values
            shown = value if wanted else None
            number = idx if isinstance(idx, int) else 0
            yield Write(key_of(row), task_id, path, number, channel, len(value.data), shown)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        for row in self.loaded(thread_id).rows().values():
            if row.table == VALUES:
                names = ("checkpoint_ns", "channel", "version")
                key = BlobKey(*(str(row.cells[name]) for name in names))
                yield key, len(typed(row, "value").data)

    def rows(self, thread_id: str) -> Iterator[Row]:
        yield from self.loaded(thread_id).rows().values()

    def row_key(self, row: Row) -> Identity:
        return str(row.cells.get("thread_id")), *identity_of(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        actor, spaces = self._sessions.get(key.thread_id, ("", {}))
        own = f"events[?contains(to_string(payload), '{key.checkpoint_id}')]"
        sessions = (spaces.get(key.checkpoint_ns, session_of(*key[:2])), writes_session(key))
        return [
            shell.command(
                *("aws", "bedrock-agentcore", "list-events", "--memory-id", self.memory.memory),
                *("--actor-id", actor, "--session-id", one, "--include-payloads", "--query", own),
            )
            for one in sessions
        ]


def key_of(row: Row) -> CheckpointKey:
    """The checkpoint of a row; the id of a value's is `None`."""
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return CheckpointKey(*(str(row.cells[name]) for name in names))


def _parent(row: Row) -> str | None:
    parent = row.cells["parent_checkpoint_id"]
    return parent if isinstance(parent, str) else None


def _in_order(rows: Iterable[Row]) -> list[Row]:
    """By namespace, the newest id first."""
    found = sorted(rows, key=key_of, reverse=True)
    return sorted(found, key=lambda row: str(row.cells["checkpoint_ns"]))


def _chosen(table: str, rows: Iterable[Row], asked: CheckpointQuery | WriteQuery) -> Iterator[Row]:
    wanted = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
    for row in rows:
        if (
            row.table == table
            and asked.checkpoint_ns in (None, row.cells["checkpoint_ns"])
            and (wanted is None or row.cells["checkpoint_id"] in wanted)
        ):
            yield row


def _blobs(
    named: Mapping[str, Row | None], wanted: bool | Collection[str]
) -> Iterator[tuple[str, Blob]]:
    for channel, row in named.items():
        if row is not None and row.cells["type"] != EMPTY:
            value = typed(row, "value")
            shown = value if is_read(channel, wanted) else None
            yield channel, Blob(value.type, len(value.data), shown)


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError` and `StoreUnavailable`."""
    store = AgentCoreStore(url)
    try:
        store.memory.actors()  # is the memory there?
    except BaseException:
        store.close()
        raise
    return store
