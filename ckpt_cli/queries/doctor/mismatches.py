"""Find states that do not follow from what the tasks wrote, once a thread was replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.numbered_versions import NumberedVersions
from ckpt_cli.core.replay.elimination import Check, Judgement, Verdict
from ckpt_cli.core.replay.report import Place, Replayed, Transition, judge_all, verdicts
from ckpt_cli.core.size_sums import namespace_kind
from ckpt_cli.core.state import read_body
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.thread import ThreadReader

_OF_LANGGRAPH = ("add_messages", "last_value")
"""Reducers that LangGraph brings itself. Any other is a function of the application, which may
differ from it in some steps, such as one that empties a list if `None` is written."""

Exact = tuple[str, str, str | None]
"""Namespace, checkpoint and channel of a finding."""


class Mismatches:
    """Looks at each checkpoint of a thread, and compares what was replayed at the end."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._numbered: dict[str, NumberedVersions] = {}
        self._updated: set[tuple[str, str | None]] = set()
        """Checkpoints with a child that update_state made; its writes may have replaced others."""

    def at(self, seen: SeenCheckpoint) -> None:
        """Note what may explain a mismatch."""
        moment, parent = seen.moment, seen.parent
        key = moment.key
        # The copy that a fork is has the versions of what it copied.
        if seen.is_apart and moment.source != "fork":
            numbered = self._numbered.setdefault(key.checkpoint_ns, NumberedVersions())
            numbered.add(key.checkpoint_id, moment.body.versions, seen.introduced)
        if moment.source == "update" and parent is not None:
            has_own = any(one.task_path.startswith(UPDATE_PATH) for one in parent.writes)
            if not has_own:
                self._updated.add((key.checkpoint_ns, parent.key.checkpoint_id))

    def findings(
        self, replayed: Replayed, reducers: Mapping[str, str], exact: Collection[Exact]
    ) -> Iterator[Finding]:
        """Yield the mismatches, except at channels of a checkpoint with a more exact finding."""
        ((_, judgements),) = judge_all([replayed], reducers)
        found: list[tuple[Place, bool, Finding]] = []
        for transition in replayed.transitions:
            may_lack = (transition.checkpoint_ns, transition.parent) in self._updated
            for check, verdict, reason in verdicts(transition, judgements):
                exactly = (transition.checkpoint_ns, transition.child, check.channel)
                if verdict is not Verdict.MISMATCH or exactly in exact:
                    continue
                finding = self._finding(transition, check, reason)
                if may_lack and finding.code == "state-mismatch":
                    continue
                place = (namespace_kind(transition.checkpoint_ns), check.channel)
                is_proved = (
                    finding.code != "state-mismatch"
                    or _is_proved(check, judgements[place])
                    or (not check.wrote and self._has_new_version(transition, check))
                )
                found.append((place, is_proved, finding))
        unproved = Counter(place for place, is_proved, _ in found if not is_proved)
        for place, is_proved, finding in found:
            if is_proved or (unproved[place] == 1 and _is_known(judgements[place])):
                yield finding

    def _finding(self, transition: Transition, check: Check, reason: str) -> Finding:
        ns, child = transition.checkpoint_ns, transition.child
        code, detail = "state-mismatch", reason
        if check.lost and not check.missing:
            code, detail = "value-missing", f"version {self._version(ns, check)} is not stored"
        elif (numbered := self._numbered.get(ns)) is not None:
            version, others = numbered.sharing(child, check.channel)
            other = next((one for one in others if self._is_beside(ns, child, one)), None)
            if other is not None:
                code = "branches-share-value"
                detail = f"version {version} holds what checkpoint {other} of another branch wrote"
        return Finding(
            code=code,
            detail=detail,
            thread_id=self._reader.thread_id,
            checkpoint_ns=ns,
            checkpoint_id=child,
            channel=check.channel,
        )

    def _has_new_version(self, transition: Transition, check: Check) -> bool:
        """Return whether something was written: a node that changes a value in place leaves the
        version.
        """
        ids = [one for one in (transition.parent, transition.child) if one is not None]
        return len(set(self._versions(transition.checkpoint_ns, ids, check))) > 1

    def _version(self, ns: str, check: Check) -> str:
        return next(iter(self._versions(ns, [check.child], check)), "?")

    def _versions(self, ns: str, ids: list[str], check: Check) -> list[str]:
        """Return the versions of a channel at some checkpoints."""
        stored = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        )
        return [str(read_body(one).versions.get(check.channel)) for one in stored]

    def _is_beside(self, ns: str, one: str, other: str) -> bool:
        """Return whether neither checkpoint is an ancestor of the other."""
        ancestry = self._reader.ancestry
        return one not in ancestry(ns, other) and other not in ancestry(ns, one)


def _is_proved(check: Check, judgement: Judgement) -> bool:
    """Return whether writes are missing, or the steps after it prove that the value was another.

    Otherwise the agent itself may have made the value: a function of its own merges the writes, or
    a node changed the value in place.
    """
    if judgement.chosen or check.missing:
        return True
    return not judgement.is_doubtful and bool(check.confirmed & judgement.mask)


def _is_known(judgement: Judgement) -> bool:
    return not judgement.survivors or judgement.survivors[0] in _OF_LANGGRAPH
