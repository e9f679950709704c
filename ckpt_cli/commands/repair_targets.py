"""The threads that a repair is asked to mend."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ckpt_backends.errors import UsageError
from ckpt_cli.commands.threads_to_change import threads_to_change
from ckpt_cli.session import Session
from ckpt_cli.threads.target import TargetArguments, find_checkpoint
from ckpt_cli.threads.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class RepairTargets:
    """Threads by name, or by conditions."""

    names: tuple[str, ...]
    at: str | None
    match: str | None
    where: tuple[str, ...]
    everything: bool

    @property
    def is_several(self) -> bool:
        """Whether more than one thread may be meant."""
        return len(self.names) != 1

    def check(self) -> None:
        """Raise `UsageError` for words that exclude each other, or if there are none."""
        has_conditions = self.match is not None or bool(self.where)
        if self.names and (has_conditions or self.everything):
            raise UsageError(
                "THREAD cannot be combined with --match, --where or --all",
                hint="leave out THREAD or these options",
            )
        if self.everything and has_conditions:
            raise UsageError(
                "--all cannot be combined with --match or --where", hint="leave out --all"
            )
        if not (self.names or has_conditions or self.everything):
            raise UsageError(
                "no thread given", hint="give THREAD, --match GLOB, --where FILTER or --all"
            )
        if self.at is not None and self.is_several:
            raise UsageError("--at requires one THREAD")

    def one(self, session: Session) -> tuple[ThreadReader, str | None]:
        """Return the only thread, and the checkpoint if one is named. Raises `NotFound`."""
        return self._named(session, self.names[0])

    def all(self, session: Session) -> list[tuple[str, str | None]]:
        """Return the ids of all threads, each with the checkpoint that is named, if any.

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
            return named
        threads = threads_to_change(session, (), self.match, self.where)
        return [(one.thread_id, None) for one in threads]

    def _named(self, session: Session, name: str) -> tuple[ThreadReader, str | None]:
        words = TargetArguments(name, self.at)
        found = find_checkpoint(session.store, words, session.now, session.zone, session.note)
        return found.reader, found.checkpoint_id if found.chosen else None
