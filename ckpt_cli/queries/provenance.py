"""Trace a memory item to the thread and message it came from, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from ckpt_backends.errors import CkptError, NotFound, UnknownLayout
from ckpt_backends.memory.protocol import Item, MemoryStore, ThreadsOfMemory
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, threads_of_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.core import refs
from ckpt_cli.core.conversation.messages import content_text
from ckpt_cli.core.conversation.transcript import Turn
from ckpt_cli.core.memory.fact_origin import Likeness, likeliest
from ckpt_cli.core.memory.fact_problems import source_of
from ckpt_cli.queries.memory_location import MemoryPlace
from ckpt_cli.queries.messages import conversation
from ckpt_cli.threads.redaction import is_redacted
from ckpt_cli.threads.target import Target
from ckpt_cli.threads.thread import ThreadReader

_PEOPLE = frozenset({"human", "user"})


@dataclass(frozen=True, slots=True)
class ItemOrigin:
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
    store = threads.describe().url
    try:
        reader = ThreadReader(threads, thread_id)
        found = _checkpoint(reader, made_at)
    except NotFound as error:
        return ItemOrigin(thread_id, store, remark=error.message)
    at = reader.times("")[found]
    remark = "" if made_at else "the item has no creation time; this is the head of the thread"
    try:
        step = reader.stored("", found).number
        turns = conversation(Target(reader, "", found, True), None).turns
    except CkptError as error:
        return ItemOrigin(thread_id, store, found, None, at, remark=error.message)
    said = [turn for turn in turns if turn.message.role in _PEOPLE]
    origin = ItemOrigin(thread_id, store, found, step, at, people=len(said), remark=remark)
    if is_redacted(threads):
        return origin
    like = likeliest(text, [content_text(turn.message.content) for turn in said])
    if like is None:
        why = "no human message shares a word with it; it may have been summarized since"
        return ItemOrigin(thread_id, store, found, step, at, people=len(said), remark=remark or why)
    return ItemOrigin(thread_id, store, found, step, at, said[like.index], like, len(said), remark)


def named_by(memory: MemoryStore, is_wanted: Callable[[str], bool]) -> dict[str, list[Item]]:
    """Return the items that came from the wanted threads, by thread, with their values."""
    found: dict[str, list[Item]] = {}
    for thread_id, item in naming(memory, is_wanted):
        found.setdefault(thread_id, []).append(item)
    return found


def naming(memory: MemoryStore, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, Item]]:
    """Yield the same items one at a time, each with its thread. Reads every value."""
    for item in memory.items(values=True):
        source = source_of(item)
        thread_id = None if source is None else source.thread_id
        if thread_id is not None and is_wanted(thread_id):
            yield thread_id, item


def memories_of(
    place: MemoryPlace, is_wanted: Callable[[str], bool], note: Callable[[str], None]
) -> dict[str, list[Item]] | None:
    """Return the items that came from the wanted threads; None if there is no memory.

    Raises what `open_memory` raises if the user named the memory. Otherwise an unreadable memory is
    only noted.
    """
    try:
        with open_memory(place.url) as memory:
            return named_by(memory, is_wanted)
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
