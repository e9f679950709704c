"""Which thread and which checkpoint a command line means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from difflib import get_close_matches

from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.thread import ThreadReader

_SEARCHED = 1000
"""So many of the newest threads are searched for what a mistyped id may mean."""
_NAMED = 3


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
        try:
            return ThreadReader(store, thread_id)
        except NotFound:
            raise _no_thread(store, thread_id) from None
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
    ns = reader.namespace(words.ns or "") if words.ns else ""
    line = reader.line(ns)
    if words.as_of is not None:
        found = refs.as_of(parse_time(words.as_of, now, zone), line)
    else:
        found = refs.resolve(ref or "head", line, now, zone)
    return Target(reader, ns, found, ref is not None or words.as_of is not None)


def find_two(
    store: Store,
    words: Words,
    first: str | None,
    second: str | None,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> tuple[Target, Target | None]:
    """The two checkpoints to compare, older words first; None for the first's own parent."""
    one = find_checkpoint(store, words, now, zone, note)
    if first is None:
        return one, None

    def other(text: str) -> Target:
        if refs.is_ref(text):
            return find_checkpoint(
                store, Words(one.reader.thread_id, text, words.ns), now, zone, note
            )
        whole, ref = refs.split_target(text, lambda known: store.thread(known) is not None)
        if ref is None and store.thread(whole) is None:
            whole, ref = one.reader.thread_id, text
        return find_checkpoint(store, Words(whole, ref or "head", words.ns), now, zone, note)

    if second is not None:
        return other(first), other(second)
    # A thread alone stands for its head, which is the newer side, as in `git diff REF`.
    return (one, other(first)) if one.chosen else (other(first), one)


def _no_thread(store: Store, thread_id: str) -> NotFound:
    """An error that names what may have been meant, from the newest threads."""
    newest = [thread.thread_id for thread in store.threads(limit=_SEARCHED)]
    close = [one for one in newest if one.startswith(thread_id)][:_NAMED]
    close = close or get_close_matches(thread_id, newest, n=_NAMED)
    hint = "`ckpt threads list --all` lists them; add --match 'PART*' to search"
    if close:
        hint = f"did you mean {' or '.join(repr(one) for one in close)}?"
    elif thread_id.rpartition("@")[0] in newest:
        hint = "this command takes a thread without @REF"
    return NotFound(f"no thread '{thread_id}' in this store", hint=hint)
