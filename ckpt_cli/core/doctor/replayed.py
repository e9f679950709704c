"""The mismatches of replayed threads, some of which can only be judged when all were replayed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.replay.elimination import Check, Judgement, Pool, Verdict
from ckpt_cli.core.replay.report import Place, Replayed, Transition, judged, verdicts
from ckpt_cli.core.state import Version

Exact = tuple[str, str, str | None]
"""Namespace, checkpoint and channel of a finding."""


@dataclass(frozen=True, slots=True)
class ReplayedThread:
    """A thread that was replayed. Can be sent to another process.

    As in `replay --all`, one that contradicts itself is judged when all threads were replayed.
    """

    replayed: Replayed
    left_out: Collection[Exact] = frozenset()
    """Channels of a checkpoint with a more exact finding, and young checkpoints without one."""
    versions: Mapping[Exact, Version] = field(default_factory=dict)
    """The versions of values that are lost or shared."""

    def findings(self, judgements: Mapping[Place, Judgement]) -> Iterator[Finding]:
        """Yield the mismatches."""
        for transition in self.replayed.transitions:
            ns, child = transition.checkpoint_ns, transition.child
            if (ns, child, None) in self.left_out:
                continue
            for check, verdict, reason in verdicts(transition, judgements):
                place = (ns, child, check.channel)
                if verdict is Verdict.MISMATCH and place not in self.left_out:
                    yield self._finding(transition, check, reason)

    def _finding(self, transition: Transition, check: Check, reason: str) -> Finding:
        ns, child = transition.checkpoint_ns, transition.child
        code, detail, named = "state-mismatch", reason, None
        version = str(self.versions.get((ns, child, check.channel), "?"))
        if check.lost and not check.missing:
            named = version
            code, detail = "value-missing", f"version {version} is not stored"
        elif check.shared is not None:
            named = version
            code = "branches-share-value"
            detail = (
                f"version {version} holds what checkpoint {check.shared} of another branch wrote"
            )
        return Finding(
            code=code,
            detail=detail,
            thread_id=self.replayed.thread_id,
            checkpoint_ns=ns,
            checkpoint_id=child,
            channel=check.channel,
            version=named,
        )


class ReplayedTogether:
    """Judges the threads that contradict themselves by all threads, as `replay --all` does."""

    def __init__(self, reducers: Mapping[str, str]) -> None:
        self._reducers = reducers
        self._pool = Pool()
        self._waiting: list[ReplayedThread] = []

    def add(self, thread: ReplayedThread | None) -> None:
        """Take what a thread shows about the reducers of channels."""
        if thread is None:
            return
        thread.replayed.add_to(self._pool)
        if thread.replayed.is_contradictory:
            self._waiting.append(thread)

    def findings(self) -> Iterator[tuple[str, list[Finding]]]:
        """Yield the threads that contradict themselves, each with its mismatches."""
        for one in self._waiting:
            judgements = judged(one.replayed, self._pool, self._reducers)
            yield one.replayed.thread_id, list(one.findings(judgements))
