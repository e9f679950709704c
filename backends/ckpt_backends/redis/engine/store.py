"""Reads checkpoints from Redis in any layout.

Redis has no snapshots. The list of keys is cached until `refresh`: keys that are added later are
not seen, and keys that are removed meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import attrgetter
from time import sleep
from typing import Any, Unpack

from ckpt_backends import shell
from ckpt_backends.base import BaseStore
from ckpt_backends.declaration import Backend, bundled, installed
from ckpt_backends.errors import (
    CkptError,
    SeveralLayouts,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
)
from ckpt_backends.memory import STORE as ITEMS
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Expiry,
    Fault,
    StoreInfo,
    Thread,
    ThreadBounds,
    ThreadSize,
    Usage,
    Write,
    in_chunks,
    time_of,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    ReadOptions,
    Store,
    WriteOptions,
    WriteQuery,
    WriteReadOptions,
)
from ckpt_backends.redis.engine.connection import RedisConnection, connect
from ckpt_backends.redis.engine.keyspace import (
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    raw,
    text,
)
from ckpt_backends.redis.engine.layout import (
    KeyDatabase,
    RecognisedStore,
    RedisLayout,
    namespaces_of,
    summed,
)
from ckpt_backends.rows import Row
from ckpt_backends.servers import STORE, checked, opening, understanding
from ckpt_backends.url import StoreUrl

_RECENT = timedelta(minutes=1)
_PAUSE_SECONDS = 1.0
"""Longer than a saver needs for the commands of one checkpoint."""
_POINTER_SECONDS = 0.2
"""Longer than a saver needs between a checkpoint and the pointer to it."""
_STAYS, _GONE = -1, -2
"""The answers of PTTL for a key without an expiry, and for a missing key."""
_REMEMBERED, _AT_ONCE = 200, 50
"""Number of threads with cached keys, and number of threads to look up together. A command usually
reads the threads one after the other, in the order of the listing."""
_KEEPS_ALL, _ONLY_EXPIRING = "noeviction", "volatile-"
"""A policy of `maxmemory`, and the beginning of those that remove only keys that expire."""
_SAMPLE = 100
"""Number of keys that are asked whether they expire."""
_FEW_WRITES, _FEW_THREADS = 500, 20
"""Up to this many writes are read to find their threads, and threads looked up one by one. With
more, all threads are listed first."""


@checked(*STORE, "expiries", "expiry_times", "faults", "faults_of", "suspect_threads")
class RedisStore(BaseStore):
    """A Redis database, opened for reading."""

    # Without an index, each look for writes is a SCAN over all keys.
    heads_at_once = None

    def __init__(self, layout: RedisLayout, url: StoreUrl) -> None:
        self._connection = layout.connection
        self._url = url
        self._layout = layout
        self._listings: dict[str, list[Thread]] = {}
        """By prefix, the threads whose ids begin with it, newest first."""
        self._listed_last: Sequence[Thread] = ()
        self._order: dict[str, int] = {}
        self._found: dict[str, ThreadKeys] = {}

    def describe(self) -> StoreInfo:
        server = self._connection.ask("INFO", "server")
        memory = self._connection.find("INFO", "memory") or {}
        return StoreInfo(
            layout=self._layout.name,
            url=str(self._url),
            engine=engine_of(server),
            saver=self._layout.saver,
            capabilities=self.capabilities,
            tables=self._layout.tables,
            size=memory.get("used_memory_dataset"),
            notes=tuple(self.notes()),
        )

    @property
    def capabilities(self) -> Capability:
        return self._layout.capabilities

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        yield from self._in_order(self._entries("")[:limit])

    def _entries(self, prefix: str) -> list[Thread]:
        """The threads whose ids begin with a text, newest first; may include others."""
        prefix = "" if "" in self._listings else prefix
        if prefix not in self._listings:
            self._listings[prefix] = threads_of(self._layout.namespaces(prefix))
        return self._listings[prefix]

    def _in_order(self, listed: Sequence[Thread]) -> Iterator[Thread]:
        self._listed_last = listed
        self._order = {one.thread_id: n for n, one in enumerate(listed)}
        yield from listed

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        channels = bounds.head_channels
        places = self._layout.writes_on(channels) if channels else None
        if channels is None or places is None:
            yield from super().threads_within(bounds)
            return
        if len(places) > _FEW_WRITES:
            heads = {one.head for one in self.threads()}
            places = [one for one in places if one.checkpoint_id in heads]
        writes = self._layout.writes(places, values=False)
        written = {one.key for one in writes if one.channel in channels}
        ids = {key.thread_id for key in written if key.checkpoint_ns == ""}
        ids = ids if bounds.ids is None else ids & bounds.ids
        for one in super().threads_within(bounds._replace(ids=frozenset(ids), head_channels=None)):
            if CheckpointKey(one.thread_id, "", one.head or "") in written:
                yield one

    def _listed(self, bounds: ThreadBounds) -> Iterable[Thread]:
        if "" in self._listings or bounds.ids is None or len(bounds.ids) > _FEW_THREADS:
            return self._in_order(self._entries(bounds.prefix))
        places = (place for one in bounds.ids for place in self._places_of(one).values())
        return threads_of(namespaces_of(places))

    def thread(self, thread_id: str) -> Thread | None:
        found = threads_of(namespaces_of(self._places_of(thread_id).values()))
        return found[0] if found else None

    def size(self, thread_id: str) -> ThreadSize:
        return self._layout.sizes(self._find(thread_id), [thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        found = self._layout.find(thread_ids)
        places = [place for one in found.values() for place in one.places.values()]
        # A key may appear under several threads if its beginning is ambiguous: count it once.
        writes = {write.name: write for one in found.values() for write in one.writes}
        blobs = {name: None for one in found.values() for name in one.blobs}
        apart = [value for one in found.values() for value in one.apart]
        every = ThreadKeys(
            writes=list(writes.values()), mixed=places, blobs=list(blobs), apart=apart
        )
        return self._layout.sizes(every, thread_ids)

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for checkpoint_id, one in self._layout.usage(self._find(thread_id)):
            if one.thread_id == thread_id and checkpoint_id:
                key = CheckpointKey(thread_id, one.checkpoint_ns, checkpoint_id)
                yield key, summed([(checkpoint_id, one)], [thread_id])[0]

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        pages = self._layout.pages() if thread_id is None else iter([self._find(thread_id)])
        sums: dict[Usage, list[int]] = {}
        for found in pages:
            for _, one in self._layout.usage(found):
                if thread_id in (None, one.thread_id):
                    total = sums.setdefault(one._replace(rows=0, bytes=0), [0, 0])
                    total[0] += one.rows
                    total[1] += one.bytes
        for kind, (rows, size) in sorted(sums.items(), key=lambda item: raw(item[0].thread_id)):
            yield kind._replace(rows=rows, bytes=size)

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({ns for ns, _ in self._places_of(thread_id)})

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        places = self._places(thread_id, asked.checkpoint_ns, asked.checkpoint_ids)
        places.sort(key=lambda one: (one.rank, one.key.checkpoint_id), reverse=True)
        places.sort(key=lambda one: one.key.checkpoint_ns)
        return self._load(places, asked)

    def _load(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        if asked.body or asked.metadata or not self._layout.lists_parents:
            return self._layout.checkpoints(places, asked)
        return (Checkpoint(one.key, one.parent) for one in places)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        wanted = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        places = self._write_places(thread_id, wanted)
        places.sort(key=lambda one: one.checkpoint_id)
        yield from self._sorted(
            write
            for write in self._layout.writes(places, asked.values)
            if write.key.thread_id == thread_id
            and (asked.checkpoint_ns is None or write.key.checkpoint_ns == asked.checkpoint_ns)
            and (wanted is None or write.key.checkpoint_id in wanted)
            and (asked.channels is None or write.channel in asked.channels)
        )

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        return self._load(self._named(keys), CheckpointQuery(**options))

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        asked, wanted = WriteQuery(**options), set(keys)
        yield from self._sorted(
            write
            for write in self._layout.writes(self._layout.writes_at(keys), asked.values)
            if write.key in wanted and (asked.channels is None or write.channel in asked.channels)
        )

    def _sorted(self, writes: Iterable[Write]) -> list[Write]:
        return sorted(writes, key=_BY_CHECKPOINT if self._layout.is_by_arrival else _ORDER)

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        wanted = set(checkpoint_ids)
        names: dict[str, list[bytes]] = {one: [] for one in wanted}
        for write in self._write_places(thread_id, wanted):
            if write.checkpoint_id in wanted:
                names[write.checkpoint_id].append(write.name)
        now = datetime.now(UTC)
        places = self._places(thread_id, checkpoint_ns, wanted)
        groups = [(one.name, *names[one.key.checkpoint_id]) for one in places]
        left = self._connection.ask_all(("PTTL", name) for group in groups for name in group)
        for place, group in zip(places, groups, strict=True):
            own, *writes = (int(one) for one in islice(left, len(group)))
            if own == _GONE:
                continue
            first = min((one for one in writes if one >= 0), default=_STAYS)
            yield Expiry(place.key, _moment(now, own), _moment(now, first))

    def expiry_times(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, datetime]:
        places = self._named(keys)
        left = self._connection.ask_all(("PTTL", one.name) for one in places)
        now = datetime.now(UTC)
        times = ((one.key, _moment(now, int(n))) for one, n in zip(places, left, strict=True))
        return {key: at for key, at in times if at is not None}

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        for _, thread, key, size in self._layout.blobs(self._find(thread_id)):
            if thread == thread_id:
                yield key, size

    def rows(self, thread_id: str) -> Iterator[Row]:
        return self._layout.rows(thread_id)

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        found = self._layout.find(thread_ids) if thread_ids else {}
        # A removal that was stopped on a cluster may leave the list of checkpoints alone.
        return {
            one
            for one, keys in found.items()
            if keys.places or keys.writes or keys.blobs or keys.apart or keys.lists
        }

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return self._layout.own_rows(thread_id, rows)

    def row_key(self, row: Row) -> Hashable:
        return self._layout.row_key(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        return self._layout.sources(key)

    def evicted(self) -> str:
        # INFO counts keys since the server was started, over all databases, so they may be those of
        # another application. A saver stores a checkpoint in several keys.
        number = int((self._connection.find("INFO", "stats") or {}).get("evicted_keys") or 0)
        if not number or (self._policy.startswith(_ONLY_EXPIRING) and not self._expires()):
            return ""
        keys = "1 key" if number == 1 else f"{number} keys"
        reason = f"because its memory was full (maxmemory-policy {self._policy})"
        return f"the server removed {keys} {reason}"

    @property
    def _policy(self) -> str:
        """The setting `maxmemory-policy`; `unknown` if the server does not tell."""
        memory = self._connection.find("INFO", "memory") or {}
        return str(memory.get("maxmemory_policy") or "unknown")

    def _expires(self) -> bool:
        """Whether a checkpoint expires, among the first ones."""
        found = (
            one for thread in self.threads() for one in self._places_of(thread.thread_id).values()
        )
        asked = (("PTTL", one.name) for one in islice(found, _SAMPLE))
        return any(ms >= 0 for ms in self._connection.ask_all(asked))

    def faults(self) -> Iterator[Fault]:
        if reason := self.evicted():
            detail = f"{reason}, so parts of threads may be gone"
            if self._policy != _KEEPS_ALL:
                # No fix: the keys stay gone.
                detail += f"; CONFIG SET maxmemory-policy {_KEEPS_ALL} keeps the others"
            yield Fault("keys-evicted", detail)
        yield from self._layout.faults()

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        yield from self.faults_of([thread_id])[thread_id]

    def faults_of(self, thread_ids: Collection[str]) -> dict[str, list[Fault]]:
        """Those that are still there when the keys are read again.

        A saver stores a checkpoint with several commands. So if the newest checkpoint of a thread
        is recent, they must also be there some time later. Waits once for all threads.
        """
        faults = self._layout.thread_faults
        found = {one: list(faults(one, self._find(one))) for one in thread_ids}
        if recent := self._read_again(found, list(found)):
            sleep(_PAUSE_SECONDS)
            self._read_again(found, recent)
        return found

    def _read_again(self, found: dict[str, list[Fault]], thread_ids: Sequence[str]) -> list[str]:
        """Leave only the faults that are still there; return the threads with recent ones."""
        recent = []
        for some in in_chunks([one for one in thread_ids if found[one]], _AT_ONCE):
            for thread_id, keys in self._layout.find(some).items():
                # A fix may contain a time, which has changed meanwhile.
                now = self._layout.thread_faults(thread_id, keys)
                again = {one._replace(fix=""): one for one in now}
                before = (one._replace(fix="") for one in found[thread_id])
                found[thread_id] = [again[one] for one in before if one in again]
                at = time_of(max((own for _, own in keys.places), default=""))
                if found[thread_id] and (at is None or datetime.now(UTC) - at <= _RECENT):
                    recent.append(thread_id)
        return recent

    def unloaded_heads(self, thread_ids: Collection[str]) -> dict[str, str]:
        layout = self._layout
        try:
            told = {one: layout.unloaded_head(one, self._find(one)) for one in thread_ids}
        except StoreUnavailable:
            return {}  # a user may have the right to read checkpoints, but not pointers
        odd = [one for one, words in told.items() if words]
        if not odd:
            return {}
        # A saver stores a checkpoint before it points to it.
        sleep(_POINTER_SECONDS)
        again = layout.find(odd)
        told = {one: layout.unloaded_head(one, again[one]) for one in odd}
        return {one: words for one, words in told.items() if words}

    def suspect_threads(self) -> Iterator[str]:
        # In the order of the listing, in which keys of several threads are read together.
        listed = [one.thread_id for one in self.threads()]
        yield from filter(self._is_suspect, listed)
        known = set(listed)
        for thread_id in self._layout.threads_with_writes():
            if thread_id not in known:
                known.add(thread_id)
                yield thread_id

    def _is_suspect(self, thread_id: str) -> bool:
        """Whether the keys of a thread may contradict each other. Reads no value."""
        found = self._find(thread_id)
        if not self._layout.lists_parents:
            return True
        for (ns, own), one in found.places.items():
            if one.parent and ((ns, one.parent) not in found.places or one.parent >= own):
                return True
        ids = {own for _, own in found.places}
        if any(write.checkpoint_id not in ids for write in found.writes):
            return True
        return any(True for _ in self._layout.thread_faults(thread_id, found))

    def refresh(self) -> None:
        self._listings.clear()
        self._listed_last = ()
        self._order.clear()
        self._found.clear()

    def close(self) -> None:
        self._connection.close()

    def _find(self, thread_id: str) -> ThreadKeys:
        """The keys of a thread."""
        return self._remembered(self._found, thread_id, self._layout.find)

    def _places_of(self, thread_id: str) -> Mapping[tuple[str, str], CheckpointEntry]:
        """The checkpoints of a thread, by namespace and id."""
        return self._find(thread_id).places

    def _remembered(
        self,
        known: dict[str, ThreadKeys],
        thread_id: str,
        find: Callable[[Collection[str]], Mapping[str, ThreadKeys]],
    ) -> ThreadKeys:
        """The result of `find` for a thread, from the cache `known` if possible.

        Without an index, the threads that were listed after it are looked up in the same call.
        """
        if thread_id not in known:
            wanted, at = [thread_id], self._order.get(thread_id)
            if at is not None and not self._layout.is_indexed():
                wanted += [one.thread_id for one in self._listed_last[at + 1 : at + _AT_ONCE]]
            wanted = [one for one in wanted if one not in known]
            while known and len(known) + len(wanted) > _REMEMBERED:
                del known[next(iter(known))]
            known |= find(wanted)
        return known[thread_id]

    def _places(
        self, thread_id: str, checkpoint_ns: str | None, checkpoint_ids: Collection[str] | None
    ) -> list[CheckpointEntry]:
        """Checkpoints of a thread. If their keys can be computed, no search is needed."""
        wanted = None if checkpoint_ids is None else set(checkpoint_ids)
        if wanted is None or checkpoint_ns is None or thread_id in self._found:
            return [
                place
                for (ns, checkpoint_id), place in self._places_of(thread_id).items()
                if (checkpoint_ns is None or ns == checkpoint_ns)
                and (wanted is None or checkpoint_id in wanted)
            ]
        return self._named([CheckpointKey(thread_id, checkpoint_ns, one) for one in wanted])

    def _named(self, keys: Sequence[CheckpointKey]) -> list[CheckpointEntry]:
        """The checkpoints with these keys that exist."""
        wanted = set(keys)
        names = sorted({self._layout.checkpoint_name(key) for key in keys})
        return [place for place in self._layout.entries(names) if place.key in wanted]

    def _write_places(self, thread_id: str, wanted: Collection[str] | None) -> list[WriteEntry]:
        """The writes of some checkpoints, or of a whole thread; may include others."""
        found = self._find(thread_id)
        known = {checkpoint_id for _, checkpoint_id in found.places}
        return [
            place
            for place in found.writes
            # The checkpoint id in the key is trusted only if such a checkpoint exists.
            if wanted is None or place.checkpoint_id in wanted or place.checkpoint_id not in known
        ]


_ORDER, _BY_CHECKPOINT = attrgetter("key", "task_path", "task_id", "idx"), attrgetter("key")


def _moment(now: datetime, left: int) -> datetime | None:
    return None if left < 0 else now + timedelta(milliseconds=left)


def engine_of(server: dict[str, Any]) -> str:
    name = "Valkey" if server.get("server_name") == "valkey" else "Redis"
    return f"{name} {server.get('valkey_version') or server.get('redis_version')}"


# Finds the store that a URL names in a database, with the recognisers of all layouts.
#
# Some savers have configurable prefixes, so one database can contain several stores of one layout.


_NAMING = ("layout", "prefix", "write_prefix")
"""URL parameters that select one of several stores."""
_FEW = 5
_FEW_KEYS = 100_000
"""Databases with more keys are not searched for checkpoints."""


class SeveralStores(SeveralLayouts):
    """The URL matches several stores. This is a usage error: the URL must be more specific."""

    exit_code = UsageError.exit_code


def open_layout(connection: RedisConnection, url: StoreUrl) -> RedisLayout:
    """The store that the URL names, or the only one in the database.

    Raises `UnknownLayout`, or `SeveralStores` if the URL matches several.
    """
    try:
        return _open(connection, url, bundled())
    except (UnknownLayout, UsageError):
        # Installed backends are asked last: looking for them takes 30 ms.
        others = [one for one in installed() if one.engine == "redis"]
        if not others:
            raise
    return _open(connection, url, (*bundled(), *others))


def _open(connection: RedisConnection, url: StoreUrl, backends: Sequence[Backend]) -> RedisLayout:
    name, prefix, write_prefix = (url.params.get(one) for one in _NAMING)
    database = KeyDatabase(connection, backends, prefix, write_prefix, url.params)
    known = {layout: one for one in database.recognisers for layout in one.layouts}
    if name is not None and name not in known:
        raise UsageError(f"unknown Redis layout '{name}'", hint=f"known: {', '.join(known)}")
    if name is not None and known[name].is_certain(name):
        return known[name].named(name, prefix, write_prefix).open()
    stores = [one for one in database.stores() if name in {None, one.layout}]
    if len(stores) > 1:
        raise _several(url, stores)
    if stores:
        return stores[0].open()
    others = [one for one in database.elsewhere() if name in {None, one.layout}]
    if others:
        named = [("prefix", prefix), ("write_prefix", write_prefix)]
        said = " and ".join(f"{one} '{value}'" for one, value in named if value is not None)
        raise UnknownLayout(f"no store with {said} in '{url}'", hint=f"name {_urls(url, others)}")
    if name is not None:
        return known[name].named(name, prefix, write_prefix).open()
    for one in database.recognisers:
        if (layout := one.fallback()) is not None:
            return layout
    unread = list(filter(None, (one.unreadable() for one in database.recognisers)))
    if unread:
        raise UnknownLayout(
            f"'{url}' holds checkpoints in a layout that ckpt cannot read: {', '.join(unread)}"
        )
    raise UnknownLayout(f"no checkpoints in '{url}'", hint=_seen(database, url))


def _several(url: StoreUrl, stores: Sequence[RecognisedStore]) -> SeveralStores:
    first = stores[0]
    choices = [one.params(stores) for one in stores]
    if all((one.layout, one.prefix) == (first.layout, first.prefix) for one in stores):
        said = f"cannot tell which prefix the writes of '{first.prefix}' have in '{url}'"
    else:
        said = f"'{url}' holds {len(stores)} stores: {', '.join(map(str, stores))}"
    return SeveralStores(said, choices, hint=f"name one: {_urls(url, stores)}")


def _urls(url: StoreUrl, stores: Sequence[RecognisedStore]) -> str:
    """The first stores as URLs that can be pasted."""
    shown = []
    for one in stores[:_FEW]:
        shown.append(shell.name(str(url.with_params(one.params(stores), without=_NAMING))))
    more = f" or one of {len(stores) - _FEW} more" if len(stores) > _FEW else ""
    return " or ".join(shown) + more


def _seen(database: KeyDatabase, url: StoreUrl) -> str:
    """A hint with the keys that the database contains instead."""
    names = next(islice(database.connection.scan(b"*"), 1), [])
    if not names and database.connection.is_cluster:
        return "the database is empty"
    if not names:
        said = f"database {database.connection.database} is empty"
        other = _in_others(database, url) or f"name another one: {url.scheme}://HOST:PORT/N"
        return f"{said}; {other}"
    some = ", ".join(shell.name(text(name)) for name in sorted(names)[:_FEW])
    if any(name.startswith(f"{ITEMS}:".encode()) for name in names):
        from ckpt_backends.memory import HINT

        return f"found keys such as {some}; {HINT}"
    expected = [one.expected(database.prefix) for one in database.recognisers]
    *first, last = filter(None, expected)
    found = f"found other keys, such as {some}; looked for {', '.join(first)} and {last}"
    return "; ".join(filter(None, (found, _in_others(database, url))))


def _in_others(database: KeyDatabase, url: StoreUrl) -> str:
    """Which other databases of the server hold checkpoints, or else keys; `''` if none does."""
    keys: dict[int, int] = {}
    for name, about in (database.connection.find("INFO", "keyspace") or {}).items():
        named = str(name).removeprefix("db")
        if named.isdecimal() and isinstance(about, dict) and str(about.get("keys")).isdecimal():
            keys[int(named)] = int(about["keys"])
    keys.pop(database.connection.database, None)
    holding = []
    for number in [one for one, some in sorted(keys.items()) if some <= _FEW_KEYS][:_FEW]:
        with suppress(CkptError), closing(connect(url.with_params({"db": str(number)}))) as other:
            if database.at(other).stores():
                holding.append(number)
    shown = [str(one) for one in holding or sorted(keys)[:_FEW]]
    numbers = f"database{'s' if len(shown) > 1 else ''} {', '.join(shown)}"
    if holding:
        return f"{numbers} of this server {'hold' if holding[1:] else 'holds'} checkpoints: {url.scheme}://HOST:PORT/{holding[0]}"
    return f"keys are in {numbers}" if keys else ""


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(connect(url), url) as connection:
        layout = open_layout(connection, url)
        return understanding((layout.store or RedisStore)(layout, url), url)


# Threads in a listing.


def threads_of(namespaces: Iterable[ListedNamespace]) -> list[Thread]:
    """The threads of these namespaces, the one with the newest checkpoint first."""
    known: dict[str, list[ListedNamespace]] = {}
    for one in namespaces:
        known.setdefault(one.thread_id, []).append(one)
    found = [
        Thread(
            thread_id,
            next((one.head or one.newest for one in some if not one.checkpoint_ns), None),
            min(one.oldest for one in some),
            max(one.newest for one in some),
            sum(one.checkpoints for one in some),
            len(some),
        )
        for thread_id, some in sorted(known.items())
    ]
    found.sort(key=lambda one: str(one.last), reverse=True)
    return found
