"""Classes and functions that stored values name: dangerous ones, and what strict mode blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_cli.core.doctor.dangerous_types import is_dangerous
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.doctor.named_types import NONE, Names
from ckpt_cli.core.doctor.strict_types import is_blocked
from ckpt_cli.core.doctor.type_names import names_by_channel, type_names
from ckpt_cli.core.doctor.type_use import TypeUses
from ckpt_cli.queries.doctor.terms import Terms


@dataclass(frozen=True, slots=True)
class NamingValue:
    """A stored value that names classes or functions, or that could not be read."""

    key: CheckpointKey
    channel: str | None
    """None for the metadata, and for what a checkpoint holds besides its channels."""
    names: Names | None
    """None if the value could not be read."""
    task_id: str | None = None
    """The task that wrote it; None if it belongs to a checkpoint."""


def type_findings(
    checkpoint: Checkpoint, writes: Iterable[Write], terms: Terms
) -> Iterator[Finding]:
    """Yield the dangerous names in a checkpoint and its writes, as far as their values were read.

    If strict mode is on, also yields the classes that it blocks.
    """
    for value in naming_values(checkpoint, writes):
        for named in sorted(value.names or ()):
            if is_dangerous(named):
                yield _finding("type-dangerous", f"decoding it would call {named.text}", value)
            elif terms.strict_types and is_blocked(named):
                yield _finding("type-blocked", f"strict mode does not admit {named.text}", value)


def blocked_findings(uses: TypeUses) -> Iterator[Finding]:
    """Yield a finding for each class that strict mode blocks, at the oldest value that names it."""
    for use in uses.listed():
        if is_blocked(use.named):
            value = NamingValue(use.key, use.channel, frozenset())
            detail = f"strict mode does not admit {use.named.text}, found in {_values(use.count)}"
            yield replace(_finding("type-blocked", detail, value), ref=use.ref)


def naming_values(checkpoint: Checkpoint, writes: Iterable[Write]) -> Iterator[NamingValue]:
    """Yield the values of a checkpoint and of writes that name something or cannot be read."""
    key = checkpoint.key
    if checkpoint.body is not None:
        try:
            for channel, names in names_by_channel(checkpoint.body).items():
                yield NamingValue(key, channel, names)
        except (ValueError, PastLimit):
            yield NamingValue(key, None, None)
    apart = {name: blob.value for name, blob in (checkpoint.blobs or {}).items()}
    for channel, typed in [*apart.items(), (None, checkpoint.metadata)]:
        if typed is not None and (found := _names(typed)) != NONE:
            yield NamingValue(key, channel, found)
    for write in writes:
        if write.value is not None and (found := _names(write.value)) != NONE:
            yield NamingValue(write.key, write.channel, found, write.task_id)


def _names(typed: TypedBytes) -> Names | None:
    try:
        return type_names(typed)
    except (ValueError, PastLimit):
        return None


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _finding(code: str, detail: str, value: NamingValue) -> Finding:
    return Finding(
        code=code,
        detail=detail,
        thread_id=value.key.thread_id,
        checkpoint_ns=value.key.checkpoint_ns,
        checkpoint_id=value.key.checkpoint_id,
        channel=value.channel,
        task_id=value.task_id,
    )
