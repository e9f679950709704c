"""Rebuild values that are missing or unreadable, from the writes of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ckpt_backends.changes.change import Change, NewBlob
from ckpt_backends.codec import decode
from ckpt_backends.codec.reassemble import Reassembly, Unbuildable
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.discovery import known_backends, layouts
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability, TypedBytes
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.replay.add_messages import Pending
from ckpt_cli.core.replay.add_messages import fits as message_fits
from ckpt_cli.core.replay.elimination import Judgement, Verdict, verdict_of
from ckpt_cli.core.replay.reducers import ABSENT, REDUCERS, Absent, Held, is_complete
from ckpt_cli.core.replay.repair_plan import DamagedValue, Rebuilt, Refusal, Repair
from ckpt_cli.core.replay.report import judge_all
from ckpt_cli.core.values.equality import same
from ckpt_cli.queries.replay import replay_with_lost
from ckpt_cli.queries.replay_checks import Lost
from ckpt_cli.threads import redaction
from ckpt_cli.threads.thread import ThreadReader

_DAMAGED = ("msgpack", "json")
"""Type tags that ckpt can read: if decoding fails, the bytes are damaged."""

_Key = tuple[str, str, str]
"""(namespace, channel, version)."""


class CannotRebuild(Exception):
    """The value cannot be restored; the message is the reason."""


def stores_apart(capabilities: Capability) -> bool:
    """Return whether values are stored apart, where a missing one can be added."""
    return Capability.INLINE_VALUES not in capabilities and Capability.ADDING in capabilities


def plan_repair(reader: ThreadReader, reducers: Mapping[str, str]) -> Repair:
    """Plan which values of a thread are restored; also returns those that cannot be, with the
    reason.

    Readable values are never changed. Raises `Unsupported` if the layout does not store values
    apart.
    """
    capabilities = reader.capabilities
    if not stores_apart(capabilities):
        usable = [name for name, can in layouts(known_backends()).items() if stores_apart(can)]
        raise Unsupported(
            "cannot repair: this layout stores values inside checkpoints",
            hint=f"--repair works on {', '.join(usable)}",
        )
    found, lost = replay_with_lost(reader)
    ((_, judgements),) = judge_all([found], reducers)
    known: dict[_Key, TypedBytes] = {}
    rebuilt: list[Rebuilt] = []
    refused: list[Refusal] = []
    for one in lost:
        place = place_of(one)
        key = (place.checkpoint_ns, place.channel, place.version)
        judgement = judgements[namespace_kind(place.checkpoint_ns), place.channel]
        if key in known or not _is_damage(one, judgement):
            continue
        pieces = Reassembly()
        try:
            base = _base(one, known, pieces)
            value, typed = rebuild(reader, one, judgement, base, pieces, _tag(one))
        except (CannotRebuild, Unbuildable) as error:
            refused.append(Refusal(place, str(error)))
            continue
        known[key] = typed
        names = judgement.survivors
        replaces = one.blob is not None
        size = len(typed.data)
        rebuilt.append(Rebuilt(place, names, judgement.evidence, value, size, replaces))
    change = Change(
        reader.thread_id,
        {ns: head for ns in reader.namespaces if (head := reader.head(ns)) is not None},
        blobs=tuple(NewBlob(*key, typed) for key, typed in known.items()),
        removed_blobs=tuple(
            (one.place.checkpoint_ns, one.place.channel, one.place.version)
            for one in rebuilt
            if one.replaces
        ),
    )
    if redaction.is_redacted(reader.store):
        rebuilt = [replace(one, value=redact(one.value)) for one in rebuilt]
    return Repair(reader.thread_id, tuple(rebuilt), tuple(refused), change)


def _is_damage(one: Lost, judgement: Judgement) -> bool:
    """Return whether a value is missing although it should be stored, or has damaged bytes."""
    if one.blob is not None:
        return one.blob.type in _DAMAGED and isinstance(decode(one.blob), Opaque)
    verdict, _ = verdict_of(one.check, judgement)
    return verdict is not Verdict.MATCH


def rebuild(
    reader: ThreadReader,
    one: Lost,
    judgement: Judgement,
    base: Held,
    pieces: Reassembly,
    tag: str,
) -> tuple[Value, TypedBytes]:
    """Return the value that follows from the previous one, and its bytes as `tag`.

    Raises `CannotRebuild` or `Unbuildable`.
    """
    if not judgement.survivors:
        raise CannotRebuild("the reducer of the channel is unknown; name it with --reducer")
    if one.made_lacks:
        raise CannotRebuild(one.made_lacks)
    if not one.check.wrote:
        raise CannotRebuild("what was written to it is not stored")
    if judgement.against and not judgement.chosen and judgement.is_doubtful:
        raise CannotRebuild("the reducer of the channel is uncertain; name it with --reducer")
    reducers = [REDUCERS[name] for name in judgement.survivors if name in REDUCERS]
    if not reducers:
        raise CannotRebuild("the channel has a custom reducer")
    results: list[tuple[Held, str]] = []
    for reducer in reducers:
        for way in one.ways:
            batches = [[_read(pieces, placed.write.value) for placed in b] for b in way.batches]
            results += [(held, reducer.name) for held in reducer.results(base, batches or [[]])]
    held, name = results[0] if results else (ABSENT, "")
    if held is ABSENT:
        raise CannotRebuild("the recorded writes produce no value")
    for other, other_name in results[1:]:
        if other is ABSENT or not same(held, other):
            raise CannotRebuild(
                f"ambiguous: {name} and {other_name} both fit and produce different values;"
                " name the reducer with --reducer"
                if name != other_name
                else "the order of the writes is not stored"
            )
    value = _completed(reader, one, held, pieces)
    typed = pieces.write(value, tag)
    if not same(decode(typed), value):
        raise CannotRebuild("the rebuilt bytes do not decode to the value")
    if one.check.denied & judgement.mask and not one.check.confirmed & judgement.mask:
        raise CannotRebuild("later steps do not follow from the rebuilt value")
    return value, typed


def _base(one: Lost, known: Mapping[_Key, TypedBytes], pieces: Reassembly) -> Held:
    """Return the previous value of the channel, from its own bytes if it is stored apart."""
    parent, name = one.parent, one.check.channel
    version = str(parent.body.versions.get(name))
    typed = known.get((parent.key.checkpoint_ns, name, version))
    if typed is not None:
        return pieces.read(typed)
    blob = (parent.checkpoint.blobs or {}).get(name)
    if blob is not None and blob.value is not None:
        return pieces.read(blob.value)
    if name in parent.body.values:
        return parent.body.values[name]  # small values are stored in the body
    if name in parent.body.versions:
        raise CannotRebuild("the previous value is missing too")
    return ABSENT


def _read(pieces: Reassembly, typed: TypedBytes | None) -> Value:
    if typed is None:
        raise CannotRebuild("what was written to it is not stored")
    return pieces.read(typed)


def _completed(reader: ThreadReader, one: Lost, held: Held, pieces: Reassembly) -> Value:
    """Return the value with the generated ids of its messages, taken from later values."""
    assert not isinstance(held, Absent)  # noqa: S101
    if is_complete(held) or not isinstance(held, list):
        return held
    for later in _later_values(reader, one, pieces):
        if len(later) >= len(held):
            filled = [
                other if isinstance(item, Pending) and message_fits(item, other) else item
                for item, other in zip(held, later, strict=False)
            ]
            if is_complete(filled):
                return filled
    raise CannotRebuild("it has a message whose generated id is not stored anywhere else")


def _later_values(reader: ThreadReader, one: Lost, pieces: Reassembly) -> Iterator[list[Value]]:
    key = one.child.key
    later = [
        found.key.checkpoint_id
        for found in reversed(reader.index(key.checkpoint_ns))
        if found.key.checkpoint_id > key.checkpoint_id
    ]
    for checkpoint_id in later:
        for found in reader.store.checkpoints(
            key.thread_id,
            checkpoint_ns=key.checkpoint_ns,
            checkpoint_ids=[checkpoint_id],
            body=True,
            values=[one.check.channel],
        ):
            blob = (found.blobs or {}).get(one.check.channel)
            if blob is not None and blob.value is not None:
                try:
                    value = pieces.read(blob.value)
                except Unbuildable:
                    continue
                if isinstance(value, list):
                    yield value


def _tag(one: Lost) -> str:
    """Return the type tag of the values that the value is made from."""
    blob = (one.parent.checkpoint.blobs or {}).get(one.check.channel)
    tags = [] if blob is None else [blob.type]
    tags += [
        placed.write.value.type
        for batch in one.ways[0].batches
        for placed in batch
        if placed.write.value is not None
    ]
    return "json" if "json" in tags else "msgpack"


def place_of(one: Lost) -> DamagedValue:
    """Return the value, and the first checkpoint that refers to it."""
    key = one.child.key
    version = str(one.child.body.versions.get(one.check.channel))
    return DamagedValue(
        key.checkpoint_ns, key.checkpoint_id, one.child.number, one.check.channel, version
    )
