"""Find out how one checkpoint was made: the writes of each task to each channel, and their
effects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from ckpt_backends.codec.values import Value
from ckpt_cli.core.channels import is_state
from ckpt_cli.core.diff.state_diff import json_size
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.replay.contribution import (
    Contribution,
    Effect,
    contributions,
    plain,
)
from ckpt_cli.core.replay.differences import Differences
from ckpt_cli.core.replay.elimination import (
    CANDIDATES,
    Judgement,
    Verdict,
    differences_of,
    verdict_of,
)
from ckpt_cli.core.replay.reducers import ABSENT, Held, fits, is_not_stored
from ckpt_cli.core.replay.report import judge_all
from ckpt_cli.core.replay.transition import SortedWrites, WriteOrder
from ckpt_cli.core.tasks.writes import TaskWrite, task_writes
from ckpt_cli.queries.kept_replay import KeptReplay
from ckpt_cli.queries.replay_checks import Look, Looked
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.target import Target


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes, as compact JSON."""

    before: int
    written: int
    stored: int


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """Numbers and stored bytes of a checkpoint's writes and values."""

    writes: int
    written: int
    values: int
    """Number of values that are stored with it, not shared with its parent."""
    kept: int
    """Bytes of these values."""


@dataclass(frozen=True, slots=True)
class StepChannel:
    """One channel that was written to, or that changed."""

    judgement: Judgement
    verdict: Verdict
    reason: str
    assumed: bool
    """The order or the selection of the writes is not stored."""
    before: Value
    """None if it had no value."""
    writes: tuple[Contribution, ...]
    rebuilt: Value
    """None if no reducer is known."""
    stored: Value
    sizes: Sizes
    differences: Differences | None = None
    """Where the stored value differs from the expected one, for a mismatch."""


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint, what it was made from, and the writes that were not applied."""

    child: Moment
    parent: Moment | None
    channels: Mapping[str, StepChannel]
    others: tuple[Contribution, ...]
    """Writes that changed no channel: internal, dropped and ignored ones."""
    stored: StoredSizes | None = None
    """None if values are stored in the body."""


def written(
    target: Target,
    reducers: Mapping[str, str],
    channels: Collection[str] | None = None,
    kept: KeptReplay | None = None,
) -> Written:
    """Return how a checkpoint was made from its parent; `channels` limits the channels.

    With `kept`, its namespace is replayed only if the call before was about another one.
    """
    look_at = (KeptReplay() if kept is None else kept).look_at
    found, look = look_at(target.reader, target.checkpoint_ns, target.checkpoint_id)
    if look.writes is None or look.writes.is_empty:
        look.child.check_readable()
    ((_, judgements),) = judge_all([found], reducers)
    graph = namespace_kind(target.checkpoint_ns)
    answer = Written(
        look.child,
        look.parent,
        {
            name: _channel(one, look, judgements[graph, name])
            for name, one in sorted(look.channels.items())
            if channels is None or name in channels
        },
        tuple(_others(look, channels)),
        _stored(look),
    )
    return _redacted(answer) if redaction.is_redacted(target.reader.store) else answer


def _stored(look: Look) -> StoredSizes | None:
    blobs = look.child.checkpoint.blobs
    if blobs is None or look.writes is None or look.child.body.problem is not None:
        return None
    before = {} if look.parent is None else look.parent.body.versions
    own = [
        blob.size
        for name, blob in blobs.items()
        if is_state(name, look.child.body)
        and look.child.body.versions.get(name) != before.get(name)
    ]
    sizes = [one.write.size for one in _all(look.writes)]
    return StoredSizes(len(sizes), sum(sizes), len(own), sum(own))


def _channel(one: Looked, look: Look, judgement: Judgement) -> StepChannel:
    verdict, reason = verdict_of(one.check, judgement)
    way = _fitting(one, look, judgement)
    batches = [[(placed, look.values[id(placed)]) for placed in batch] for batch in way.batches]
    rebuilt, writes = _contributions(one.base, batches, judgement)
    before, stored = plain(one.base), plain(one.stored)
    sizes = Sizes(
        0 if _is_nothing(one.base) else json_size(before),
        sum(json_size(write.value) for write in writes),
        0 if _is_nothing(one.stored) else json_size(stored),
    )
    return StepChannel(
        judgement,
        verdict,
        reason,
        bool(one.check.assumed & judgement.mask) and verdict is Verdict.MATCH,
        before,
        tuple(writes),
        plain(rebuilt),
        stored,
        sizes,
        differences_of(one.check, judgement),
    )


def _contributions(
    base: Held, batches: Sequence[Sequence[tuple[TaskWrite, Value]]], judgement: Judgement
) -> tuple[Held, list[Contribution]]:
    """Return the value that the writes make, and what each of them does.

    Without an established reducer, only what all possible ones agree on.
    """
    if judgement.reducer is not None:
        return contributions(base, batches, judgement.reducer)
    found = [contributions(base, batches, name) for name in judgement.survivors]
    for (value, writes), (other, others) in pairwise(found):
        told = [(one.effect, one.counts) for one in writes]
        if not fits(value, other) or told != [(one.effect, one.counts) for one in others]:
            return contributions(base, batches, None)
    return found[0] if found else contributions(base, batches, None)


def _is_nothing(value: Held) -> bool:
    return value is ABSENT or is_not_stored(value)


def _fitting(one: Looked, look: Look, judgement: Judgement) -> WriteOrder:
    """Return the first way by which the channel's reducer explains its value, or else the
    likeliest.
    """
    reducers = [one for one in CANDIDATES if one.name in judgement.survivors]
    for way in one.ways:
        values = [[look.values[id(placed)] for placed in batch] for batch in way.batches] or [[]]
        for reducer in reducers:
            if any(fits(result, one.stored) for result in reducer.results(one.base, values)):
                return way
    return one.ways[0]


def _others(look: Look, channels: Collection[str] | None) -> Sequence[Contribution]:
    if look.parent is None or look.writes is None:
        return []
    parent, is_told = look.parent, any(one.write.node for one in _all(look.writes))
    used = {
        id(placed)
        for one in look.channels.values()
        for batch in one.ways[0].batches
        for placed in batch
    }
    ours = {id(placed): placed for placed in _all(look.writes)}
    keys = {_key(placed) for placed in ours.values()}
    others: list[Contribution] = []
    for placed in [
        *(one for one in ours.values() if id(one) not in used),
        *(
            one
            for one in ([] if is_told else task_writes(parent.writes, parent.step))
            if _key(one) not in keys
        ),
    ]:
        name = placed.write.channel
        if channels is None or name in channels:
            effect: Effect = "dropped"
            if not is_state(name, look.child.body):
                effect = "special"
            elif look.child.body.problem is not None:
                effect = "unknown"
            elif name not in look.child.body.versions and look.child.source == "loop":
                effect = "ignored"
            others.append(Contribution(placed, placed.value, effect))
    return others


def _all(writes: SortedWrites) -> Sequence[TaskWrite]:
    return list(chain(writes.null, writes.tasks, writes.updates, writes.inputs))


def _key(placed: TaskWrite) -> tuple[str, int, str]:
    return placed.write.task_id, placed.write.idx, placed.write.channel


def _redacted(found: Written) -> Written:
    def hidden(one: Contribution) -> Contribution:
        return replace(one, placed=redaction.placed(one.placed), value=redact(one.value))

    return Written(
        redaction.moment(found.child),
        None if found.parent is None else redaction.moment(found.parent),
        {
            name: replace(
                one,
                before=redact(one.before),
                writes=tuple(map(hidden, one.writes)),
                rebuilt=redact(one.rebuilt),
                stored=redact(one.stored),
            )
            for name, one in found.channels.items()
        },
        tuple(map(hidden, found.others)),
        found.stored,
    )
