"""Long-term memory, as Python code sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import CkptError, Closing, UnknownLayout, Unsupported
from ckpt_backends.memory import Item, ItemKey, MemoryInfo, MemoryStore, ThreadsOfMemory
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_sessions
from ckpt_cli.api import answer
from ckpt_cli.core import memory as facts
from ckpt_cli.core.memory import ItemFilter, parse_namespace, source_of, text_of
from ckpt_cli.core.search import Finder, compile_pattern, stopped_text
from ckpt_cli.queries.memory import (
    FoundItem,
    ItemOrigin,
    JoinedSession,
    MemoryHit,
    find_key,
    find_session,
    list_items,
    list_sessions,
    read_item,
    search_items,
    stored_item,
    threads_beside,
    threads_place,
    trace,
)
from ckpt_cli.reading.store import no_raw
from ckpt_cli.render.memory import (
    ITEM_HIT,
    LISTED_ITEM,
    READ_ITEM,
    SESSION,
    SHOWN_ITEM,
    SHOWN_SESSION,
)
from ckpt_cli.render.values import counted

if TYPE_CHECKING:
    from ckpt_cli.api.questions import SecretSearch

_NAME_THREADS = "name their store: add --threads STORE"


def opened_memory(around: answer.Surroundings) -> MemoryHandle:
    """Open the long-term memory of the store that is named, and tell its notes.

    Raises `UsageError`, `StoreUnavailable`, `UnknownLayout` or `Unsupported`.
    """
    memory = open_memory(around.names.store_url)
    for text in memory.describe().notes:
        around.note(text)
    return MemoryHandle(memory, around)


def sessions_beside(
    around: answer.Surroundings,
    opened: Callable[[], Store],
    *,
    thread: str | None = None,
    user: str | None = None,
) -> list[answer.Answer[JoinedSession]]:
    """Return the sessions in the store that is named, as `ckpt memory sessions` prints them.

    `opened` returns its checkpoints; there may be none. Raises `Unsupported` if applications store
    no sessions in such a store.
    """
    with open_sessions(around.names.store_url) as sessions:
        threads = threads_beside(opened)
        found = list_sessions(sessions, threads, thread=thread, user=user)
    return [answer.Answer(one, SESSION.record) for one in found]


def session_beside(
    around: answer.Surroundings, opened: Callable[[], Store], name: str
) -> answer.Answer[JoinedSession]:
    """Return one session with all its fields, as `ckpt memory sessions SESSION` prints it.

    Raises `NotFound`, `Ambiguous` or `Unsupported`.
    """
    with open_sessions(around.names.store_url) as sessions:
        threads = threads_beside(opened)
        found = find_session(sessions, threads, name, redacted=around.opening.redact)
    return answer.Answer(found, SHOWN_SESSION)


class MemoryHandle(Closing):
    """Long-term memory that is open for reading: items, each a key and a value in a namespace.

    `ckpt_cli.open_memory` and `StoreHandle.memory` return one. A namespace is written as its labels
    joined by `/`, such as `users/anna`, and includes those below it.
    """

    def __init__(self, memory: MemoryStore, around: answer.Surroundings) -> None:
        self.memory = memory
        self._around = around
        self._redacted = around.opening.redact

    def close(self) -> None:
        """Close the connection or the file."""
        self.memory.close()

    def refresh(self) -> None:
        """See what was saved since the memory was opened or last refreshed."""
        self.memory.refresh()

    @property
    def info(self) -> MemoryInfo:
        """The memory's URL without secrets, its layout and engine."""
        return self.memory.describe()

    def items(
        self,
        namespace: str = "",
        *,
        match: str | None = None,
        since: answer.When | None = None,
        until: answer.When | None = None,
        expired: bool | None = None,
        category: str | None = None,
        min_confidence: float | None = None,
        source: str | None = None,
        user: str | None = None,
        duplicates: bool = False,
        orphans: bool = False,
        threads: str | None = None,
    ) -> MemoryItems:
        """Return the items as `ckpt memory list` prints them: without values, in order.

        The conditions are those of the command's options, and all must hold. `threads` names the
        store of the threads for `orphans`. Raises `UsageError` or `NotFound`.
        """
        wanted = ItemFilter(
            match=match,
            since=answer.time_of(self._around, since),
            until=answer.time_of(self._around, until),
            expired=expired,
            category=category,
            min_confidence=min_confidence,
            source=source,
            user=user,
        )
        prefix, now = parse_namespace(namespace), self._around.now

        def read() -> Iterator[answer.Answer[FoundItem]]:
            found = list_items(self.memory, prefix, wanted, now, redacted=self._redacted)
            if duplicates or orphans:
                all_items = list(self.memory.items(prefix=prefix, values=True))
                same = facts.duplicates(all_items) if duplicates else {}
                gone = self._orphans(all_items, threads) if orphans else set()
                found = _faulty(found, same, gone)
            return (answer.Answer(one, LISTED_ITEM.record) for one in found)

        return MemoryItems(read)

    def export(
        self, namespace: str = "", *, match: str | None = None
    ) -> Iterator[answer.Answer[FoundItem]]:
        """Yield the items with their values, as `ckpt memory export` prints them.

        `match` is a shell pattern for the whole key.
        """
        found = list_items(
            self.memory,
            parse_namespace(namespace),
            ItemFilter(match=match),
            self._around.now,
            redacted=self._redacted,
            values=True,
        )
        return (answer.Answer(one, READ_ITEM.record) for one in found)

    def get(self, key: str, namespace: str = "") -> Any:
        """Return the value of an item, as plain Python values.

        `key` is a key below `namespace`, or `NAMESPACE/KEY`, such as `users/anna/profile`. Raises
        `NotFound`, or `Ambiguous` with the items that match.
        """
        return answer.plain(self._read(self._address(key, namespace)).value)

    def show(
        self, key: str, namespace: str = "", *, threads: str | None = None
    ) -> answer.Answer[FoundItem]:
        """Return an item as `ckpt memory show` prints it, with its origin.

        The origin is found in the store of its thread; `threads` names that store if it cannot be
        found. Raises `NotFound` or `Ambiguous`.
        """
        address = self._address(key, namespace)
        found = self._read(address)
        origin = self._origin(stored_item(self.memory, address), threads)
        return answer.Answer(found._replace(origin=origin), SHOWN_ITEM)

    def secrets(self, *, ignore: str | Sequence[str] = ()) -> SecretSearch:
        """Find credentials in namespaces, keys and values, as `StoreHandle.secrets` does."""
        from ckpt_cli.api.questions import memory_search

        return memory_search(
            self.memory, self._around, answer.texts(ignore), redacted=self._redacted
        )

    def raw(self, key: str, namespace: str = "") -> bytes:
        """Return the stored bytes of a value, undecoded. Raises `NotFound` or `Ambiguous`."""
        if self._redacted:
            raise no_raw()
        stored = stored_item(self.memory, self._address(key, namespace)).value
        return b"" if stored is None else stored.data

    def search(
        self,
        text: str,
        namespace: str = "",
        *,
        regex: bool = False,
        ignore_case: bool = False,
        watch: answer.Watcher = answer.unwatched,
    ) -> MemoryHits:
        """Search namespaces, keys and values for a text; with `regex`, for a regular expression.

        Yields what `ckpt memory search` prints. The attribute `missed` of the result tells what
        could not be searched. Raises `UsageError` if the expression cannot be read.
        """
        hint = "leave out regex=True to search for the text as it is"
        find = compile_pattern(text, fixed=not regex, ignore_case=ignore_case, hint=hint)
        found = search_items(
            self.memory, parse_namespace(namespace), find, watch, redacted=self._redacted
        )
        return MemoryHits(found, find)

    def __repr__(self) -> str:
        info = self.info
        return f"<MemoryHandle {info.url} ({info.layout})>"

    def _address(self, key: str, namespace: str) -> ItemKey:
        return find_key(self.memory, key, parse_namespace(namespace))

    def _read(self, key: ItemKey) -> FoundItem:
        return read_item(self.memory, key, self._around.now, redacted=self._redacted)

    def _origin(self, item: Item, chosen: str | None) -> ItemOrigin | None:
        """Return the origin of an item that was read with its value; None if it names no thread.

        `chosen` names the store of its thread. Raises what opening that store raises.
        """
        source = source_of(item)
        if source is None or source.thread_id is None:
            return None
        place = self._threads(chosen)
        if place.url is None:
            return ItemOrigin(source.thread_id, "", remark=f"cannot find its store: {place.why}")
        try:
            with self._around.open_other(place.url) as threads:
                return trace(threads, source.thread_id, item.created_at, text_of(item))
        except CkptError as error:
            if chosen is not None:
                raise
            remark = f"{error.message} ({place.why})"
            return ItemOrigin(source.thread_id, str(place.url), remark=remark)

    def _orphans(self, items: Sequence[Item], chosen: str | None) -> set[ItemKey]:
        """Return the facts from threads that are gone. Raises what opening the threads raises."""
        place = self._threads(chosen)
        if place.url is None:
            raise Unsupported(f"cannot find the threads: {place.why}", hint=_NAME_THREADS)
        try:
            opened = self._around.open_other(place.url)
        except UnknownLayout as error:
            raise UnknownLayout(
                f"cannot find the threads: {error.message}", hint=_NAME_THREADS
            ) from None
        with opened as store:
            return facts.orphans(items, lambda thread_id: store.thread(thread_id) is not None)

    def _threads(self, chosen: str | None) -> ThreadsOfMemory:
        names = self._around.names
        return threads_place(names.store_url, names.other_store("threads", chosen))


def _faulty(
    found: Iterator[FoundItem], same: Mapping[ItemKey, ItemKey], gone: Collection[ItemKey]
) -> Iterator[FoundItem]:
    """Yield the items with a fault, and its mark."""
    for one in found:
        key = one.item.key
        if key in same or key in gone:
            first = same[key].key if key in same else None
            yield one._replace(duplicate_of=first, is_orphan=key in gone)


class MemoryItems:
    """The items of a listing. Each iteration reads them anew."""

    def __init__(self, read: Callable[[], Iterator[answer.Answer[FoundItem]]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[answer.Answer[FoundItem]]:
        return self._read()


class MemoryHits(Iterator[answer.Answer[MemoryHit]]):
    """Yields the hits, item by item. An item is read when its first hit is asked for.

    A value that cannot be read raises nothing: look at `missed` after the last hit.
    """

    def __init__(self, found: Iterator[MemoryHit | None], find: Finder) -> None:
        self._found = found
        self._find = find
        self.unread = 0
        """Number of values so far that could not be read in full."""

    @property
    def stopped(self) -> int:
        """Number of lines so far on which the pattern took too long. The search ends after ten."""
        return self._find.stopped

    @property
    def missed(self) -> str:
        """What was not searched so far, as text; empty if everything was."""
        unread = f"cannot read {counted(self.unread, 'value')} in full" if self.unread else ""
        return " and ".join(filter(None, [unread, stopped_text(self.stopped)]))

    def __next__(self) -> answer.Answer[MemoryHit]:
        for one in self._found:
            if one is not None:
                return answer.Answer(one, ITEM_HIT.record)
            self.unread += 1
        raise StopIteration
