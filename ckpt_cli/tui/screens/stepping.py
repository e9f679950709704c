"""Stepping through time: along the lineage of a checkpoint, and between its siblings."""

from __future__ import annotations

from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.tree.parentage import Parentage
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.screens.thread_tabs import ThreadTabsScreen


class SteppingScreen(ThreadTabsScreen):
    """A main screen where keys step to other checkpoints; the focus stays in its pane."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._tip: Key | None = None
        """The checkpoint from which steps went back; forward leads to it again."""
        self._stepped: Key | None = None
        """The checkpoint where the last step led."""

    def here(self) -> CheckpointKey | None:
        """Return the checkpoint under the cursor; shows an error if there is none."""
        if self.place is None:
            is_loading = self.rows.thread is not None and self.is_busy
            said = "the tree is still loading" if is_loading else "no checkpoint selected"
            self.say(said, is_error=True)
        return self.place

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
        if self.view.follows:
            self.view.follows = False
            self.show_status()
        if line in picture.inner and picture.keys[line] != key:
            self.outer.append((self.view.ns, rows.key))
            self.view.ns, self.view.tree, self.goal = key[0], None, key
            self.load_tree()
            return
        rows.stand_on(key, line)
        if line in picture.folds:
            self.load_tree()
