"""Faults that show at the root head of a thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Cut, Opaque
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.doctor.damage import is_damaged, is_encrypted
from ckpt_cli.core.doctor.delta_anchor import unanchored, unstored_deltas
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.core.doctor.head_step import step_findings
from ckpt_cli.core.doctor.readability import is_broken_inside
from ckpt_cli.core.state import read_body
from ckpt_cli.queries.doctor.conversations import conversation_findings
from ckpt_cli.queries.doctor.missing import lost_values
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.queries.doctor.types import type_findings
from ckpt_cli.threads.checkpoint import Moment, unreadable
from ckpt_cli.threads.thread import ThreadReader

_AT_ONCE = 50
"""Number of ancestors whose bodies one query reads."""


def head_findings(
    reader: ThreadReader, head: Moment, terms: Terms, checked: Checked, *, is_suspect: bool
) -> Iterator[Finding]:
    """Yield what is wrong with the head of a thread, which was read with its state.

    `is_suspect`: whether an ancestor may be missing. Raises `Unreadable` at the end if something
    could not be checked, for example because it is encrypted.
    """
    problem = head.body.problem
    if problem is not None and not is_damaged(problem):
        raise unreadable(f"checkpoint '{head.key.checkpoint_id}'", problem)
    if not terms.deep:  # The deep check finds these in all checkpoints.
        checked.values += len(head.body.values)
        yield from _unreadable(reader, head)
    if problem is not None:
        return
    if head.at is not None and head.at < terms.before:
        yield from _unfinished(reader, head)
    yield from conversation_findings(reader, head, terms)
    if not (terms.deep or terms.types):
        yield from type_findings(head.checkpoint, head.writes, terms)
    if is_suspect and not terms.deep:
        yield from _unanchored(reader, head)
    for value in head.body.values.values():
        if isinstance(value, Opaque) and is_encrypted(value):
            raise unreadable(f"values of checkpoint '{head.key.checkpoint_id}'", value)


def _unreadable(reader: ThreadReader, head: Moment) -> Iterator[Finding]:
    """Yield the parts of a head that are damaged or not stored."""
    found, body, checkpoint = _finding_at(head), head.body, head.checkpoint
    if is_damaged(body.problem):
        yield found(code="body-unreadable", detail="the checkpoint cannot be decoded")
    metadata = checkpoint.metadata
    if metadata is not None and _is_broken(head, metadata):
        yield found(code="body-unreadable", detail="the metadata cannot be decoded")
    for channel in sorted(body.values):
        value = body.values[channel]
        if is_damaged(value) or (not isinstance(value, Opaque) and is_broken_inside(value)):
            detail = f"the value of '{channel}' cannot be decoded"
            yield found(code="value-unreadable", detail=detail, channel=channel)
    for channel in lost_values(reader, checkpoint):
        detail = f"the value of '{channel}' is not stored"
        yield found(code="value-missing", detail=detail, channel=channel)


def _is_broken(head: Moment, metadata: TypedBytes) -> bool:
    """Return whether the metadata, or a part of them, is damaged.

    Where body and metadata are one stored value, a damaged body tells that already.
    """
    body = head.checkpoint.body
    if body is not None and body.data == metadata.data:
        return False
    if head.metadata:
        return any(map(is_damaged, head.metadata.values()))
    value = decode(metadata)
    return is_damaged(value) or not isinstance(value, Opaque | dict | Cut | None)


def _unfinished(reader: ThreadReader, head: Moment) -> Iterator[Finding]:
    """Yield what is wrong with the step after an old head, unless a checkpoint followed meanwhile.

    Not every store has one snapshot for its list of threads and for the writes that are read later.
    """
    found = list(step_findings(head.key, head.step, head.writes))
    if found and reader.head("") == head.key.checkpoint_id:
        yield from found


def _unanchored(reader: ThreadReader, head: Moment) -> Iterator[Finding]:
    """Yield the DeltaChannels at a head whose last snapshot was lost with a missing ancestor."""
    channels = unstored_deltas(head.body, head.metadata)
    if not channels or not reader.has_history:
        return
    line = reader.ancestry("", head.key.checkpoint_id)
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in reader.index("")}
    lost = parents[line[-1]] if line else None
    if lost is None or lost in parents:
        return
    found = _finding_at(head)
    for channel in sorted(unanchored(channels, head.metadata, _stored(reader, line[1:]))):
        detail = f"the last snapshot of '{channel}' is gone, with {lost} or an ancestor of it"
        yield found(code="delta-unanchored", detail=detail, channel=channel)


def _stored(reader: ThreadReader, ancestors: list[str]) -> Iterator[Collection[str]]:
    """Yield the channels that each of these checkpoints stores."""
    for start in range(0, len(ancestors), _AT_ONCE):
        some = ancestors[start : start + _AT_ONCE]
        bodies = reader.store.checkpoints(
            reader.thread_id, checkpoint_ns="", checkpoint_ids=some, body=True
        )
        stored = {one.key.checkpoint_id: read_body(one).values.keys() for one in bodies}
        yield from (stored.get(one, ()) for one in some)


def _finding_at(head: Moment) -> Callable[..., Finding]:
    return partial(
        Finding,
        thread_id=head.key.thread_id,
        checkpoint_ns=head.key.checkpoint_ns,
        checkpoint_id=head.key.checkpoint_id,
    )
