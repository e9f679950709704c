"""The tree of a thread: branches, and the calls of subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from ckpt_cli.core.diff import ShortChange
from ckpt_cli.core.lineage import DEEPEST, Parentage, depth_of, innermost, is_subgraph_call, levels

Key = tuple[str, str]
"""Namespace and id of a checkpoint."""
Trouble = Literal["parent gone", "loop"]
"""Why a row without a drawn parent is not the first checkpoint of the thread."""


class Skeleton(NamedTuple):
    """The facts about a checkpoint that decide its place. Empty defaults mean *not read*."""

    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None = None
    source: str | None = None
    """None is drawn as `loop`; `undecided` lists the checkpoints for which that may be wrong."""
    ran: tuple[str, ...] | None = None
    """Nodes that ran to make it; they are counted if it is folded."""
    tasks: tuple[str, ...] = ()
    """Known ids of the tasks of its next step; calls `node:task` are drawn below it."""
    marked: bool = False
    """It has a question, an answer, an error or something else that must not be folded."""
    forked_from: str | None = None
    by_hand: bool = False
    """`update_state` or a command of `ckpt` made it."""
    place: int = 0
    """Its position in its namespace, if ids do not tell the order."""
    parents: Mapping[str, str] = {}
    """`metadata.parents`: the calling checkpoint in each outer namespace."""

    @property
    def key(self) -> Key:
        return self.checkpoint_ns, self.checkpoint_id

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: oldest first."""
        return self.place, self.checkpoint_id


class StepDetails(NamedTuple):
    """The details of one checkpoint, read only for those in `Plan.shown`."""

    at: datetime | None = None
    step: int | None = None
    source: str | None = None
    ran: tuple[str, ...] = ()
    """Nodes that ran to make it, one entry per task."""
    writes: int = 0
    """Number of writes stored on it."""
    next: tuple[str, ...] | None = None
    """None if not known."""
    resumes: tuple[str, ...] | None = None
    """What a resume runs first; None if it is not the root's head, or if that is not known."""
    questions: tuple[str, ...] = ()
    """Open questions, one line each."""
    answered: int = 0
    errors: tuple[str, ...] = ()
    forked_from: str | None = None
    change: str = ""
    """The operation of `ckpt` that added it, with its reason."""
    problem: str | None = None
    changes: tuple[ShortChange, ...] = ()
    """What its step changed in the state, as far as known."""
    tokens: int = 0
    """Tokens that the messages of its step tell."""


class StepRow(NamedTuple):
    """One checkpoint."""

    ns: str
    id: str
    step: int | None
    lanes: str
    """`|` or blank for each column to the left of the row's own; only the innermost are kept."""
    depth: int
    """Number of lanes, including those that are not kept."""
    branch: bool = False
    """It starts a side branch at the fork in its last lane."""
    first: bool = False
    """It has no drawn parent."""
    last: bool = False
    """It is a tip: nothing follows in its column."""
    head: bool = False
    trouble: Trouble | None = None
    parent: str | None = None
    """The checkpoint that it is drawn below, or its missing parent."""

    @property
    def key(self) -> Key:
        return self.ns, self.id


class FoldRow(NamedTuple):
    """A run of plain steps of one branch, oldest first."""

    ns: str
    ids: tuple[str, ...]
    parent: str
    lanes: str
    depth: int
    ran: tuple[tuple[str, int], ...]
    """Nodes with the number of their runs, as far as known."""
    all_known: bool


class CallRow(NamedTuple):
    """A subgraph call, or several similar ones, below the step that made it."""

    caller: Key
    namespaces: tuple[str, ...]
    keys: tuple[Key, ...]
    """All their checkpoints, including those of calls that they made themselves."""
    heads: tuple[Key, ...]
    """The newest checkpoint of each call."""
    first: str
    last: str
    """Smallest and greatest id in `keys`."""
    branches: int
    nested: bool
    """The tree of the call follows, two columns further to the right."""
    lanes: str
    depth: int


class SectionRow(NamedTuple):
    """Start of the tree of another namespace."""

    ns: str
    checkpoints: int
    call: bool
    """True for a subgraph call with a step that is not stored; False for a stateful namespace."""


Row = StepRow | FoldRow | CallRow | SectionRow


class TreeLayout(NamedTuple):
    """Everything that is drawn, in order."""

    rows: tuple[Row, ...]
    shown: tuple[Key, ...]
    """The checkpoints that need details."""
    checkpoints: int
    branches: int
    """Number of tips in the first tree."""
    calls: int
    folded: int
    """Number of folded steps."""
    ns: str = ""
    """The namespace of the first tree: the root, or the only namespace of the thread."""


def undecided(skeletons: Iterable[Skeleton]) -> list[Key]:
    """Return the checkpoints with a `source` or `forked_from` that may change the structure.

    These are first checkpoints, and those after a fork, after a question or an error, after a step
    that stored nothing, and with a step number that does not follow their parent's. At all others a
    run simply continued. An `update` elsewhere is found only if the caller fills `source` or
    `marked`.
    """
    items = {item.key: item for item in skeletons}
    children = Counter((item.checkpoint_ns, item.parent_checkpoint_id) for item in items.values())
    found = []
    for key, item in items.items():
        parent = items.get((item.checkpoint_ns, item.parent_checkpoint_id or ""))
        if item.source is not None:
            continue
        if (
            parent is None
            or parent.marked
            or not parent.tasks
            or children[parent.key] > 1
            or (item.step is not None and parent.step is not None and item.step != parent.step + 1)
        ):
            found.append(key)
    return found


def by_namespace(skeletons: Iterable[Skeleton]) -> dict[str, dict[str, Skeleton]]:
    """Return the checkpoints by namespace and id; the namespaces are sorted."""
    found: dict[str, dict[str, Skeleton]] = {}
    for one in skeletons:
        found.setdefault(one.checkpoint_ns, {})[one.checkpoint_id] = one
    return dict(sorted(found.items()))


class Branches:
    """The trees of one namespace. In `trunk`, each checkpoint has the child in its column."""

    def __init__(self, items: dict[str, Skeleton], head: str | None) -> None:
        self.items = dict(sorted(items.items(), key=lambda item: item[1].order))
        newest = list(reversed(self.items))
        self.head = head if head in items else newest[0]
        # The head comes first, because its branch is drawn straight.
        self.parent = {key: _drawn_parent(items[key], items) for key in (self.head, *newest)}
        self.loops = self._cut_loops()
        self.drawn = Parentage(self.parent)
        self.trunk = self.drawn.trunk
        *_, first = self.head, *self.drawn.ancestors(self.head)
        roots = [key for key in self.items if self.parent[key] is None and key != first]
        self.roots = [*roots, first]

    def _cut_loops(self) -> set[str]:
        """Cut every loop of parents below its newest checkpoint; return the orphans."""
        cut = set()
        for loop in Parentage(self.parent).loops():
            newest = max(loop, key=lambda key: self.items[key].order)
            orphan = loop[loop.index(newest) - 1]
            self.parent[orphan] = None
            cut.add(orphan)
        return cut

    def trouble(self, key: str) -> Trouble | None:
        if key in self.loops:
            return "loop"
        gone = self.parent[key] is None and self.items[key].parent_checkpoint_id
        return "parent gone" if gone else None


def _drawn_parent(item: Skeleton, items: Mapping[str, Skeleton]) -> str | None:
    """Return the parent, or the target of a fork that was written as a sibling of its target."""
    target = items.get(item.forked_from) if item.forked_from else None
    if (
        target is not None
        and target.order < item.order
        and target.parent_checkpoint_id == item.parent_checkpoint_id
    ):
        return target.checkpoint_id
    parent = item.parent_checkpoint_id
    return parent if parent in items else None


class SubgraphCalls:
    """The namespaces of a thread, each below the checkpoint that called it.

    `called` has the namespaces called from each checkpoint, by time; `sections` all others.
    """

    def __init__(self, items: Mapping[str, Mapping[str, Skeleton]]) -> None:
        """`items` are as `by_namespace` returns them."""
        self._items = items
        self.called, self.sections = self._find()

    def _find(self) -> tuple[dict[Key, list[str]], list[str]]:
        by_task = {
            (ns, task): (ns, item.checkpoint_id)
            for ns, items in self._items.items()
            for item in items.values()
            for task in item.tasks
        }
        calls: dict[Key, list[str]] = {}
        sections = []
        for ns in self._items:
            caller = self._caller(ns, by_task) if is_subgraph_call(ns) else None
            if caller is not None:
                calls.setdefault(caller, []).append(ns)
            elif ns:
                sections.append(ns)
        for made in calls.values():
            made.sort(key=lambda ns: min(self._items[ns]))
        # Stateful namespaces are part of the thread's state; calls without a caller come after
        # them.
        return calls, sorted(sections, key=lambda ns: (is_subgraph_call(ns), ns))

    def _caller(self, ns: str, by_task: Mapping[Key, Key]) -> Key | None:
        if depth_of(ns) > DEEPEST:
            return None
        above = levels(ns)[::-1]
        for one in above:
            caller = by_task.get((one.outer, one.task_id or ""))
            if caller is not None:
                return caller
        first = self._items[ns][min(self._items[ns])]
        for one in above:
            if first.parents.get(one.outer) in self._items.get(one.outer, {}):
                return one.outer, first.parents[one.outer]
        return None

    def checkpoints(self, namespaces: Iterable[str]) -> list[Key]:
        """Return all checkpoints of some namespaces and of the calls that they made."""
        pending = list(namespaces)
        keys: list[Key] = []
        for ns in pending:
            for checkpoint_id in self._items[ns]:
                keys.append((ns, checkpoint_id))
                pending.extend(self.called.get((ns, checkpoint_id), ()))
        return keys


# Lay out a thread as rows: branches, folded steps, subgraph calls.
#
# `plan_tree` works on `Skeleton`s, which can be filled from a store's key index;
# `TreeLayout.shown` then names the few checkpoints that need `StepDetails`. The oldest row comes
# first. The branch that leads to the head is drawn straight, the others below their fork.


SHORTEST_RUN = 3
"""Minimum number of plain steps that are folded into one row."""
FEWEST_ALIKE = 4
"""Minimum number of calls of one node in one step that are drawn as one row."""
LANES = 12
"""Maximum number of lanes of a row; the innermost are kept. More never fit on a screen."""


def plan_tree(
    skeletons: Iterable[Skeleton],
    heads: Mapping[str, str] = {},
    *,
    unfold: bool = False,
    nest: bool | None = None,
) -> TreeLayout:
    """Arrange the checkpoints of one thread in rows.

    `heads` gives the head of a namespace if it is not its greatest id. `unfold` shows every
    step; `nest` draws the trees of subgraph calls too, and is as `unfold` if it is not given.
    """
    return _Planner(skeletons, heads, unfold, unfold if nest is None else nest).plan()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a checkpoint is drawn."""

    ns: str
    id: str
    lanes: str
    depth: int
    branch: bool = False


class _Call(NamedTuple):
    """A call, or several similar ones, to draw below a step."""

    caller: Key
    namespaces: tuple[str, ...]
    lanes: str
    depth: int


class _Planner:
    def __init__(
        self, skeletons: Iterable[Skeleton], heads: Mapping[str, str], unfold: bool, nest: bool
    ) -> None:
        self.unfold = unfold
        self.nest = nest
        by_ns = by_namespace(skeletons)
        self.branches = {ns: Branches(items, heads.get(ns)) for ns, items in by_ns.items()}
        self.calls = SubgraphCalls(by_ns)
        self.rows: list[Row] = []
        self.shown: list[Key] = []
        self.folded = 0
        self.run: list[_Place] = []

    def plan(self) -> TreeLayout:
        top = "" if "" in self.branches or len(self.calls.sections) != 1 else self.calls.sections[0]
        if top in self.branches:
            self._draw(top, "", 0)
        for ns in self.calls.sections:
            if ns != top:
                self.rows.append(SectionRow(ns, len(self.branches[ns].items), is_subgraph_call(ns)))
                self._draw(ns, "", 0)
        return TreeLayout(
            rows=tuple(self.rows),
            shown=tuple(self.shown),
            checkpoints=sum(len(branches.items) for branches in self.branches.values()),
            branches=len(self.branches[top].drawn.tips) if top in self.branches else 0,
            calls=sum(is_subgraph_call(ns) for ns in self.branches if ns != top),
            folded=self.folded,
            ns=top,
        )

    def _draw(self, ns: str, lanes: str, depth: int) -> None:
        """Draw the trees of a namespace. Not recursive: threads are deeper than Python's stack."""
        work: list[_Place | _Call] = [*reversed(self._roots(ns, lanes, depth))]
        while work:
            item = work.pop()
            if isinstance(item, _Place) and self._is_plain(item):
                self.run.append(item)
            else:
                self._flush()
                self._emit(item)
            work.extend(reversed([*self._below(item)]))

    def _roots(self, ns: str, lanes: str, depth: int) -> list[_Place]:
        return [_Place(ns, root, lanes, depth) for root in self.branches[ns].roots]

    def _below(self, item: _Place | _Call) -> Iterator[_Place | _Call]:
        if isinstance(item, _Call):
            if self.nest:
                inner = _add_lane(item.lanes, " ")
                yield from self._roots(item.namespaces[0], inner, item.depth + 1)
            return
        branches = self.branches[item.ns]
        on = branches.trunk.get(item.id)
        side = _add_lane(item.lanes, " " if on is None else "|")
        caller = item.ns, item.id
        if caller in self.calls.called:
            for namespaces in self._grouped(self.calls.called[caller]):
                yield _Call(caller, namespaces, side, item.depth + 1)
        for child in branches.drawn.children(item.id):
            if child != on:
                yield _Place(item.ns, child, side, item.depth + 1, branch=True)
        if on is not None:
            yield _Place(item.ns, on, item.lanes, item.depth)

    def _grouped(self, calls: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield one group per call; many unmarked calls of one node form one group."""
        alike: dict[str, list[str]] = {}
        for ns in calls:
            alike.setdefault(innermost(ns).node, []).append(ns)
        for group in alike.values():
            quiet = not self.nest and len(group) >= FEWEST_ALIKE
            if quiet and not any(
                self.branches[ns].items[i].marked for ns, i in self.calls.checkpoints(group)
            ):
                yield tuple(group)
            else:
                yield from ((ns,) for ns in group)

    def _is_plain(self, place: _Place) -> bool:
        if self.unfold or place.branch:
            return False
        branches = self.branches[place.ns]
        item = branches.items[place.id]
        parent = branches.parent[place.id]
        return (
            parent is not None
            and len(branches.drawn.children(parent)) == 1
            and len(branches.drawn.children(place.id)) == 1
            and place.id != branches.head
            and item.source in {None, "loop"}
            and not item.marked
            and (place.ns, place.id) not in self.calls.called
        )

    def _flush(self) -> None:
        run, self.run = self.run, []
        if len(run) < SHORTEST_RUN:
            for place in run:
                self._emit(place)
            return
        items = [self.branches[place.ns].items[place.id] for place in run]
        ran = Counter(node for item in items for node in item.ran or ())
        self.rows.append(
            FoldRow(
                ns=run[0].ns,
                ids=tuple(place.id for place in run),
                parent=self.branches[run[0].ns].parent[run[0].id] or "",
                lanes=run[0].lanes,
                depth=run[0].depth,
                ran=tuple(ran.items()),
                all_known=all(item.ran is not None for item in items),
            )
        )
        self.folded += len(run)

    def _emit(self, item: _Place | _Call) -> None:
        if isinstance(item, _Call):
            self._emit_call(item)
            return
        branches = self.branches[item.ns]
        skeleton = branches.items[item.id]
        row = StepRow(
            ns=item.ns,
            id=item.id,
            step=skeleton.step,
            lanes=item.lanes,
            depth=item.depth,
            branch=item.branch,
            first=branches.parent[item.id] is None,
            last=item.id not in branches.trunk,
            head=item.id == branches.head,
            trouble=branches.trouble(item.id),
            parent=branches.parent[item.id] or skeleton.parent_checkpoint_id,
        )
        self.rows.append(row)
        self.shown.append(row.key)

    def _emit_call(self, call: _Call) -> None:
        keys = self.calls.checkpoints(call.namespaces)
        heads = tuple((ns, self.branches[ns].head) for ns in call.namespaces)
        row = CallRow(
            caller=call.caller,
            namespaces=call.namespaces,
            keys=tuple(keys),
            heads=heads,
            first=min(checkpoint_id for _, checkpoint_id in keys),
            last=max(checkpoint_id for _, checkpoint_id in keys),
            branches=max(len(self.branches[ns].drawn.tips) for ns in call.namespaces),
            nested=self.nest,
            lanes=call.lanes,
            depth=call.depth,
        )
        self.rows.append(row)
        if not self.nest:
            self.shown.extend(heads)


def _add_lane(lanes: str, lane: str) -> str:
    return (lanes + lane)[-LANES:]
