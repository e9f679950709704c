"""Reads the tree of a thread: keys first, then details of what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.diff import (
    BriefState,
    ShortChange,
    StepChanges,
    brief_state,
    short_changes,
    written_changes,
)
from ckpt_cli.core.redact import redact
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
from ckpt_cli.core.usage import counts_of
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.timeline import (
    NO_KEYS,
    StepKeys,
    nodes_that_ran,
    skeletons_of,
    step_keys,
    timed_checkpoint,
)
from ckpt_cli.reading import redaction
from ckpt_cli.reading.thread import Moment, ThreadReader, resume_of

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation


@dataclass(frozen=True, slots=True)
class TreeKeys:
    """The keys of the checkpoints and writes of a thread, or of one namespace."""

    index: Mapping[Key, Checkpoint]
    """In each namespace, the newest comes first."""
    stored: Mapping[Key, StepKeys]
    tips: Collection[Key]
    seals: Mapping[Key, int]

    @property
    def is_settled(self) -> bool:
        """Whether all writes can be told apart by their keys."""
        return not any(self.stored.get(key, NO_KEYS).is_marked for key in self.tips)


def read_keys(reader: ThreadReader, checkpoint_ns: str | None) -> TreeKeys:
    """Return the keys of a thread, or of one namespace of it."""
    namespaces = reader.namespaces if checkpoint_ns is None else [reader.namespace(checkpoint_ns)]
    index = {(ns, one.key.checkpoint_id): one for ns in namespaces for one in reader.index(ns)}
    only = namespaces[0] if len(namespaces) == 1 else None
    stored = step_keys(reader.store.writes(reader.thread_id, checkpoint_ns=only))
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


def _seals(index: Mapping[Key, Checkpoint], stored: Mapping[Key, StepKeys]) -> dict[Key, int]:
    """Return a number for each checkpoint that differs if it or its parent has other writes."""

    def seal(ns: str, checkpoint_id: str | None) -> int:
        return stored.get((ns, checkpoint_id or ""), NO_KEYS).seal

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
            writes=keys.stored.get(one.key, NO_KEYS).writes,
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


def tree_steps(
    reader: ThreadReader, keys: TreeKeys, skeletons: Mapping[Key, Skeleton]
) -> dict[Key, TimedStep]:
    """Return the step that made each checkpoint."""
    by_ns: dict[str, list[TimedCheckpoint]] = {}
    for key, one in reversed(list(keys.index.items())):
        timed = timed_checkpoint(reader, one, skeletons[key], keys.stored)
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
        key, own = one.key, keys.stored.get(one.key, NO_KEYS)
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


class KnownTree:
    """What was read of one thread: only what may have changed since is read again.

    A checkpoint never changes, but writes are added to it. Its seal stands for the writes of it and
    of its parent; it is read again when its seal differs.
    """

    def __init__(self) -> None:
        self._found: dict[Key, tuple[int, StepDetails]] = {}
        self.mark: object = None
        """Stands for all that the last tree was made from."""
        self.tree: Tree | None = None
        """The last tree."""

    def details(
        self,
        keys: Sequence[Key],
        seals: Mapping[Key, int],
        passing: Collection[Key],
        read: Callable[[Sequence[Key]], Mapping[Key, StepDetails]],
    ) -> dict[Key, StepDetails]:
        """Return the details of checkpoints; `read` is called for those that are not known.

        Those in `passing` are read each time.
        """
        found: dict[Key, StepDetails] = {}
        missing: list[Key] = []
        for key in keys:
            seal, known = self._found.get(key, (None, None))
            # The log of operations may change, and what is damaged may be repaired.
            if (
                known is None
                or seal != seals[key]
                or key in passing
                or known.change
                or known.problem is not None
            ):
                missing.append(key)
            else:
                found[key] = known
        for key, one in (read(missing) if missing else {}).items():
            found[key] = one
            self._found[key] = seals[key], one
        return found

    def __contains__(self, key: Key) -> bool:
        """Return whether a checkpoint was read before."""
        return key in self._found


_SMALL, _LARGE = 1_000, 5_000
"""A thread with at most this many checkpoints is read whole, so that folded steps name their
nodes: on the screen, which reads the thread again whenever it changes, and where it is printed.
"""
_SHORT_OP = 8
"""Digits of an operation's id; commands take the beginning of an id."""


NO_TREE = TreeKeys({}, {}, (), {})


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
    conditions: Sequence[Status] = ()
    """The conditions of the thread, the worst first."""
    keys: TreeKeys = NO_TREE
    unread: frozenset[Key] = frozenset()
    """Plain steps that were not read: only the keys of writes tell what is known about them."""
    forked: frozenset[Key] = frozenset()
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
    """Reads the tree of a thread; what is in `known` is not read again."""

    def __init__(
        self,
        reader: ThreadReader,
        operations: ThreadOperations,
        say: Callable[[Value], str],
        known: KnownTree | None = None,
    ) -> None:
        """`say` formats a question on one line."""
        self._reader = reader
        self._operations = operations
        self._say = say
        self._known = KnownTree() if known is None else known

    def read(
        self, shape: TreeShape, keep: Key | None = None, seen: Collection[Key] | None = None
    ) -> Tree:
        """Return the tree; the checkpoint `keep` is never folded.

        With `seen`, plain steps are read only if they are in it, also if they are not folded, and
        the times of steps are told; the same tree is returned as before if nothing has changed.
        """
        known, keys = self._known, read_keys(self._reader, shape.ns)
        mark = self._mark(shape, keep, keys)
        is_stable = keys.is_settled or len(keys.index) > _SMALL
        if is_stable and seen is not None and known.tree is not None and known.mark == mark:
            return self.more(known.tree, seen, tips=not keys.is_settled)
        known.mark, known.tree = mark, self._whole(keys, shape, keep, seen)
        return known.tree

    def more(self, before: Tree, seen: Collection[Key], *, tips: bool = False) -> Tree:
        """Return a tree with the steps in `seen` read, without a look at what else has changed.

        With `tips`, what waits there is read again.
        """
        again = set(before.keys.tips) & before.details.keys() if tips else set()
        wanted = [*again.union(before.unread.intersection(seen))]
        found = self._details(before.keys, wanted, before.forked)
        is_same = all(before.details.get(key) == one for key, one in found.items())
        if is_same and before.unread.isdisjoint(found):
            return before
        after = before._replace(
            details={**before.details, **found},
            unread=before.unread.difference(found),
            conditions=_conditions(self._reader) if tips else before.conditions,
        )
        if self._known.tree is not None:
            self._known.tree = after
        return after

    def refold(self, before: Tree, shape: TreeShape, keep: Key) -> Tree:
        """Return a tree with folds that leave out another checkpoint, without a look at what has
        changed.
        """
        plan = plan_tree(_keeping(keep, before.skeletons), nest=shape.nest)
        missing = [key for key in plan.shown if key not in before.details]
        found = self._details(before.keys, missing, ())
        tree = before._replace(plan=plan, details={**before.details, **found})
        self._known.mark, self._known.tree = self._mark(shape, keep, before.keys), tree
        return tree

    def _mark(self, shape: TreeShape, keep: Key | None, keys: TreeKeys) -> object:
        """Return what stands for all that a tree is made from."""
        return self._reader.thread, shape, None if shape.unfold else keep, keys.seals

    def _whole(
        self, keys: TreeKeys, shape: TreeShape, keep: Key | None, seen: Collection[Key] | None
    ) -> Tree:
        """Return a tree that is laid out anew."""
        reader, index = self._reader, keys.index
        drawn = skeletons_of(reader, index, keys.stored)
        apart = forked(drawn.values())
        details: dict[Key, StepDetails] = {}
        if len(index) <= (_LARGE if seen is None else _SMALL):
            details = self._details(keys, list(index), apart)
            # Keys do not always show the source and the nodes that ran.
            for key, one in drawn.items():
                source, ran = details[key].source, details[key].ran
                drawn[key] = one._replace(source=source, ran=ran or one.ran)
        placed = _keeping(keep, list(drawn.values()))
        plan = plan_tree(placed, unfold=shape.unfold, nest=shape.nest)
        unread: frozenset[Key] = frozenset()
        if not details:
            if seen is not None and shape.unfold:
                plain = set(plan.shown).difference(plan_tree(placed, nest=True).shown, seen)
                unread = frozenset(key for key in plain if key not in self._known)
            details = self._details(keys, [key for key in plan.shown if key not in unread], apart)
            details |= details_from_keys((one for one in placed if one.key in unread), keys)
        refs = short_refs(sorted({checkpoint_id for _, checkpoint_id in index}))
        tree = Tree(reader.thread_id, plan, details, refs, _conditions(reader), keys, unread, apart)
        if seen is None:
            return tree
        steps = tree_steps(reader, keys, drawn)
        skeletons = list(drawn.values())
        scrubber = Scrubber(timed_points(plan, keys, skeletons, steps))
        return tree._replace(steps=steps, scrubber=scrubber, skeletons=skeletons)

    def _details(
        self, keys: TreeKeys, wanted: Sequence[Key], apart: Collection[Key]
    ) -> dict[Key, StepDetails]:
        def read(missing: Sequence[Key]) -> dict[Key, StepDetails]:
            # Most messages of a state are those of the state before.
            with remembering():
                return self._read(keys, missing, apart)

        found = self._known.details(wanted, keys.seals, keys.tips, read)
        if not self._reader.is_values_only:
            return found
        return {
            key: one._replace(ran=nodes_that_ran(keys.stored.get(key, NO_KEYS)) or ())
            for key, one in found.items()
        }

    def _read(
        self, keys: TreeKeys, shown: Sequence[Key], apart: Collection[Key]
    ) -> dict[Key, StepDetails]:
        """Return details of the checkpoints shown; reads their parents to find the nodes that ran.

        The parent of an input tells nothing about it, so most runs are told by their first
        checkpoint.
        """
        reader, say, index = self._reader, self._say, keys.index
        head = ("", reader.head(""))
        nodes: dict[Key, StepDetails] = {}
        facts: dict[Key, StepFacts] = {}
        is_redacted = redaction.is_redacted(reader.store)
        for key, moment in _moments(reader, shown):
            change = _change(moment, self._operations.adding(moment), is_redacted=is_redacted)
            nodes[key] = _node(redaction.moment(moment) if is_redacted else moment, say, change)
            if key == head and (moment.step.next or moment.writes):
                resumes = resume_of(reader, moment, inside=False).nodes
                nodes[key] = nodes[key]._replace(resumes=resumes)
            facts[key] = step_facts(moment)
        for key in set(shown) - nodes.keys():  # an id that is not text can only be listed
            nodes[key] = StepDetails(problem="its id is not text")
        parents = {
            key: (key[0], index[key].parent_checkpoint_id or "") for key in facts.keys() & nodes
        }
        if not reader.is_values_only:
            telling = {parent for key, parent in parents.items() if not given(facts[key])}
            for key, moment in _moments(reader, telling & index.keys() - facts.keys()):
                facts[key] = step_facts(moment)
        made: dict[Key, tuple[str, ...]] = {}
        for key, parent in parents.items():
            before = facts.get(parent)
            if before is not None and not reader.is_values_only and ran_here(nodes[key].source):
                made[key] = ran(before.step, before.seen, facts[key].seen)
        told, nothing = read_changes(reader, facts, parents, apart, say), ToldChanges((), 0)
        found = {}
        for key, node in nodes.items():
            what = told.get(key, nothing)
            found[key] = node._replace(
                ran=made.get(key, ()), changes=what.changes, tokens=what.tokens
            )
        return found


def _keeping(keep: Key | None, skeletons: Sequence[Skeleton]) -> Sequence[Skeleton]:
    """Return the skeletons with one that is not folded."""
    if keep is None:
        return skeletons
    return [one._replace(marked=True) if one.key == keep else one for one in skeletons]


def _conditions(reader: ThreadReader) -> Sequence[Status]:
    head = reader.head("")
    return (Status.EMPTY,) if head is None else reader.moment("", head).conditions


def _moments(reader: ThreadReader, keys: Iterable[Key]) -> Iterator[tuple[Key, Moment]]:
    by_ns: dict[str, set[str]] = {}
    for ns, checkpoint_id in keys:
        by_ns.setdefault(ns, set()).add(checkpoint_id)
    for ns, ids in sorted(by_ns.items()):
        for moment in reader.moments(ns, ids):
            yield (ns, moment.key.checkpoint_id), moment


def _node(moment: Moment, say: Callable[[Value], str], change: str) -> StepDetails:
    step, ns = moment.step, moment.key.checkpoint_ns
    runs = (*step.tasks, *step.others)
    questions = [question for run in runs for question in run.questions]
    failed = [run for run in runs if run.error is not None and not run.handled]
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
            for one in questions
            if one.is_open
        ),
        answered=sum(question.answered for question in questions),
        errors=tuple(
            f"{path_text(node_path(ns, failed_at(run)))}: {run.error}"
            + (f"  ({RETRIED})" if run.finished else "")
            for run in failed
        ),
        forked_from=forked_from if isinstance(forked_from, str) else None,
        change=change,
        problem=None if problem is None else problem.reason,
    )


def _change(moment: Moment, added_by: ListedOperation | None, *, is_redacted: bool) -> str:
    """Return which operation added a checkpoint and why; the metadata tells only the reason."""
    if added_by is None:
        reason = moment.metadata.get(REASON) if moment.metadata.get(BY) == NAME else None
        return f"reason: {reason}" if isinstance(reason, str) and not is_redacted else ""
    operation, undone_by = added_by.operation, added_by.undone_by
    text = f"{operation.action} {operation.op[:_SHORT_OP]}"
    text += f", undone by {undone_by[:_SHORT_OP]}" if undone_by else ""
    return f"{text}: {operation.reason}" if operation.reason else text
