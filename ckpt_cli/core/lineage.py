"""Lineage: which checkpoint was made from which, and which subgraph was called from which."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

from ckpt_backends.model import Checkpoint


class Parentage:
    """The parents of the checkpoints of one namespace; some may not be stored, or form a loop."""

    def __init__(self, parents: Mapping[str, str | None]) -> None:
        """`parents` has the parent of each checkpoint: the head first, then the newest first."""
        self._parents = parents

    @classmethod
    def of(cls, checkpoints: Iterable[Checkpoint]) -> Self:
        """Return that of checkpoints in the order of a store."""
        return cls({one.key.checkpoint_id: one.parent_checkpoint_id for one in checkpoints})

    def __contains__(self, checkpoint_id: object) -> bool:
        return checkpoint_id in self._parents

    def __iter__(self) -> Iterator[str]:
        return iter(self._parents)

    def parent(self, checkpoint_id: str) -> str | None:
        """Return the parent; None if there is none, or if it is not stored."""
        above = self._parents.get(checkpoint_id)
        return above if above in self._parents else None

    def named_parent(self, checkpoint_id: str) -> str | None:
        """Return the parent, even if it is not stored."""
        return self._parents.get(checkpoint_id)

    def misses_parent(self, checkpoint_id: str) -> bool:
        """Return whether a checkpoint has a parent that is not stored."""
        above = self._parents.get(checkpoint_id)
        return above is not None and above not in self._parents

    def children(self, checkpoint_id: str) -> Sequence[str]:
        """Return the children of a checkpoint, oldest first, also of one that is not stored."""
        return self._by_parent.get(checkpoint_id, ())

    def siblings(self, checkpoint_id: str) -> Sequence[str]:
        """Return the checkpoints with the same parent, oldest first, and this one among them."""
        return self._by_parent.get(self._parents.get(checkpoint_id), ())

    def ancestors(self, checkpoint_id: str) -> Iterator[str]:
        """Yield the ancestors of a checkpoint, nearest first; stops at a loop."""
        seen = {checkpoint_id}
        here = self.parent(checkpoint_id)
        while here is not None and here not in seen:
            yield here
            seen.add(here)
            here = self.parent(here)

    def line(self, checkpoint_id: str) -> Iterator[str]:
        """Yield a checkpoint and its ancestors, nearest first; nothing if it is not stored."""
        if checkpoint_id in self._parents:
            yield checkpoint_id
            yield from self.ancestors(checkpoint_id)

    def forward(self, checkpoint_id: str, tip: str | None) -> Iterator[str]:
        """Yield the descendants of a checkpoint, nearest first, as far as its branch goes.

        They lead to `tip` if that is a descendant, and from there to the newest one.
        """
        seen = {checkpoint_id}
        for here in self._way(checkpoint_id, tip):
            yield here
            seen.add(here)
            checkpoint_id = here
        child = self.trunk.get(checkpoint_id)
        while child is not None and child not in seen:
            yield child
            seen.add(child)
            child = self.trunk.get(child)

    def _way(self, start: str, tip: str | None) -> Sequence[str]:
        """Return the descendants of `start` that lead to `tip`, oldest first."""
        if tip is None or tip == start:
            return ()
        way = [tip]
        for here in self.ancestors(tip):
            if here == start:
                return way[::-1]
            way.append(here)
        return ()

    @cached_property
    def tips(self) -> list[str]:
        """The checkpoints without children, newest first."""
        return [one for one in self._parents if one not in self._by_parent]

    @cached_property
    def forks(self) -> list[str]:
        """The checkpoints with several children, also those that are not stored."""
        return [one for one, made in self._by_parent.items() if one is not None and len(made) > 1]

    @cached_property
    def trunk(self) -> Mapping[str, str]:
        """The child of each checkpoint that leads to the head, or else to the newest tip."""
        found: dict[str, str] = {}
        # Without a tip, all that is left are loops.
        for start in (*[*self._parents][:1], *self.tips, *self._parents):
            here, above = start, self.parent(start)
            while above is not None and above not in found:
                found[above] = here
                here, above = above, self.parent(above)
        return found

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """The number of forks between each checkpoint and the branch that leads to the head.

        At a fork, the ancestor of the newest tip continues the branch.
        """
        found: dict[str, int] = {}
        for start in self._parents:
            path: dict[str, None] = {}
            here: str | None = start
            while here is not None and here not in found and here not in path:
                path[here] = None
                here = self.parent(here)
            found.update(dict.fromkeys(path, found.get(here or "", -1) + 1))
        return found

    def loops(self) -> Iterator[Sequence[str]]:
        """Yield the checkpoints of each loop, each followed by its parent."""
        done: set[str] = set()
        for start in self._parents:
            path: dict[str, None] = {}
            here: str | None = start
            while here is not None and here not in done:
                done.add(here)
                path[here] = None
                here = self.parent(here)
            if here in path:
                whole = [*path]
                yield whole[whole.index(here) :]

    @cached_property
    def _by_parent(self) -> Mapping[str | None, Sequence[str]]:
        found: dict[str | None, list[str]] = {}
        for one in reversed([*self._parents]):
            found.setdefault(self._parents[one], []).append(one)
        return found


# Namespaces: `''` is the root graph, `node:task_id` a subgraph call, a bare `node` a subgraph that
# keeps its state across calls. Those of nested subgraphs are joined by `|`. A further call by the
# same task has its number as another part: `node:task_id|1`.


class NamespacePart(NamedTuple):
    """A part of a namespace: a call, or a stateful subgraph."""

    outer: str
    """The namespace of its caller."""
    node: str
    """The node that called it, or the name of a stateful subgraph."""
    task_id: str | None
    """None for a stateful subgraph."""
    number: str = ""
    """That of a further call; `''` for the first call in a task."""


DEEPEST = 50
"""Deepest subgraph that is looked at; a hostile name may have many more parts."""


def levels(checkpoint_ns: str) -> list[NamespacePart]:
    """Return each part of a namespace, outermost first. A further call's number is one too."""
    parts = checkpoint_ns.split("|", DEEPEST)[:DEEPEST] if checkpoint_ns else []
    return [_level("|".join(parts[:place]), part) for place, part in enumerate(parts)]


def innermost(checkpoint_ns: str) -> NamespacePart:
    """Return the call, or stateful subgraph, that a namespace belongs to."""
    number = ""
    outer, bar, part = checkpoint_ns.rpartition("|")
    while bar and part.isdecimal():
        number = part
        outer, bar, part = outer.rpartition("|")
    return _level(outer, part, number)


def _level(outer: str, part: str, number: str = "") -> NamespacePart:
    node, colon, task_id = part.rpartition(":")
    return NamespacePart(outer, node if colon else part, task_id if colon else None, number)


def is_subgraph_call(checkpoint_ns: str) -> bool:
    """Return whether a namespace is one call of a subgraph; others keep state across calls."""
    return innermost(checkpoint_ns).task_id is not None


def is_in_call(checkpoint_ns: str) -> bool:
    """Return whether a namespace is a subgraph call, or belongs to one."""
    return ":" in checkpoint_ns


def is_stateful(checkpoint_ns: str) -> bool:
    """Return whether a namespace belongs to a subgraph with `checkpointer=True`."""
    return checkpoint_ns != "" and not is_in_call(checkpoint_ns)


def depth_of(checkpoint_ns: str) -> int:
    """Return the number of parts of a namespace: 0 for the root graph."""
    return checkpoint_ns.count("|") + 1 if checkpoint_ns else 0


def namespace_in(checkpoint_ns: str, node: str, task_id: str | None = None) -> str:
    """Return the namespace of a call from another one, or that of a stateful subgraph."""
    own = node if task_id is None else f"{node}:{task_id}"
    return f"{checkpoint_ns}|{own}" if checkpoint_ns else own


def graph_of(checkpoint_ns: str) -> tuple[str, ...]:
    """Return the nodes that called each other's subgraphs, outermost first: calls of one graph have
    them in common.
    """
    return tuple(
        part.rpartition(":")[0] or part
        for part in checkpoint_ns.split("|")
        if part and not part.isdecimal()
    )


def namespace_kind(checkpoint_ns: str) -> str:
    """Return a namespace without task ids: the same text for all calls of a subgraph."""
    return "|".join(graph_of(checkpoint_ns))
