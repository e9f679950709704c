"""The tree of a thread: branches, and the calls of subgraphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple

from ckpt_cli.core.diff import ShortChange

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


class Branches:
    """The trees of one namespace. In `trunk`, each checkpoint has the child in its column."""

    def __init__(self, items: dict[str, Skeleton], head: str | None) -> None:
        self.items = dict(sorted(items.items(), key=lambda item: item[1].order))
        self.head = head if head in items else list(self.items)[-1]
        self.parent = {key: _drawn_parent(item, items) for key, item in items.items()}
        self.loops = _cut_loops(self.parent, self.order)
        self.children: dict[str, list[str]] = {}
        for key in self.items:
            above = self.parent[key]
            if above is not None:
                self.children.setdefault(above, []).append(key)
        self._find_trunks()

    def order(self, key: str) -> tuple[int, str]:
        return self.items[key].order

    def _find_trunks(self) -> None:
        roots = [key for key in self.items if self.parent[key] is None]
        order = list(roots)
        for key in order:
            order.extend(self.children.get(key, ()))
        newest: dict[str, str] = {}
        self.trunk: dict[str, str] = {}
        for key in reversed(order):
            below = self.children.get(key)
            if below:
                self.trunk[key] = max(below, key=lambda one: self.order(newest[one]))
            newest[key] = newest[self.trunk[key]] if below else key
        key = self.head
        while (above := self.parent[key]) is not None:
            self.trunk[above] = key
            key = above
        self.roots = [root for root in roots if root != key] + [key]
        self.tips = len(order) - len(self.trunk)

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


def _cut_loops(parent: dict[str, str | None], order: Callable[[str], tuple[int, str]]) -> set[str]:
    """Cut every loop of parents below its newest checkpoint; return the orphans."""
    cut = set()
    done: set[str] = set()
    for start in parent:
        path: list[str] = []
        here: str | None = start
        on_path: set[str] = set()
        while here is not None and here not in done:
            path.append(here)
            done.add(here)
            on_path.add(here)
            here = parent[here]
        if here is None or here not in on_path:
            continue
        loop = path[path.index(here) :]
        newest = max(loop, key=order)
        orphan = loop[loop.index(newest) - 1]
        parent[orphan] = None
        cut.add(orphan)
    return cut


DEEPEST = 50
"""Deepest subgraph call that is drawn under its caller."""


class SubgraphCalls:
    """The namespaces of a thread, each below the checkpoint that called it.

    `called` has the namespaces called from each checkpoint, by time; `sections` all others.
    """

    def __init__(self, branches: Mapping[str, Branches]) -> None:
        self._branches = branches
        self.called, self.sections = self._find()

    def _find(self) -> tuple[dict[Key, list[str]], list[str]]:
        by_task = {
            (ns, task): (ns, item.checkpoint_id)
            for ns, branches in self._branches.items()
            for item in branches.items.values()
            for task in item.tasks
        }
        calls: dict[Key, list[str]] = {}
        sections = []
        for ns in self._branches:
            caller = self._caller(ns, by_task) if is_call(ns) else None
            if caller is not None:
                calls.setdefault(caller, []).append(ns)
            elif ns:
                sections.append(ns)
        for made in calls.values():
            made.sort(key=lambda ns: min(self._branches[ns].items))
        # Stateful namespaces are part of the thread's state; calls without a caller come after
        # them.
        return calls, sorted(sections, key=lambda ns: (is_call(ns), ns))

    def _caller(self, ns: str, by_task: Mapping[Key, Key]) -> Key | None:
        if ns.count("|") > DEEPEST:
            return None
        segments = ns.split("|")
        for place in range(len(segments) - 1, -1, -1):
            task = segments[place].rpartition(":")[2]
            caller = by_task.get(("|".join(segments[:place]), task))
            if caller is not None:
                return caller
        first = self._branches[ns].items[min(self._branches[ns].items)]
        for place in range(len(segments) - 1, -1, -1):
            outer = "|".join(segments[:place])
            branches = self._branches.get(outer)
            if branches is not None and first.parents.get(outer) in branches.items:
                return outer, first.parents[outer]
        return None

    def checkpoints(self, namespaces: Iterable[str]) -> list[Key]:
        """Return all checkpoints of some namespaces and of the calls that they made."""
        pending = list(namespaces)
        keys: list[Key] = []
        for ns in pending:
            for checkpoint_id in self._branches[ns].items:
                keys.append((ns, checkpoint_id))
                pending.extend(self.called.get((ns, checkpoint_id), ()))
        return keys


def is_call(ns: str) -> bool:
    """Return whether a namespace is one call of a subgraph; others keep state across calls."""
    return namespace_parts(ns)[1] is not None


def calling_node(ns: str) -> str:
    """Return the node that made the call, or the name of a stateful namespace."""
    return namespace_parts(ns)[0]


def namespace_parts(ns: str) -> tuple[str, str | None, str]:
    """Return (node, task id, number of a further call) of the innermost call.

    The task id is None for a stateful namespace; the number is `''` for the first call in a task.
    """
    segments = ns.split("|")
    number = ""
    while len(segments) > 1 and segments[-1].isdecimal():
        number = segments.pop()
    node, colon, task = segments[-1].rpartition(":")
    return (node, task, number) if colon else (task, None, number)


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
    *,
    heads: Mapping[str, str] | None = None,
    unfold: bool = False,
    nest: bool | None = None,
) -> TreeLayout:
    """Arrange the checkpoints of one thread in rows.

    `heads` gives the head of a namespace if it is not its greatest id. `unfold` shows every
    step; `nest` draws the trees of subgraph calls too, and is as `unfold` if it is not given.
    """
    return _Planner(skeletons, heads or {}, unfold, unfold if nest is None else nest).plan()


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
        by_ns: dict[str, dict[str, Skeleton]] = {}
        for item in skeletons:
            by_ns.setdefault(item.checkpoint_ns, {})[item.checkpoint_id] = item
        self.branches = {ns: Branches(by_ns[ns], heads.get(ns)) for ns in sorted(by_ns)}
        self.calls = SubgraphCalls(self.branches)
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
                self.rows.append(SectionRow(ns, len(self.branches[ns].items), is_call(ns)))
                self._draw(ns, "", 0)
        return TreeLayout(
            rows=tuple(self.rows),
            shown=tuple(self.shown),
            checkpoints=sum(len(branches.items) for branches in self.branches.values()),
            branches=self.branches[top].tips if top in self.branches else 0,
            calls=sum(is_call(ns) for ns in self.branches if ns != top),
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
        for child in branches.children.get(item.id, ()):
            if child != on:
                yield _Place(item.ns, child, side, item.depth + 1, branch=True)
        if on is not None:
            yield _Place(item.ns, on, item.lanes, item.depth)

    def _grouped(self, calls: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield one group per call; many unmarked calls of one node form one group."""
        alike: dict[str, list[str]] = {}
        for ns in calls:
            alike.setdefault(calling_node(ns), []).append(ns)
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
            and len(branches.children[parent]) == 1
            and len(branches.children.get(place.id, ())) == 1
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
            branches=max(self.branches[ns].tips for ns in call.namespaces),
            nested=self.nest,
            lanes=call.lanes,
            depth=call.depth,
        )
        self.rows.append(row)
        if not self.nest:
            self.shown.extend(heads)


def _add_lane(lanes: str, lane: str) -> str:
    return (lanes + lane)[-LANES:]


class Parentage:
    """The stored parents of the checkpoints of a thread. Each has its parent in its namespace."""

    def __init__(self, parents: Mapping[Key, str | None]) -> None:
        """`parents` has the newest checkpoint of each namespace first."""
        self._parents = parents

    def parent(self, key: Key) -> Key | None:
        """Return the parent; None if there is none, or if it is not stored."""
        above = self._above(key)
        return above if above in self._parents else None

    def misses_parent(self, key: Key) -> bool:
        """Return whether a checkpoint has a parent that is not stored."""
        above = self._above(key)
        return above is not None and above not in self._parents

    def siblings(self, key: Key) -> Sequence[Key]:
        """Return the checkpoints with the same parent, oldest first, and this one among them."""
        return self._children.get((key[0], self._parents.get(key)), ())

    def back(self, key: Key) -> Iterator[Key]:
        """Yield the ancestors of a checkpoint, nearest first; stops at a loop."""
        seen = {key}
        here = self.parent(key)
        while here is not None and here not in seen:
            yield here
            seen.add(here)
            here = self.parent(here)

    def forward(self, key: Key, tip: Key | None) -> Iterator[Key]:
        """Yield the descendants of a checkpoint, nearest first, as far as its branch goes.

        They lead to `tip` if that is a descendant, and from there to the newest one.
        """
        seen = {key}
        for here in self._way(key, tip):
            yield here
            seen.add(here)
            key = here
        child = self._newest_child.get(key)
        while child is not None and child not in seen:
            yield child
            seen.add(child)
            child = self._newest_child.get(child)

    def _way(self, key: Key, tip: Key | None) -> Sequence[Key]:
        """Return the checkpoints from `key`, without it, to its descendant `tip`, oldest first."""
        if tip is None or tip == key:
            return ()
        way = [tip]
        for here in self.back(tip):
            if here == key:
                return way[::-1]
            way.append(here)
        return ()

    def _above(self, key: Key) -> Key | None:
        above = self._parents.get(key)
        return None if above is None else (key[0], above)

    @cached_property
    def _children(self) -> Mapping[tuple[str, str | None], Sequence[Key]]:
        """The children of each parent, oldest first, also of one that is not stored."""
        found: dict[tuple[str, str | None], list[Key]] = {}
        for key in reversed([*self._parents]):
            found.setdefault((key[0], self._parents[key]), []).append(key)
        return found

    @cached_property
    def _newest_child(self) -> Mapping[Key, Key]:
        """The child of each checkpoint that leads to the newest of its descendants."""
        found: dict[Key, Key] = {}
        for tip in self._parents:
            here, above = tip, self.parent(tip)
            while above is not None and above not in found:
                found[above] = here
                here, above = above, self.parent(above)
        return found
