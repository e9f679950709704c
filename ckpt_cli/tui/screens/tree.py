"""Reading the tree of the main screen: a running read goes on, and only what is seen is read."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from textual import work

from ckpt_backends.errors import CkptError
from ckpt_backends.protocol import Store
from ckpt_cli.core.tree.rows import Key as TreeKey
from ckpt_cli.threads.store_worker import StoreWorker
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.rows import SearchPane
from ckpt_cli.tui.panes.threads import ThreadLines
from ckpt_cli.tui.panes.tree import ScrubberLine, TreeRows
from ckpt_cli.tui.panes.tree_picture import GrowingTree, TreePicture, TreeQuestion, TreeView
from ckpt_cli.tui.reading import SOON, LoadedObjects
from ckpt_cli.tui.screens.thread_reading import ThreadReadingScreen
from ckpt_cli.tui.styles import title
from ckpt_cli.tui.tabs.content import Clock

_Answer = TypeVar("_Answer")


class TreeScreen(ThreadReadingScreen):
    """A screen with the tree of the thread under the cursor."""

    rows: ThreadLines
    tree_rows: TreeRows
    tree_pane: SearchPane

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self.view = TreeView()
        self.outer: list[tuple[str | None, TreeKey | None]] = []
        """The outer namespaces, each with the checkpoint that called the next one."""
        self.goal: TreeKey | None = None
        """The checkpoint where the cursor goes when its tree is loaded."""
        self.is_tree_asked_again = False
        """Whether the tree is read again when the running read ends."""
        self._asked: TreeQuestion | None = None
        """The tree that is being read."""
        self._growing = GrowingTree(context.opening)
        self._loaded_steps = LoadedObjects()

    @property
    def clock(self) -> Clock:
        """The current time and its zone, for the panes."""
        return Clock(self.context.now(), self.context.zone)

    def load_tree(self) -> None:
        """Read and draw the tree of the thread under the cursor.

        A read of the same tree that is running goes on, and is repeated when it ends.
        """
        thread, view = self.rows.thread, self.view
        if thread is None:
            self.view = TreeView(unfold=view.unfold, nest=view.nest, follows=view.follows)
            self._asked = None
            self.workers.cancel_group(self, "tree")
            self.show_no_thread()
            return
        if view.thread_id != thread.thread_id:
            self.outer.clear()
            view.thread_id, view.ns, view.tree = thread.thread_id, None, None
        # A pane that was never shown has no width yet; the checkpoint may be shown before it.
        width = self.tree_rows.room or self.size.width
        asked = TreeQuestion(thread.thread_id, view.ns, view.unfold, view.nest, width)
        if view.tree is None:
            title(self.tree_pane, "Tree: loading")
        self.is_tree_asked_again = asked == self._asked
        if width and not self.is_tree_asked_again:
            self._asked = asked
            self._read_tree(asked)

    @work(exclusive=True, group="tree")
    async def _read_tree(self, asked: TreeQuestion) -> None:
        began = time.monotonic()
        question = partial(
            self._growing.read,
            asked=asked,
            clock=self.clock,
            keep=self._kept_key,
            seen=self._seen_keys,
        )
        picture = await self.ask(self.context.tree, question, self.no_tree)
        self._asked, self.tree_took = None, time.monotonic() - began
        if picture is not None:
            self.view.tree = picture.tree
            number = picture.tree.plan.checkpoints + len(picture.lines)
            self._loaded_steps.loaded(number)
            self.draw(picture)
        if self.is_tree_asked_again:
            self.load_tree()

    @property
    def _kept_key(self) -> TreeKey | None:
        """The checkpoint that is not folded: the requested one, or the one under the cursor."""
        return self.goal or (self.tree_rows.unfolded if self.view.tree is not None else None)

    @property
    def _seen_keys(self) -> frozenset[TreeKey]:
        """The checkpoints on the screen and near it."""
        picture = self.tree_rows.picture
        is_shown = picture is not None and picture.tree is self.view.tree
        return picture.keys_near(self.tree_rows.seen) if picture and is_shown else frozenset()

    def read_seen_rows(self) -> None:
        """Read the rows on the screen that were not read yet."""
        tree = self.view.tree
        if tree is not None and not tree.unread.isdisjoint(self._seen_keys):
            self.schedule("rows", SOON, self._load_rows)

    def _load_rows(self) -> None:
        """Read more rows of the tree, unless it is being read: then they are read when it ends."""
        picture = self.tree_rows.picture
        if self._asked is None and picture is not None and picture.tree is self.view.tree:
            self._read_rows()

    @work(exclusive=True, group="tree")
    async def _read_rows(self) -> None:
        question = partial(self._growing.read_more, clock=self.clock, seen=self._seen_keys)
        picture = await self.ask(self.context.tree, question, self.no_tree)
        if picture is not None:
            self.view.tree = picture.tree
            self.draw(picture)

    def open_fold(self) -> None:
        """Show the checkpoint under the cursor outside of its fold."""
        key, picture = self.tree_rows.unfolded, self.tree_rows.picture
        if self._asked is not None or picture is None or picture.tree is not self.view.tree:
            # The tree is being read: it is read again then.
            self.load_tree()
        elif key is not None and self.tree_rows.cursor in picture.folds:
            self._open_fold(key)

    @work(exclusive=True, group="tree")
    async def _open_fold(self, key: TreeKey) -> None:
        question = partial(self._growing.keep_unfolded, clock=self.clock, keep=key)
        picture = await self.ask(self.context.tree, question, self.no_tree)
        if picture is not None:
            self.view.tree = picture.tree
            self.draw(picture)

    def stop_following(self) -> None:
        """Let the cursor stay where it goes now, also when the thread grows."""
        if self.view.follows:
            self.view.follows = False
            self.show_status()

    def on_scrubber_line_chosen(self, event: ScrubberLine.Chosen) -> None:
        """Go to the checkpoint that was clicked."""
        event.stop()
        picture = self.tree_rows.picture
        at = None if picture is None else picture.line_of(event.key)
        self.tree_rows.focus()
        self.stop_following()
        if picture is None or at is None or at in picture.folds:
            self.goal = event.key
            self.load_tree()
        else:
            self.tree_rows.cursor = at

    def draw(self, picture: TreePicture) -> None:
        """Show a tree that was read."""
        raise NotImplementedError

    def show_no_thread(self) -> None:
        """Say that there is no thread."""
        raise NotImplementedError

    def no_tree(self, error: CkptError) -> None:
        """Show why there is no tree."""
        raise NotImplementedError

    async def ask(
        self,
        worker: StoreWorker[Store],
        question: Callable[[Store], _Answer],
        otherwise: Callable[[CkptError], None],
    ) -> _Answer | None:
        """Return the answer of a worker; None after an error, which is shown."""
        raise NotImplementedError
