"""Faults that show only if every value of a thread is decoded, and every step replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ckpt_backends.codec.memo import Memo, remembering
from ckpt_backends.errors import CkptError
from ckpt_cli.core.doctor.checks import Exact, ReplayedThread
from ckpt_cli.core.doctor.findings import Checked, Finding
from ckpt_cli.core.doctor.types import gather_names
from ckpt_cli.core.replay import Replayed, judge_all
from ckpt_cli.core.state import Version, delta_channels, read_body
from ckpt_cli.queries.doctor.rows import (
    MissingParents,
    Orphans,
    SeenCheckpoint,
    Terms,
    ThreadReport,
    library_findings,
    seen_checkpoint,
)
from ckpt_cli.queries.doctor.values import (
    EmptiedMessages,
    PlainRows,
    TypeChecks,
    UnreadableValues,
    missing_value,
)
from ckpt_cli.queries.replay import watched_replay
from ckpt_cli.queries.replay_checks import KeptCheckpoint
from ckpt_cli.reading.states import LostValues, read_state
from ckpt_cli.reading.thread import ThreadReader


def deep_findings(reader: ThreadReader, terms: Terms, report: ThreadReport) -> Iterator[Finding]:
    """Yield what is wrong with the bodies, values and writes of all checkpoints of a thread.

    Counts them in the report, and notes there why some could not be checked.
    """
    with remembering(gather_names) as memo:
        check = _DeepCheck(reader, terms, memo)
        try:
            check.replay()
        except CkptError as error:
            report.unchecked = report.unchecked or error.message
    checked = report.checked
    checked.checkpoints = max(checked.checkpoints, check.checked.checkpoints)
    checked.writes = max(checked.writes, check.checked.writes)
    checked.values += check.unreadable.values
    report.unchecked = report.unchecked or check.unreadable.unchecked
    report.replayed = check.replayed
    yield from check.found


class _DeepCheck:
    """Reads a thread once, and shows each checkpoint to all checks."""

    def __init__(self, reader: ThreadReader, terms: Terms, memo: Memo) -> None:
        self.found: list[Finding] = []
        self.checked = Checked()
        self.unreadable = UnreadableValues(memo, has_bodies=not reader.is_values_only)
        self.replayed: ReplayedThread | None = None
        self._reader = reader
        self._terms = terms
        self._plain = PlainRows()
        self._lost = LostValues(reader)
        self._emptied = EmptiedMessages(reader)
        self._parents = MissingParents(reader)
        self._orphans = Orphans(reader, terms.before)
        self._mismatches = _Mismatches(reader)
        self._types = TypeChecks(terms, memo)

    def replay(self) -> None:
        """Check all checkpoints, then what only all of them together show."""
        replayed = watched_replay(self._reader, self._watch)
        self.found += self.unreadable.end()
        self.found += self._emptied.end()
        exact = {
            (one.checkpoint_ns or "", one.checkpoint_id or "", one.channel) for one in self.found
        }
        found, self.replayed = self._mismatches.end(replayed, self._terms, exact)
        self.found += found
        self.found += self._orphans.calls()
        self.found += self._orphans.memories()
        if not self.unreadable.has_broken_body:
            self.found += self._orphans.values()

    def _watch(self, here: KeptCheckpoint, parent: KeptCheckpoint | None) -> None:
        key = here.moment.key
        seen = seen_checkpoint(
            here.moment,
            None if parent is None else parent.moment,
            self._terms.settled,
            is_head=self._reader.head(key.checkpoint_ns) == key.checkpoint_id,
        )
        self.checked.checkpoints += 1
        self.checked.writes += len(seen.moment.writes)
        self.found += self._findings(seen)
        self._mismatches.at(seen)
        self._orphans.at(seen)
        self._emptied.at(seen)

    def _findings(self, seen: SeenCheckpoint) -> Iterator[Finding]:
        yield from self.unreadable.at(seen)
        for channel in self._lost.here(seen.moment, seen.parent, seen.introduced):
            yield missing_value(seen, channel)
        yield from self._plain.at(seen)
        yield from self._parents.at(seen)
        yield from self._types.at(seen.stored_here, seen.moment.writes)
        names = delta_channels(seen.moment.metadata)
        if (
            seen.is_head and seen.moment.key.checkpoint_ns and names
        ):  # that of the root was read before
            state = read_state(self._reader, seen.moment, names)
            yield from library_findings(seen.moment.key, state)


class _Mismatches:
    """Looks at each checkpoint of a thread, and judges its replay at the end."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._young: set[Exact] = set()
        """Checkpoints of which a write may still be missing: savers store writes in the background.
        """

    def at(self, seen: SeenCheckpoint) -> None:
        """Note whether all rows of a checkpoint must have been stored."""
        key = seen.moment.key
        if seen.is_young:
            self._young.add((key.checkpoint_ns, key.checkpoint_id, None))

    def end(
        self, replayed: Replayed, terms: Terms, exact: Collection[Exact]
    ) -> tuple[list[Finding], ReplayedThread]:
        """Return the mismatches, except at channels of a checkpoint with a more exact finding, and
        what other threads are judged by.

        If the thread contradicts itself and is judged together with others, none are found yet.
        """
        channels = {one for one in exact if one[2] is not None}
        found = ReplayedThread(replayed, self._young | channels, dict(self._versions(replayed)))
        if terms.together and replayed.is_contradictory:
            return [], found
        ((_, judgements),) = judge_all([replayed], terms.reducers)
        return list(found.findings(judgements)), ReplayedThread(replayed.for_pool())

    def _versions(self, replayed: Replayed) -> Iterator[tuple[Exact, Version]]:
        for transition in replayed.transitions:
            named = [one for one in transition.checks if one.lost or one.shared is not None]
            if not named:
                continue
            ns, child = transition.checkpoint_ns, transition.child
            stored = self._reader.store.checkpoints(
                self._reader.thread_id, checkpoint_ns=ns, checkpoint_ids=[child], body=True
            )
            for body in map(read_body, stored):
                for one in named:
                    yield (ns, child, one.channel), body.versions.get(one.channel, "?")
