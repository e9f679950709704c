"""The branches of one namespace: which checkpoint is drawn below which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from ckpt_cli.core.tree.rows import Key, Skeleton, Trouble


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
