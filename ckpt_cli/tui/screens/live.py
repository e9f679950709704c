"""Reading by the main screen: it follows the store and the cursors."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, Static

from ckpt_backends.errors import CkptError, StoreUnavailable, Unreadable, Unsupported
from ckpt_backends.model import CheckpointKey, StoreInfo, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.tree.rows import Key as TreeKey
from ckpt_cli.queries.tree import Tree
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.tui import command_line
from ckpt_cli.tui.content.checkpoint import Clock
from ckpt_cli.tui.content.tabs import Tab, TabContent, ThreadTab, read_document
from ckpt_cli.tui.content.thread_list import (
    SORT_NAMES,
    read_conditions,
    read_matches,
    read_threads,
    unasked,
    unread,
    unread_near,
)
from ckpt_cli.tui.content.tree import draw_tree, read_thread_tree
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.search import SearchPane
from ckpt_cli.tui.panes.styles import as_text, title
from ckpt_cli.tui.panes.threads import ThreadsPane
from ckpt_cli.tui.panes.tree import TreeRows, way_here
from ckpt_cli.tui.screens.base import SHARE, SOON, StoreScreen, error_lines
from ckpt_cli.tui.store_worker import StoreWorker

_Answer = TypeVar("_Answer")

_HEADS_NEAR, _HEADS = 50, 500
"""Number of heads read with one query: near the screen, and elsewhere. Small, since other
queries may be waiting.
"""
_MARK = 16
"""Maximum number of characters of the marked checkpoint in the status line."""


@dataclass(slots=True)
class TreeView:
    """Which tree is shown, and how."""

    thread_id: str | None = None
    ns: str | None = None
    """Show only this namespace; None for the whole thread."""
    unfold: bool = False
    nest: bool = False
    tree: Tree | None = None
    follows: bool = False
    """Whether the cursor stays on the head."""


class LiveScreen(StoreScreen[None]):
    """Threads on the left, the tree of one thread on the right, and a checkpoint below it."""

    READING: ClassVar = frozenset(
        {"threads", "heads", "tree", "document", "origin", "goto", "findings", "deep"}
    )
    REFRESHING: ClassVar = frozenset({"threads", "memory", "findings"})

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self.context = context
        self._info: StoreInfo | None = None
        self._problem = ""
        self._scans = False
        """Whether listing threads needs a scan, which is repeated on request only."""
        self.view = TreeView()
        self.outer: list[tuple[str | None, TreeKey | None]] = []
        """The outer namespaces, each with the checkpoint that called the next one."""
        self.goal: TreeKey | None = None
        """The checkpoint where the cursor goes when its tree is loaded."""
        self.read: tuple[CheckpointKey, Tab] | None = None
        """The content of the inspector."""
        self.shown: tuple[CheckpointKey, Tab] | None = None
        """The same, or None if it must be read again."""
        self.base: CheckpointKey | None = None
        """The checkpoint marked as the base of diffs."""
        self._reading_heads = False
        self.tree_heading = ""

    # Parts of the screen

    def compose(self) -> ComposeResult:
        self.threads_pane = ThreadsPane(self.context.now, self.context.filter_terms)
        self.rows = self.threads_pane.rows
        self.tree_rows = TreeRows()
        self.tree_pane = SearchPane(self.tree_rows, id="tree")
        self.inspector = Inspector()
        self.status = Static(id="status")
        yield self.status
        with Horizontal(id="body"):
            yield self.threads_pane
            with Vertical(id="right") as self.right:
                yield self.tree_pane
                yield self.inspector
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title(self.threads_pane, "Threads")
        title(self.tree_pane, "Tree")
        self.inspector.set_heading("Checkpoint")
        self.rows.focus()
        self.show_status()
        self.context.scan.changed = lambda: self.app.call_from_thread(self.show_status)
        self.load_threads()

    @property
    def clock(self) -> Clock:
        """The current time and its zone, for the panes."""
        return Clock(self.context.now(), self.context.zone)

    @property
    def place(self) -> CheckpointKey | None:
        """The checkpoint under the cursor of the tree; None if there is none."""
        key = self.tree_rows.key
        if self.view.thread_id is None or self.view.tree is None or key is None:
            return None
        return CheckpointKey(self.view.thread_id, *key)

    # Threads

    @work(exclusive=True, group="threads")
    async def load_threads(self) -> None:
        """List all threads now, and again after a pause."""
        began = time.monotonic()
        try:
            info = self._info
            if info is None:
                info, self._scans = await self.context.threads.ask(
                    lambda store: (store.describe(), store.lists_by_scan)
                )
            before = self.rows.listing.threads
            threads = await self.context.threads.ask(partial(read_threads, before=before))
            self._info = info
        except CkptError as error:
            self._problem = f"retrying: {error.message}"
            self.show_status()
            self._again(self.context.pause)
            return
        self._problem = ""
        self._take(threads)
        took = time.monotonic() - began
        if not self._scans:
            self._again(max(self.context.pause, took * SHARE))

    def _again(self, pause: float) -> None:
        if self.context.pause:
            self.schedule("threads", pause, self.load_threads)

    def _take(self, threads: list[Thread]) -> None:
        listing = self.rows.listing
        before = self.rows.thread
        if list(listing.threads) != threads:
            if not listing.threads:
                # The threads stay in memory: without this, garbage collection causes visible
                # pauses.
                gc.freeze()
            listing.threads = threads
            self.rows.rebuild(before.thread_id if before is not None else None)
        else:
            # The ages have changed.
            self.rows.refresh()
        self.read_heads()
        self.show_status()
        self.load_tree()

    @work(exclusive=True, group="heads")
    async def read_heads(self) -> None:
        """Read the status of threads: first those on the screen, then all of them for a filter."""
        listing = self.rows.listing
        self._reading_heads = True
        # Newest last, because they are taken from the end.
        rest = unread(listing)[::-1]
        unanswered = unasked(listing, self.context.now())[::-1]
        while True:
            some = unread_near(listing, self.rows.seen, _HEADS_NEAR) or rest[-_HEADS:]
            if not (some or unanswered):
                break
            try:
                if not some:
                    await self._match(unanswered.pop())
                    continue
                found = await self.context.heads.ask(partial(read_conditions, threads=some))
            except CkptError as error:
                self._problem = error.message
                break
            for thread, conditions in zip(some, found, strict=True):
                listing.conditions[thread.thread_id] = (thread, conditions)
            while rest and listing.status(rest[-1]) is not None:
                rest.pop()
            self._show_again(any(not listing.wanted.status.isdisjoint(one) for one in found))
        self._reading_heads = False
        self.show_status()

    async def _match(self, some: Sequence[Thread]) -> None:
        """Ask whether some threads match the filter. Raises what reading them raises."""
        listing, now = self.rows.listing, self.context.now()
        if (wanted := listing.wanted.where) is None:
            return
        question = partial(read_matches, threads=some, wanted=wanted, now=now)
        found = await self.context.heads.ask(question)
        if listing.wanted.where is wanted:
            self._show_again(listing.answer(some, found, now))

    def _show_again(self, changed: bool) -> None:
        """Show the threads with their status; if others match now, filter and sort again."""
        if changed:
            kept = self.rows.thread
            self.rows.rebuild(kept.thread_id if kept is not None else None)
        else:
            self.rows.refresh()
        self.show_status()

    # The tree

    @work(exclusive=True, group="tree")
    async def load_tree(self) -> None:
        """Read and draw the tree of the thread under the cursor."""
        thread = self.rows.thread
        view = self.view
        if thread is None:
            self.view = TreeView(unfold=view.unfold, nest=view.nest, follows=view.follows)
            nothing = "no thread matches" if self.rows.listing.threads else "no threads yet"
            self.clear([line((nothing, "dim"))] if self._info is not None else [])
            return
        if view.thread_id != thread.thread_id:
            self.outer.clear()
            view.thread_id, view.ns, view.tree = thread.thread_id, None, None
        question = partial(
            read_thread_tree,
            opening=self.context.opening,
            thread_id=thread.thread_id,
            ns=view.ns,
            unfold=view.unfold,
            nest=view.nest,
            # Do not fold the requested checkpoint, or the one under the cursor.
            keep=self.goal or (self.tree_rows.unfolded if view.tree is not None else None),
        )
        if view.tree is None:
            title(self.tree_pane, "Tree: loading")
        tree = await self.ask(self.context.detail, question, self._no_tree)
        if tree is not None:
            view.tree = tree
            self.draw()

    def draw(self) -> None:
        tree = self.view.tree
        if tree is None or not self.tree_rows.room:
            return
        picture = draw_tree(tree, self.clock, self.tree_rows.room)
        facts = counted(tree.plan.checkpoints, "checkpoint")
        if tree.plan.branches > 1:
            facts += f", {counted(tree.plan.branches, 'branch')}"
        if tree.plan.calls:
            facts += f", {counted(tree.plan.calls, 'call')}"
        self.tree_heading = f"{way_here(self.view.thread_id, self.view.ns)}: {facts}, {tree.status}"
        title(self.tree_pane, self.tree_heading)
        key, self.goal = self.goal or self.tree_rows.key, None
        if self.view.follows and not self.outer:
            key = picture.head or key
        base = self.base
        is_here = base is not None and base.thread_id == self.view.thread_id
        self.tree_rows.marked = (
            (base.checkpoint_ns, base.checkpoint_id) if base is not None and is_here else None
        )
        if self.tree_rows.lines == picture.lines and self.tree_rows.key == key:
            self.tree_rows.picture = picture
            # What could not be read before may be readable now.
            self.schedule("document", SOON, self.load_document)
            return
        self.shown = None
        self.tree_rows.show_picture(picture, key)

    def _no_tree(self, error: CkptError) -> None:
        self.view.tree = None
        self.clear(error_lines(error, self.tree_rows.width))

    def clear(self, said: Sequence[StyledLine]) -> None:
        """Show lines with the reason in place of the tree and the checkpoint."""
        title(self.tree_pane, "Tree")
        self.inspector.set_heading("Checkpoint")
        self.tree_rows.picture = None
        self.tree_rows.show_lines(said)
        self.inspector.document.show_document(TabContent(()), keep=False)
        self.shown = self.read = None

    # The inspector

    @work(exclusive=True, group="document")
    async def load_document(self) -> None:
        """Read the tab of the checkpoint under the cursor."""
        place, tab = self.place, self.inspector.tab
        if place is None:
            return
        match tab:
            case "findings" | "memory":
                await self.load_thread_tab(tab, place.thread_id)
                return
        if self.shown == (place, tab):
            return
        width = max(self.inspector.document.width, 1)
        question = partial(
            read_document, tab=tab, place=place, base=self.base, clock=self.clock, width=width
        )
        with self.inspector.while_loading("Checkpoint: loading"):
            document = await self.ask(self.context.detail, question, self._no_document)
            base = self.base if tab == "diff" else None
            marked = f", base {safe_text(command_line.ref(base))}" if base is not None else ""
            self.inspector.set_heading(f"Checkpoint {safe_text(place.checkpoint_id)}{marked}")
        if document is not None:
            is_last = self.view.follows and tab == "messages"
            self.inspector.document.show_step(document, self.read, (place, tab), is_last=is_last)
            self.read = self.shown = (place, tab)

    async def load_thread_tab(self, tab: ThreadTab, thread_id: str) -> None:
        """Read a tab about the whole thread, and show it."""
        raise NotImplementedError

    def _no_document(self, error: CkptError) -> None:
        said = error_lines(error, self.inspector.document.width)
        self.inspector.document.show_document(TabContent(said), keep=False)
        self.shown = None

    # Status line

    def mode(self) -> Span:
        """Return the text of the mode for the status line."""
        return "read-only", "dim"

    def show_status(self) -> None:
        """Show the store, the number of threads and the current activity in the status line."""
        listing = self.rows.listing
        total, shown = len(listing.threads), len(listing.shown)
        number = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
        spans: list[Span | str] = [("ckpt ", "bold"), self.mode(), "  "]
        if self.view.follows:
            spans.append(("following the head  ", "head"))
        # A narrow screen may cut the end.
        if self._problem:
            spans.append((f"{safe_text(self._problem)}  ", "error"))
        if self.context.scan.text:
            spans.append((f"{safe_text(self.context.scan.text)}  ", "dim"))
        if self._info is not None:
            noun = "thread" if total == 1 else "threads"
            spans.append(f"{number} {noun}  ")
        elif not self._problem:
            spans.append(("opening the store", "dim"))
        if self.base is not None:
            name = safe_text(command_line.ref(self.base)[-_MARK:])
            spans.append((f"marked …{name}  ", "question"))
        if self._reading_heads and (checked := listing.checked) is not None:
            spans.append((f"{checked:,} threads checked  ", "dim"))
        if self._info is not None:
            spans += [(f"{safe_text(self._info.layout)}  ", "dim"), safe_text(self._info.url)]
        self.status.update(as_text(line(*spans)))
        order = "" if listing.sort == "last" else f", {SORT_NAMES[listing.sort]}"
        title(self.threads_pane, f"Threads: {number}{order}")

    async def ask(
        self,
        worker: StoreWorker[Store],
        question: Callable[[Store], _Answer],
        otherwise: Callable[[CkptError], None],
    ) -> _Answer | None:
        """Return the answer of a worker; None after an error, which is shown."""
        try:
            return await worker.ask(question)
        except (Unsupported, Unreadable) as error:
            # The store did answer, so asking again would not help.
            otherwise(error)
        except StoreUnavailable as error:
            self._problem = f"retrying: {error.message}"
            self.show_status()
            otherwise(error)
        except CkptError as error:
            otherwise(error)
        return None
