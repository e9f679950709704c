"""Reads long-term memory, and where it came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from ckpt_backends import shell
from ckpt_backends.app_sessions import AppSession, SessionStore
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Ambiguous, CkptError, NotFound, UnknownLayout
from ckpt_backends.memory import Item, ItemKey, MemoryStore, Namespace, ThreadsOfMemory
from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, threads_of_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.config.store_names import MemoryPlace
from ckpt_cli.core import refs
from ckpt_cli.core.conversation import Turn, content_text
from ckpt_cli.core.memory import (
    ItemFilter,
    Likeness,
    format_key,
    is_expired,
    item_keys,
    likeliest,
    source_of,
)
from ckpt_cli.core.redact import redact, redact_match
from ckpt_cli.core.search import Finder, Match, gave_up, search
from ckpt_cli.queries.messages import conversation
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import ThreadReader, TriggerInference

_NAMED = 5
"""Maximum number of candidates that an error names."""
Place = Literal["namespace", "key", "value"]


class FoundItem(NamedTuple):
    """An item, with what was asked about it."""

    item: Item
    """Without its value, unless the layout reads values with the list."""
    is_expired: bool
    value: Value = None
    """Decoded, if it was asked for."""
    duplicate_of: str | None = None
    """The key of an older fact that says the same."""
    is_orphan: bool = False
    """Whether the thread that it came from is gone."""
    origin: ItemOrigin | None = None
    """None if the item names no thread."""


class MemoryHit(NamedTuple):
    """A matching line of an item."""

    item: Item
    place: Place
    match: Match


def list_items(
    memory: MemoryStore,
    prefix: Namespace,
    wanted: ItemFilter,
    now: datetime,
    *,
    redacted: bool,
    values: bool = False,
) -> Iterator[FoundItem]:
    """Yield the matching items under a namespace, in order; with `values`, one at a time.

    Without `values`, these are read only to filter by source thread, because items of a Store name
    it in their value.
    """
    by_source = wanted.source is not None and not values
    for item in memory.items(prefix=prefix, values=values or by_source):
        one = replace(item, source=source_of(item), value=None) if by_source else item
        if not wanted.fits(one, now):
            continue
        if values:
            yield _read(one, now, redacted=redacted)
        else:
            yield FoundItem(without_values(one) if redacted else one, is_expired(one, now))


def named_items(memory: MemoryStore, names: Iterable[str], prefix: Namespace) -> Iterator[Item]:
    """Yield the named items, in order. Raises `NotFound` or `Ambiguous`."""
    yield from memory.items(keys=dict.fromkeys(find_key(memory, name, prefix) for name in names))


def find_key(memory: MemoryStore, text: str, prefix: Namespace) -> ItemKey:
    """Return the key of the item with this key under a namespace, or with this NAMESPACE/KEY.

    An item in the namespace itself wins over those below it. Raises `NotFound` or `Ambiguous`.
    """
    named = [one.key for one in memory.items(prefix=prefix, key=text)]
    here = [one for one in named if prefix and one.namespace == prefix]
    if not named:
        asked = [replace(one, namespace=(*prefix, *one.namespace)) for one in item_keys(text)]
        named = [one.key for one in memory.items(keys=asked)] if asked else []
    found = list(dict.fromkeys(here or named))
    if not found:
        raise NotFound(f"no item '{text}'", hint="`ckpt memory list --all` lists the items")
    if len(found) > 1:
        shown = ", ".join(shell.name(format_key(one)) for one in found[:_NAMED])
        more = len(found) - _NAMED
        raise Ambiguous(
            f"'{text}' matches {len(found)} items",
            hint=f"use one of {shown}" + (f" and {more} more" if more > 0 else ""),
        )
    return found[0]


def stored_item(memory: MemoryStore, key: ItemKey) -> Item:
    """Return an item with its value as stored. Raises `NotFound`."""
    for one in memory.items(keys=[key], values=True):
        return one
    raise NotFound(f"item '{format_key(key)}' no longer exists")


def read_item(memory: MemoryStore, key: ItemKey, now: datetime, *, redacted: bool) -> FoundItem:
    """Return an item with its decoded value. Raises `NotFound`."""
    return _read(stored_item(memory, key), now, redacted=redacted)


def search_items(
    memory: MemoryStore,
    prefix: Namespace,
    find: Finder,
    watch: Callable[[Iterable[Item]], Iterable[Item]],
    *,
    redacted: bool,
) -> Iterator[MemoryHit | None]:
    """Yield matching lines of namespaces, keys and values, in order; None for unreadable values.

    Ends early if the pattern takes too long on too many lines.
    """
    for item in watch(memory.items(prefix=prefix, values=True)):
        if gave_up(find.stopped):
            return
        bare = without_values(item) if redacted else replace(item, value=None)
        parts: dict[Place, Value] = {
            "namespace": list(item.key.namespace),
            "key": item.key.key,
            "value": _decoded(item),
        }
        for place, part in parts.items():
            for match in search(part, find):
                if match is None:
                    yield None
                elif place == "value" and redacted:
                    yield MemoryHit(bare, place, redact_match(match))
                else:
                    yield MemoryHit(bare, place, match)


def _read(item: Item, now: datetime, *, redacted: bool) -> FoundItem:
    value = _decoded(item)
    bare = without_values(item) if redacted else replace(item, value=None)
    return FoundItem(bare, is_expired(item, now), redact(value) if redacted else value)


def _decoded(item: Item) -> Value:
    assert item.value is not None  # noqa: S101 - it was read
    return decode(item.value)


def without_values(item: Item) -> Item:
    """Return an item without its value, category and confidence."""
    return replace(item, value=None, category=None, confidence=None)


_PEOPLE = frozenset({"human", "user"})


class ItemOrigin(NamedTuple):
    """The origin of an item, as far as it is known."""

    thread_id: str
    store: str
    """URL of the store of its thread, without secrets; empty if unknown."""
    checkpoint_id: str | None = None
    """The newest root checkpoint when the item was created; the head if the item has no time.
    None if there is none.
    """
    step: int | None = None
    at: datetime | None = None
    turn: Turn | None = None
    """The human message that the item most likely came from."""
    likeness: Likeness | None = None
    people: int = 0
    """Number of human messages in the checkpoint."""
    remark: str = ""
    """Why nothing more is known."""


def threads_place(memory: StoreUrl, chosen: StoreUrl | None) -> ThreadsOfMemory:
    """Return the store of the threads that a memory came from.

    This is the chosen one; otherwise the one that the memory's backend finds.
    """
    if chosen is not None:
        return ThreadsOfMemory(chosen, "from --threads or the profile")
    return threads_of_memory(memory)


def trace(threads: Store, thread_id: str, made_at: datetime | None, text: str) -> ItemOrigin:
    """Find the thread, checkpoint and message of an item with this creation time and text.

    Never raises because of the store's contents; the remark explains what is missing.
    """
    origin = ItemOrigin(thread_id, threads.describe().url)
    try:
        reader = ThreadReader(threads, thread_id)
        found = _checkpoint(reader, made_at)
    except NotFound as error:
        return origin._replace(remark=error.message)
    origin = origin._replace(checkpoint_id=found, at=reader.times("")[found])
    try:
        step = reader.stored("", found).number
        turns = conversation(Target(reader, "", found, True), None).turns
    except CkptError as error:
        return origin._replace(remark=error.message)
    said = [turn for turn in turns if turn.message.role in _PEOPLE]
    remark = "" if made_at else "the item has no creation time; this is the head of the thread"
    origin = origin._replace(step=step, people=len(said), remark=remark)
    if is_redacted(threads):
        return origin
    like = likeliest(text, [content_text(turn.message.content) for turn in said])
    if like is not None:
        return origin._replace(turn=said[like.index], likeness=like)
    why = "no human message shares a word with it; it may have been summarized since"
    return origin._replace(remark=remark or why)


def naming(memory: MemoryStore, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Item]]:
    """Yield the items that came from the wanted threads, with their values, each with its thread.

    Reads every value, one at a time.
    """
    for item in memory.items(values=True):
        source = source_of(item)
        thread_id = None if source is None else source.thread_id
        if thread_id is not None and is_wanted(thread_id):
            yield thread_id, item


def memories_of(
    place: MemoryPlace, is_wanted: Callable[[str], bool], note: Callable[[str], None]
) -> dict[str, list[Item]] | None:
    """Return the items that came from the wanted threads, by thread; None if there is no memory.

    Raises what `open_memory` raises if the user named the memory. Otherwise an unreadable memory is
    only noted.
    """
    found: dict[str, list[Item]] = {}
    try:
        with open_memory(place.url) as memory:
            for thread_id, item in naming(memory, is_wanted):
                found.setdefault(thread_id, []).append(item)
            return found
    except CkptError as error:
        if place.named:
            raise
        if not isinstance(error, UnknownLayout):
            note(f"cannot read the memory next to this store: {error.message}")
        return None


def _checkpoint(reader: ThreadReader, moment: datetime | None) -> str:
    """Return the newest root checkpoint at a time, or the head. Raises `NotFound`."""
    line = reader.line("")
    if moment is not None:
        return refs.as_of(_end_of_second(moment), line, UTC)
    if line.head is None:
        raise NotFound(f"thread '{reader.thread_id}' has no root checkpoint")
    return line.head


def _end_of_second(moment: datetime) -> datetime:
    """Return the latest time that a time in whole seconds may stand for.

    SqliteStore stores `CURRENT_TIMESTAMP`, which drops the fraction, so that an item would seem
    older than the checkpoint that was saved just before it.
    """
    return moment if moment.microsecond else moment.replace(microsecond=999_999)


FACTS = frozenset({"session_id", "user_id", "thread_id", "created_at", "updated_at"})
"""Fields that every session has, if they are stored."""


class JoinedSession(NamedTuple):
    """A session and its thread."""

    session: AppSession
    thread: Thread | None
    """None if the store has no such thread, or contains no checkpoints."""
    status: Status | None


def list_sessions(
    sessions: SessionStore, threads: Store | None, *, thread: str | None, user: str | None
) -> list[JoinedSession]:
    """Return the sessions of a thread or user, the last changed first."""
    found = [
        one._replace(fields={})
        for one in sessions.sessions()
        if thread in (None, one.thread_id) and user in (None, one.user_id)
    ]
    found.sort(key=lambda one: (one.updated_at or "", one.key), reverse=True)
    inference = None if threads is None else TriggerInference(threads)
    return [_joined(one, threads, inference) for one in found]


def find_session(
    sessions: SessionStore, threads: Store | None, name: str, *, redacted: bool
) -> JoinedSession:
    """Return a session by its id, by USER:SESSION, or by its key. Raises `NotFound` or
    `Ambiguous`.
    """
    fits: Sequence[AppSession] = [
        one
        for one in sessions.sessions()
        if name in (one.session_id, f"{one.user_id}:{one.session_id}", one.key)
    ]
    if not fits:
        raise NotFound(f"no session '{name}'", hint="`ckpt memory sessions` lists them")
    if len(fits) > 1:
        keys = ", ".join(shell.word(one.key) for one in sorted(fits, key=lambda one: one.key))
        raise Ambiguous(f"'{name}' matches {len(fits)} sessions", hint=f"use a key: {keys}")
    (one,) = fits
    if redacted:
        fields = one.fields.items()
        hidden = {name: value if name in FACTS else redact(value) for name, value in fields}
        one = one._replace(fields=hidden)
    return _joined(one, threads, None if threads is None else TriggerInference(threads))


def _joined(
    session: AppSession, threads: Store | None, inference: TriggerInference | None
) -> JoinedSession:
    thread = None
    if threads is not None and session.thread_id is not None:
        thread = threads.thread(session.thread_id)
    if threads is None or thread is None:
        return JoinedSession(session, None, None)
    if thread.head is None:
        return JoinedSession(session, thread, Status.EMPTY)
    head = next(ThreadReader(threads, thread, inference).moments("", [thread.head]), None)
    return JoinedSession(session, thread, Status.UNKNOWN if head is None else head.status)


def threads_beside(opened: Callable[[], Store]) -> Store | None:
    """Return the checkpoints in the same store; None if it has none."""
    try:
        return opened()
    except UnknownLayout:
        return None
