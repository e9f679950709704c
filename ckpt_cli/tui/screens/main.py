"""The main screen: keys and cursors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType

from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.threads.target import TargetArguments, find_checkpoint
from ckpt_cli.tui import command_line
from ckpt_cli.tui.keys import READING_GROUPS, SIGNS, KeyGroup, Palette, bindings, keys_of
from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.rows import FilterPane, RowList
from ckpt_cli.tui.panes.sizes import ChosenShares
from ckpt_cli.tui.panes.thread_list import SORTS, ThreadFilter
from ckpt_cli.tui.reading import SOON
from ckpt_cli.tui.remembered import RememberedLook
from ckpt_cli.tui.screens.values import ValuesScreen
from ckpt_cli.tui.tabs.checkpoint import read_origin
from ckpt_cli.tui.tabs.content import TABS, Tab, base_of, carried_from

if TYPE_CHECKING:
    from ckpt_cli.tui.screens.lists import PlaceList


class MainScreen(ValuesScreen):
    """Threads, a tree and a checkpoint, with the keys that only read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(keys_of(READING_GROUPS)),
        Binding("escape,h", "back", "Back", show=False),
    ]
    COMMANDS: ClassVar = {Palette}
    writes: ClassVar[bool] = False
    """Whether there are keys that change the store."""
    remembered = RememberedLook()
    """How the screen looks at its start."""

    @property
    def look(self) -> RememberedLook:
        """How the screen looks, to remember it. The theme is the application's."""
        return RememberedLook(
            sort=self.rows.listing.sort,
            tab=self.inspector.tab,
            is_unfolded=self.view.unfold,
            is_zoomed=self.is_zoomed,
            threads_share=self.chosen.threads,
            tree_share=self.chosen.tree,
        )

    def on_mount(self) -> None:
        """Look as remembered; the base class does the rest."""
        look = self.remembered
        self.rows.listing.sort = next((one for one in SORTS if one == look.sort), SORTS[0])
        self.view.unfold, self.is_zoomed = look.is_unfolded, look.is_zoomed
        self.chosen = ChosenShares(look.threads_share, look.tree_share)
        self.inspector.turn(next((one for one in TABS if one == look.tab), TABS[0]))
        self.show_panes()

    def on_resize(self) -> None:
        self.show_panes()
        # More threads may be visible now.
        self.schedule("heads", SOON, self.read_heads)

    # Events

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        event.stop()
        if event.rows is self.rows:
            thread = self.rows.thread
            if thread is None or thread.thread_id != self.view.thread_id:
                self.schedule("tree", SOON, self.load_tree)
            self.schedule("heads", SOON, self.read_heads)
        elif event.rows is self.tree_rows:
            self.load_document()
        elif event.rows is self.inspector.document:
            self.note_channel()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if event.rows is self.rows:
            self.go(self.tree_rows)
        elif event.rows is self.tree_rows:
            self._enter()
        elif (item := self.inspector.document.item) is not None:
            self.action_memory(item)
        elif (finding := self.inspector.document.finding) is not None:
            self._go_to_finding(finding)
        elif self.view.thread_id is not None and (key := self.inspector.document.place) is not None:
            self.jump(CheckpointKey(self.view.thread_id, *key))
        else:
            self.find_origin()

    def on_filter_pane_narrowed(self, event: FilterPane.Narrowed) -> None:
        event.stop()
        self.show_status()
        self.schedule("heads", SOON, self.read_heads)

    def on_inspector_turned(self, event: Inspector.Turned) -> None:
        event.stop()
        self.load_document()

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        if event.rows is self.tree_rows:
            self.schedule("draw", SOON, self.load_tree)
        elif event.rows is self.inspector.document:
            self.forget_document()
            self.is_memory_fresh = False
            self.load_document()

    def _enter(self) -> None:
        """Enter a subgraph call, unfold steps, or go to the checkpoint's state."""
        picture, at = self.tree_rows.picture, self.tree_rows.cursor
        if picture is None:
            return
        if at in picture.inner and not self.view.nest:
            self.outer.append((self.view.ns, self.tree_rows.key))
            self.view.ns, self.view.tree = picture.inner[at], None
            self.load_tree()
        elif at in picture.folds:
            self.action_unfold()
        else:
            self.go(self.inspector.document)

    def _go_to_finding(self, finding: Finding) -> None:
        """Go to the checkpoint of a finding."""
        if finding.checkpoint_id is None or finding.thread_id is None:
            self.say("this finding is not about one checkpoint", is_error=True)
        elif finding.ref is None:
            self.say("this checkpoint is not stored", is_error=True)
        else:
            ns = finding.checkpoint_ns or ""
            self.jump(CheckpointKey(finding.thread_id, ns, finding.checkpoint_id))

    @work(exclusive=True, group="origin")
    async def find_origin(self) -> None:
        """Go to the first checkpoint that had the value under the cursor."""
        place, path = self.place, self.inspector.document.path
        if place is None or path is None:
            return
        found = await self.ask(
            self.context.detail, partial(read_origin, place=place, path=path), self.show_error
        )
        if found is not None:
            origin, who = found
            self.say(f"{path} was written by {who}")
            self.jump(origin, "writes")

    def jump(self, place: CheckpointKey, tab: Tab | None = None) -> None:
        """Go to a checkpoint; clears a filter that hides it."""
        listing = self.rows.listing
        at = listing.place_of(place.thread_id)
        if at is None and listing.wanted != ThreadFilter():
            self.threads_pane.action_clear()
            at = listing.place_of(place.thread_id)
        if at is None:
            self.say("this thread is not in the list; r reads the store again", is_error=True)
            return
        self.stop_following()
        # Show the tree of the call, unless it is already shown.
        ns = place.checkpoint_ns or None
        inside = ns is not None and self.view.ns != ns and not self.view.nest
        if self.view.thread_id != place.thread_id:
            self.outer.clear()
            self.view.ns = None
        if inside:
            self.outer.append((None, None))
            self.view.ns = ns
        elif ns is None and self.view.ns is not None:
            self.outer.clear()
            self.view.ns = None
        self.view.thread_id, self.view.tree = place.thread_id, None
        self.goal = place.checkpoint_ns, place.checkpoint_id
        self.rows.cursor = at
        self.forget_document()
        if tab is not None:
            self.inspector.turn(tab)
        self.go(self.tree_rows)
        self.load_tree()

    def _jump_if_chosen(self, place: CheckpointKey | None, tab: Tab | None = None) -> None:
        """Go to the checkpoint that was chosen on another screen, if any."""
        if place is not None:
            self.jump(place, tab)

    @work(exclusive=True, group="goto")
    async def go_to(self, text: str) -> None:
        """Go to the checkpoint that was typed: THREAD or THREAD@REF."""
        clock = self.clock

        def find(store: Store) -> CheckpointKey:
            found = find_checkpoint(
                store, TargetArguments(text), clock.now, clock.zone, lambda _: None
            )
            return CheckpointKey(found.reader.thread_id, found.checkpoint_ns, found.checkpoint_id)

        place = await self.ask(self.context.detail, find, self.show_error)
        if place is not None:
            self.jump(place)

    # Keys

    def action_back(self) -> None:
        focused = self.focused
        if self.stop_looking():
            return
        if self.is_zoomed:
            self.action_zoom()
        elif focused is self.inspector.document:
            self.go(self.tree_rows)
        elif focused is self.tree_rows and self.outer:
            self.view.ns, self.goal = self.outer.pop()
            self.view.tree = None
            self.load_tree()
        elif focused is self.tree_rows:
            self.go(self.rows)
        elif self.rows.listing.wanted != ThreadFilter():
            self.threads_pane.action_clear()

    def action_tab(self, tab: Tab) -> None:
        self.inspector.turn(tab)
        self.go(self.inspector.document)

    def action_turn(self, way: int) -> None:
        after = (TABS.index(self.inspector.tab) + way) % len(TABS)
        self.inspector.turn(TABS[after])

    def action_check(self) -> None:
        self.action_tab("findings")
        if self.here_thread() is not None:
            self.check_deep()

    def action_follow(self) -> None:
        self.view.follows = not self.view.follows
        if self.view.follows and self.inspector.tab == "messages":
            self.inspector.document.action_edge(1)
        self.show_status()
        self.load_tree()

    def action_unfold(self) -> None:
        self.view.unfold = not self.view.unfold
        self.load_tree()

    def action_nest(self) -> None:
        self.view.nest = not self.view.nest
        self.load_tree()

    def action_mark(self) -> None:
        if (place := self.here()) is None:
            return
        self.base = None if self.base == place else place
        self.base_name = self.name_of(place)
        self.tree_rows.marked = self.tree_rows.key if self.base is not None else None
        self.tree_rows.refresh()
        self.forget_document()
        self.load_document()
        self.show_status()

    def action_compare(self) -> None:
        if (place := self.here()) is None:
            return
        from ckpt_cli.tui.screens.diff import DiffScreen

        base = base_of(self.base, place)
        self.app.push_screen(DiffScreen(self.context.detail, base, place, self.refs))

    def action_questions(self) -> None:
        from ckpt_cli.tui.screens.lists import QUESTIONS

        self._list_places(QUESTIONS)

    def action_errors(self) -> None:
        from ckpt_cli.tui.screens.lists import ERRORS

        self._list_places(ERRORS)

    def _list_places(self, kind: PlaceList) -> None:
        from ckpt_cli.tui.screens.lists import PlacesScreen

        screen = PlacesScreen(kind, self.context.searching, self.context.now)
        self.app.push_screen(screen, partial(self._jump_if_chosen, tab="state"))

    def action_operations(self) -> None:
        if (thread_id := self.here_thread()) is None:
            return
        from ckpt_cli.tui.screens.lists import OperationsScreen

        now = self.context.now()
        screen = OperationsScreen(self.context.opening, thread_id, now, writes=self.writes)
        self.app.push_screen(screen, self._undo)

    async def _undo(self, op: str | None) -> None:
        if op is not None:
            await self.run_action(f"undo_operation({op!r})")

    def action_grep(self) -> None:
        from ckpt_cli.tui.screens.lists import SearchScreen

        screen = SearchScreen(self.context.searching, self.view.thread_id)
        self.app.push_screen(screen, self._jump_if_chosen)

    def action_memory(self, goal: ItemKey | None = None) -> None:
        from ckpt_cli.tui.screens.memory import MemoryScreen

        self.app.push_screen(
            MemoryScreen(self.context, goal), partial(self._jump_if_chosen, tab="messages")
        )

    def action_copy_ref(self) -> None:
        if (place := self.here()) is not None:
            self.copy(command_line.ref(place))

    async def action_copy_config(self) -> None:
        if (place := self.here()) is None:
            return
        question = partial(carried_from, key=place)
        found = await self.ask(self.context.detail, question, self.show_error)
        if found is not None:
            self.copy(command_line.config(place, found))

    def action_command_line(self) -> None:
        from ckpt_cli.tui.screens.text import CopyScreen

        self.app.push_screen(CopyScreen("Command lines for what is shown", self.command_lines()))

    def command_lines(self) -> list[str]:
        """Return the commands for what is shown, that of the focused pane first."""
        store, place = self.context.store_words, self.place
        found = [command_line.list_command(store, self.rows.listing.wanted)]
        if self.view.thread_id is not None:
            found.append(command_line.tree_command(store, self.view.thread_id, self.view.ns))
        if place is not None and (shown := self.tab_command(place)) is not None:
            found.append(shown)
        first = 0 if self.rows.has_focus else 1 if self.tree_rows.has_focus else 2
        first = min(first, len(found) - 1)
        finding = self.inspector.document.finding
        fix = "" if finding is None else finding.fix(store) or finding.look(store)
        return [found[first], *found[:first], *found[first + 1 :], *([fix] if fix else [])]

    def action_again(self) -> None:
        self.forget_findings()
        self.forget_changes()
        self.load_threads()
        self.load_memory_again()

    def action_help(self) -> None:
        from ckpt_cli.tui.screens.text import HelpScreen

        self.app.push_screen(HelpScreen(self.key_groups, SIGNS))

    @property
    def key_groups(self) -> Sequence[KeyGroup]:
        """The keys of this screen, for the help and the palette."""
        return READING_GROUPS
