"""The threads that a command is asked to change or to copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Thread
from ckpt_cli.api.filters import explained_if_none, filter_of
from ckpt_cli.diagnostics import progress
from ckpt_cli.queries.selection import filtered_threads
from ckpt_cli.session import Session
from ckpt_cli.threads.target import TargetArguments, find_checkpoint
from ckpt_cli.threads.thread import ThreadReader

TargetId: TypeAlias = tuple[str, str | None, str | None]
"""A thread, its checkpoint if one is named, and its head if conditions chose it: they may not hold
for another head.
"""


@dataclass(frozen=True, slots=True)
class ThreadTargets:
    """Threads by name, or by conditions."""

    names: tuple[str, ...]
    at: str | None
    """A checkpoint of the only thread, if it is not part of its name."""
    match: str | None
    where: tuple[str, ...]
    everything: bool = False
    has_all: bool = True
    """Whether the command has the option --all."""

    @property
    def is_several(self) -> bool:
        """Whether more than one thread may be meant."""
        return len(self.names) != 1 or self._has_conditions

    @property
    def _has_conditions(self) -> bool:
        return self.match is not None or bool(self.where)

    def check(self) -> None:
        """Raise `UsageError` for words that exclude each other, or if there are none."""
        ways = "--match, --where or --all" if self.has_all else "--match or --where"
        if self.names and (self._has_conditions or self.everything):
            raise UsageError(
                f"THREAD cannot be combined with {ways}",
                hint="leave out THREAD or these options",
            )
        if self.everything and self._has_conditions:
            raise UsageError(
                "--all cannot be combined with --match or --where", hint="leave out --all"
            )
        if not (self.names or self._has_conditions or self.everything):
            ways = "--match GLOB, --where FILTER or --all"
            if not self.has_all:
                ways = "--match GLOB or --where FILTER"
            raise UsageError("no thread given", hint=f"give THREAD, {ways}")
        if self.at is not None and self.is_several:
            raise UsageError("--at requires one THREAD")

    def one(self, session: Session) -> tuple[ThreadReader, str | None]:
        """Return the only thread, and the checkpoint if one is named. Raises `NotFound`."""
        return self._named(session, self.names[0])

    def all(self, session: Session) -> list[TargetId]:
        """Return all threads, each with the checkpoint that is named, if any.

        Raises `NotFound` for an unknown name, and `UsageError` for several checkpoints of a thread:
        the copy of one would replace the copy of the other as the head.
        """
        if self.names:
            found = (self._named(session, name) for name in self.names)
            named = list(dict.fromkeys((reader.thread_id, one) for reader, one in found))
            for thread_id, number in Counter(thread_id for thread_id, _ in named).items():
                if number > 1:
                    raise UsageError(
                        f"thread '{thread_id}' is named with different checkpoints",
                        hint="name each thread once",
                    )
            return [(*one, None) for one in named]
        threads = threads_to_change(session, (), self.match, self.where)
        return [(one.thread_id, None, one.head) for one in threads]

    def _named(self, session: Session, name: str) -> tuple[ThreadReader, str | None]:
        words = TargetArguments(name, self.at)
        found = find_checkpoint(session.store, words, session.now, session.zone, session.note)
        return found.reader, found.checkpoint_id if found.chosen else None


def names_and_ref(
    session: Session,
    thread: str | None,
    ref: str | None,
    more: Sequence[str] | None,
    *,
    has_choice: bool,
) -> tuple[tuple[str, ...], str | None]:
    """Return the threads that the words name, and the REF of `THREAD REF`.

    Two words are `THREAD REF`, unless an option chooses the checkpoint and the second word is a
    thread, too. Three words or more are threads.
    """
    words = tuple(one for one in (thread, ref) if one is not None)
    if more:
        return (*words, *more), None
    if len(words) != 2 or (has_choice and session.store.thread(words[1]) is not None):
        return words, None
    return words[:1], words[1]


def check_one_way(
    names: Sequence[str] | None, match: str | None, where: Sequence[str] | None, *, everything: bool
) -> None:
    """Raise `UsageError` unless threads are named, or described, or all of them are meant."""
    if sum((bool(names), match is not None or bool(where), everything)) != 1:
        raise UsageError(
            "name the threads in one way",
            hint="give THREAD..., --all, or --match and --where",
        )


def threads_to_change(
    session: Session,
    names: Sequence[str] | None,
    match: str | None,
    where: Sequence[str] | None,
) -> Iterator[Thread]:
    """Return the threads with these names; without names, all threads that match.

    Shows progress while heads are read. Raises what `filtered_threads` and `filter_of` raise.
    """
    watch = partial(progress, total=None, label="choosing threads")
    wanted = filter_of(session, where, acts=True)
    found = filtered_threads(session.store, names or (), match, wanted, session.now, watch)
    return explained_if_none(session, where, found)
