"""Find states that do not follow from what the tasks wrote, once a thread was replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.replay.elimination import Check, Verdict
from ckpt_cli.core.replay.report import Replayed, Transition, judge_all, verdicts
from ckpt_cli.core.state import Version, read_body
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.thread import ThreadReader

Exact = tuple[str, str, str | None]
"""Namespace, checkpoint and channel of a finding."""


class Mismatches:
    """Looks at each checkpoint of a thread, and reports the mismatches of its replay at the end."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._young: set[tuple[str, str]] = set()
        """Checkpoints of which a write may still be missing: savers store writes in the background.
        """

    def at(self, seen: SeenCheckpoint) -> None:
        """Note whether all rows of a checkpoint must have been stored."""
        key = seen.moment.key
        if seen.is_young:
            self._young.add((key.checkpoint_ns, key.checkpoint_id))

    def findings(
        self, replayed: Replayed, reducers: Mapping[str, str], exact: Collection[Exact]
    ) -> Iterator[Finding]:
        """Yield the mismatches, except at channels of a checkpoint with a more exact finding."""
        ((_, judgements),) = judge_all([replayed], reducers)
        for transition in replayed.transitions:
            if (transition.checkpoint_ns, transition.child) in self._young:
                continue
            for check, verdict, reason in verdicts(transition, judgements):
                exactly = (transition.checkpoint_ns, transition.child, check.channel)
                if verdict is Verdict.MISMATCH and exactly not in exact:
                    yield self._finding(transition, check, reason)

    def _finding(self, transition: Transition, check: Check, reason: str) -> Finding:
        ns, child = transition.checkpoint_ns, transition.child
        code, detail, version = "state-mismatch", reason, None
        if check.lost and not check.missing:
            version = str(self._version(ns, check))
            code, detail = "value-missing", f"version {version} is not stored"
        elif check.shared is not None:
            code = "branches-share-value"
            version = str(self._version(ns, check))
            detail = (
                f"version {version} holds what checkpoint {check.shared} of another branch wrote"
            )
        return Finding(
            code=code,
            detail=detail,
            thread_id=self._reader.thread_id,
            checkpoint_ns=ns,
            checkpoint_id=child,
            channel=check.channel,
            version=version,
        )

    def _version(self, ns: str, check: Check) -> Version:
        stored = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=ns, checkpoint_ids=[check.child], body=True
        )
        return next((read_body(one).versions.get(check.channel, "?") for one in stored), "?")
