"""Plans repairs of messages, answers and values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ckpt_backends import shell
from ckpt_backends.changes import Change
from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import Put, Reassembly, Unbuildable, list_of, stored_items
from ckpt_backends.codec.lossless import decode_lossless, encode_lossless
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.declaration import known_backends, layouts
from ckpt_backends.errors import CkptError, NotFound, Refused, Unsupported
from ckpt_backends.model import BlobKey, Capability, Checkpoint, Record, Status, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import CallForm, CallPlace, Pairing, mended, pair, result_like
from ckpt_cli.core.diff import diff_channels
from ckpt_cli.core.doctor.checks import is_broken_inside, stale_resumes
from ckpt_cli.core.edit_state import ChannelEdit, check_editable, stored_value
from ckpt_cli.core.forking import (
    CheckpointPlan,
    DamagedValue,
    Rebuilt,
    Refusal,
    Repair,
    check_body,
    inside_snapshot,
    random_id,
)
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.reducers import ABSENT, REDUCERS, Absent, Held, Pending, is_complete
from ckpt_cli.core.reducers import fits as message_fits
from ckpt_cli.core.replay import Judgement, Verdict, is_unreadable, judge_all, verdict_of
from ckpt_cli.core.resume import callers_answer, is_used
from ckpt_cli.core.state import BY, FROM, NAME, is_state, read_metadata
from ckpt_cli.core.support_matrix import NO_ANSWERS, NO_STEPS
from ckpt_cli.core.tasks import asked_by, failed_answers, path_text
from ckpt_cli.core.values import same
from ckpt_cli.plans.fork import RETRIES, RollbackOptions, check_store, whole
from ckpt_cli.plans.rollback import plan_head_copy, plan_rollback, readable_head
from ckpt_cli.queries.doctor.rows import conversations, counterparts, message_lists
from ckpt_cli.queries.replay import Lost, look_at, replay_thread
from ckpt_cli.reading.states import delta_parts, read_state
from ckpt_cli.reading.store import is_redacted, rules_of
from ckpt_cli.reading.thread import Moment, ThreadReader, writes_inside

_DAMAGED = ("msgpack", "json")
"""Type tags that ckpt can read: if decoding fails, the bytes are damaged."""


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
    lost: list[Lost] = []
    (found,) = judge_all([replay_thread(reader, lost=lost)], reducers)
    known: dict[BlobKey, TypedBytes] = {}
    rebuilt: list[Rebuilt] = []
    refused: list[Refusal] = []
    for one in lost:
        place = place_of(one)
        judgement = found.judgements[namespace_kind(place.checkpoint_ns), place.channel]
        if place.key in known or not _is_damage(one, judgement):
            continue
        pieces = Reassembly()
        try:
            base = _base(one, known, pieces)
            value, typed = rebuild(reader, one, judgement, base, pieces, _tag(one))
        except (CannotRebuild, Unbuildable) as error:
            refused.append(Refusal(place, str(error)))
            continue
        known[place.key] = typed
        names = judgement.survivors
        replaces = one.blob is not None
        size = len(typed.data)
        rebuilt.append(Rebuilt(place, names, judgement.evidence, value, size, replaces))
    change = Change(
        reader.thread_id,
        {ns: head for ns in reader.namespaces if (head := reader.head(ns)) is not None},
        blobs=tuple(
            Record.apart(reader.thread_id, *place, typed) for place, typed in known.items()
        ),
        removed_blobs=tuple(one.place.key for one in rebuilt if one.replaces),
    )
    if is_redacted(reader.store):
        rebuilt = [replace(one, value=redact(one.value)) for one in rebuilt]
    return Repair(reader.thread_id, tuple(rebuilt), tuple(refused), change)


def _is_damage(one: Lost, judgement: Judgement) -> bool:
    """Return whether a value is missing although it should be stored, or has damaged bytes."""
    if one.blob is not None:
        return one.blob.type in _DAMAGED and isinstance(decode(one.blob), Opaque)
    verdict, _ = verdict_of(one.check, judgement)
    return verdict is not Verdict.MATCH


def rebuild(
    reader: ThreadReader, one: Lost, judgement: Judgement, base: Held, pieces: Reassembly, tag: str
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


def _base(one: Lost, known: Mapping[BlobKey, TypedBytes], pieces: Reassembly) -> Held:
    """Return the previous value of the channel, from its own bytes if it is stored apart."""
    parent, name = one.parent, one.check.channel
    version = str(parent.body.versions.get(name))
    typed = known.get(BlobKey(parent.key.checkpoint_ns, name, version))
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


def stored_list(
    reader: ThreadReader, target: Moment, original: Checkpoint, channel: str
) -> TypedBytes:
    """Return the list in a channel, before the caller's writes. Items keep their bytes.

    `original` is the checkpoint of `target`, with the value of the channel. Raises `Unsupported`
    if the value is not stored and cannot be rebuilt from stored parts.
    """
    found = stored_value(original, target.body, channel)
    if found is not None and channel in target.body.values:
        return inside_snapshot(found)
    parts = delta_parts(reader, original, [channel])[channel]
    writes = [write for batch in reversed(parts.batches) for write in batch]
    seed = None if parts.seed is None else stored_value(*parts.seed, channel)
    stored = writes if seed is None else [inside_snapshot(seed), *writes]
    pieces = Reassembly()
    try:
        values = list(map(pieces.read, stored))
        base = None if seed is None else values.pop(0)
        merged, _ = rules_of(reader.store, target.body).merge(
            namespace_kind(target.key.checkpoint_ns), channel, base, values, delta=True
        )
        return pieces.write(merged, stored[0].type if stored else "")
    except Unbuildable as error:
        raise Unsupported(f"cannot rebuild the value of '{channel}': {error}") from error


CONTENT = "The run was stopped before this tool finished, so its result is not known."
"""The content of a result that is added, unless the user gives another one."""
_NAMED = 3
"""Maximum number of tools that a message names."""


class AwaitedCall(Refused):
    """Nothing is broken, but a call has no result yet, and may still get one."""


@dataclass(frozen=True, slots=True)
class _Mended:
    """A conversation after the repair."""

    edit: ChannelEdit
    added: int
    moved: int
    removed: int


def plan_message_repair(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    *,
    content: str | None,
    force: bool,
    final: bool = True,
) -> CheckpointPlan:
    """Plan a copy of a checkpoint of the root, by default of the head, with sound conversations.

    `content` is what the new results say. `force` allows a head that is dated in the future.
    Without `final`, calls of the last messages are left to the application.

    Raises `NotFound` if nothing is broken, `AwaitedCall` if a call may still be answered, `Refused`
    while a question waits, and `Unsupported` if the layout or the form of the messages does not
    allow it.
    """
    check_store(rows)
    reader.check_root()
    chosen = checkpoint_id or reader.head("") or ""
    target = reader.moment("", chosen, state=True)
    target.check_readable()
    found = message_lists(reader, target)
    paired = {
        channel: pair(items, counterparts(target, found, channel))
        for channel, items in conversations(found).items()
    }
    pairs = {channel: _to_mend(one, final=final) for channel, one in paired.items()}
    broken = {channel: one for channel, one in pairs.items() if one.is_broken}
    if not broken:
        raise _nothing_to_repair(reader, target, paired.values())
    if Status.INTERRUPTED in target.conditions:
        raise Refused(
            f"cannot repair thread '{reader.thread_id}': a question waits for an answer, and would"
            " be asked again",
            hint=_answer(reader),
        )
    said = content or CONTENT
    made = [
        _mended(reader, rows, target, channel, found[channel], one, said)
        for channel, one in broken.items()
    ]
    edits = tuple(one.edit for one in made)
    reason = None if reader.is_values_only else "repair messages"
    options = RollbackOptions(edits=edits, force=force, reason=reason)
    plan = plan_rollback(reader, rows, chosen, now, options)
    notes = [note for one in made for note in _mends(one)]
    kept = [note for note in plan.notes if note != RETRIES]
    return replace(plan, action="repair", mends=tuple(notes), notes=tuple(kept))


def _mended(
    reader: ThreadReader,
    rows: Store,
    target: Moment,
    channel: str,
    items: Sequence[Value],
    found: Pairing,
    content: str,
) -> _Mended:
    """Return the edit that mends a conversation. Only new results are written anew."""
    if not reader.is_values_only:
        check_body(target.key, target.body)
    original = whole(rows, target.key, [channel])
    check_editable(original)
    stored = stored_list(reader, target, original, channel)
    parts = stored_items(stored)
    before = [decode(one) for one in parts]
    order = mended(items, found)
    # The caller's writes come after the stored messages. They are merged when the agent runs.
    later = list(range(len(before), len(items)))
    here = order[: len(order) - len(later)]
    if order[len(here) :] != later or not _begins_with(items, before):
        raise Unsupported(
            f"cannot repair '{channel}': the caller's last update changes its messages",
            hint="resume the thread, so that the update is merged, then repair it",
        )
    after = [
        parts[one]
        if isinstance(one, int)
        else result_like(
            parts[one.index],
            call_id=one.id,
            tool=one.call.name,
            content=content,
            message_id=random_id(),
            form=one.form,
        )
        for one in here
    ]
    new = list_of(after, stored)
    values = [decode(one) for one in after]
    if not same(decode(new), values):
        raise Unsupported(f"cannot repair '{channel}': its messages cannot be stored again")
    edit = ChannelEdit("store", channel, [*values, *items[len(before) :]], new)
    added = sum(isinstance(one, CallPlace) for one in order)
    kept = sum(isinstance(one, int) and one in found.orphaned for one in order)
    return _Mended(edit, added, kept, len(found.orphaned) - kept)


def _begins_with(items: Sequence[Value], before: Sequence[Value]) -> bool:
    return len(before) <= len(items) and all(map(same, items, before))


def _mends(one: _Mended) -> Iterator[str]:
    counts = {
        "added for calls without one": one.added,
        "moved behind its call": one.moved,
        "removed: nothing before it makes the call": one.removed,
    }
    for what, number in counts.items():
        if number:
            results = "1 result is" if number == 1 else f"{number} results are"
            yield f"'{one.edit.channel}': {results} {what}"


def _nothing_to_repair(reader: ThreadReader, target: Moment, pairs: Iterable[Pairing]) -> CkptError:
    """Return the error for a checkpoint without a broken conversation.

    The names of tools are values: `--redact` hides them.
    """
    pairs = list(pairs)
    unanswered = [place for one in pairs for place in one.unanswered]
    if unanswered:  # all of them of the form that `_to_mend` leaves out
        return Unsupported(
            f"cannot repair thread '{reader.thread_id}': the result of such a call is a picture of"
            " the screen or a patched file",
            hint="go back to the checkpoint before the call, or send the result as the next input",
        )
    awaited = [place for one in pairs for place in one.awaited]
    if not awaited:
        return NotFound(f"nothing to repair in the messages of thread '{reader.thread_id}'")
    names = dict.fromkeys(f"'{one.call.name}'" for one in awaited)
    if is_redacted(reader.store):
        names = {"a tool": None}
    tools = ", ".join(list(names)[:_NAMED])
    begin = f"cannot repair thread '{reader.thread_id}': "
    if Status.INTERRUPTED in target.conditions:
        return AwaitedCall(
            f"{begin}the call of {tools} waits for the answer to a question", hint=_answer(reader)
        )
    return AwaitedCall(
        f"{begin}the call of {tools} has yet to be carried out",
        hint="resume with graph.invoke(None, config); if the agent gets a new message instead,"
        " repair the thread after that",
    )


def _to_mend(found: Pairing, *, final: bool) -> Pairing:
    """Return what to mend; with `final`, also calls that only the application could answer.

    Calls whose result is no text are left where they are.
    """
    left = [one for one in found.unanswered if one.form is not CallForm.DEVICE]
    if not final:
        return replace(found, unanswered=tuple(left))
    left += [one for one in found.final if one.form is not CallForm.DEVICE]
    devices = tuple(one for one in found.final if one.form is CallForm.DEVICE)
    return replace(found, unanswered=tuple(left), final=devices)


def _answer(reader: ThreadReader) -> str:
    line = shell.command("ckpt", "interrupts", ids=[reader.thread_id])
    return f"answer it with Command(resume=...), then repair; `{line}` shows it"


# Plans that drop a stored answer: LangGraph would give it to another question, or a task failed
# with it and would get it again.


_GRACE = timedelta(minutes=1)
"""An agent may be about to use an answer that was stored within this time."""


def plan_write_repair(
    reader: ThreadReader,
    rows: Store,
    checkpoint_id: str | None,
    now: datetime,
    *,
    force: bool = False,
    failed: bool = True,
) -> CheckpointPlan:
    """Plan to add a copy of the head without the caller's answer that was used already, and, if
    `failed`, without the answers with which a task failed: it asks again.

    Raises `NotFound` if there is none, `Refused` if an agent may be about to use it, and everything
    that `plan_rollback` raises.
    """
    check_store(rows)
    _check_writes(reader, NO_ANSWERS, "the application asks again when it resumes")
    head = readable_head(reader, checkpoint_id, "the writes", state=False)
    asked = [one for task in head.step.tasks for one in task.questions if one.is_open]
    stale = [one.detail for one in stale_resumes(head.key, head.step, head.writes)]
    if not stale and _is_used_inside(reader, head):
        whom = ", ".join(dict.fromkeys(path_text(asked_by(one)) for one in asked))
        stale = [f"'{whom}' has used the stored answer; invoke(None) would use it once more"]
    answered = [one for task in head.step.tasks for one in failed_answers(task)] if failed else []
    stale += [
        f"'{path_text(asked_by(one))}' failed with the stored answer; without it, it asks again"
        for one in answered
    ]
    if not stale:
        raise NotFound(
            f"nothing to repair in thread '{reader.thread_id}': no answer is stored that was used"
            " already, or that made a task fail"
        )
    if not asked and not answered and now - (reader.thread.last_at or now) < _GRACE:
        raise Refused(
            "an agent may be about to use the stored answer",
            hint="run the command again when the thread has been idle for a minute",
        )
    dropped = {one.task_id for one in answered}
    return plan_head_copy(reader, rows, head, now, mends=stale, force=force, unanswered=dropped)


def _check_writes(reader: ThreadReader, lack: str, hint: str) -> None:
    """Raise `Unsupported` if the layout does not store what tasks wrote."""
    info = reader.store.describe()
    if reader.is_values_only or Capability.WRITES not in info.capabilities:
        raise Unsupported(f"a store of layout '{info.layout}' {lack}", hint=hint)


def _is_used_inside(reader: ThreadReader, head: Moment) -> bool:
    """Return whether a subgraph that asks has used the caller's answer."""
    answer = callers_answer(head.writes)
    if answer is None:
        return False
    if not any(q.is_open for one in head.step.tasks for q in one.questions):
        return False
    return any(is_used(answer, writes) for writes in writes_inside(reader, head))


# Plans that restore missing or unreadable values, in the way that the layout allows.
#
# Where values are stored apart, they are stored again. Where they are part of a checkpoint, a
# copy of the head gets them, because nothing that a saver stored is changed.


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
    keys = {BlobKey("", name, str(version)) for name, version in versions.items()}
    return replace(
        found,
        rebuilt=tuple(one for one in found.rebuilt if one.place.key in keys),
        refused=tuple(one for one in found.refused if one.place.key in keys),
        change=replace(
            found.change,
            blobs=tuple(one for one in found.change.blobs if one.place in keys),
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
    back = "roll back to a checkpoint with sound values: `ckpt rollback THREAD REF`"
    _check_writes(reader, NO_STEPS, back)
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
    mends = [_mended_value(one) for one in rebuilt]
    plan = plan_head_copy(reader, rows, head, now, mends=mends, values=values, force=force)
    before = read_state(reader, head).values
    after = {**before, **{one.place.channel: one.value for one in rebuilt}}
    plan = replace(plan, changes=diff_channels(before, after))
    if is_redacted(reader.store):
        rebuilt = [replace(one, value=redact(one.value)) for one in rebuilt]
    return replace(nothing, rebuilt=tuple(rebuilt), change=plan.change, plan=plan)


_Made = tuple[DamagedValue, tuple[str, ...], int, tuple[Value, TypedBytes] | str]
"""A value, the reducers that agree on it, their evidence, and the value or why there is none."""


def _restored(
    reader: ThreadReader, rows: Store, head: Moment, reducers: Mapping[str, str]
) -> Iterator[_Made]:
    """Yield the missing and unreadable values of a thread that stores them inside checkpoints."""
    lost: list[Lost] = []
    (replayed,) = judge_all([replay_thread(reader, lost=lost)], reducers)
    partly = _partly_lost(reader, head)
    done: set[str] = set()
    for one in [*lost, *partly]:
        place = place_of(one)
        judgement = replayed.judgements[namespace_kind(place.checkpoint_ns), place.channel]
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
            made = rebuild(reader, one, judgement, base, pieces, _tag_of_head(head))
            made = _in_body(made, _tag_of_head(head))
        except (CannotRebuild, Unbuildable, Unsupported) as error:
            # What is partly unknown may be so in the writes, too: then it is not damage.
            if one not in partly:
                yield place, (), 0, str(error)
            continue
        if not is_broken_inside(made[0]):
            yield place, judgement.survivors, judgement.evidence, made
    yield from _unchanged(reader, rows, head, done)


def _copied(reader: ThreadReader, checkpoint_ns: str) -> set[Value]:
    """Return the checkpoints of which `ckpt` added a copy: such a copy may have been mended."""
    found = reader.checkpoints(checkpoint_ns, metadata=True)
    marks = map(read_metadata, found)
    return {one.get(FROM) for one in marks if one.get(BY) == NAME and one.get(FROM) is not None}


def _partly_lost(reader: ThreadReader, head: Moment) -> list[Lost]:
    """Return the new values of the head of which a part cannot be decoded."""
    names = [
        name
        for name, value in head.body.values.items()
        if is_state(name, head.body) and not is_unreadable(value) and is_broken_inside(value)
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
    if parent_id is not None and parent_id in reader.parentage(""):
        parent = reader.stored("", parent_id, state=True)
    for name, version in head.body.versions.items():
        value = head.body.values.get(name, ABSENT)
        if name in done or not is_state(name, head.body) or name in reader.delta_channels(""):
            continue
        is_lost = is_unreadable(value)
        is_same = parent is not None and parent.body.versions.get(name) == version
        place = DamagedValue("", head.key.checkpoint_id, head.number, name, str(version))
        if parent is not None and is_same and (value is ABSENT or is_broken_inside(value)):
            before = parent.body.values.get(name)
            if name in parent.body.values and not is_broken_inside(before):
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


def _tag_of_head(head: Moment) -> str:
    return "msgpack" if head.checkpoint.body is None else head.checkpoint.body.type


def _mended_value(one: Rebuilt) -> str:
    what = "replaces its unreadable value" if one.replaces else "fills in its missing value"
    how = f"by {one.reducers[0]}" if one.reducers else "as in the step before"
    return f"{one.place.channel}: {what}, {how}"
