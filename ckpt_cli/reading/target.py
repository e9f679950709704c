"""Finds the checkpoint that the words of a command line name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from difflib import get_close_matches
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.times import parse_time
from ckpt_cli.reading.thread import NO_THREAD_HINT, ThreadReader

_SEARCHED = 1000
"""Number of newest threads that are searched for an id similar to a mistyped one."""
_NAMED = 3


class Target(NamedTuple):
    """A checkpoint of a thread."""

    reader: ThreadReader
    checkpoint_ns: str
    checkpoint_id: str
    chosen: bool
    """Whether the user named a checkpoint; otherwise this is the head of the thread."""


class TargetArguments(NamedTuple):
    """The words of the command line that name a checkpoint."""

    thread: str | None
    """THREAD or THREAD@REF; None for the newest thread."""
    at: str | None = None
    ns: str | None = None
    as_of: str | None = None
    ref: str | None = None
    """The REF of `THREAD REF`."""


class NamedThread(NamedTuple):
    """A thread, and the words that name a checkpoint of it."""

    reader: ThreadReader
    ns: str | None = None
    ref: str | None = None
    as_of: str | None = None

    @property
    def has_ref(self) -> bool:
        """Whether the words name a checkpoint, not only a thread."""
        return self.ref is not None or self.as_of is not None

    def checkpoint(self, now: datetime, zone: tzinfo) -> Target:
        """Return the named checkpoint, or the head of the thread.

        Raises `NotFound`, `Ambiguous` or `UsageError`.
        """
        ns = self.reader.namespace(self.ns) if self.ns else ""
        if not ns:
            self.reader.check_root()
        line = self.reader.line(ns)
        if self.as_of is not None:
            found = refs.as_of(parse_time(self.as_of, now, zone), line, zone)
        else:
            found = refs.resolve(self.ref or "head", line, now, zone)
        return Target(self.reader, ns, found, self.has_ref)


def find_thread(
    store: Store, thread: Thread | str | None, note: Callable[[str], None]
) -> ThreadReader:
    """Return a thread by its entry or its id, or the newest one, which a note then names.

    Raises `NotFound` if there is none.
    """
    if thread is not None:
        try:
            return ThreadReader(store, thread)
        except NotFound:
            raise _no_thread(store, str(thread)) from None
    for newest in store.threads(limit=1):
        note(f"using the newest thread, '{newest.thread_id}'")
        return ThreadReader(store, newest)
    raise NotFound("this store has no threads")


def find_named(store: Store, words: TargetArguments, note: Callable[[str], None]) -> NamedThread:
    """Return the thread that the words name, with its ref. Raises `NotFound` or `UsageError`."""
    thread: Thread | str | None = words.thread
    ref = words.at
    if words.thread is not None and ref is None:
        thread, ref = _split(store, words.thread)
    if words.ref is not None:
        if ref is not None or words.as_of is not None:
            other = words.at or words.as_of or words.thread
            raise UsageError(
                f"cannot show two checkpoints, '{other}' and '{words.ref}'",
                hint="to compare two checkpoints: `ckpt diff THREAD REF REF`",
            )
        ref = words.ref
    if ref is not None and words.as_of is not None:
        raise UsageError("a checkpoint cannot be combined with --as-of", hint="use one of them")
    return NamedThread(find_thread(store, thread, note), words.ns, ref, words.as_of)


def find_checkpoint(
    store: Store, words: TargetArguments, now: datetime, zone: tzinfo, note: Callable[[str], None]
) -> Target:
    """Return the checkpoint that the words name; a thread alone names its head.

    Raises `NotFound`, `Ambiguous` or `UsageError`.
    """
    return find_named(store, words, note).checkpoint(now, zone)


def find_two(
    store: Store,
    words: TargetArguments,
    first: str | None,
    second: str | None,
    now: datetime,
    zone: tzinfo,
    note: Callable[[str], None],
) -> tuple[Target, Target | None]:
    """Return the checkpoints to compare: first the one named first.

    A thread with one ref means: from that ref to the head. The second result is None if only one
    checkpoint is named; it is then compared with its parent.
    """
    one = find_checkpoint(store, words, now, zone, note)
    if first is None:
        return one, None

    def find(text: str) -> tuple[Target, bool]:
        """Return the checkpoint, and whether the text names a thread too."""
        named, is_thread = NamedThread(one.reader, words.ns, text), False
        if not refs.is_ref(text):
            thread, ref = _split(store, text)
            if ref is not None or isinstance(thread, Thread):
                reader = find_thread(store, thread, note)
                named, is_thread = NamedThread(reader, words.ns, ref or "head"), True
        return named.checkpoint(now, zone), is_thread

    other, is_thread = find(first)
    if second is not None:
        if one.chosen:
            raise UsageError(
                f"cannot compare three checkpoints: '{words.thread}' is one already",
                hint="use `ckpt diff THREAD@REF REF` or `ckpt diff THREAD REF REF`",
            )
        return other, find(second)[0]
    # `THREAD REF` compares with the head, as `git diff REF` compares with the working tree.
    return (one, other) if one.chosen or is_thread else (other, one)


def _split(store: Store, text: str) -> tuple[Thread | str, str | None]:
    """Split `THREAD` or `THREAD@REF` into the thread (its entry, or else its id) and the ref."""
    thread = store.thread(text)
    thread_id, ref = refs.split_target(text, lambda _: thread is not None)
    return thread or thread_id, ref


def _no_thread(store: Store, thread_id: str) -> NotFound:
    """Return an error with suggestions from the newest threads."""
    # Late: few runs look back.
    from ckpt_cli.reading.earlier import thread_of_now

    if (later := thread_of_now(store, thread_id)) is not None:
        first = later.first_at
        hint = (
            None if first is None else f"its first checkpoint is from {first:%Y-%m-%d %H:%M:%S} UTC"
        )
        return NotFound(f"thread '{thread_id}' had no checkpoint then", hint=hint)
    alone, _, ref = thread_id.rpartition("@")
    if ref and alone and store.thread(alone) is not None:
        return NotFound(
            f"'{thread_id}' is a checkpoint, but this command takes a thread",
            hint=f"leave out {shell.word(f'@{ref}')}, or use"
            f" `{shell.command('ckpt', 'show', ids=[thread_id])}`",
        )
    # A hint is not worth a scan.
    listed = () if store.lists_by_scan else store.threads(limit=_SEARCHED)
    newest = [thread.thread_id for thread in listed]
    close = [one for one in newest if one.startswith(thread_id)][:_NAMED]
    close = close or get_close_matches(thread_id, newest, n=_NAMED)
    hint = NO_THREAD_HINT
    if close:
        hint = f"did you mean {' or '.join(map(shell.name, close))}?"
    return NotFound(f"no thread '{thread_id}' in this store", hint=hint)
