"""Find the thread and the checkpoint that a command line names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from difflib import get_close_matches

from ckpt_backends import shell
from ckpt_backends.errors import NotFound, UsageError
from ckpt_backends.protocol import Store
from ckpt_cli.core import refs
from ckpt_cli.core.times import parse_time
from ckpt_cli.threads.thread import NO_THREAD_HINT, ThreadReader

_SEARCHED = 1000
"""Number of newest threads that are searched for an id similar to a mistyped one."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Target:
    """A checkpoint of a thread."""

    reader: ThreadReader
    checkpoint_ns: str
    checkpoint_id: str
    chosen: bool
    """Whether the user named a checkpoint; otherwise this is the head of the thread."""


@dataclass(frozen=True, slots=True)
class TargetArguments:
    """The words of the command line that name a checkpoint."""

    thread: str | None
    at: str | None = None
    ns: str | None = None
    as_of: str | None = None


def find_thread(store: Store, thread_id: str | None, note: Callable[[str], None]) -> ThreadReader:
    """Return the thread with this id, or the newest one, which a note then names.

    Raises `NotFound` if there is none.
    """
    if thread_id is not None:
        try:
            return ThreadReader(store, thread_id)
        except NotFound:
            raise _no_thread(store, thread_id) from None
    for newest in store.threads(limit=1):
        note(f"using the newest thread, '{newest.thread_id}'")
        return ThreadReader(store, newest.thread_id)
    raise NotFound("this store has no threads")


def find_checkpoint(
    store: Store, words: TargetArguments, now: datetime, zone: tzinfo, note: Callable[[str], None]
) -> Target:
    """Return the checkpoint that the words name; a thread alone names its head.

    Raises `NotFound`, `Ambiguous` or `UsageError`.
    """
    thread_id, ref = words.thread, words.at
    if thread_id is not None and ref is None:
        thread_id, ref = _split(store, thread_id)
    if ref is not None and words.as_of is not None:
        raise UsageError("a checkpoint cannot be combined with --as-of", hint="use one of them")
    reader = find_thread(store, thread_id, note)
    ns = reader.namespace(words.ns or "") if words.ns else ""
    line = reader.line(ns)
    if words.as_of is not None:
        found = refs.as_of(parse_time(words.as_of, now, zone), line, zone)
    else:
        found = refs.resolve(ref or "head", line, now, zone)
    return Target(reader, ns, found, ref is not None or words.as_of is not None)


def has_ref(store: Store, words: TargetArguments) -> bool:
    """Return whether the words name a checkpoint, not only a thread."""
    if words.at is not None or words.as_of is not None:
        return True
    return words.thread is not None and _split(store, words.thread)[1] is not None


def with_ref(store: Store, words: TargetArguments, ref: str | None) -> TargetArguments:
    """Add the REF of `THREAD REF` to the words.

    Raises `UsageError` if they already name a checkpoint.
    """
    if ref is None or words.thread is None:
        return words
    if has_ref(store, words):
        other = words.at or words.as_of or words.thread
        raise UsageError(
            f"cannot show two checkpoints, '{other}' and '{ref}'",
            hint="to compare two checkpoints: `ckpt diff THREAD REF REF`",
        )
    return replace(words, at=ref)


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
        thread_id, ref = one.reader.thread_id, text
        if not refs.is_ref(text):
            whole, part = _split(store, text)
            if part is not None or store.thread(whole) is not None:
                thread_id, ref = whole, part or "head"
                found = find_checkpoint(
                    store, TargetArguments(thread_id, ref, words.ns), now, zone, note
                )
                return found, True
        found = find_checkpoint(store, TargetArguments(thread_id, ref, words.ns), now, zone, note)
        return found, False

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


def _split(store: Store, text: str) -> tuple[str, str | None]:
    """Split `THREAD` or `THREAD@REF` into (thread id, ref)."""
    return refs.split_target(text, lambda whole: store.thread(whole) is not None)


def _no_thread(store: Store, thread_id: str) -> NotFound:
    """Return an error with suggestions from the newest threads."""
    alone, _, ref = thread_id.rpartition("@")
    if ref and alone and store.thread(alone) is not None:
        return NotFound(
            f"'{thread_id}' is a checkpoint, but this command takes a thread",
            hint=f"leave out {shell.word(f'@{ref}')}, or use"
            f" `{shell.command('ckpt', 'show', ids=[thread_id])}`",
        )
    newest = [thread.thread_id for thread in store.threads(limit=_SEARCHED)]
    close = [one for one in newest if one.startswith(thread_id)][:_NAMED]
    close = close or get_close_matches(thread_id, newest, n=_NAMED)
    hint = NO_THREAD_HINT
    if close:
        hint = f"did you mean {' or '.join(map(shell.name, close))}?"
    return NotFound(f"no thread '{thread_id}' in this store", hint=hint)
