"""Dangerous names in stored values, and the classes that strict mode blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.memo import Memo
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_cli.core.doctor.dangerous_types import is_dangerous
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.named_types import NONE, Names, TypeName
from ckpt_cli.core.doctor.strict_types import is_blocked
from ckpt_cli.core.doctor.type_names import body_names, type_names
from ckpt_cli.core.doctor.type_use import TypeUse, TypeUses
from ckpt_cli.queries.doctor.naming_values import Place, naming_values
from ckpt_cli.queries.doctor.terms import Terms


def type_findings(
    checkpoint: Checkpoint, writes: Iterable[Write], terms: Terms
) -> Iterator[Finding]:
    """Yield the dangerous names in a checkpoint and its writes, as far as their values were read.

    If strict mode is on, also yields the classes that it blocks.
    """
    checks, writes = TypeChecks(terms), list(writes)
    # Taking a body apart by channel is slow, and hardly ever is a name wrong.
    if checks.may_find(checkpoint, writes):
        yield from checks.at(checkpoint, writes)


class TypeChecks:
    """Checks the checkpoints of a thread. A value that several of them hold is reported once."""

    def __init__(self, terms: Terms, memo: Memo | None = None) -> None:
        self._terms = terms
        self._memo = memo
        """The cache with which the bodies were decoded and `gather_names` was called."""
        self._told: set[Place] = set()

    def may_find(self, checkpoint: Checkpoint, writes: Iterable[Write]) -> bool:
        """Return whether a name in a checkpoint or in writes is wrong, or a value is unreadable."""
        blobs = (blob.value for blob in (checkpoint.blobs or {}).values())
        parts = [checkpoint.metadata, *blobs, *(one.value for one in writes)]
        try:
            names = set(NONE if checkpoint.body is None else body_names(checkpoint.body))
            names.update(*(type_names(one) for one in parts if one is not None))
        except (ValueError, PastLimit):
            return True
        return any(self._judged(one) is not None for one in names)

    def at(self, checkpoint: Checkpoint, writes: Iterable[Write]) -> Iterator[Finding]:
        """Yield what is new at a checkpoint, as `type_findings` does."""
        for value in naming_values(checkpoint, writes, self._judged, self._named_in):
            for named in sorted(value.names or ()):
                found = self._judged(named)
                if found is None or (named, *value.place) in self._told:
                    continue
                self._told.add((named, *value.place))
                yield _finding(*found, value.key, value.channel, value.task_id)

    def _named_in(self, body: TypedBytes) -> Names:
        """Return what a body names, and perhaps more. Raises the errors of `type_names`."""
        found = None if self._memo is None else self._memo.take_gathered(body.data)
        return body_names(body) if found is None else found

    def _judged(self, named: TypeName) -> tuple[str, str] | None:
        """Return the code and the detail of a finding about a name; None if it is harmless."""
        if is_dangerous(named):
            return "type-dangerous", _danger(named)
        if self._terms.strict_types and is_blocked(named):
            return "type-blocked", f"strict mode does not admit {named.text}"
        return None


def dangerous_findings(uses: Iterable[TypeUse]) -> Iterator[Finding]:
    """Yield a finding for each dangerous name, at the oldest value that names it."""
    for use in uses:
        if is_dangerous(use.named):
            yield _finding("type-dangerous", _danger(use.named), use.key, use.channel, use.task_id)


def blocked_findings(uses: TypeUses) -> Iterator[Finding]:
    """Yield a finding for each class that strict mode blocks, at the oldest value that names it."""
    for use in uses.listed():
        if is_blocked(use.named) and not is_dangerous(use.named):
            values = "1 value" if use.count == 1 else f"{use.count} values"
            detail = f"strict mode does not admit {use.named.text}, found in {values}"
            yield replace(_finding("type-blocked", detail, use.key, use.channel), ref=use.ref)


def _danger(named: TypeName) -> str:
    return f"decoding it would call {named.text}"


def _finding(
    code: str, detail: str, key: CheckpointKey, channel: str | None, task_id: str | None = None
) -> Finding:
    return Finding(
        code=code,
        detail=detail,
        thread_id=key.thread_id,
        checkpoint_ns=key.checkpoint_ns,
        checkpoint_id=key.checkpoint_id,
        channel=channel,
        task_id=task_id,
    )
