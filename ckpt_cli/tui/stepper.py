"""Where a step through time leads; it knows no screen."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import TypeAlias

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.tree import Key
from ckpt_cli.core.values import first_step
from ckpt_cli.queries.diff import ChannelChanges, Step

_FIRST, _MOST = 8, 512
"""Number of checkpoints that are searched with the first query, and at most with one."""
_QUICK = 0.1
"""Seconds of a query after which the next one may be twice as large."""

Ask: TypeAlias = Callable[[Callable[[Store], None]], Awaitable[None]]
"""Asks a store. Raises `CkptError`."""


class Stepper:
    """Steps from checkpoint to checkpoint; each step is told where it starts.

    A step returns the checkpoint where it leads, or else what to say: why there is none.
    """

    def __init__(self) -> None:
        self.channel: str | None = None
        """The channel of which changes are searched: the last one that was looked at."""
        self._tip: Key | None = None
        """The checkpoint from which steps went back; forward leads to it again."""
        self._stepped: Key | None = None
        """The checkpoint where the last step led."""
        self._changes: dict[tuple[str, str, str], ChannelChanges] = {}
        """By thread, namespace and channel."""

    def step(self, key: Key, known: Parentage, way: int) -> Key | str:
        """Go to the parent, or to the child on this branch."""
        self._note_tip(key, way)
        goal = known.parent(key[1]) if way < 0 else next(self._forward(key, known), None)
        if goal is not None:
            self._stepped = key[0], goal
            return self._stepped
        if way > 0:
            return "this is the last checkpoint of its branch"
        if known.misses_parent(key[1]):
            return "this is the first checkpoint that is stored: its parent was removed"
        return "this is the first checkpoint"

    def sibling(self, key: Key, known: Parentage, way: int) -> Key | str:
        """Go to the next older or newer checkpoint with the same parent."""
        siblings = known.siblings(key[1])
        at = siblings.index(key[1]) + way if key[1] in siblings else -1
        if 0 <= at < len(siblings):
            self._tip, self._stepped = None, (key[0], siblings[at])
            return self._stepped
        if len(siblings) < 2:
            return "no sibling: no other checkpoint has this parent"
        return f"this is the {'oldest' if way < 0 else 'newest'} of {len(siblings)} siblings"

    def note_value(self, path: str) -> None:
        """Remember the channel of a value."""
        name = first_step(path)
        self.channel = name if isinstance(name, str) else self.channel

    def forget_changes(self) -> None:
        """Read again where channels changed, when that is asked."""
        self._changes.clear()

    async def change(
        self,
        place: CheckpointKey,
        known: Parentage,
        way: int,
        ask: Ask,
        told: Callable[[int], None],
    ) -> Key | str:
        """Go to the previous or next checkpoint where the channel changed.

        `told` hears how many steps were searched, if that takes long. Raises what `ask` raises.
        """
        key = place.checkpoint_ns, place.checkpoint_id
        if self.channel is None:
            return "choose a channel first: move the cursor in State (1) to its value"
        self._note_tip(key, way)
        way_on = known.ancestors(key[1]) if way < 0 else self._forward(key, known)
        line = ((one, known.parent(one)) for one in way_on)
        asked = place.thread_id, place.checkpoint_ns, self.channel
        changes = self._changes.setdefault(asked, ChannelChanges(*asked))
        found = await _first_change(changes, line, ask, told)
        if found is None:
            which = "earlier" if way < 0 else "later"
            return f"no {which} step of this branch changed '{asked[2]}'"
        self._stepped = place.checkpoint_ns, found
        return self._stepped

    def _forward(self, key: Key, known: Parentage) -> Iterator[str]:
        """Yield the checkpoints after one: to where the way back began, or to the newest."""
        tip = self._tip if self._tip is not None and self._tip[0] == key[0] else ("", None)
        return known.forward(key[1], tip[1])

    def _note_tip(self, key: Key, way: int) -> None:
        """Remember where a way back starts, unless the last step was on the same way."""
        if way < 0 and (self._tip is None or key != self._stepped):
            self._tip = key


async def _first_change(
    changes: ChannelChanges, line: Iterator[Step], ask: Ask, told: Callable[[int], None]
) -> str | None:
    """Return the first checkpoint of a line where a channel changed; None if there is none."""
    number, done = _FIRST, 0
    while some := list(islice(line, number)):
        began = time.monotonic()
        if unknown := [one for one in some if changes.known(one) is None]:

            def read(store: Store, steps: list[Step] = unknown) -> None:
                changes.read(store, steps)

            await ask(read)
        if (found := next(filter(changes.known, some), None)) is not None:
            return found[0]
        done += len(some)
        if time.monotonic() - began < _QUICK:
            number = min(2 * number, _MOST)
        else:
            number = max(number // 2, _FIRST)
            told(done)
    return None
