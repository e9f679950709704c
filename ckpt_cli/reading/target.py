"""Which thread and which checkpoint a command line means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class Target:
    """A checkpoint of a thread."""

    reader: ThreadReader
    checkpoint_ns: str
    checkpoint_id: str
    chosen: bool
    """Whether the user named a checkpoint, rather than the thread."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the user said."""

    thread: str | None
    at: str | None = None
    ns: str | None = None
    as_of: str | None = None


def find_thread(store: Store, thread_id: str | None, note: Callable[[str], None]) -> ThreadReader:
    """The thread of that id, or the newest one, which is then said. Raises `NotFound`."""
    if thread_id is not None:
        return ThreadReader(store, thread_id)
    for newest in store.threads(limit=1):
        note(f"the newest thread, '{newest.thread_id}'")
        return ThreadReader(store, newest.thread_id)
    raise NotFound("this store has no threads")


def find_checkpoint(
    store: Store, words: Words, now: datetime, zone: tzinfo, note: Callable[[str], None]
) -> Target:
    """The checkpoint that the words mean; a thread alone means its head.

    Raises `NotFound`, `Ambiguous` or `UsageError`.
    """
    thread_id, ref = words.thread, words.at
    if thread_id is not None and ref is None:
        thread_id, ref = refs.split_target(thread_id, lambda whole: store.thread(whole) is not None)
    if ref is not None and words.as_of is not None:
        raise UsageError("a checkpoint and --as-of exclude each other", hint="give one of them")
    reader = find_thread(store, thread_id, note)
    ns = words.ns or ""
    reader.require(ns)
    line = reader.line(ns)
    if words.as_of is not None:
        found = refs.as_of(parse_time(words.as_of, now, zone), line)
    else:
        found = refs.resolve(ref or "head", line, now, zone)
    return Target(reader, ns, found, ref is not None or words.as_of is not None)


def other_words(text: str, thread_id: str, ns: str | None, store: Store) -> Words:
    """What a second checkpoint means: `THREAD@REF`, a thread, or a ref in the first's thread."""
    whole, ref = refs.split_target(text, lambda one: store.thread(one) is not None)
    if ref is not None or store.thread(whole) is not None:
        return Words(whole, at=ref or "head", ns=ns)
    return Words(thread_id, at=text, ns=ns)
