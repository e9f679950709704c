"""Stepping through time: along the lineage of a checkpoint, between siblings, to changes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import ClassVar

from textual import work

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.tree.parentage import Parentage
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.core.values.paths import first_step
from ckpt_cli.queries.channel_changes import ChannelChanges, Step
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.screens.thread_tabs import ThreadTabsScreen
from ckpt_cli.tui.styles import title

_REST = 0.15
"""Seconds after the last step when the fold that hides it is opened."""
_FIRST, _MOST = 8, 512
"""Number of checkpoints that are searched with the first query, and at most with one."""
_QUICK = 0.1
"""Seconds of a query after which the next one may be twice as large."""
_WITH_CHANNELS = ("state", "diff", "messages")
"""The tabs of which each value belongs to a channel."""


class SteppingScreen(ThreadTabsScreen):
    """A main screen where keys step to other checkpoints; the focus stays in its pane."""

    READING: ClassVar = ThreadTabsScreen.READING | {"changes"}

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._tip: Key | None = None
        """The checkpoint from which steps went back; forward leads to it again."""
        self._stepped: Key | None = None
        """The checkpoint where the last step led."""
        self._channel: str | None = None
        """The channel that was last under the cursor."""
        self._changes: dict[tuple[str, str, str], ChannelChanges] = {}
        """By thread, namespace and channel."""
        self._looking: tuple[CheckpointKey, str, int] | None = None
        """The change that is being searched: from where, of which channel, in which direction."""

    def here(self) -> CheckpointKey | None:
        """Return the checkpoint under the cursor; shows an error if there is none."""
        if self.place is None:
            is_loading = self.rows.thread is not None and self.is_busy
            said = "the tree is still loading" if is_loading else "no checkpoint selected"
            self.say(self._opening or said, is_error=True)
        return self.place

    def here_thread(self) -> str | None:
        """Return the id of the thread that is shown; shows an error if there is none."""
        if self.view.thread_id is None:
            self.say(self._opening or "no thread selected", is_error=True)
        return self.view.thread_id

    @property
    def _opening(self) -> str:
        """Why nothing can be selected yet; empty if the store is open."""
        return "the store is not open yet" if self._info is None else ""

    def start(self) -> tuple[Key, Parentage] | None:
        """Return where a step starts; shows an error if no checkpoint is selected."""
        place, picture = self.here(), self.tree_rows.picture
        if place is None or picture is None:
            return None
        return (place.checkpoint_ns, place.checkpoint_id), picture.parentage

    def action_step(self, way: int) -> None:
        """Go to the parent, or to the child on this branch."""
        if (start := self.start()) is None:
            return
        key, known = start
        self._note_tip(key, way)
        goal = known.parent(key) if way < 0 else next(known.forward(key, self._tip), None)
        if goal is not None:
            self.step_to(goal)
        elif way > 0:
            self.say("this is the last checkpoint of its branch")
        elif known.misses_parent(key):
            self.say("this is the first checkpoint that is stored: its parent was removed")
        else:
            self.say("this is the first checkpoint")

    def action_sibling(self, way: int) -> None:
        """Go to the next older or newer checkpoint with the same parent."""
        if (start := self.start()) is None:
            return
        key, known = start
        siblings = known.siblings(key)
        at = siblings.index(key) + way if key in siblings else -1
        if 0 <= at < len(siblings):
            self._tip = None
            self.step_to(siblings[at])
        elif len(siblings) < 2:
            self.say("no sibling: no other checkpoint has this parent")
        else:
            end = "oldest" if way < 0 else "newest"
            self.say(f"this is the {end} of {len(siblings)} siblings")

    def _note_tip(self, key: Key, way: int) -> None:
        """Remember where a way back starts, unless the last step was on the same way."""
        if way < 0 and (self._tip is None or key != self._stepped):
            self._tip = key

    def step_to(self, key: Key) -> None:
        """Show a checkpoint of this tree; a fold that hides it is opened there."""
        rows, picture = self.tree_rows, self.tree_rows.picture
        line = None if picture is None else picture.line_of(key)
        if picture is None or line is None:
            return
        self._stepped = key
        self.stop_following()
        if line in picture.inner and picture.keys[line] != key:
            self.outer.append((self.view.ns, rows.key))
            self.view.ns, self.view.tree, self.goal = key[0], None, key
            self.load_tree()
            return
        rows.stand_on(key, line)
        if line in picture.folds:
            # The tree would slow down the steps that follow at once.
            self.schedule("fold", _REST, self.open_fold)

    # Changes of a channel

    def note_channel(self) -> None:
        """Remember the channel under the cursor of the state, or of the messages."""
        chosen = self.inspector.document.chosen
        if chosen is None or self.read is None or self.read[1] not in _WITH_CHANNELS:
            return
        name = first_step(chosen)
        self._channel = name if isinstance(name, str) else self._channel

    def action_change(self, way: int) -> None:
        """Go to the previous or next checkpoint where the shown channel changed."""
        self.note_channel()
        if (place := self.here()) is None:
            return
        if self._channel is None:
            self.say("choose a channel first: move the cursor in State (1) to its value")
            return
        wanted = place, self._channel, way
        if wanted != self._looking:
            self._look_for_change(*wanted)

    def forget_changes(self) -> None:
        """Read again where channels changed, when that is asked."""
        self._changes.clear()

    def stop_looking(self) -> bool:
        """Stop the search for a change; returns whether there was one."""
        if self._looking is None:
            return False
        self.workers.cancel_group(self, "changes")
        self._looking = None
        return True

    @work(exclusive=True, group="changes")
    async def _look_for_change(self, place: CheckpointKey, channel: str, way: int) -> None:
        if (start := self.start()) is None:
            return
        key, known = start
        self._note_tip(key, way)
        way_on = known.back(key) if way < 0 else known.forward(key, self._tip)
        line = ((one[1], above[1] if (above := known.parent(one)) else None) for one in way_on)
        asked = place.thread_id, place.checkpoint_ns, channel
        changes = self._changes.setdefault(asked, ChannelChanges(*asked))
        self._looking = place, channel, way
        try:
            found, is_known = await self._first_change(changes, line, channel)
        finally:
            if self._looking == (place, channel, way):
                self._looking = None
        if found is not None and self.place == place:
            self.step_to((place.checkpoint_ns, found))
        elif found is None and is_known:
            which = "earlier" if way < 0 else "later"
            self.say(f"no {which} step of this branch changed '{channel}'")

    async def _first_change(
        self, changes: ChannelChanges, line: Iterator[Step], channel: str
    ) -> tuple[str | None, bool]:
        """Return the first checkpoint of a line where a channel changed.

        Returns None and True if there is none, or None and False after an error, which is shown.
        """
        failed: list[CkptError] = []
        name, number, done = safe_text(channel), _FIRST, 0
        with self.inspector.while_loading(f"Looking for changes of {name}"):
            while some := list(islice(line, number)):
                began = time.monotonic()
                if unknown := [one for one in some if changes.known(one) is None]:
                    question = partial(changes.read, steps=unknown)
                    await self.ask(self.context.searching, question, failed.append)
                if failed:
                    self.show_error(failed[0])
                    return None, False
                if (found := next(filter(changes.known, some), None)) is not None:
                    return found[0], True
                done += len(some)
                if time.monotonic() - began < _QUICK:
                    number = min(2 * number, _MOST)
                else:
                    number = max(number // 2, _FIRST)
                    said = f"Looking for changes of {name}: {done:,} steps (Esc stops)"
                    title(self.inspector, said)
        return None, True
