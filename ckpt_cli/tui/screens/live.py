"""Reading by the main screen: it follows the store and the cursors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from ckpt_backends.errors import CkptError, StoreUnavailable, Unreadable, Unsupported
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine, line
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.threads.store_worker import StoreWorker
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.thread_list import SORT_NAMES
from ckpt_cli.tui.panes.threads import ThreadsPane
from ckpt_cli.tui.panes.tree import TreePane, TreeRows, way_here
from ckpt_cli.tui.panes.tree_picture import TreePicture
from ckpt_cli.tui.reading import error_lines
from ckpt_cli.tui.screens.tree import TreeScreen
from ckpt_cli.tui.styles import as_text, title
from ckpt_cli.tui.tabs.checkpoint import read_document
from ckpt_cli.tui.tabs.content import KeptReader, Tab, TabContent, ThreadTab, base_of, name_in_tree

_Answer = TypeVar("_Answer")


class LiveScreen(TreeScreen):
    """Threads on the left, the tree of one thread on the right, and a checkpoint below it."""

    READING: ClassVar = frozenset(
        {"threads", "heads", "tree", "document", "origin", "goto", "findings", "deep"}
    )
    REFRESHING: ClassVar = frozenset({"threads", "memory", "findings"})

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._kept = KeptReader()
        self._kept_replay = KeptReader()
        self.read: tuple[CheckpointKey, Tab] | None = None
        """The content of the inspector."""
        self.shown: tuple[CheckpointKey, Tab] | None = None
        """The same, or None if it must be read again."""
        self._reading: tuple[CheckpointKey, Tab] | None = None
        """The content that is being read, or was read last."""
        self._is_document_asked = False
        """Whether a tab is read when the running read ends."""
        self._forgotten = 0
        """How often the content of the inspector was to be read again."""
        self.base: CheckpointKey | None = None
        """The checkpoint marked as the base of diffs."""
        self.base_name = ""
        self.tree_heading = ""

    # Parts of the screen

    def compose(self) -> ComposeResult:
        self.threads_pane = ThreadsPane(self.context.now, self.context.filter_terms)
        self.rows = self.threads_pane.rows
        self.tree_rows = TreeRows()
        self.tree_pane = TreePane(self.tree_rows)
        self.inspector = Inspector()
        self.status = Static(id="status")
        yield self.status
        with Horizontal(id="body"):
            yield self.threads_pane
            with Vertical(id="right") as self.right:
                yield self.tree_pane
                yield self.inspector
        yield KeyLine()

    def on_mount(self) -> None:
        title(self.threads_pane, "Threads")
        title(self.tree_pane, "Tree")
        self.inspector.set_heading("Checkpoint")
        self.rows.focus()
        self.show_status()
        self.watch(self.tree_rows, "scroll_y", self.read_seen_rows, init=False)
        self.context.scan.changed = lambda: self.app.call_from_thread(self.show_status)
        self.load_threads()

    @property
    def place(self) -> CheckpointKey | None:
        """The checkpoint under the cursor of the tree; None if there is none."""
        key = self.tree_rows.key
        if self.view.thread_id is None or self.view.tree is None or key is None:
            return None
        return CheckpointKey(self.view.thread_id, *key)

    @property
    def refs(self) -> Mapping[str, str]:
        """The short refs of the tree that is shown, by checkpoint id."""
        return {} if self.view.tree is None else self.view.tree.refs

    def name_of(self, place: CheckpointKey) -> str:
        """Return the name of a checkpoint of the tree that is shown: `step 7 · book · 6a3c`."""
        tree = self.view.tree
        if tree is None:
            return safe_text(place.checkpoint_id)
        return name_in_tree(tree, (place.checkpoint_ns, place.checkpoint_id))

    def _name_of_base(self, base: CheckpointKey) -> str:
        """Return the name of the marked checkpoint, with its thread if it is another one."""
        if base.thread_id == self.view.thread_id:
            return self.base_name
        return f"{safe_text(base.thread_id)} > {self.base_name}"

    # The tree

    def show_no_thread(self) -> None:
        nothing = "no thread matches" if self.rows.listing.threads else "no threads yet"
        self.clear([line((nothing, "dim"))] if self._info is not None else [])

    def draw(self, picture: TreePicture) -> None:
        """Show a tree that was read."""
        tree = picture.tree
        facts = counted(tree.plan.checkpoints, "checkpoint")
        if tree.plan.branches > 1:
            facts += f", {counted(tree.plan.branches, 'branch')}"
        if tree.plan.calls:
            facts += f", {counted(tree.plan.calls, 'call')}"
        if not self.view.ns:
            # The status is that of the thread: a call in it may be done.
            facts += f", {tree.status}"
        self.tree_heading = f"{way_here(self.view.thread_id, self.view.ns)}: {facts}"
        title(self.tree_pane, self.tree_heading)
        key = self.goal or self.tree_rows.key
        if not self.is_tree_asked_again:
            self.goal = None
        if self.view.follows and not self.outer:
            key = picture.head or key
        base = self.base
        is_here = base is not None and base.thread_id == self.view.thread_id
        self.tree_rows.marked = (
            (base.checkpoint_ns, base.checkpoint_id) if base is not None and is_here else None
        )
        shown = self.tree_rows.picture
        is_more = shown is not None and shown.keys is picture.keys
        is_same = is_more or self.tree_rows.lines == picture.lines
        if is_same and self.tree_rows.key == key:
            self.tree_rows.show_more(picture)
            self.read_seen_rows()
            # What could not be read before may be readable now.
            self.load_document()
            return
        self.forget_document()
        self.tree_rows.show_picture(picture, key)
        self.read_seen_rows()

    def no_tree(self, error: CkptError) -> None:
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

    def forget_document(self) -> None:
        """Read the tab again when it is asked for, also if it is being read now."""
        self.shown = None
        self._forgotten += 1

    def load_document(self) -> None:
        """Read the tab of the checkpoint under the cursor.

        A running read of the same tab goes on. What is under the cursor when it ends is read next,
        so a step is shown as soon as it is read, also while a key is held down.
        """
        now = None if self.place is None else (self.place, self.inspector.tab)
        is_running = any(one.group == "document" and not one.is_finished for one in self.workers)
        if is_running and now is not None and now != self.shown and _alike(now, self._reading):
            self._is_document_asked = True
        else:
            self._load_documents()

    @work(exclusive=True, group="document")
    async def _load_documents(self) -> None:
        self._is_document_asked = True
        while self._is_document_asked:
            self._is_document_asked = False
            await self._load_document()

    async def _load_document(self) -> None:
        place, tab = self.place, self.inspector.tab
        if place is None:
            return
        self._reading = place, tab
        match tab:
            case "timeline" | "errors" | "findings" | "memory":
                await self.load_thread_tab(tab, place)
                return
        if self.shown == (place, tab):
            return
        forgotten = self._forgotten
        width = max(self.inspector.document.width, 1)
        base = base_of(self.base, place) if tab == "diff" else None
        worker, kept = self.context.detail, self._kept
        if tab == "writes":
            # The first one replays the thread, which may take long: no other tab waits for it.
            worker, kept = self.context.checking, self._kept_replay
        question = partial(
            read_document,
            tab=tab,
            place=place,
            base=base,
            clock=self.clock,
            width=width,
            kept=kept,
            refs=self.refs,
        )
        with self.inspector.while_loading("Checkpoint: loading"):
            document = await self.ask(worker, question, self.no_document)
            before = "" if base is None else f"{self._name_of_base(base)} → "
            self.inspector.set_heading(f"{before}{self.name_of(place)}")
        if document is not None:
            is_last = self.view.follows and tab == "messages"
            self.inspector.document.show_step(document, self.read, (place, tab), is_last=is_last)
            self.read = (place, tab)
            self.shown = self.read if forgotten == self._forgotten else None

    async def load_thread_tab(self, tab: ThreadTab, place: CheckpointKey) -> None:
        """Read a tab about the whole thread of a checkpoint, and show it."""
        raise NotImplementedError

    def no_document(self, error: CkptError) -> None:
        """Show an error in place of a tab."""
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
            spans.append((f"marked {self._name_of_base(self.base)}  ", "node"))
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


def _alike(one: tuple[CheckpointKey, Tab], other: tuple[CheckpointKey, Tab] | None) -> bool:
    """Return whether two contents are the same tab of one thread."""
    return other is not None and (one[0].thread_id, one[1]) == (other[0].thread_id, other[1])
