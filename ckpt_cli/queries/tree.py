"""Reads the tree of a thread: keys first, then details of what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Checkpoint, CheckpointKey, Status, Write, time_of
from ckpt_cli.core.conversation import as_message, counts_of
from ckpt_cli.core.diff import (
    BriefState,
    ShortChange,
    StepChanges,
    brief_state,
    short_changes,
    written_changes,
)
from ckpt_cli.core.redact import redact_changes
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.state import (
    BY,
    NAME,
    REASON,
    START,
    Version,
    given_input,
    is_state,
    state_values,
)
from ckpt_cli.core.tasks import (
    RETRIED,
    UPDATE_PATH,
    Step,
    asked_by,
    failed_at,
    node_path,
    path_text,
    ran,
    ran_here,
)
from ckpt_cli.core.timeline import (
    Scrubber,
    TimedCheckpoint,
    TimedPoint,
    TimedStep,
    point_sign,
    timed_steps,
)
from ckpt_cli.core.tree import Key, Skeleton, StepDetails, StepRow, TreeLayout, plan_tree
from ckpt_cli.queries import timeline
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.reading.store import is_redacted, shown
from ckpt_cli.reading.thread import Moment, ThreadReader, resume_of

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation


@dataclass(frozen=True, slots=True)
class TreeKeys:
    """The keys of the checkpoints and writes of a thread, or of one namespace."""

    index: Mapping[Key, Checkpoint]
    """In each namespace, the newest comes first."""
    stored: Mapping[Key, timeline.StepKeys]
    tips: Collection[Key]
    seals: Mapping[Key, int]

    @property
    def heads(self) -> Mapping[str, str]:
        """The checkpoint that a saver loads in each namespace; not always the greatest id."""
        return dict(reversed([*self.index]))

    @property
    def is_settled(self) -> bool:
        """Whether all writes can be told apart by their keys."""
        return not any(self.stored.get(key, timeline.NO_KEYS).is_marked for key in self.tips)


def read_keys(reader: ThreadReader, checkpoint_ns: str | None) -> TreeKeys:
    """Return the keys of a thread, or of one namespace of it."""
    namespaces = reader.namespaces if checkpoint_ns is None else [reader.namespace(checkpoint_ns)]
    index = {(ns, one.key.checkpoint_id): one for ns in namespaces for one in reader.index(ns)}
    only = namespaces[0] if len(namespaces) == 1 else None
    stored = timeline.step_keys(reader.writes(only))
    # Only the questions of tips are likely to change.
    tips = {(ns, tip) for ns in namespaces for tip in reader.parentage(ns).tips}
    return TreeKeys(index, stored, tips, _seals(index, stored))


def forked(skeletons: Iterable[Skeleton]) -> frozenset[Key]:
    """Return the checkpoints whose writes may be of any of several children.

    A fork or an update beside one run has writes of its own.
    """
    children = Counter(
        ((one.checkpoint_ns, one.parent_checkpoint_id), ran_here(one.source)) for one in skeletons
    )
    return frozenset(
        (ns, parent)
        for ((ns, parent), _), number in children.items()
        if number > 1 and parent is not None
    )


def _seals(
    index: Mapping[Key, Checkpoint], stored: Mapping[Key, timeline.StepKeys]
) -> dict[Key, int]:
    """Return a number for each checkpoint that differs if it or its parent has other writes."""

    def seal(ns: str, checkpoint_id: str | None) -> int:
        return stored.get((ns, checkpoint_id or ""), timeline.NO_KEYS).seal

    return {
        key: hash((seal(*key), seal(key[0], one.parent_checkpoint_id)))
        for key, one in index.items()
    }


def details_from_keys(skeletons: Iterable[Skeleton], keys: TreeKeys) -> dict[Key, StepDetails]:
    """Return what keys tell about plain steps, without those whose nodes they do not name."""
    return {
        one.key: StepDetails(
            at=time_of(one.checkpoint_id),
            step=one.step,
            source="loop" if one.source is None else one.source,
            ran=one.ran,
            writes=keys.stored.get(one.key, timeline.NO_KEYS).writes,
        )
        for one in skeletons
        if one.ran is not None
    }


# Tell what the steps of a tree changed, from what their tasks wrote.
#
# States are not compared: the writes of a step are small, and its state may be large.


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

    @property
    def given(self) -> Sequence[Write]:
        """What the caller gave at an input, as the next step took it in; else nothing."""
        if self.source != "input":
            return ()
        starts = {one.id for one in self.step.runs if one.node == START}
        return [one for one in self.writes if one.task_id in starts]


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
) -> dict[Key, tuple[tuple[ShortChange, ...], int]]:
    """Return what the step of each checkpoint in `parents` changed, and the tokens that its
    messages tell.

    `facts` has these and their parents; those of a parent that is not stored are left out. The
    writes on a checkpoint in `forked` may be of any of its children, and are not read.
    """
    only = reader.is_values_only
    given = {} if only else {key: one.given for key, one in facts.items() if one.given}
    inputs = {} if only else _inputs(reader, facts, given)
    changed: dict[Key, Collection[str]] = {}
    makers: dict[Key, Sequence[Write]] = {}
    for key, parent in parents.items():
        one, before = facts[key], facts.get(parent)
        if key in given:
            makers[key] = given[key]
            changed[key] = {write.channel for write in given[key]}
        elif key in inputs:
            changed[key] = inputs[key].keys()
        elif parent in inputs or parent in given:
            changed[key] = ()  # It is told of the input that this step took in.
        elif only or before is not None or not parent[1]:
            writes = one.writes if only else _making(one, before)
            if only:  # Such layouts store no versions.
                changed[key] = {each.channel for each in writes}
            else:
                known = {} if before is None else before.versions
                changed[key] = [name for name, at in one.versions.items() if known.get(name) != at]
            if only or parent not in forked:
                unclear = set(changed[key]).difference(one.state.plain)
                makers[key] = [each for each in writes if each.channel in unclear]
    written = _read(reader, makers) | inputs
    hides = is_redacted(reader.store)
    taking = {parent: key for key, parent in parents.items() if parent not in forked}
    found = {}
    for key, names in changed.items():
        values, after = written.get(key, {}), facts[key].state
        before_it = facts[parents[key]].state if parents[key] in facts else _NOTHING
        is_input = key in inputs or key in given
        if is_input:
            # What is given becomes part of the next state.
            before_it, after = after, _state_after(facts.get(taking.get(key, ("", ""))), values)
        changes = written_changes(names, before_it, after, values)
        texts = short_changes(redact_changes(changes) if hides else changes, say)
        if is_input and not texts:
            # It gave what the state has already, or nothing to add.
            texts = tuple(
                ShortChange(name, after=None if hides else say(given_values[-1]))
                for name, given_values in sorted(values.items())
            )
        found[key] = texts, _tokens(changes)
    return found


def _inputs(
    reader: ThreadReader, facts: Mapping[Key, StepFacts], given: Collection[Key]
) -> dict[Key, dict[str, list[Value]]]:
    """Return by channel what the caller gave at inputs, where no write tells it."""
    wanted = [key for key, one in facts.items() if one.source == "input" and key not in given]
    found: dict[Key, dict[str, list[Value]]] = {}
    for key, moment in _moments(reader, wanted, state=[START]):
        value = given_input(moment.body, moment.metadata)
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            found[key] = {str(name): [one] for name, one in value.items()}
        elif value is not None:
            found[key] = {"input": [value]}
    return found


def _state_after(taking: StepFacts | None, written: Mapping[str, Sequence[Value]]) -> BriefState:
    """Return what the state becomes by an input: as the step that took it in stored it.

    If that is not known, values replace those before; lists may be merged instead.
    """
    if taking is not None and taking.state.lengths:
        return taking.state
    return brief_state({name: one[-1] for name, one in written.items()}, ())._replace(lengths={})


def _making(one: StepFacts, before: StepFacts | None) -> Sequence[Write]:
    """Return the writes on its parent that made a checkpoint."""
    if before is None or one.source == "input":
        return ()
    by_hand = not ran_here(one.source)
    return [each for each in before.writes if each.task_path.startswith(UPDATE_PATH) == by_hand]


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


def _tokens(changes: StepChanges) -> int:
    messages = (as_message(item) for items in changes.added.values() for item in items)
    counts = (counts_of(one) for one in messages if one is not None)
    return sum(one.total for one in counts if one is not None)


def tree_steps(
    reader: ThreadReader, keys: TreeKeys, skeletons: Mapping[Key, Skeleton]
) -> dict[Key, TimedStep]:
    """Return the step that made each checkpoint."""
    by_ns: dict[str, list[TimedCheckpoint]] = {}
    for key, one in reversed(list(keys.index.items())):
        timed = timeline.timed_checkpoint(reader, one, skeletons[key], keys.stored)
        by_ns.setdefault(key[0], []).append(timed)
    return {
        (ns, checkpoint_id): step
        for ns, checkpoints in by_ns.items()
        for checkpoint_id, step in timed_steps(checkpoints).items()
    }


def timed_points(
    plan: TreeLayout, keys: TreeKeys, skeletons: Iterable[Skeleton], steps: Mapping[Key, TimedStep]
) -> tuple[TimedPoint, ...]:
    """Return the checkpoints of the first tree with what happened at each, oldest first."""
    branches = (row for row in plan.rows if isinstance(row, StepRow) and row.branch)
    forks = {(row.ns, row.parent) for row in branches}
    found = []
    for one in skeletons:
        if one.checkpoint_ns != plan.ns:
            continue
        key, own = one.key, keys.stored.get(one.key, timeline.NO_KEYS)
        is_tip = key in keys.tips
        sign = point_sign(
            source=one.source,
            is_failed=bool(own.failed if is_tip else own.left_failed),
            is_asked=bool(own.asking),
            is_tip=is_tip,
            is_forked=key in forks,
        )
        found.append((one.order, TimedPoint(key, steps[key].ended_at, steps[key].kind, sign)))
    return tuple(point for _, point in sorted(found, key=lambda pair: pair[0]))


_SMALL, _LARGE = 1_000, 5_000
"""A thread with at most this many checkpoints is read whole, so that folded steps name their
nodes: on the screen, which reads the thread again whenever it changes, and where it is printed.
"""
_SHORT_OP = 8
"""Digits of an operation's id; commands take the beginning of an id."""


class TreeShape(NamedTuple):
    """Which tree of a thread is asked for."""

    ns: str | None = None
    """Only this namespace; None for the whole thread."""
    nest: bool = False
    """With the trees of subgraph calls."""
    unfold: bool = False


class Tree(NamedTuple):
    """Everything that is needed to draw a thread."""

    thread_id: str
    plan: TreeLayout
    details: Mapping[Key, StepDetails]
    refs: Mapping[str, str]
    """Maps a checkpoint id to its short ref."""
    conditions: Sequence[Status]
    """The conditions of the thread, the worst first."""
    keys: TreeKeys
    unread: frozenset[Key]
    """Plain steps that were not read: only the keys of writes tell what is known about them."""
    forked: frozenset[Key]
    """The checkpoints whose writes may be of any of several children."""
    steps: Mapping[Key, TimedStep] = {}
    """The time of each step, if it was asked for."""
    scrubber: Scrubber = Scrubber(())
    """The checkpoints of the first tree in the order of their times, if it was asked for."""
    skeletons: Sequence[Skeleton] = ()
    """What the layout was planned from, if it may be folded in another way."""

    @property
    def status(self) -> Status:
        return self.conditions[0]


class TreeReader:
    """Reads the tree of a thread, again and again: only what may have changed since.

    A checkpoint never changes, but writes are added to it. Its seal stands for the writes of it and
    of its parent; it is read again when its seal differs.
    """

    def __init__(
        self, reader: ThreadReader, operations: ThreadOperations, say: Callable[[Value], str]
    ) -> None:
        """`say` formats a question on one line."""
        self.reader, self.operations = reader, operations
        """Those of the thread as it is now; a later look needs others."""
        self._say = say
        self._known: dict[Key, tuple[int, StepDetails]] = {}
        """The seal and the details of each checkpoint that was read."""
        self._mark: object = None
        """Stands for all that the last tree was made from."""
        self._tree: Tree | None = None

    def read(
        self, shape: TreeShape, keep: Key | None = None, seen: Collection[Key] | None = None
    ) -> Tree:
        """Return the tree; the checkpoint `keep` is never folded.

        With `seen`, plain steps are read only if they are in it, also if they are not folded, and
        the times of steps are told; the same tree is returned as before if nothing has changed.
        """
        keys = read_keys(self.reader, shape.ns)
        mark = self._mark_of(shape, keep, keys)
        is_stable = keys.is_settled or len(keys.index) > _SMALL
        if is_stable and seen is not None and self._tree is not None and self._mark == mark:
            return self.more(self._tree, seen, tips=not keys.is_settled)
        self._mark, self._tree = mark, self._whole(keys, shape, keep, seen)
        return self._tree

    def more(self, before: Tree, seen: Collection[Key], *, tips: bool = False) -> Tree:
        """Return a tree with the steps in `seen` read, without a look at what else has changed.

        With `tips`, what waits there is read again.
        """
        again = set(before.keys.tips) & before.details.keys() if tips else set()
        wanted = [*again.union(before.unread.intersection(seen))]
        found = self.details(before.keys, wanted, before.forked)
        is_same = all(before.details.get(key) == one for key, one in found.items())
        if is_same and before.unread.isdisjoint(found):
            return before
        after = before._replace(
            details={**before.details, **found},
            unread=before.unread.difference(found),
            conditions=_conditions(self.reader) if tips else before.conditions,
        )
        if self._tree is not None:
            self._tree = after
        return after

    def refold(self, before: Tree, shape: TreeShape, keep: Key) -> Tree:
        """Return a tree with folds that leave out another checkpoint, without a look at what has
        changed.
        """
        plan = plan_tree(_keeping(keep, before.skeletons), before.keys.heads, nest=shape.nest)
        missing = [key for key in plan.shown if key not in before.details]
        found = self.details(before.keys, missing, ())
        self._mark = self._mark_of(shape, keep, before.keys)
        self._tree = before._replace(plan=plan, details={**before.details, **found})
        return self._tree

    def _mark_of(self, shape: TreeShape, keep: Key | None, keys: TreeKeys) -> object:
        return self.reader.thread, shape, None if shape.unfold else keep, keys.seals

    def _whole(
        self, keys: TreeKeys, shape: TreeShape, keep: Key | None, seen: Collection[Key] | None
    ) -> Tree:
        """Return a tree that is laid out anew."""
        reader, index = self.reader, keys.index
        drawn = timeline.skeletons_of(reader, index, keys.stored)
        apart = forked(drawn.values())
        details: dict[Key, StepDetails] = {}
        if len(index) <= (_LARGE if seen is None else _SMALL):
            details = self.details(keys, list(index), apart)
            # Keys do not always show the source and the nodes that ran.
            for key, one in drawn.items():
                source, ran = details[key].source, details[key].ran
                drawn[key] = one._replace(source=source, ran=ran or one.ran)
        placed = _keeping(keep, list(drawn.values()))
        plan = plan_tree(placed, keys.heads, unfold=shape.unfold, nest=shape.nest)
        unread: frozenset[Key] = frozenset()
        if not details:
            if seen is not None and shape.unfold:
                marked = plan_tree(placed, keys.heads, nest=True).shown
                unread = frozenset({*plan.shown}.difference(marked, seen, self._known))
            details = self.details(keys, [key for key in plan.shown if key not in unread], apart)
            details |= details_from_keys((one for one in placed if one.key in unread), keys)
        refs = short_refs(sorted({checkpoint_id for _, checkpoint_id in index}))
        tree = Tree(reader.thread_id, plan, details, refs, _conditions(reader), keys, unread, apart)
        if seen is None:
            return tree
        steps = tree_steps(reader, keys, drawn)
        skeletons = list(drawn.values())
        scrubber = Scrubber(timed_points(plan, keys, skeletons, steps))
        return tree._replace(steps=steps, scrubber=scrubber, skeletons=skeletons)

    def details(
        self, keys: TreeKeys, wanted: Sequence[Key], apart: Collection[Key]
    ) -> dict[Key, StepDetails]:
        """Return the details of checkpoints; those that cannot have changed are not read again."""
        missing = [key for key in wanted if self._may_differ(key, keys)]
        if missing:
            # Most messages of a state are those of the state before.
            with remembering():
                found = read_details(self.reader, self.operations, self._say, keys, missing, apart)
            self._known |= {key: (keys.seals[key], one) for key, one in found.items()}
        return {key: self._known[key][1] for key in wanted}

    def _may_differ(self, key: Key, keys: TreeKeys) -> bool:
        seal, known = self._known.get(key, (None, None))
        # The log of operations may change, and what is damaged may be repaired.
        is_lasting = known is not None and not known.change and known.problem is None
        return not is_lasting or seal != keys.seals[key] or key in keys.tips


def read_details(
    reader: ThreadReader,
    operations: ThreadOperations,
    say: Callable[[Value], str],
    keys: TreeKeys,
    wanted: Sequence[Key],
    apart: Collection[Key],
) -> dict[Key, StepDetails]:
    """Return details of some checkpoints; reads their parents to find the nodes that ran.

    The parent of an input tells nothing about it, so most runs are told by their first checkpoint.
    """
    only, head = reader.is_values_only, ("", reader.head(""))
    # An id that is not text can only be listed.
    found = dict.fromkeys(wanted, StepDetails(problem="its id is not text"))
    facts: dict[Key, StepFacts] = {}
    for key, moment in _moments(reader, wanted):
        facts[key] = step_facts(moment)
        found[key] = _node(shown(reader.store, moment), say, operations.adding(moment))
        if key == head and (moment.step.next or moment.writes):
            resumes = resume_of(reader, moment, inside=False).nodes
            found[key] = found[key]._replace(resumes=resumes)
    parents = {key: (key[0], keys.index[key].parent_checkpoint_id or "") for key in facts}
    if not only:
        telling = {parent for key, parent in parents.items() if not facts[key].given}
        for key, moment in _moments(reader, telling & keys.index.keys() - facts.keys()):
            facts[key] = step_facts(moment)
    for key, (changes, tokens) in read_changes(reader, facts, parents, apart, say).items():
        found[key] = found[key]._replace(changes=changes, tokens=tokens)
    for key, one in found.items():
        before = facts.get(parents.get(key, key))
        if only:
            nodes = timeline.nodes_that_ran(keys.stored.get(key, timeline.NO_KEYS)) or ()
            found[key] = one._replace(ran=nodes)
        elif key in parents and before is not None and ran_here(one.source):
            found[key] = one._replace(ran=ran(before.step, before.seen, facts[key].seen))
    return found


def _keeping(keep: Key | None, skeletons: Sequence[Skeleton]) -> Sequence[Skeleton]:
    """Return the skeletons with one that is not folded."""
    if keep is None:
        return skeletons
    return [one._replace(marked=True) if one.key == keep else one for one in skeletons]


def _conditions(reader: ThreadReader) -> Sequence[Status]:
    head = reader.head("")
    return (Status.EMPTY,) if head is None else reader.moment("", head).conditions


def _moments(
    reader: ThreadReader, keys: Iterable[Key], *, state: bool | Collection[str] = False
) -> Iterator[tuple[Key, Moment]]:
    by_ns: dict[str, set[str]] = {}
    for ns, checkpoint_id in keys:
        by_ns.setdefault(ns, set()).add(checkpoint_id)
    for ns, ids in sorted(by_ns.items()):
        for moment in reader.moments(ns, ids, state=state):
            yield (ns, moment.key.checkpoint_id), moment


def _node(
    moment: Moment, say: Callable[[Value], str], added_by: ListedOperation | None
) -> StepDetails:
    step, ns = moment.step, moment.key.checkpoint_ns
    failed = [run for run in step.runs if run.error is not None and not run.handled]
    forked_from = moment.metadata.get("forked_from")
    problem = moment.body.problem
    return StepDetails(
        at=moment.at,
        step=moment.number,
        source=moment.source,
        writes=len(moment.writes),
        next=step.next,
        questions=tuple(
            f"{path_text(node_path(ns, asked_by(one)))}: {say(one.value)}"
            for one in step.open_questions
        ),
        answered=sum(question.answered for question in step.questions),
        errors=tuple(
            f"{path_text(node_path(ns, failed_at(run)))}: {run.error}"
            + (f"  ({RETRIED})" if run.finished else "")
            for run in failed
        ),
        forked_from=forked_from if isinstance(forked_from, str) else None,
        change=_change(moment, added_by),
        problem=None if problem is None else problem.reason,
    )


def _change(moment: Moment, added_by: ListedOperation | None) -> str:
    """Return which operation added a checkpoint and why; the metadata tells only the reason."""
    if added_by is None:
        reason = moment.metadata.get(REASON) if moment.metadata.get(BY) == NAME else None
        return f"reason: {reason}" if isinstance(reason, str) else ""
    operation, undone_by = added_by.operation, added_by.undone_by
    text = f"{operation.action} {operation.op[:_SHORT_OP]}"
    text += f", undone by {undone_by[:_SHORT_OP]}" if undone_by else ""
    return f"{text}: {operation.reason}" if operation.reason else text
