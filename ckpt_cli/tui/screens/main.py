"""The main screen: which thread, which checkpoint of it, and what stands there."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Static

from ckpt_backends.errors import CkptError, StoreUnavailable
from ckpt_backends.model import StoreInfo, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.tree import Key as TreeKey
from ckpt_cli.reading.target import Words, find_checkpoint
from ckpt_cli.reading.tree import Tree
from ckpt_cli.render.cells import fit
from ckpt_cli.render.lines import Line, Span, line
from ckpt_cli.render.text import safe_text
from ckpt_cli.render.tree_words import count
from ckpt_cli.tui import command_line
from ckpt_cli.tui.keys import LOOKING, Key, bindings
from ckpt_cli.tui.lane import Lane
from ckpt_cli.tui.listing import unread, unread_near
from ckpt_cli.tui.palette import Palette
from ckpt_cli.tui.panes import (
    Inspector,
    SearchPane,
    ThreadsPane,
    TreeRows,
    title,
)
from ckpt_cli.tui.reads import (
    Clock,
    Document,
    Place,
    Tab,
    draw,
    read_document,
    read_origin,
    read_statuses,
    read_thread_tree,
    read_threads,
)
from ckpt_cli.tui.rows import Rows, as_text

if TYPE_CHECKING:
    from ckpt_cli.tui.app import CkptApp

_Answer = TypeVar("_Answer")

_SOON = 0.05
"""Seconds that the cursor must rest before what it stands on is read."""
_HEADS_NEAR, _HEADS = 50, 500
"""Heads that are read with one question, on the screen and elsewhere; few, as others may wait."""
_SAID = 300
"""Cells of what is said for a few seconds."""
_SHARE = 10
"""Looking at the store again takes no more than this fraction of the time."""


@dataclass(slots=True)
class View:
    """Which tree is shown, and how."""

    thread_id: str | None = None
    ns: str | None = None
    """One namespace alone; None for the whole thread."""
    unfold: bool = False
    nest: bool = False
    tree: Tree | None = None


class MainScreen(Screen[None]):
    """Threads on the left, the tree of one of them on the right, and a checkpoint below that."""

    app: CkptApp
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(LOOKING),
        Binding("escape", "back", "Back", show=False),
    ]
    COMMANDS: ClassVar = {Palette}

    def __init__(self, threads: Lane, heads: Lane, detail: Lane) -> None:
        super().__init__()
        self._threads, self._heads, self._detail = threads, heads, detail
        self._info: StoreInfo | None = None
        self._trouble = ""
        self.view = View()
        self._outer: list[tuple[str | None, TreeKey | None]] = []
        """The namespaces that were gone into, each with the checkpoint that called the next."""
        self._goal: TreeKey | None = None
        """The checkpoint that the cursor is to stand on when its tree is there."""
        self._shown: tuple[Place, Tab] | None = None
        """What the inspector shows."""
        self.base: Place | None = None
        """What is marked as one side of a diff."""
        self._rest: dict[str, Timer] = {}
        self._reading_heads = False

    # Parts

    def compose(self) -> ComposeResult:
        self.threads_pane = ThreadsPane(self.app.now)
        self.rows = self.threads_pane.rows
        self.tree_rows = TreeRows()
        self.tree_pane = SearchPane(self.tree_rows, id="tree")
        self.inspector = Inspector()
        self.status = Static(id="status")
        yield self.status
        with Horizontal(id="body"):
            yield self.threads_pane
            with Vertical(id="right"):
                yield self.tree_pane
                yield self.inspector
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title(self.threads_pane, "Threads")
        title(self.tree_pane, "Tree")
        title(self.inspector, "Checkpoint")
        self.rows.focus()
        self._tell()
        self.load_threads()

    @property
    def is_busy(self) -> bool:
        """Whether something is about to be read for what the cursors stand on."""
        return not self._rest.keys() <= {"threads"}

    @property
    def clock(self) -> Clock:
        """The time now, as the panes are to tell it."""
        return Clock(self.app.now(), self.app.zone)

    @property
    def place(self) -> Place | None:
        """The checkpoint under the cursor of the tree."""
        key = self.tree_rows.key
        if self.view.thread_id is None or key is None:
            return None
        return Place(self.view.thread_id, *key)

    # Threads

    @work(exclusive=True, group="threads")
    async def load_threads(self) -> None:
        """List all threads, and do so again after a while."""
        began = time.monotonic()
        try:
            if self._info is None:
                self._info = await self._threads.ask(lambda store: store.describe())
            before = self.rows.listing.threads
            threads = await self._threads.ask(partial(read_threads, before=before))
        except CkptError as error:
            self._trouble = f"trying again: {error.message}"
            self._tell()
            self._again(self.app.pause)
            return
        self._trouble = ""
        self._take(threads)
        took = time.monotonic() - began
        self._again(max(self.app.pause, took * _SHARE))

    def _again(self, pause: float) -> None:
        if self.app.pause:
            self._later("threads", pause, self.load_threads)

    def _take(self, threads: list[Thread]) -> None:
        listing = self.rows.listing
        before = self.rows.thread
        if list(listing.threads) != threads:
            if not listing.threads:
                # They stay, and looking through them again and again for what can be freed
                # would make pauses that can be seen.
                gc.freeze()
            listing.threads = threads
            self.rows.settle(before.thread_id if before is not None else None)
        else:
            # Ages are told anew.
            self.rows.refresh()
        self.read_heads()
        self._tell()
        if self.view.thread_id is not None and self.view.tree is not None:
            self.load_tree()

    @work(exclusive=True, group="heads")
    async def read_heads(self) -> None:
        """Read what waits: of the threads on the screen first, then of all for a filter."""
        listing = self.rows.listing
        self._reading_heads = True
        # Newest last, as they are taken from the end.
        rest = unread(listing)[::-1]
        while some := unread_near(listing, self.rows.middle, _HEADS_NEAR) or rest[-_HEADS:]:
            try:
                found = await self._heads.ask(partial(read_statuses, threads=some))
            except CkptError as error:
                self._trouble = error.message
                break
            for thread, status in zip(some, found, strict=True):
                listing.statuses[thread.thread_id] = (thread, status)
            while rest and listing.status(rest[-1]) is not None:
                rest.pop()
            if listing.wanted.status.intersection(found):
                kept = self.rows.thread
                self.rows.settle(kept.thread_id if kept is not None else None)
            else:
                self.rows.refresh()
            self._tell()
        self._reading_heads = False
        self._tell()

    # The tree

    @work(exclusive=True, group="tree")
    async def load_tree(self) -> None:
        """Read and draw the tree of the thread under the cursor."""
        thread = self.rows.thread
        view = self.view
        if thread is None:
            self.view = View(unfold=view.unfold, nest=view.nest)
            self.tree_rows.clear()
            return
        if view.thread_id != thread.thread_id:
            self._outer.clear()
            view.thread_id, view.ns, view.tree = thread.thread_id, None, None
        question = partial(
            read_thread_tree,
            thread_id=thread.thread_id,
            ns=view.ns,
            unfold=view.unfold,
            nest=view.nest,
            # Neither what was asked for nor what is looked at goes into a fold.
            keep=self._goal or (self.tree_rows.key if view.tree is not None else None),
        )
        if view.tree is None:
            title(self.tree_pane, "Tree: loading")
        tree = await self._ask(self._detail, question, self._no_tree)
        if tree is not None:
            view.tree = tree
            self._draw()

    def _draw(self) -> None:
        tree = self.view.tree
        if tree is None or not self.tree_rows.width:
            return
        picture = draw(tree, self.clock, self.tree_rows.width)
        facts = count(tree.plan.checkpoints, "checkpoint")
        if tree.plan.branches > 1:
            facts += f", {count(tree.plan.branches, 'branch')}"
        if tree.plan.calls:
            facts += f", {count(tree.plan.calls, 'call')}"
        inside = " inside a subgraph, Esc leaves" if self._outer else ""
        title(self.tree_pane, f"Tree: {facts}, {tree.status}{inside}")
        key, self._goal = self._goal or self.tree_rows.key, None
        base = self.base
        of_thread = base is not None and base.thread_id == self.view.thread_id
        self.tree_rows.marked = base.key if base is not None and of_thread else None
        changed = self.tree_rows.lines != picture.lines
        self.tree_rows.show_picture(picture, key)
        if changed:
            self._shown = None
        self._later("document", _SOON, self.load_document)

    def _no_tree(self, error: CkptError) -> None:
        title(self.tree_pane, "Tree")
        self.view.tree = None
        self.tree_rows.picture = None
        self.tree_rows.show_lines(_said(error))
        self.inspector.document.show_document(Document(()), keep=False)
        self._shown = None

    # The inspector

    @work(exclusive=True, group="document")
    async def load_document(self) -> None:
        """Read the tab of the checkpoint under the cursor."""
        place, tab = self.place, self.inspector.tab
        if place is None:
            self._shown = None
            self.inspector.document.show_document(Document(()), keep=False)
            return
        if self._shown == (place, tab):
            return
        width = max(self.inspector.document.width, 1)
        question = partial(
            read_document, tab=tab, place=place, base=self.base, clock=self.clock, width=width
        )
        slow = self.set_timer(0.3, lambda: title(self.inspector, "Checkpoint: loading"))
        document = await self._ask(self._detail, question, self._no_document)
        slow.stop()
        title(self.inspector, f"Checkpoint {safe_text(place.checkpoint_id)}")
        if document is not None:
            self.inspector.document.show_document(document, keep=False)
            self._shown = (place, tab)

    def _no_document(self, error: CkptError) -> None:
        self.inspector.document.show_document(Document(_said(error)), keep=False)
        self._shown = None

    # What happens

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        if event.rows is self.rows:
            thread = self.rows.thread
            if thread is None or thread.thread_id != self.view.thread_id:
                self._later("tree", _SOON, self.load_tree)
            self._later("heads", _SOON, self.read_heads)
        elif event.rows is self.tree_rows:
            self._later("document", _SOON, self.load_document)

    def on_rows_chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        if event.rows is self.rows:
            self.tree_rows.focus()
        elif event.rows is self.tree_rows:
            self._enter()
        else:
            self.find_origin()

    def on_threads_pane_narrowed(self, event: ThreadsPane.Narrowed) -> None:
        event.stop()
        self._tell()
        self._later("heads", _SOON, self.read_heads)

    def on_inspector_turned(self, event: Inspector.Turned) -> None:
        event.stop()
        self.load_document()

    def on_rows_reshaped(self, event: Rows.Reshaped) -> None:
        event.stop()
        if event.rows is self.tree_rows:
            self._later("draw", _SOON, self._draw)
        elif event.rows is self.inspector.document:
            self._shown = None
            self._later("document", _SOON, self.load_document)

    def _enter(self) -> None:
        """Go into a subgraph call, unfold a fold, or look at a checkpoint."""
        picture, at = self.tree_rows.picture, self.tree_rows.cursor
        if picture is None:
            return
        if at in picture.inner and not self.view.nest:
            self._outer.append((self.view.ns, self.tree_rows.key))
            self.view.ns, self.view.tree = picture.inner[at], None
            self.load_tree()
        elif at in picture.folds:
            self.action_unfold()
        else:
            self.inspector.document.focus()

    @work(exclusive=True, group="origin")
    async def find_origin(self) -> None:
        """Go to the checkpoint that first had the value under the cursor."""
        place, path = self.place, self.inspector.document.path
        if place is None or path is None:
            return
        found = await self._ask(
            self._detail, partial(read_origin, place=place, path=path), self.tell_error
        )
        if found is not None:
            origin, who = found
            self.say(f"{path} is from {who}")
            self.jump(origin, "writes")

    def jump(self, place: Place, tab: Tab | None = None) -> None:
        """Go to a checkpoint, whatever is shown now."""
        listing = self.rows.listing
        at = listing.place_of(place.thread_id)
        if at is None and listing.wanted.text + str(listing.wanted.user or "") + "".join(
            listing.wanted.status
        ):
            self.threads_pane.action_clear()
            at = listing.place_of(place.thread_id)
        if at is None:
            self.say("that thread is not in this store any more", is_error=True)
            return
        # A call's own tree, unless that is what is shown.
        ns = place.checkpoint_ns or None
        inside = ns is not None and self.view.ns != ns and not self.view.nest
        if self.view.thread_id != place.thread_id:
            self._outer.clear()
            self.view.ns = None
        if inside:
            self._outer.append((None, None))
            self.view.ns = ns
        elif ns is None and self.view.ns is not None:
            self._outer.clear()
            self.view.ns = None
        self.view.thread_id, self.view.tree = place.thread_id, None
        self._goal = place.key
        self.rows.cursor = at
        self._shown = None
        if tab is not None:
            self.inspector.turn(tab)
        self.tree_rows.focus()
        self.load_tree()

    @work(exclusive=True, group="goto")
    async def go_to(self, text: str) -> None:
        """Go to what a person typed: THREAD or THREAD@REF."""
        clock = self.clock

        def find(store: Store) -> Place:
            found = find_checkpoint(store, Words(text), clock.now, clock.zone, lambda _: None)
            return Place(found.reader.thread_id, found.checkpoint_ns, found.checkpoint_id)

        place = await self._ask(self._detail, find, self.tell_error)
        if place is not None:
            self.jump(place)

    # Keys

    def action_back(self) -> None:
        focused = self.focused
        if focused is self.inspector.document:
            self.tree_rows.focus()
        elif focused is self.tree_rows and self._outer:
            self.view.ns, self._goal = self._outer.pop()
            self.view.tree = None
            self.load_tree()
        elif self.has_class("zoomed"):
            self.action_zoom()
        else:
            self.rows.focus()

    def action_zoom(self) -> None:
        """Show one pane alone; the others come back with the same key."""
        zoomed = self.has_class("zoomed")
        for pane in (self.threads_pane, self.tree_pane, self.inspector):
            inside = pane.has_focus_within
            pane.display = zoomed or inside
        self.query_one("#right").display = zoomed or not self.threads_pane.has_focus_within
        self.set_class(not zoomed, "zoomed")

    def action_tab(self, tab: Tab) -> None:
        self.inspector.turn(tab)
        if not self.has_class("zoomed"):
            self.inspector.document.focus()

    def action_unfold(self) -> None:
        self.view.unfold = not self.view.unfold
        self.load_tree()

    def action_nest(self) -> None:
        self.view.nest = not self.view.nest
        self.load_tree()

    def action_mark(self) -> None:
        place = self.place
        if place is None:
            return
        self.base = None if self.base == place else place
        self.tree_rows.marked = place.key if self.base is not None else None
        self.tree_rows.refresh()
        self._shown = None
        self.load_document()
        if self.base is not None:
            self.say("marked; go to another checkpoint, and press d")

    def action_compare(self) -> None:
        place = self.place
        if place is None:
            return
        from ckpt_cli.tui.screens.side_by_side import SideBySide

        base = None if self.base == place else self.base
        self.app.push_screen(SideBySide(self._detail, base, place))

    def action_questions(self) -> None:
        from ckpt_cli.tui.screens.questions import Questions

        self.app.push_screen(Questions(self.app.searching), self._follow)

    def action_grep(self) -> None:
        from ckpt_cli.tui.screens.search import SearchScreen

        screen = SearchScreen(self.app.searching, self.view.thread_id)
        self.app.push_screen(screen, self._follow)

    def _follow(self, place: Place | None) -> None:
        if place is not None:
            self.jump(place)

    def action_copy_ref(self) -> None:
        if self.place is not None:
            self.copy(command_line.ref(self.place))

    def action_copy_config(self) -> None:
        if self.place is not None:
            self.copy(command_line.config(self.place))

    def copy(self, text: str) -> None:
        """Put a text into the terminal's clipboard, and show it."""
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {text}")

    def action_command_line(self) -> None:
        from ckpt_cli.tui.screens.text import TextScreen

        lines = [line(safe_text(one)) for one in self._command_lines()]
        self.app.push_screen(TextScreen("The same on the command line", lines, copies=True))

    def _command_lines(self) -> list[str]:
        """The commands for what has the focus first."""
        store, place = self.app.store_words, self.place
        wanted = self.rows.listing.wanted
        found = [command_line.list_command(store, sorted(wanted.status), wanted.text, wanted.user)]
        if self.view.thread_id is not None:
            found.append(command_line.tree_command(store, self.view.thread_id, self.view.ns))
        if place is not None:
            found.append(command_line.tab_command(store, self.inspector.tab, place, self.base))
        first = 0 if self.rows.has_focus else 1 if self.tree_rows.has_focus else 2
        first = min(first, len(found) - 1)
        return [found[first], *found[:first], *found[first + 1 :]]

    def action_again(self) -> None:
        self.load_threads()

    def action_help(self) -> None:
        from ckpt_cli.tui.screens.text import help_screen

        self.app.push_screen(help_screen(self.key_table))

    @property
    def key_table(self) -> Sequence[Key]:
        """The keys of this screen, for its help and the palette."""
        return LOOKING

    # What is said

    def mode(self) -> Span:
        """Whether anything can be changed here."""
        return "read-only", "dim"

    def _tell(self) -> None:
        """Say in the status line what is open, and what is going on."""
        listing = self.rows.listing
        total, shown = len(listing.threads), len(listing.shown)
        number = f"{shown:,} of {total:,}" if shown != total else f"{total:,}"
        spans: list[Span | str] = [("ckpt ", "bold"), self.mode(), "  "]
        # What may be cut stands last.
        if self._trouble:
            spans.append((f"{safe_text(self._trouble)}  ", "error"))
        if self._info is not None:
            spans.append(f"{number} threads  ")
        elif not self._trouble:
            spans.append(("opening the store", "dim"))
        if self._reading_heads and listing.wanted.status:
            spans.append((f"{len(listing.statuses):,} heads read  ", "dim"))
        if self._info is not None:
            spans += [(f"{safe_text(self._info.layout)}  ", "dim"), safe_text(self._info.url)]
        self.status.update(as_text(line(*spans)))
        order = "" if listing.sort == "last" else f", by {listing.sort}"
        title(self.threads_pane, f"Threads: {number}{order}")

    def say(self, text: str, *, is_error: bool = False) -> None:
        """Say something for a few seconds; nothing in it is parsed."""
        severity: SeverityLevel = "error" if is_error else "information"
        self.notify(fit(safe_text(text), _SAID), severity=severity, markup=False)

    def tell_error(self, error: CkptError) -> None:
        """Say what went wrong, and what to do about it."""
        hint = f"; {error.hint}" if error.hint else ""
        self.say(f"{error.message}{hint}", is_error=True)

    async def _ask(
        self,
        lane: Lane,
        question: Callable[[Store], _Answer],
        otherwise: Callable[[CkptError], None],
    ) -> _Answer | None:
        """What a lane answers; None where it cannot, which is then told."""
        try:
            return await lane.ask(question)
        except StoreUnavailable as error:
            self._trouble = f"trying again: {error.message}"
            self._tell()
            otherwise(error)
        except CkptError as error:
            otherwise(error)
        return None

    def _later(self, name: str, seconds: float, what: Callable[[], object]) -> None:
        """Do something after a while, unless it is put off again before."""
        if (before := self._rest.get(name)) is not None:
            before.stop()

        def run() -> None:
            del self._rest[name]
            what()

        self._rest[name] = self.set_timer(seconds, run)


def _said(error: CkptError) -> list[Line]:
    lines = [line((safe_text(error.message), "error"))]
    if error.hint:
        lines.append(line((safe_text(error.hint), "dim")))
    return lines
