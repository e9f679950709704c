"""Plans that restore missing or unreadable values, in the way that the layout allows.

Where values are stored apart, they are stored again. Where they are part of a checkpoint, a copy of
the head gets them, because nothing that a saver stored is changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from ckpt_backends.changes.change import Change
from ckpt_backends.codec.edits import Put
from ckpt_backends.codec.lossless import decode_lossless, encode_lossless
from ckpt_backends.codec.reassemble import Reassembly, Unbuildable
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import is_state
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.edit_state import stored_value
from ckpt_cli.core.forking.marks import BY, FROM, NAME
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.replay.elimination import Verdict, is_unreadable, verdict_of
from ckpt_cli.core.replay.reducers import ABSENT, Held
from ckpt_cli.core.replay.repair_plan import DamagedValue, Rebuilt, Refusal, Repair
from ckpt_cli.core.replay.report import judge_all
from ckpt_cli.core.state import read_metadata
from ckpt_cli.core.support_matrix import NO_STEPS
from ckpt_cli.plans.checkpoint_copy import whole
from ckpt_cli.plans.head_copy import plan_head_copy, readable_head
from ckpt_cli.plans.repair import (
    CannotRebuild,
    place_of,
    plan_repair,
    rebuild,
    stores_apart,
)
from ckpt_cli.plans.root_branch import check_store
from ckpt_cli.queries.replay import look_at, replay_with_lost
from ckpt_cli.queries.replay_checks import Lost
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader

_DAMAGED_OBJECTS = frozenset(f"ext:{code}" for code in range(8))
_ELSEWHERE = (
    "it is stored inside a checkpoint that is not the head, and nothing that a saver stored is"
    " changed"
)


def plan_value_repair(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    reducers: Mapping[str, str],
    *,
    force: bool = False,
) -> Repair:
    """Plan to restore the values of a thread, or of one checkpoint of its root namespace.

    Raises `Refused` if the head cannot be decoded, and `Unsupported`.
    """
    if not stores_apart(reader.capabilities):
        return _plan_head(reader, rows, checkpoint_id, now, reducers, force=force)
    found = plan_repair(reader, reducers)
    if checkpoint_id is None:
        return found
    return _named_by(found, reader.stored("", checkpoint_id).body.versions)


def _named_by(found: Repair, versions: Mapping[str, object]) -> Repair:
    """Return the part of a plan that is about these versions of the root namespace."""

    def is_named(place: DamagedValue) -> bool:
        version = versions.get(place.channel)
        return not place.checkpoint_ns and version is not None and str(version) == place.version

    keys = {("", name, str(version)) for name, version in versions.items()}
    blobs = (
        one for one in found.change.blobs if (one.checkpoint_ns, one.channel, one.version) in keys
    )
    return replace(
        found,
        rebuilt=tuple(one for one in found.rebuilt if is_named(one.place)),
        refused=tuple(one for one in found.refused if is_named(one.place)),
        change=replace(
            found.change,
            blobs=tuple(blobs),
            removed_blobs=tuple(one for one in found.change.removed_blobs if one in keys),
        ),
    )


def _plan_head(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    reducers: Mapping[str, str],
    *,
    force: bool,
) -> Repair:
    check_store(rows)
    info = rows.describe()
    if reader.is_values_only or Capability.WRITES not in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {NO_STEPS}",
            hint="roll back to a checkpoint with sound values: `ckpt rollback THREAD REF`",
        )
    head = readable_head(reader, checkpoint_id, "the values", state=True)
    rebuilt: list[Rebuilt] = []
    values: dict[str, Put] = {}
    refused: list[Refusal] = []
    for place, names, evidence, made in _restored(reader, rows, head, reducers):
        if isinstance(made, str):
            refused.append(Refusal(place, made))
            continue
        value, typed = made
        is_there = place.channel in head.body.values
        rebuilt.append(Rebuilt(place, names, evidence, value, len(typed.data), is_there))
        values[place.channel] = Put(decode_lossless(typed))
    nothing = Repair(reader.thread_id, (), tuple(refused), Change(reader.thread_id, {}))
    if not values:
        return nothing
    mends = [_mended(one) for one in rebuilt]
    plan = plan_head_copy(reader, rows, head, now, mends=mends, values=values, force=force)
    before = read_state(reader, head).values
    after = {**before, **{one.place.channel: one.value for one in rebuilt}}
    plan = replace(plan, changes=diff_channels(before, after))
    if redaction.is_redacted(reader.store):
        rebuilt = [replace(one, value=redact(one.value)) for one in rebuilt]
    return replace(nothing, rebuilt=tuple(rebuilt), change=plan.change, plan=plan)


_Made = tuple[DamagedValue, tuple[str, ...], int, tuple[Value, TypedBytes] | str]
"""A value, the reducers that agree on it, their evidence, and the value or why there is none."""


def _restored(
    reader: ThreadReader, rows: Store, head: Moment, reducers: Mapping[str, str]
) -> Iterator[_Made]:
    """Yield the missing and unreadable values of a thread that stores them inside checkpoints."""
    replayed, lost = replay_with_lost(reader)
    ((_, judgements),) = judge_all([replayed], reducers)
    partly = _partly_lost(reader, head)
    done: set[str] = set()
    for one in [*lost, *partly]:
        place = place_of(one)
        judgement = judgements[namespace_kind(place.checkpoint_ns), place.channel]
        is_there = place.channel in one.child.body.values
        if not is_there and verdict_of(one.check, judgement)[0] is not Verdict.MISMATCH:
            continue  # Its reducer may have made no value.
        if one.child.key != head.key:
            if place.checkpoint_id not in _copied(reader, place.checkpoint_ns):
                yield place, (), 0, _ELSEWHERE
            continue
        if str(one.parent.body.versions.get(place.channel)) == place.version:
            continue  # `_unchanged` yields it
        done.add(place.channel)
        pieces = Reassembly()
        try:
            base = _value_before(rows, one.parent, place.channel, pieces)
            made = rebuild(reader, one, judgement, base, pieces, _tag(head))
            made = _in_body(made, _tag(head))
        except (CannotRebuild, Unbuildable, Unsupported) as error:
            # What is partly unknown may be so in the writes, too: then it is not damage.
            if one not in partly:
                yield place, (), 0, str(error)
            continue
        if not _has_opaque(made[0]):
            yield place, judgement.survivors, judgement.evidence, made
    yield from _unchanged(reader, rows, head, done)


def _copied(reader: ThreadReader, checkpoint_ns: str) -> set[Value]:
    """Return the checkpoints of which `ckpt` added a copy: such a copy may have been mended."""
    found = reader.store.checkpoints(reader.thread_id, checkpoint_ns=checkpoint_ns, metadata=True)
    marks = map(read_metadata, found)
    return {one.get(FROM) for one in marks if one.get(BY) == NAME and one.get(FROM) is not None}


def _partly_lost(reader: ThreadReader, head: Moment) -> list[Lost]:
    """Return the new values of the head of which a part cannot be decoded."""
    names = [
        name
        for name, value in head.body.values.items()
        if is_state(name, head.body) and not is_unreadable(value) and _has_opaque(value)
    ]
    if not names:
        return []
    _, look = look_at(reader, "", head.key.checkpoint_id)
    if look.parent is None:
        return []
    before = look.parent.body.versions
    return [
        Lost(look.child, look.parent, found.ways, "", found.check, None)
        for name in names
        if (found := look.channels.get(name)) is not None
        and before.get(name) != head.body.versions.get(name)
    ]


def _unchanged(
    reader: ThreadReader, rows: Store, head: Moment, done: Collection[str]
) -> Iterator[_Made]:
    """Yield the values of the head that its parent holds in the same version."""
    parent_id = head.checkpoint.parent_checkpoint_id
    parent = None
    if parent_id in {one.key.checkpoint_id for one in reader.index("")}:
        parent = reader.stored("", parent_id or "", state=True)
    for name, version in head.body.versions.items():
        value = head.body.values.get(name, ABSENT)
        if name in done or not is_state(name, head.body) or name in reader.delta_channels(""):
            continue
        is_lost = is_unreadable(value)
        is_same = parent is not None and parent.body.versions.get(name) == version
        place = DamagedValue("", head.key.checkpoint_id, head.number, name, str(version))
        if parent is not None and is_same and (value is ABSENT or _has_opaque(value)):
            before = parent.body.values.get(name)
            if name in parent.body.values and not _has_opaque(before):
                original = whole(rows, parent.key)
                typed = stored_value(original, parent.body, name)
                if typed is not None:
                    yield place, (), 0, (before, typed)
                    continue
        if is_lost:
            yield place, (), 0, "what it was made from is not stored"


def _value_before(rows: Store, parent: Moment, name: str, pieces: Reassembly) -> Held:
    """Return the value of a channel at the parent, as stored in its body."""
    if name not in parent.body.values:
        return ABSENT
    typed = stored_value(whole(rows, parent.key), parent.body, name)
    return ABSENT if typed is None else pieces.read(typed)


def _in_body(made: tuple[Value, TypedBytes], tag: str) -> tuple[Value, TypedBytes]:
    """Return a value with its bytes as `tag`, if it was written in another form.

    Raises `Unsupported` if it is not plain.
    """
    value, typed = made
    return (
        (value, typed)
        if typed.type == tag
        else (value, TypedBytes(tag, encode_lossless(tag, value)))
    )


def _has_opaque(value: Held) -> bool:
    """Return whether a part of a value could not be decoded."""
    match value:
        case Opaque():
            return True
        case Tagged():
            # Damaged objects of LangGraph's own kinds keep the number of their kind.
            return value.type in _DAMAGED_OBJECTS or _has_opaque(value.payload)
        case Cut():
            return _has_opaque(value.kept)
        case list():
            return any(map(_has_opaque, value))
        case dict():
            return any(map(_has_opaque, value.values()))
    return False


def _tag(head: Moment) -> str:
    return "msgpack" if head.checkpoint.body is None else head.checkpoint.body.type


def _mended(one: Rebuilt) -> str:
    what = "replaces its unreadable value" if one.replaces else "fills in its missing value"
    how = f"by {one.reducers[0]}" if one.reducers else "as in the step before"
    return f"{one.place.channel}: {what}, {how}"
