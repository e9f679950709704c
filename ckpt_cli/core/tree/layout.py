"""Lay out a thread as rows: branches, folded steps, subgraph calls.

`plan_tree` works on `Skeleton`s, which can be filled from a store's key index; `TreeLayout.shown`
then names the few checkpoints that need `StepDetails`. The oldest row comes first. The branch that
leads to the head is drawn straight, the others below their fork.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ckpt_cli.core.tree.branches import Branches
from ckpt_cli.core.tree.calls import SubgraphCalls, calling_node, is_call
from ckpt_cli.core.tree.rows import (
    CallRow,
    FoldRow,
    Key,
    Row,
    SectionRow,
    Skeleton,
    StepRow,
    TreeLayout,
)

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
