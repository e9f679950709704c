"""Find states that do not follow from what the tasks wrote, once a thread was replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from ckpt_cli.core.doctor.certain_mismatch import is_certain, may_be_certain
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.numbered_versions import NumberedVersions
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.elimination import Check, Verdict
from ckpt_cli.core.replay.report import Place, Replayed, Transition, judge_all, verdicts
from ckpt_cli.core.state import Version, read_body
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH
from ckpt_cli.queries.doctor.seen import SeenCheckpoint
from ckpt_cli.threads.thread import ThreadReader

Exact = tuple[str, str, str | None]
"""Namespace, checkpoint and channel of a finding."""


class Mismatches:
    """Looks at each checkpoint of a thread, and compares what was replayed at the end."""

    def __init__(self, reader: ThreadReader) -> None:
        self._reader = reader
        self._numbered: dict[str, NumberedVersions] = {}
        self._young: set[tuple[str, str]] = set()
        """Checkpoints of which a write may still be missing: savers store writes in the background.
        """
        self._updated: set[tuple[str, str | None]] = set()
        """Checkpoints with a child that update_state made; its writes may have replaced others."""

    def at(self, seen: SeenCheckpoint) -> None:
        """Note what may explain a mismatch."""
        moment, parent = seen.moment, seen.parent
        key = moment.key
        if seen.is_young:
            self._young.add((key.checkpoint_ns, key.checkpoint_id))
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
            if (transition.checkpoint_ns, transition.child) in self._young:
                continue
            may_lack = (transition.checkpoint_ns, transition.parent) in self._updated
            for check, verdict, reason in verdicts(transition, judgements):
                exactly = (transition.checkpoint_ns, transition.child, check.channel)
                if verdict is not Verdict.MISMATCH or exactly in exact:
                    continue
                finding = self._finding(transition, check, reason)
                is_other = finding.code != "state-mismatch"
                if may_lack and not is_other:
                    continue
                place = (namespace_kind(transition.checkpoint_ns), check.channel)
                is_new = partial(self._has_new_version, transition, check)
                is_sure = is_other or is_certain(check, judgements[place], is_new)
                found.append((place, is_sure, finding))
        unsure = Counter(place for place, is_sure, _ in found if not is_sure)
        for place, is_sure, finding in found:
            if is_sure or (unsure[place] == 1 and may_be_certain(judgements[place])):
                yield finding

    def _finding(self, transition: Transition, check: Check, reason: str) -> Finding:
        ns, child = transition.checkpoint_ns, transition.child
        code, detail = "state-mismatch", reason
        if ns in self._numbered or check.lost:
            version = self._version(ns, check)
            if check.lost and not check.missing:
                code, detail = "value-missing", f"version {version} is not stored"
            elif (other := self._other_giver(ns, check, version)) is not None:
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
        ids = [one for one in (transition.parent, transition.child) if one is not None]
        return len(set(self._versions(transition.checkpoint_ns, ids, check))) > 1

    def _version(self, ns: str, check: Check) -> Version:
        return next(iter(self._versions(ns, [check.child], check)), "?")

    def _versions(self, ns: str, ids: list[str], check: Check) -> list[Version]:
        """Return the versions of a channel at some checkpoints."""
        stored = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        )
        return [read_body(one).versions.get(check.channel, "?") for one in stored]

    def _other_giver(self, ns: str, check: Check, version: Version) -> str | None:
        """Return a checkpoint of another branch that gave the channel the same version."""
        if ns not in self._numbered:
            return None
        child, ancestry = check.child, self._reader.ancestry
        for one in self._numbered[ns].givers(check.channel, version):
            if one not in ancestry(ns, child) and child not in ancestry(ns, one):
                return one
        return None
