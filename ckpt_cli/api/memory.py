"""Long-term memory, as Python code sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ckpt_backends.errors import CkptError, Closing, UnknownLayout, Unsupported
from ckpt_cli.api.answer import Answer, Surroundings, Watcher, When, texts, time_of, unwatched

if TYPE_CHECKING:
    from ckpt_backends.memory import Item, ItemKey, MemoryInfo, MemoryStore, Namespace
    from ckpt_cli.api.questions import SecretSearch
    from ckpt_cli.core.memory import ItemFilter
    from ckpt_cli.core.search import Finder
    from ckpt_cli.queries.memory import ItemOrigin, MemoryHit, Read


_NAME_THREADS = "name their store: add --threads STORE"


def origin(around: Surroundings, item: Item, chosen: str | None) -> ItemOrigin | None:
    """Return the origin of an item that was read with its value; None if it names no thread.

    `chosen` names the store of its thread. Raises what opening that store raises.
    """
    from ckpt_cli.core.memory import source_of, text_of
    from ckpt_cli.queries.memory import ItemOrigin, threads_place, trace

    source = source_of(item)
    if source is None or source.thread_id is None:
        return None
    names = around.names
    place = threads_place(names.store_url, names.other_store("threads", chosen))
    if place.url is None:
        return ItemOrigin(source.thread_id, "", remark=f"cannot find its store: {place.why}")
    try:
        with around.open_other(place.url) as threads:
            return trace(threads, source.thread_id, item.created_at, text_of(item))
    except CkptError as error:
        if chosen is not None:
            raise
        return ItemOrigin(source.thread_id, str(place.url), remark=f"{error.message} ({place.why})")


def marked(
    around: Surroundings,
    memory: MemoryStore,
    prefix: Namespace,
    *,
    duplicates: bool,
    orphans: bool,
    threads: str | None,
) -> dict[ItemKey, dict[str, Any]]:
    """Return the faults of items under a namespace. Raises what opening the threads raises."""
    from ckpt_cli.core.memory import marks

    items = list(memory.items(prefix=prefix, values=True))
    if not orphans:
        return marks(items, twice=duplicates, is_there=None)
    from ckpt_cli.queries.memory import threads_place

    names = around.names
    place = threads_place(names.store_url, names.other_store("threads", threads))
    if place.url is None:
        raise Unsupported(f"cannot find the threads: {place.why}", hint=_NAME_THREADS)
    try:
        opened = around.open_other(place.url)
    except UnknownLayout as error:
        raise UnknownLayout(
            f"cannot find the threads: {error.message}", hint=_NAME_THREADS
        ) from None
    with opened as store:
        return marks(
            items, twice=duplicates, is_there=lambda thread_id: store.thread(thread_id) is not None
        )


def opened_memory(around: Surroundings) -> MemoryHandle:
    """Open the long-term memory of the store that is named, and tell its notes.

    Raises `UsageError`, `StoreUnavailable`, `UnknownLayout` or `Unsupported`.
    """
    from ckpt_backends.registry import open_memory

    memory = open_memory(around.names.store_url)
    for text in memory.describe().notes:
        around.note(text)
    return MemoryHandle(memory, around)


class MemoryHandle(Closing):
    """Long-term memory that is open for reading: items, each a key and a value in a namespace.

    `ckpt_cli.open_memory` and `StoreHandle.memory` return one. A namespace is written as its labels
    joined by `/`, such as `users/anna`, and includes those below it.
    """

    def __init__(self, memory: MemoryStore, around: Surroundings) -> None:
        self.memory = memory
        self._around = around

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
        since: When | None = None,
        until: When | None = None,
        expired: bool | None = None,
        category: str | None = None,
        min_confidence: float | None = None,
        source: str | None = None,
        duplicates: bool = False,
        orphans: bool = False,
        threads: str | None = None,
    ) -> MemoryItems:
        """Return the items as `ckpt memory list` prints them: without values, in order.

        The conditions are those of the command's options, and all must hold. `threads` names the
        store of the threads for `orphans`. Raises `UsageError` or `NotFound`.
        """
        from ckpt_cli.core.memory import ItemFilter

        wanted = ItemFilter(
            match=match,
            since=time_of(self._around, since),
            until=time_of(self._around, until),
            expired=expired,
            category=category,
            min_confidence=min_confidence,
            source=source,
        )
        faults = Faults(duplicates, orphans, threads)
        return MemoryItems(self.memory, self._around, namespace, wanted, faults)

    def export(self, namespace: str = "", *, match: str | None = None) -> Iterator[Answer[Read]]:
        """Yield the items with their values, as `ckpt memory export` prints them.

        `match` is a shell pattern for the whole key.
        """
        from ckpt_cli.core.memory import ItemFilter, parse_namespace
        from ckpt_cli.queries.memory import read_items

        prefix, now = parse_namespace(namespace), self._around.now
        wanted = ItemFilter(match=match)
        for one in read_items(self.memory, prefix, wanted, now, redacted=self._redacted):
            yield Answer(one, self._read_record)

    def get(self, key: str, namespace: str = "") -> Any:
        """Return the value of an item, as plain Python values.

        `key` is a key below `namespace`, or `NAMESPACE/KEY`, such as `users/anna/profile`. Raises
        `NotFound`, or `Ambiguous` with the items that match.
        """
        from ckpt_cli.api.answer import plain
        from ckpt_cli.queries.memory import read_item

        found = read_item(self.memory, self._address(key, namespace), redacted=self._redacted)
        return plain(found.value)

    def show(
        self, key: str, namespace: str = "", *, threads: str | None = None
    ) -> Answer[ItemView]:
        """Return an item as `ckpt memory show` prints it, with its origin.

        The origin is found in the store of its thread; `threads` names that store if it cannot be
        found. Raises `NotFound` or `Ambiguous`.
        """
        from ckpt_cli.queries.memory import read_item, stored_item

        address = self._address(key, namespace)
        found = read_item(self.memory, address, redacted=self._redacted)
        came_from = origin(self._around, stored_item(self.memory, address), threads)
        return Answer(ItemView(found, came_from), self._view_record)

    def secrets(self, *, ignore: str | Sequence[str] = ()) -> SecretSearch:
        """Find credentials in namespaces, keys and values, as `StoreHandle.secrets` does."""
        from ckpt_cli.api.questions import memory_search

        return memory_search(self.memory, self._around, texts(ignore), redacted=self._redacted)

    def raw(self, key: str, namespace: str = "") -> bytes:
        """Return the stored bytes of a value, undecoded. Raises `NotFound` or `Ambiguous`."""
        from ckpt_cli.queries.memory import stored_item
        from ckpt_cli.reading.store import no_raw

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
        watch: Watcher = unwatched,
    ) -> MemoryHits:
        """Search namespaces, keys and values for a text; with `regex`, for a regular expression.

        Yields what `ckpt memory search` prints. The attribute `missed` of the result tells what
        could not be searched. Raises `UsageError` if the expression cannot be read.
        """
        from ckpt_cli.core.memory import parse_namespace
        from ckpt_cli.core.search import compile_pattern
        from ckpt_cli.queries.memory import search_items

        hint = "leave out regex=True to search for the text as it is"
        find = compile_pattern(text, fixed=not regex, ignore_case=ignore_case, hint=hint)
        found = search_items(
            self.memory, parse_namespace(namespace), find, watch, redacted=self._redacted
        )
        return MemoryHits(found, find)

    def __repr__(self) -> str:
        info = self.info
        return f"<MemoryHandle {info.url} ({info.layout})>"

    @property
    def _redacted(self) -> bool:
        return self._around.opening.redact

    def _address(self, key: str, namespace: str) -> ItemKey:
        from ckpt_cli.core.memory import parse_namespace
        from ckpt_cli.queries.memory import find_key

        return find_key(self.memory, key, parse_namespace(namespace))

    def _read_record(self, found: Read) -> dict[str, Any]:
        from ckpt_cli.render.memory import read_record

        return read_record(found, self._around.now)

    def _view_record(self, found: ItemView) -> dict[str, Any]:
        from ckpt_cli.render.memory import origin_record

        record = self._read_record(found.read)
        if found.origin is not None:
            record["origin"] = origin_record(found.origin)
        return record


@dataclass(frozen=True, slots=True)
class ItemView:
    """An item with its value, and where it came from."""

    read: Read
    origin: ItemOrigin | None
    """None if the item names no thread."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults to look for in facts."""

    duplicates: bool = False
    orphans: bool = False
    threads: str | None = None
    """The store of their threads, if it was named."""

    def __bool__(self) -> bool:
        return self.duplicates or self.orphans


class MemoryItems:
    """The items of a listing. Each iteration reads them anew."""

    def __init__(
        self,
        memory: MemoryStore,
        around: Surroundings,
        namespace: str,
        wanted: ItemFilter,
        faults: Faults,
    ) -> None:
        from ckpt_cli.core.memory import parse_namespace

        self.wanted = wanted
        self.faults = faults
        self._memory = memory
        self._around = around
        self._prefix = parse_namespace(namespace)

    @cached_property
    def marks(self) -> Mapping[ItemKey, Mapping[str, Any]]:
        """The faults of items, if they are looked for. Reads all values below the namespace."""

        if not self.faults:
            return {}
        return marked(
            self._around,
            self._memory,
            self._prefix,
            duplicates=self.faults.duplicates,
            orphans=self.faults.orphans,
            threads=self.faults.threads,
        )

    def __iter__(self) -> Iterator[Answer[Item]]:
        from ckpt_cli.queries.memory import list_items

        marks, around = self.marks, self._around
        redacted = around.opening.redact
        found = list_items(self._memory, self._prefix, self.wanted, around.now, redacted=redacted)
        for one in found:
            if not self.faults or one.key in marks:
                yield Answer(one, self._record)

    def _record(self, item: Item) -> dict[str, Any]:
        from ckpt_cli.render.memory import listed_record

        return {**listed_record(item, self._around.now), **self.marks.get(item.key, {})}


class MemoryHits(Iterator[Answer["MemoryHit"]]):
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
        from ckpt_cli.core.search import stopped_text
        from ckpt_cli.render.values import counted

        unread = f"cannot read {counted(self.unread, 'value')} in full" if self.unread else ""
        return " and ".join(filter(None, [unread, stopped_text(self.stopped)]))

    def __next__(self) -> Answer[MemoryHit]:
        from ckpt_cli.render.memory import hit_record

        for one in self._found:
            if one is not None:
                return Answer(one, hit_record)
            self.unread += 1
        raise StopIteration
