"""Details of a thread's checkpoints that were read before, for a tree that is read often."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

from ckpt_cli.core.tree.rows import Key, StepDetails

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
