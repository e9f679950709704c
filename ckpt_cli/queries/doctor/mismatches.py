"""Find states that do not follow from what the tasks wrote, once a thread was replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.replayed import Exact, ReplayedThread
from ckpt_cli.core.replay.report import Replayed, judge_all
from ckpt_cli.core.state import Version, read_body
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.threads.thread import ThreadReader


class Mismatches:
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
