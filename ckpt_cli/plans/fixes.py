"""Choose the commands that mend findings: those of which a plan, made now, mends the finding.

A plan reads what the command would read, so that what it would refuse is never recommended.
Nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property

from ckpt_backends.changes import Inside
from ckpt_backends.codec.memo import remembering
from ckpt_backends.declaration import is_read_only, known_backends
from ckpt_backends.errors import CkptError
from ckpt_backends.model import Capability
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.findings import CODES, Checked, Finding, Severity
from ckpt_cli.core.forking import CheckpointPlan, Repair
from ckpt_cli.plans.fork import RollbackOptions
from ckpt_cli.plans.purge import Scope, plan_thread_gc
from ckpt_cli.plans.repair import (
    plan_message_repair,
    plan_value_repair,
    plan_write_repair,
    stores_apart,
)
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.queries.doctor.examine import head_findings
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.reading.thread import ThreadReader


def choose_fixes(store: Store, terms: Terms, report: ThreadReport) -> None:
    """Note in each finding of a thread the command that mends it, if there is one."""
    if not any(CODES[one.code].fix for one in report.findings):
        return
    with suppress(CkptError):
        info = store.describe()
        if Capability.READ_ONLY in info.capabilities:
            report.findings = [replace(one, has_fix=False) for one in report.findings]
        elif _is_changed(info.layout):
            plans = _Plans(store, terms, report.thread_id)
            report.findings = list(map(plans.with_fix, report.findings))


@cache
def _is_changed(layout: str) -> bool:
    """Return whether `ckpt` changes stores of a layout."""
    return any(not is_read_only(one) for one in known_backends() if layout in one.layouts)


class _Plans:
    """Plans each command at most once for a thread."""

    def __init__(self, store: Store, terms: Terms, thread_id: str) -> None:
        self._store = store
        self._terms = terms
        self._thread_id = thread_id
        self._refused: set[str] = set()
        self._orphans: dict[Scope, Inside] = {}
        self._ways: Mapping[str, Callable[[Finding], Finding | None]] = {
            "repair messages": self._by_messages,
            "repair values": self._by_values,
            "repair writes": self._by_writes,
            "rollback THREAD ~1": self._by_parent,
            "rollback TARGET": self._by_last,
            "gc --scope writes": self._by_writes_gc,
            "gc --scope blobs": self._by_values_gc,
            "gc --scope calls": self._by_calls_gc,
        }
        """What says whether a command mends a finding, by how the command begins."""

    def with_fix(self, finding: Finding) -> Finding:
        """Return the finding, with the command of its code if that mends it."""
        words = CODES[finding.code].fix
        name = next((one for one in self._ways if words.startswith(one)), "")
        if not name or finding.own_fix or not finding.has_fix or name in self._refused:
            return finding
        try:
            found = self._ways[name](finding)
        except CkptError:
            # It would be refused for another finding of the thread, too.
            self._refused.add(name)
            return finding
        if found is None:
            return finding
        return replace(found, command=words.replace("GRACE", self._terms.grace))

    @cached_property
    def _reader(self) -> ThreadReader:
        return ThreadReader(self._store, self._thread_id)

    @cached_property
    def _messages(self) -> CheckpointPlan:
        now = self._terms.now
        return plan_message_repair(self._reader, self._store, None, now, content=None, force=False)

    @cached_property
    def _values(self) -> Repair:
        terms = self._terms
        return plan_value_repair(self._reader, self._store, None, terms.now, terms.reducers)

    @cached_property
    def _writes(self) -> CheckpointPlan:
        return plan_write_repair(self._reader, self._store, None, self._terms.now)

    def _is_head(self, finding: Finding) -> bool:
        """Return whether a finding is about the head of the root namespace."""
        return finding.checkpoint_ns == "" and finding.checkpoint_id == self._reader.head("")

    def _by_messages(self, finding: Finding) -> Finding | None:
        is_mended = self._is_head(finding) and finding.channel in self._messages.changes
        return finding if is_mended else None

    def _by_values(self, finding: Finding) -> Finding | None:
        if finding.task_id is not None:  # No plan restores a write.
            return None
        if stores_apart(self._reader.capabilities):
            place = finding.checkpoint_ns, finding.channel, finding.version
            found = any(one.place.key == place for one in self._values.rebuilt)
            return finding if found else None
        # A copy of the head gets the value. Only a deep check reads what is not the head any more.
        if self._terms.deep or not self._is_head(finding):
            return None
        names = {one.place.channel for one in self._values.rebuilt}
        return finding if finding.channel in names else None

    def _by_writes(self, finding: Finding) -> Finding | None:
        return finding if self._is_head(finding) and self._writes.mends else None

    def _by_parent(self, finding: Finding) -> Finding | None:
        """Return the finding if the thread can be rolled back from its head to the parent."""
        line = self._reader.ancestry("", finding.checkpoint_id or "")
        is_read_again = self._terms.deep and finding.code == "body-unreadable"
        if is_read_again or not self._is_head(finding) or len(line) < 2:
            return None
        return finding if self._can_be_head(line[1]) else None

    def _by_last(self, finding: Finding) -> Finding | None:
        """Return the finding if one line of checkpoints follows the head, with its last one."""
        if not self._is_head(finding):
            return None
        head, known = finding.checkpoint_id or "", self._reader.parentage("")
        line = [head, *known.forward(head, None)]
        if len(line) == 1 or any(len(known.children(one)) > 1 for one in line):
            return None
        return replace(finding, mended_at=line[-1]) if self._can_be_head(line[-1]) else None

    def _can_be_head(self, checkpoint_id: str) -> bool:
        """Return whether a copy of a checkpoint would be a head without an error.

        Raises `CkptError` if the thread cannot be rolled back to it.
        """
        terms = replace(self._terms, deep=False)
        with remembering() as memo:
            there = self._reader.moment("", checkpoint_id, state=True)
            found = head_findings(self._reader, there, memo, terms, Checked(), is_suspect=True)
            if any(one.severity is Severity.ERROR for one in found):
                return False
        plan_rollback(self._reader, self._store, checkpoint_id, terms.now, RollbackOptions())
        return True

    def _by_writes_gc(self, finding: Finding) -> Finding | None:
        ids = self._removed(Scope.WRITES).checkpoints.get(finding.checkpoint_ns or "", ())
        return finding if finding.checkpoint_id in ids else None

    def _by_values_gc(self, finding: Finding) -> Finding | None:
        place = finding.checkpoint_ns, finding.channel, finding.version
        return finding if place in self._removed(Scope.BLOBS).blobs else None

    def _by_calls_gc(self, finding: Finding) -> Finding | None:
        found = self._removed(Scope.CALLS).checkpoints.get(finding.checkpoint_ns or "")
        return finding if found else None

    def _removed(self, scope: Scope) -> Inside:
        """Return what `ckpt gc` would remove of the thread."""
        if scope not in self._orphans:
            found = plan_thread_gc(self._store, self._thread_id, {scope}, self._terms.before)
            inside = None if found is None else found.removal.inside
            self._orphans[scope] = inside or Inside({}, ())
        return self._orphans[scope]
