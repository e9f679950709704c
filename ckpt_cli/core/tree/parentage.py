"""Go from one checkpoint of a thread to the next: to its parent, its children and its siblings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from ckpt_cli.core.tree.rows import Key


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
