"""Read the tree of a thread: the structure from keys and writes, details only for rows shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.model import Status
from ckpt_cli.core.forking.marks import BY, NAME, REASON
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.core.tasks.step_nodes import (
    RETRIED,
    asked_by,
    failed_at,
    node_path,
    path_text,
    ran,
    ran_here,
)
from ckpt_cli.core.timeline.scrubber import Scrubber
from ckpt_cli.core.timeline.steps import TimedStep
from ckpt_cli.core.tree.layout import plan_tree
from ckpt_cli.core.tree.rows import Key, Skeleton, StepDetails, TreeLayout
from ckpt_cli.queries.known_details import KnownDetails
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree_changes import StepFacts, ToldChanges, given, read_changes, step_facts
from ckpt_cli.queries.tree_keys import (
    TreeKeys,
    by_namespace,
    details_from_keys,
    forked,
    nodes_that_ran,
    read_keys,
    skeletons_of,
)
from ckpt_cli.queries.tree_times import timed_points, tree_steps
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.nested_nodes import resume_of
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation

_SMALL, _LARGE = 1_000, 5_000
"""A thread with at most this many checkpoints is read whole, so that folded steps name their
nodes: on the screen, which reads the thread again whenever it changes, and where it is printed.
"""
_SHORT_OP = 8
"""Digits of an operation's id; commands take the beginning of an id."""


class Tree(NamedTuple):
    """Everything that is needed to draw a thread."""

    keys: TreeKeys
    plan: TreeLayout
    details: Mapping[Key, StepDetails]
    refs: Mapping[str, str]
    """Maps a checkpoint id to its short ref."""
    conditions: Sequence[Status]
    """The conditions of the thread, the worst first."""
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


def read_tree(
    reader: ThreadReader,
    checkpoint_ns: str | None,
    say: Callable[[Value], str],
    operations: ThreadOperations,
    *,
    nest: bool,
    unfold: bool,
    keep: Key | None = None,
    known: KnownDetails[Tree] | None = None,
    seen: Collection[Key] | None = None,
) -> Tree:
    """Return the tree of a thread, or of one namespace; `say` formats a question on one line.

    The checkpoint `keep` is never folded. What is in `known` is not read again. With `seen`, plain
    steps are read only if they are in it, also if they are not folded, and the times of steps are
    told; the same tree is returned as before if nothing has changed.
    """
    keys = read_keys(reader, checkpoint_ns)
    known = KnownDetails() if known is None else known
    reading = _Reading(reader, keys, say, operations, known)
    mark = _mark(reader, checkpoint_ns, keys, keep, nest=nest, unfold=unfold)
    is_stable = keys.is_settled or len(keys.index) > _SMALL
    if is_stable and seen is not None and (before := known.same(mark)) is not None:
        return reading.more(before, seen, tips=not keys.is_settled)
    tree = reading.whole(keep, seen, nest=nest, unfold=unfold)
    known.keep(mark, tree)
    return tree


def read_more(
    reader: ThreadReader,
    before: Tree,
    say: Callable[[Value], str],
    operations: ThreadOperations,
    known: KnownDetails[Tree],
    seen: Collection[Key],
) -> Tree:
    """Return a tree with the steps in `seen` read, without a look at what else has changed."""
    return _Reading(reader, before.keys, say, operations, known).more(before, seen)


def refold_tree(
    reader: ThreadReader,
    before: Tree,
    checkpoint_ns: str | None,
    say: Callable[[Value], str],
    operations: ThreadOperations,
    known: KnownDetails[Tree],
    *,
    nest: bool,
    keep: Key,
) -> Tree:
    """Return a tree with folds that leave out another checkpoint, without a look at what has
    changed.
    """
    plan = plan_tree(_keeping(keep, before.skeletons), nest=nest)
    reading = _Reading(reader, before.keys, say, operations, known)
    tree = reading.laid_out(before, plan)
    known.keep(_mark(reader, checkpoint_ns, before.keys, keep, nest=nest, unfold=False), tree)
    return tree


def _mark(
    reader: ThreadReader,
    checkpoint_ns: str | None,
    keys: TreeKeys,
    keep: Key | None,
    *,
    nest: bool,
    unfold: bool,
) -> object:
    """Return what stands for all that a tree is made from."""
    return reader.thread, checkpoint_ns, nest, unfold, None if unfold else keep, keys.seals


def _keeping(keep: Key | None, skeletons: Sequence[Skeleton]) -> Sequence[Skeleton]:
    """Return the skeletons with one that is not folded."""
    if keep is None:
        return skeletons
    return [one._replace(marked=True) if one.key == keep else one for one in skeletons]


class _Reading:
    """One look at a thread whose keys were read."""

    def __init__(
        self,
        reader: ThreadReader,
        keys: TreeKeys,
        say: Callable[[Value], str],
        operations: ThreadOperations,
        known: KnownDetails[Tree],
    ) -> None:
        self._reader = reader
        self._keys = keys
        self._say = say
        self._operations = operations
        self._known = known
        self._forked: Collection[Key] = ()

    def more(self, before: Tree, seen: Collection[Key], *, tips: bool = False) -> Tree:
        """Return a tree with more steps read; with `tips`, what waits there is read again."""
        self._forked = before.forked
        again = set(self._keys.tips) & before.details.keys() if tips else set()
        found = self._details([*again.union(before.unread.intersection(seen))])
        is_same = all(before.details.get(key) == one for key, one in found.items())
        if is_same and before.unread.isdisjoint(found):
            return before
        after = before._replace(
            details={**before.details, **found},
            unread=before.unread.difference(found),
            conditions=_conditions(self._reader) if tips else before.conditions,
        )
        self._known.keep_more(after)
        return after

    def laid_out(self, before: Tree, plan: TreeLayout) -> Tree:
        """Return the same tree in another layout."""
        found = self._details([key for key in plan.shown if key not in before.details])
        return before._replace(plan=plan, details={**before.details, **found})

    def whole(
        self, keep: Key | None, seen: Collection[Key] | None, *, nest: bool, unfold: bool
    ) -> Tree:
        """Return a tree that is laid out anew."""
        reader, keys, index = self._reader, self._keys, self._keys.index
        skeletons = skeletons_of(reader, keys)
        self._forked = apart = forked(skeletons)
        details: dict[Key, StepDetails] = {}
        if len(index) <= (_LARGE if seen is None else _SMALL):
            details = self._details(list(index))
            skeletons = [_completed(one, details[one.key]) for one in skeletons]
        placed = _keeping(keep, skeletons)
        plan = plan_tree(placed, unfold=unfold, nest=nest)
        unread: frozenset[Key] = frozenset()
        if not details:
            if seen is not None and unfold:
                plain = set(plan.shown).difference(plan_tree(placed, nest=True).shown, seen)
                unread = frozenset(key for key in plain if not self._known.has(key))
            details = self._details([key for key in plan.shown if key not in unread])
            details |= details_from_keys((one for one in placed if one.key in unread), keys)
        refs = short_refs(sorted({checkpoint_id for _, checkpoint_id in index}))
        tree = Tree(keys, plan, details, refs, _conditions(reader), unread, apart)
        if seen is None:
            return tree
        steps = tree_steps(keys, skeletons, is_values_only=reader.is_values_only)
        points = timed_points(plan, keys, skeletons, steps)
        scrubber = Scrubber(points)
        return tree._replace(steps=steps, scrubber=scrubber, skeletons=skeletons)

    def _read(self, wanted: Sequence[Key]) -> dict[Key, StepDetails]:
        # Most messages of a state are those of the state before.
        with remembering():
            return _details(
                self._reader, self._keys, wanted, self._forked, self._say, self._operations
            )

    def _details(self, wanted: Sequence[Key]) -> dict[Key, StepDetails]:
        keys = self._keys
        found = self._known.details(
            wanted,
            keys.seals,
            keys.tips,
            self._read,
        )
        if not self._reader.is_values_only:
            return found
        return {
            key: one._replace(ran=nodes_that_ran(keys.stored.get(key)) or ())
            for key, one in found.items()
        }


def _completed(skeleton: Skeleton, details: StepDetails) -> Skeleton:
    """Add what keys do not always show: the source and the nodes that ran."""
    return skeleton._replace(source=details.source, ran=details.ran or skeleton.ran)


def _conditions(reader: ThreadReader) -> Sequence[Status]:
    head = reader.head("")
    return (Status.EMPTY,) if head is None else reader.moment("", head).conditions


def _details(
    reader: ThreadReader,
    keys: TreeKeys,
    shown: Sequence[Key],
    forked: Collection[Key],
    say: Callable[[Value], str],
    operations: ThreadOperations,
) -> dict[Key, StepDetails]:
    """Return details of the checkpoints shown; reads their parents to find the nodes that ran.

    The parent of an input tells nothing about it, so most runs are told by their first checkpoint.
    """
    index, head = keys.index, ("", reader.head(""))
    nodes: dict[Key, StepDetails] = {}
    facts: dict[Key, StepFacts] = {}
    is_redacted = redaction.is_redacted(reader.store)
    for key, moment in _moments(reader, shown):
        change = _change(moment, operations.adding(moment), is_redacted=is_redacted)
        nodes[key] = _node(redaction.moment(moment) if is_redacted else moment, say, change)
        if key == head and (moment.step.next or moment.writes):
            resumes = resume_of(reader, moment, inside=False).nodes
            nodes[key] = nodes[key]._replace(resumes=resumes)
        facts[key] = step_facts(moment)
    for key in set(shown) - nodes.keys():  # an id that is not text can only be listed
        nodes[key] = StepDetails(problem="its id is not text")
    parents = {key: (key[0], index[key].parent_checkpoint_id or "") for key in facts.keys() & nodes}
    if not reader.is_values_only:
        telling = {parent for key, parent in parents.items() if not given(facts[key])}
        for key, moment in _moments(reader, telling & index.keys() - facts.keys()):
            facts[key] = step_facts(moment)
    made: dict[Key, tuple[str, ...]] = {}
    for key, parent in parents.items():
        before = facts.get(parent)
        if before is not None and not reader.is_values_only and ran_here(nodes[key].source):
            made[key] = ran(before.step, before.seen, facts[key].seen)
    told, nothing = read_changes(reader, facts, parents, forked, say), ToldChanges((), 0)
    found = {}
    for key, node in nodes.items():
        what = told.get(key, nothing)
        found[key] = node._replace(ran=made.get(key, ()), changes=what.changes, tokens=what.tokens)
    return found


def _moments(reader: ThreadReader, keys: Iterable[Key]) -> Iterator[tuple[Key, Moment]]:
    for ns, ids in by_namespace(keys).items():
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
