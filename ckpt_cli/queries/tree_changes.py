"""Tell what the steps of a tree changed, from what their tasks wrote.

States are not compared: the writes of a step are small, and its state may be large.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import CheckpointKey, Write
from ckpt_cli.core.channels import given_input, is_state, state_values
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.redact import redact
from ckpt_cli.core.state import Version
from ckpt_cli.core.step_changes import (
    BriefState,
    ShortChange,
    StepChanges,
    brief_state,
    short_changes,
    written_changes,
)
from ckpt_cli.core.tasks.step_nodes import ran_here
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH
from ckpt_cli.core.tasks.tasks import Step
from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.core.usage.tokens import counts_of
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.thread import ThreadReader

_LARGEST = 64 << 10
"""Bytes of the largest write that is read to tell what a step changed."""
_NOTHING = BriefState({}, {})


class StepFacts(NamedTuple):
    """The parts of a checkpoint that show how it was made, and how the next one was."""

    step: Step
    source: str | None
    seen: Mapping[str, Mapping[str, Version]]
    versions: Mapping[str, Version]
    """Of the channels that hold state."""
    state: BriefState
    writes: Sequence[Write]
    """Without values; those of internal channels are left out."""


class ToldChanges(NamedTuple):
    """What a step changed, and the tokens that its messages tell."""

    changes: tuple[ShortChange, ...]
    tokens: int


def step_facts(moment: Moment) -> StepFacts:
    """Return what is remembered of a checkpoint while others are read."""
    body = moment.body
    versions = {name: version for name, version in body.versions.items() if is_state(name, body)}
    values = state_values(body)
    return StepFacts(
        moment.step,
        moment.source,
        body.seen,
        versions,
        brief_state(values, versions.keys() | values.keys()),
        [
            one if one.value is None else one._replace(value=None)
            for one in moment.writes
            if is_state(one.channel, body)
        ],
    )


def read_changes(
    reader: ThreadReader,
    facts: Mapping[Key, StepFacts],
    parents: Mapping[Key, Key],
    forked: Collection[Key],
    say: Callable[[Value], str],
) -> dict[Key, ToldChanges]:
    """Return what the step of each checkpoint in `parents` changed.

    `facts` has these and their parents; those of a parent that is not stored are left out. The
    writes on a checkpoint in `forked` may be of any of its children, and are not read.
    """
    only = reader.is_values_only
    inputs = {} if only else _inputs(reader, facts)
    changed: dict[Key, Collection[str]] = {}
    makers: dict[Key, Sequence[Write]] = {}
    for key, parent in parents.items():
        if (from_caller := given(facts[key])) and not only:
            makers[key] = from_caller
            changed[key] = {one.channel for one in from_caller}
        elif key in inputs:
            changed[key] = inputs[key].keys()
        elif parent in inputs or (parent in facts and given(facts[parent]) and not only):
            changed[key] = ()  # It is told of the input that this step took in.
        elif not parent[1] or parent in facts or only:
            writes = _making(facts, key, parent, is_values_only=only)
            changed[key] = _changed(facts, key, parent, writes, is_values_only=only)
            if parent not in forked or only:
                unclear = set(changed[key]).difference(facts[key].state.plain)
                makers[key] = [one for one in writes if one.channel in unclear]
    written = _read(reader, makers) | inputs
    is_redacted = redaction.is_redacted(reader.store)
    taking = {parent: key for key, parent in parents.items() if parent not in forked}
    found = {}
    for key, names in changed.items():
        values, after = written.get(key, {}), facts[key].state
        before = facts[parents[key]].state if parents[key] in facts else _NOTHING
        is_input = key in inputs or (bool(given(facts[key])) and not only)
        if is_input:
            # What is given becomes part of the next state.
            before, after = after, _state_after(facts.get(taking.get(key, ("", ""))), values)
        changes = written_changes(names, before, after, values)
        texts = short_changes(_redacted(changes) if is_redacted else changes, say)
        if is_input and not texts:
            # It gave what the state has already, or nothing to add.
            texts = tuple(
                ShortChange(name, after=None if is_redacted else say(given_values[-1]))
                for name, given_values in sorted(values.items())
            )
        found[key] = ToldChanges(texts, _tokens(changes))
    return found


def _inputs(
    reader: ThreadReader, facts: Mapping[Key, StepFacts]
) -> dict[Key, dict[str, list[Value]]]:
    """Return by channel what the caller gave at inputs, where no write tells it."""
    wanted = {key for key, one in facts.items() if one.source == "input" and not given(one)}
    found: dict[Key, dict[str, list[Value]]] = {}
    for ns in {ns for ns, _ in wanted}:
        ids = {one for place, one in wanted if place == ns}
        for moment in reader.moments(ns, ids, state=[START]):
            value = given_input(moment.body, moment.metadata)
            if isinstance(value, dict) and all(isinstance(name, str) for name in value):
                found[ns, moment.key.checkpoint_id] = {str(n): [one] for n, one in value.items()}
            elif value is not None:
                found[ns, moment.key.checkpoint_id] = {"input": [value]}
    return found


def _state_after(taking: StepFacts | None, written: Mapping[str, Sequence[Value]]) -> BriefState:
    """Return what the state becomes by an input: as the step that took it in stored it.

    If that is not known, values replace those before; lists may be merged instead.
    """
    if taking is not None and taking.state.lengths:
        return taking.state
    return brief_state({name: one[-1] for name, one in written.items()}, ())._replace(lengths={})


def given(found: StepFacts) -> Sequence[Write]:
    """Return what the caller gave at an input, as the next step took it in; else nothing."""
    if found.source != "input":
        return ()
    starts = {one.id for one in (*found.step.tasks, *found.step.others) if one.node == START}
    return [one for one in found.writes if one.task_id in starts]


def _making(
    facts: Mapping[Key, StepFacts], key: Key, parent: Key, *, is_values_only: bool
) -> Sequence[Write]:
    """Return the writes that made a checkpoint."""
    if is_values_only:
        return facts[key].writes
    if parent not in facts or facts[key].source == "input":
        return ()
    by_hand = not ran_here(facts[key].source)
    return [one for one in facts[parent].writes if one.task_path.startswith(UPDATE_PATH) == by_hand]


def _changed(
    facts: Mapping[Key, StepFacts],
    key: Key,
    parent: Key,
    writes: Sequence[Write],
    *,
    is_values_only: bool,
) -> Collection[str]:
    """Return the state channels that a step wrote. Layouts without versions tell by its writes."""
    versions = facts[key].versions
    if is_values_only:
        return {one.channel for one in writes if not one.channel.startswith("__")}
    before = facts[parent].versions if parent in facts else {}
    return [name for name, version in versions.items() if before.get(name) != version]


def _read(
    reader: ThreadReader, makers: Mapping[Key, Sequence[Write]]
) -> dict[Key, dict[str, list[Value]]]:
    """Return the values of writes by the checkpoint that they made, and by channel.

    Channels with a large write are left out.
    """
    stored_at: dict[tuple[CheckpointKey, str, int], Key] = {}
    by_names: dict[frozenset[str], set[CheckpointKey]] = {}
    for key, writes in makers.items():
        large = {one.channel for one in writes if one.size > _LARGEST}
        small = [one for one in writes if one.channel not in large]
        for one in small:
            stored_at[one.key, one.task_id, one.idx] = key
        for place in {one.key for one in small}:
            names = frozenset(one.channel for one in small if one.key == place)
            by_names.setdefault(names, set()).add(place)
    found: dict[Key, dict[str, list[Value]]] = {}
    for names, places in by_names.items():
        for one in reader.store.writes_at(sorted(places, key=str), channels=names, values=names):
            made = stored_at.get((one.key, one.task_id, one.idx))
            if made is not None and one.value is not None:
                found.setdefault(made, {}).setdefault(one.channel, []).append(decode(one.value))
    return found


def _redacted(changes: StepChanges) -> StepChanges:
    """Return changes without values: their names, and how many items were added."""
    added = {name: list(map(redact, items)) for name, items in changes.added.items()}
    return changes._replace(added=added, turned={})


def _tokens(changes: StepChanges) -> int:
    messages = (as_message(item) for items in changes.added.values() for item in items)
    counts = (counts_of(one) for one in messages if one is not None)
    return sum(one.total for one in counts if one is not None)
