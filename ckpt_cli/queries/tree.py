"""Reads the tree of a thread: keys first, then details of what is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ckpt_backends.checkpoint_ids import step_of, time_of
from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core.channels import given_input, is_state, state_values
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
    ERROR,
    INTERRUPT,
    NAME,
    REASON,
    Version,
    read_metadata,
    source_from,
    step_from,
)
from ckpt_cli.core.tasks.attribution import ERROR_SOURCE
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, pulled_node
from ckpt_cli.core.tasks.task_ids import is_call as is_function_call
from ckpt_cli.core.tasks.tasks import (
    RETRIED,
    Step,
    asked_by,
    failed_at,
    node_path,
    path_text,
    ran,
    ran_here,
)
from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.core.timeline import (
    Scrubber,
    TimedCheckpoint,
    TimedPoint,
    TimedStep,
    point_sign,
    timed_steps,
)
from ckpt_cli.core.tree import Key, Skeleton, StepDetails, StepRow, TreeLayout, plan_tree, undecided
from ckpt_cli.core.usage import counts_of
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.reading import redaction
from ckpt_cli.reading.thread import Moment, ThreadReader, resume_of

if TYPE_CHECKING:
    from ckpt_cli.queries.operations import ListedOperation


_MARKS = frozenset({INTERRUPT, ERROR, ERROR_SOURCE})
_NONE: Mapping[str, str | None] = {}


@dataclass(slots=True)
class StoredKeys:
    """The tasks of a checkpoint, from the keys of its writes."""

    tasks: dict[str, str | None] = field(default_factory=dict)
    """Maps a task id to its node; None if the path does not name it."""
    asking: Mapping[str, str | None] = field(default_factory=lambda: _NONE)
    """Those of them that asked a question."""
    failed: frozenset[str] = frozenset()
    """Those that failed."""
    handled: frozenset[str] = frozenset()
    """Those that were given to an error handler."""
    marked: bool = False
    writes: int = 0
    seal: int = 0
    """Differs if other writes are stored."""

    def mark(self, task_id: str, path: str, channel: str) -> None:
        """Add that a task asked, failed, or that it was given to an error handler."""
        if channel == INTERRUPT:
            self.asking = {**self.asking, task_id: self.tasks[task_id]}
        elif channel == ERROR and not is_function_call(path):
            self.failed |= {task_id}
        elif channel == ERROR_SOURCE:
            self.handled |= {task_id}
        self.marked = self.marked or channel != ERROR_SOURCE


@dataclass(frozen=True, slots=True)
class TreeKeys:
    """The keys of the checkpoints and writes of a thread, or of one namespace."""

    index: Mapping[Key, Checkpoint]
    """In each namespace, the newest comes first."""
    stored: Mapping[Key, StoredKeys]
    tips: Collection[Key]
    seals: Mapping[Key, int]

    @property
    def is_settled(self) -> bool:
        """Whether all writes can be told apart by their keys."""
        return not any(key in self.stored and self.stored[key].marked for key in self.tips)


def read_keys(reader: ThreadReader, checkpoint_ns: str | None) -> TreeKeys:
    """Return the keys of a thread, or of one namespace of it."""
    namespaces = reader.namespaces if checkpoint_ns is None else [reader.namespace(checkpoint_ns)]
    index = {(ns, one.key.checkpoint_id): one for ns in namespaces for one in reader.index(ns)}
    stored = _stored(reader, index)
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


def _seals(index: Mapping[Key, Checkpoint], stored: Mapping[Key, StoredKeys]) -> dict[Key, int]:
    """Return a number for each checkpoint that differs if it or its parent has other writes."""
    none = StoredKeys()
    return {
        key: hash(
            (
                stored.get(key, none).seal,
                stored.get((key[0], one.parent_checkpoint_id or ""), none).seal,
            )
        )
        for key, one in index.items()
    }


def details_from_keys(skeletons: Iterable[Skeleton], keys: TreeKeys) -> dict[Key, StepDetails]:
    """Return what keys tell about plain steps, without those whose nodes they do not name."""
    none = StoredKeys()
    return {
        one.key: StepDetails(
            at=time_of(one.checkpoint_id),
            step=one.step,
            source="loop" if one.source is None else one.source,
            ran=one.ran,
            writes=keys.stored.get(one.key, none).writes,
        )
        for one in skeletons
        if one.ran is not None
    }


def skeletons_of(reader: ThreadReader, keys: TreeKeys) -> list[Skeleton]:
    """Return the facts that decide the place of each checkpoint.

    Metadata is read only of those whose keys do not tell enough.
    """
    index, stored = keys.index, keys.stored
    places = {key: -number for number, key in enumerate(index)} if reader.is_values_only else {}
    found = {
        key: Skeleton(
            key[0],
            key[1],
            one.parent_checkpoint_id,
            step=step_of(key[1]),
            ran=nodes_that_ran(
                stored.get(
                    key if reader.is_values_only else (key[0], one.parent_checkpoint_id or "")
                )
            ),
            tasks=tuple(stored[key].tasks) if key in stored else (),
            marked=key in stored and stored[key].marked,
            place=places.get(key, 0),
        )
        for key, one in index.items()
    }
    for key, metadata in _metadata(reader, undecided(found.values())).items():
        parents = metadata.get("parents")
        forked_from = metadata.get("forked_from")
        found[key] = found[key]._replace(
            step=step_from(metadata),
            source=source_from(metadata),
            forked_from=forked_from if isinstance(forked_from, str) else None,
            parents={
                ns: parent
                for ns, parent in (parents if isinstance(parents, dict) else {}).items()
                if isinstance(ns, str) and isinstance(parent, str)
            },
        )
    return list(found.values())


def _stored(reader: ThreadReader, index: Mapping[Key, Checkpoint]) -> dict[Key, StoredKeys]:
    """Return the tasks and marks of each checkpoint, from the keys of its writes."""
    namespaces = {ns for ns, _ in index}
    only = next(iter(namespaces)) if len(namespaces) == 1 else None
    found: dict[Key, StoredKeys] = {}
    place, here = None, StoredKeys()
    for write in reader.store.writes(reader.thread_id, checkpoint_ns=only):
        if write.key is not place:  # Most writes of a checkpoint come one after the other.
            place, key = write.key, (write.key.checkpoint_ns, write.key.checkpoint_id)
            here = found.setdefault(key, StoredKeys())
        _, task_id, path, idx, channel, size, *_ = write
        here.writes += 1
        here.seal = hash((here.seal, task_id, idx, channel, size))
        if task_id == NULL_TASK_ID:
            continue
        if task_id not in here.tasks:
            here.tasks[task_id] = write.node or pulled_node(path)
        if channel in _MARKS:
            here.mark(task_id, path, channel)
        if path.startswith(UPDATE_PATH):
            here.marked = True
    return found


def nodes_that_ran(parent: StoredKeys | None) -> tuple[str, ...] | None:
    """Return the nodes of tasks that stored writes on the parent; None unless all are known."""
    if parent is None or not parent.tasks:
        return None
    nodes = tuple(node for node in parent.tasks.values() if node is not None)
    return nodes if len(nodes) == len(parent.tasks) else None


def _metadata(reader: ThreadReader, keys: Iterable[Key]) -> dict[Key, dict[str, Value]]:
    return {
        (ns, one.key.checkpoint_id): read_metadata(one)
        for ns, ids in by_namespace(keys).items()
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, metadata=True
        )
    }


def by_namespace(keys: Iterable[Key]) -> dict[str, Collection[str]]:
    """Return the ids of checkpoints by their namespace, sorted."""
    grouped: dict[str, set[str]] = {}
    for ns, checkpoint_id in keys:
        grouped.setdefault(ns, set()).add(checkpoint_id)
    return dict(sorted(grouped.items()))


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
    keys: TreeKeys, skeletons: Iterable[Skeleton], *, is_values_only: bool
) -> dict[Key, TimedStep]:
    """Return the step that made each checkpoint."""
    none = StoredKeys()
    drawn = {one.key: one for one in skeletons}
    by_ns: dict[str, list[TimedCheckpoint]] = {}
    for (ns, checkpoint_id), one in reversed(list(keys.index.items())):
        own = none if is_values_only else keys.stored.get((ns, checkpoint_id), none)
        facts = drawn.get((ns, checkpoint_id))
        by_ns.setdefault(ns, []).append(
            TimedCheckpoint(
                checkpoint_ns=ns,
                checkpoint_id=checkpoint_id,
                parent_checkpoint_id=one.parent_checkpoint_id,
                at=one.at or time_of(checkpoint_id),
                source=None if facts is None else facts.source,
                asking=own.asking,
                failed=_failed(own, is_tip=(ns, checkpoint_id) in keys.tips),
                by_hand=facts is not None
                and (facts.source == "update" or facts.forked_from is not None),
            )
        )
    return {
        (ns, checkpoint_id): step
        for ns, checkpoints in by_ns.items()
        for checkpoint_id, step in timed_steps(checkpoints).items()
    }


def _failed(own: StoredKeys, *, is_tip: bool) -> dict[str, str | None]:
    """Return the tasks that failed and that, if a checkpoint followed, no error handler took."""
    return dict.fromkeys(own.failed if is_tip else own.failed - own.handled)


def timed_points(
    plan: TreeLayout, keys: TreeKeys, skeletons: Iterable[Skeleton], steps: Mapping[Key, TimedStep]
) -> tuple[TimedPoint, ...]:
    """Return the checkpoints of the first tree with what happened at each, oldest first."""
    none = StoredKeys()
    branches = (row for row in plan.rows if isinstance(row, StepRow) and row.branch)
    forks = {(row.ns, row.parent) for row in branches}
    found = []
    for one in skeletons:
        if one.checkpoint_ns != plan.ns:
            continue
        key, own = one.key, keys.stored.get(one.key, none)
        sign = point_sign(
            source=one.source,
            is_failed=bool(_failed(own, is_tip=key in keys.tips)),
            is_asked=bool(own.asking),
            is_tip=key in keys.tips,
            is_forked=key in forks,
        )
        found.append((one.order, TimedPoint(key, steps[key].ended_at, steps[key].kind, sign)))
    return tuple(point for _, point in sorted(found, key=lambda pair: pair[0]))


_Read = TypeVar("_Read")


class KnownDetails(Generic[_Read]):
    """Remembers what was read of one thread, and reads only what may have changed since.

    A checkpoint never changes, but writes are added to it. Its seal stands for the writes of it and
    of its parent; it is read again when its seal differs.
    """

    def __init__(self) -> None:
        self._found: dict[Key, tuple[int, StepDetails]] = {}
        self._last: tuple[object, _Read] | None = None

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

    def has(self, key: Key) -> bool:
        """Return whether a checkpoint was read before."""
        return key in self._found

    def same(self, mark: object) -> _Read | None:
        """Return the last answer if it had the same mark; None otherwise."""
        if self._last is None or self._last[0] != mark:
            return None
        return self._last[1]

    def keep(self, mark: object, answer: _Read) -> None:
        """Keep the last answer; `mark` stands for all that it was made from."""
        self._last = mark, answer

    def keep_more(self, answer: _Read) -> None:
        """Keep the last answer after more of it was read."""
        if self._last is not None:
            self._last = self._last[0], answer


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
        found = self._known.details(wanted, keys.seals, keys.tips, self._read)
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
