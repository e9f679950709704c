"""Faults that show at the root head of a thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from ckpt_backends.codec.memo import Memo
from ckpt_backends.errors import Unreadable
from ckpt_cli.core.doctor.delta_anchor import (
    unanchored,
    unstored_deltas,
    without_past,
    without_snapshot,
)
from ckpt_cli.core.doctor.finding import Checked, Finding
from ckpt_cli.core.doctor.head_step import step_findings, unused_answer
from ckpt_cli.core.state import read_body
from ckpt_cli.core.tasks.resume import stored_answer
from ckpt_cli.core.tasks.used_answers import callers_answer
from ckpt_cli.queries.doctor.conversations import conversation_findings
from ckpt_cli.queries.doctor.seen import seen_checkpoint
from ckpt_cli.queries.doctor.terms import Terms
from ckpt_cli.queries.doctor.types import type_findings
from ckpt_cli.queries.doctor.unreadable import UnreadableValues, missing_value
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.lost_values import LostValues
from ckpt_cli.threads.nested_nodes import locate, writes_inside
from ckpt_cli.threads.thread import ThreadReader

_STALE = "resume-stale"
_AT_ONCE = 50
"""Number of ancestors whose bodies one query reads."""


def head_findings(
    reader: ThreadReader,
    head: Moment,
    memo: Memo,
    terms: Terms,
    checked: Checked,
    *,
    is_suspect: bool,
) -> Iterator[Finding]:
    """Yield what is wrong with the head of a thread, which was read with its state.

    `memo` was there when the head was decoded. `is_suspect`: whether an ancestor may be missing.
    Raises `Unreadable` at the end if something could not be checked, such as encrypted values.
    """
    has_bodies = not reader.is_values_only
    unread = UnreadableValues(memo, has_bodies=has_bodies)
    if not terms.deep:  # The deep check finds these in all checkpoints.
        yield from _unreadable(reader, head, unread, terms)
        checked.values += unread.values
    if head.body.problem is None and not (has_bodies and head.body.lacks):
        if head.at is not None and head.at < terms.before:
            yield from _unfinished(reader, head)
        yield from conversation_findings(reader, head, terms)
        if not (terms.deep or terms.types):
            yield from type_findings(head.checkpoint, head.writes, terms)
        if not terms.deep:
            yield from _unanchored(reader, head, is_suspect=is_suspect)
    if unread.unchecked:
        raise Unreadable(unread.unchecked)


def _unreadable(
    reader: ThreadReader, head: Moment, unread: UnreadableValues, terms: Terms
) -> Iterator[Finding]:
    seen = seen_checkpoint(head, None, terms.before, is_head=True)
    yield from unread.at(seen)
    yield from unread.end()
    for channel in LostValues(reader).at(head):
        yield missing_value(seen, channel)


def _unfinished(reader: ThreadReader, head: Moment) -> Iterator[Finding]:
    """Yield what is wrong with the step after an old head, unless a checkpoint followed meanwhile.

    Not every store has one snapshot for its list of threads and for the writes that are read later.
    """
    found = list(step_findings(head.key, head.step, head.writes))
    if callers_answer(head.writes) is not None and not any(one.code == _STALE for one in found):
        moment = locate(reader, head)
        becomes = stored_answer(moment.writes, moment.step, partial(writes_inside, reader, moment))
        found += unused_answer(head.key, moment.step, head.writes, becomes)
    if found and reader.head("") == head.key.checkpoint_id:
        yield from found


def _unanchored(reader: ThreadReader, head: Moment, *, is_suspect: bool) -> Iterator[Finding]:
    """Yield the DeltaChannels at a head whose last snapshot is not stored.

    It was lost with a missing ancestor; or the first checkpoint is a copy of another one, without
    what came before that.
    """
    channels = unstored_deltas(head.body, head.metadata)
    if not channels or not reader.has_history:
        return
    line = reader.ancestry("", head.key.checkpoint_id)
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in reader.index("")}
    if not line or (lost := parents[line[-1]]) in parents:
        return
    found = _finding_at(head)
    if lost is None:
        for channel in sorted(_never_stored(reader, line, channels)):
            detail = without_past(channel, line[-1], head.key.checkpoint_id)
            yield found(code="delta-unanchored", detail=detail, channel=channel)
    elif is_suspect:
        for channel in sorted(unanchored(channels, head.metadata, _stored(reader, line[1:]))):
            detail = without_snapshot(channel, lost)
            yield found(code="delta-unanchored", detail=detail, channel=channel)


def _never_stored(reader: ThreadReader, line: list[str], channels: set[str]) -> set[str]:
    """Return the DeltaChannels that a first checkpoint had, and that no checkpoint stores.

    Of almost all threads, only the first checkpoint is read: it has none.
    """
    found = reader.store.checkpoints(
        reader.thread_id, checkpoint_ns="", checkpoint_ids=line[-1:], body=True
    )
    for first in found:
        body = read_body(first)
        channels = channels & (body.versions.keys() - body.values.keys())
    return channels.difference(*_stored(reader, line[1:])) if channels else channels


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
