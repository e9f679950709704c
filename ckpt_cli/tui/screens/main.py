"""The main screen: it lays out the panes, binds keys, and tells each pane what others say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Static

from ckpt_backends.errors import CkptError
from ckpt_backends.memory import ItemKey
from ckpt_backends.model import CheckpointKey, time_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.tree import Key as TreeKey
from ckpt_cli.reading.target import TargetArguments, find_checkpoint
from ckpt_cli.render.text import Span, line, safe_text
from ckpt_cli.tui import command_line, keys
from ckpt_cli.tui.context import RememberedLook, ScreenContext
from ckpt_cli.tui.keys import Key, KeyGroup
from ckpt_cli.tui.panes.body import ChosenShares, MainPanes
from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.threads import SORTS, ThreadFilter, ThreadsPane
from ckpt_cli.tui.panes.tree import TreePane
from ckpt_cli.tui.reading import StoreLost, ask, copy, say, show_error, tell_if_lost
from ckpt_cli.tui.screens.dialogs import CopyScreen, HelpScreen, KeyLine, TimeScreen
from ckpt_cli.tui.stepper import Stepper
from ckpt_cli.tui.styles import as_text
from ckpt_cli.tui.tabs.checkpoint import DiffScreen
from ckpt_cli.tui.tabs.content import Subject, Tab, base_of, carried_from

if TYPE_CHECKING:
    from ckpt_cli.tui.screens.lists import PlaceList


class Changes(Protocol):
    """What `--write` adds."""

    async def run(self, action: str, op: str) -> None:
        """Show the plan of a change, and carry it out if the user agrees."""


class Palette(Provider):
    """The commands of the main screen, those that were used last first."""

    @property
    def _main(self) -> MainScreen:
        return cast("MainScreen", self.screen)

    async def discover(self) -> Hits:
        for key in self._keys():
            shown = Content(f"{key.title} ({key.shown})")
            yield DiscoveryHit(shown, partial(self._run, key), text=key.title, help=key.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in self._keys():
            score = matcher.match(key.title)
            if score > 0:
                shown = Content.assemble(matcher.highlight(key.title), f" ({key.shown})")
                yield Hit(score, shown, partial(self._run, key), text=key.title, help=key.help)
        # Last, because any text may be a thread id.
        going = partial(self._main.go_to, query)
        about = "A thread, or THREAD@REF"
        yield Hit(0.01, Content(f"Go to {query}"), going, text=query, help=about)

    def _keys(self) -> Sequence[Key]:
        return keys.keys_by_use(self._main.key_groups, self._main.ran_lately)

    async def _run(self, key: Key) -> None:
        lately = self._main.ran_lately
        lately[:] = [*(one for one in lately if one != key.action), key.action]
        await self._main.run_action(key.action)


class MainScreen(Screen[None]):
    """Threads, a tree and a checkpoint."""

    @dataclass
    class LookedBack(Message):
        """The store shall be shown as it was at a moment; None for now."""

        screen: MainScreen
        moment: datetime | None
        place: CheckpointKey | None
        """The checkpoint that was shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keys.bindings(keys.WRITING_GROUPS),
        Binding("escape,h", "back", "Back", show=False),
    ]
    COMMANDS: ClassVar = {Palette}
    HORIZONTAL_BREAKPOINTS = [(0, "-small"), (87, "-medium"), (241, "-large")]  # noqa: RUF012
    remembered = RememberedLook()
    """How the screen looks at its start."""

    def __init__(
        self,
        context: ScreenContext,
        goal: CheckpointKey | None = None,
        changes: Callable[[MainScreen], Changes] | None = None,
    ) -> None:
        """`goal` is the checkpoint that is shown first; `changes` makes what `--write` adds."""
        super().__init__()
        self.context = context
        self.changes = None if changes is None else changes(self)
        self.stepper = Stepper()
        self.base: CheckpointKey | None = None
        """The checkpoint marked as the base of diffs."""
        self._base_name = ""
        self.ran_lately: list[str] = []
        """Actions that were run from the palette, the last one last."""
        self._goal = goal
        self._looking: tuple[CheckpointKey, str | None, int] | None = None
        """The change that is being searched: from where, of which channel, in which direction."""

    def compose(self) -> ComposeResult:
        self.threads_pane = ThreadsPane(self.context)
        self.tree_pane = TreePane(self.context)
        self.inspector = Inspector(self.context)
        self.body = MainPanes(self.threads_pane, self.tree_pane, self.inspector)
        self.status = Static(id="status", classes="" if self.changes is None else "write")
        yield self.status
        yield self.body
        yield KeyLine(hides=frozenset() if self.changes else keys.CHANGING.actions)

    def on_mount(self) -> None:
        """Look as remembered, and begin to read."""
        look = self.remembered
        self.threads_pane.listing.sort = next((one for one in SORTS if one == look.sort), SORTS[0])
        self.tree_pane.view.unfold = look.is_unfolded
        self.body.is_zoomed = look.is_zoomed
        self.body.chosen = ChosenShares(look.threads_share, look.tree_share)
        names = self.inspector.names
        self.inspector.turn(next((one for one in names if one == look.tab), names[0]))
        self.threads_pane.rows.focus()
        self.body.show_panes()
        self.show_status()
        self.context.scan.changed = lambda: self.app.call_from_thread(self.show_status)
        self.threads_pane.load()

    def on_unmount(self) -> None:
        # The application closes the connections to the store as it is now.
        if self.context.opening.as_of is not None:
            self.context.leave()

    def on_resize(self) -> None:
        self.body.show_panes()
        # More threads may be visible now.
        self.threads_pane.load_heads_soon()

    @property
    def look(self) -> RememberedLook:
        """How the screen looks, to remember it. The theme is the application's."""
        return RememberedLook(
            sort=self.threads_pane.listing.sort,
            tab=self.inspector.tab,
            is_unfolded=self.tree_pane.view.unfold,
            is_zoomed=self.body.is_zoomed,
            threads_share=self.body.chosen.threads,
            tree_share=self.body.chosen.tree,
        )

    @property
    def key_groups(self) -> Sequence[KeyGroup]:
        """The keys of this screen, for the help and the palette."""
        return keys.READING_GROUPS if self.changes is None else keys.WRITING_GROUPS

    # What is selected

    @property
    def place(self) -> CheckpointKey | None:
        """The checkpoint under the cursor of the tree; None if there is none."""
        return self.tree_pane.place

    def here(self) -> CheckpointKey | None:
        """Return the checkpoint under the cursor; shows an error if there is none."""
        if self.place is None:
            is_loading = self.threads_pane.rows.thread is not None and self.tree_pane.is_loading
            self._miss("the tree is still loading" if is_loading else "no checkpoint selected")
        return self.place

    def here_thread(self) -> str | None:
        """Return the id of the thread that is shown; shows an error if there is none."""
        if self.tree_pane.view.thread_id is None:
            self._miss("no thread selected")
        return self.tree_pane.view.thread_id

    def _miss(self, said: str) -> None:
        opening = self.threads_pane.info is None
        say(self, "the store is not open yet" if opening else said, is_error=True)

    def jump(self, place: CheckpointKey, tab: Tab | None = None) -> None:
        """Go to a checkpoint; clears a filter that hides it."""
        found = self.threads_pane.select(place.thread_id)
        if found is None:
            said = "this thread is not in the list; r reads the store again"
            say(self, said, is_error=True)
            return
        self.tree_pane.go_to(found, place)
        self.inspector.forget()
        if tab is not None:
            self.inspector.turn(tab)
        self.body.go(self.tree_pane.rows)

    def _jump_if_chosen(self, place: CheckpointKey | None, tab: Tab | None = None) -> None:
        """Go to the checkpoint that was chosen on another screen, if any."""
        if place is not None:
            self.jump(place, tab)

    @work(exclusive=True, group="goto")
    async def go_to(self, text: str) -> None:
        """Go to the checkpoint that was typed: THREAD or THREAD@REF."""
        now, zone = self.context.now(), self.context.zone

        def find(store: Store) -> CheckpointKey:
            found = find_checkpoint(store, TargetArguments(text), now, zone, lambda _: None)
            return CheckpointKey(found.reader.thread_id, found.checkpoint_ns, found.checkpoint_id)

        place = await ask(self, self.context.detail, find, partial(show_error, self))
        if place is not None:
            self.jump(place)

    # What the panes say

    def on_changed(self) -> None:
        self.show_status()

    def on_threads_pane_selected(self) -> None:
        if self._goal is not None and self.threads_pane.info is not None:
            goal, self._goal = self._goal, None
            self.jump(goal)
            return
        threads = self.threads_pane
        nothing = "no thread matches" if threads.listing.threads else "no threads yet"
        self.tree_pane.show_thread(threads.rows.thread, nothing if threads.info else "")

    def on_threads_pane_entered(self) -> None:
        self.body.go(self.tree_pane.rows)

    def on_tree_pane_drawn(self, event: TreePane.Drawn) -> None:
        self.threads_pane.tree_took = self.tree_pane.took
        self.body.fit()
        if event.is_new:
            self.inspector.forget()
        self._show_place()
        self.on_inspector_checked()
        # A store that lists by scans may charge for each read.
        if not self.threads_pane.scans:
            self.inspector.check_soon()

    def on_tree_pane_moved(self) -> None:
        self._show_place()

    def _show_place(self) -> None:
        """Show the checkpoint under the cursor."""
        tree, place, thread = self.tree_pane, self.place, self.tree_pane.thread
        if place is None or thread is None:
            self.inspector.subject = None
            return
        base = base_of(self.base, place)
        names = tree.name_of(place), "" if base is None else self._name_of_base(base)
        self.inspector.subject = Subject(
            thread, place, names[0], tree.refs, base, names[1], tree.view.follows
        )

    def on_tree_pane_emptied(self) -> None:
        self.inspector.clear()

    def on_tree_pane_entered(self) -> None:
        self.body.go(self.inspector.rows)

    def on_inspector_go_to(self, event: Inspector.GoTo) -> None:
        self.jump(event.place, event.tab)

    def on_inspector_item_chosen(self, event: Inspector.ItemChosen) -> None:
        self.action_memory(event.key)

    def on_inspector_checked(self) -> None:
        if (thread_id := self.tree_pane.view.thread_id) is not None:
            self.tree_pane.checked = self.inspector.checked(thread_id)

    def on_store_lost(self, event: StoreLost) -> None:
        self.threads_pane.lose(event.error)

    # The status line

    def show_status(self) -> None:
        """Show the store, the number of threads and the current activity in the status line."""
        threads, scan = self.threads_pane, self.context.scan.text
        mode: Span = ("read-only", "dim") if self.changes is None else ("WRITE", "bold")
        spans: list[Span | str] = [("ckpt ", "bold"), mode, "  "]
        if (as_of := self.context.opening.as_of) is not None:
            at = as_of.astimezone(self.context.zone)
            spans.append((f"as of {at:%Y-%m-%d %H:%M:%S}  ", "question"))
        if self.tree_pane.view.follows:
            spans.append(("following the head  ", "head"))
        # A narrow screen may cut the end.
        if threads.problem:
            spans.append((f"{safe_text(threads.problem)}  ", "error"))
        if scan:
            spans.append((f"{safe_text(scan)}  ", "dim"))
        if threads.info is not None:
            noun = "thread" if len(threads.listing.threads) == 1 else "threads"
            spans.append(f"{threads.number} {noun}  ")
        elif not threads.problem:
            spans.append(("opening the store", "dim"))
        if self.base is not None:
            spans.append((f"marked {self._name_of_base(self.base)}  ", "node"))
        if threads.is_reading_heads and (checked := threads.listing.checked) is not None:
            spans.append((f"{checked:,} threads checked  ", "dim"))
        if threads.info is not None:
            spans += [(f"{safe_text(threads.info.layout)}  ", "dim"), safe_text(threads.info.url)]
        self.status.update(as_text(line(*spans)))
        threads.show_title()
        self.body.fit()

    def _name_of_base(self, base: CheckpointKey) -> str:
        """Return the name of the marked checkpoint, with its thread if it is another one."""
        if base.thread_id == self.tree_pane.view.thread_id:
            return self._base_name
        return f"{safe_text(base.thread_id)} > {self._base_name}"

    # Keys: panes

    def action_back(self) -> None:
        """Leave what was entered last."""
        tree, threads, focused = self.tree_pane, self.threads_pane, self.focused
        if self._looking is not None:
            self.workers.cancel_group(self, "changes")
            self._looking = None
        elif self.body.is_zoomed:
            self.body.zoom()
        elif focused is self.inspector.rows:
            self.body.go(tree.rows)
        elif focused is tree.rows:
            if not tree.leave():
                self.body.go(threads.rows)
        elif threads.listing.wanted != ThreadFilter():
            threads.action_clear()

    def action_pane(self, way: int) -> None:
        self.body.go_on(way)

    def action_zoom(self) -> None:
        self.body.zoom()

    def action_size(self, way: int) -> None:
        self.body.resize(way)

    def action_again(self) -> None:
        self.forget()
        self.threads_pane.load()

    def forget(self) -> None:
        """Forget what was read of threads and is not seen in their list."""
        self.stepper.forget_changes()
        self.inspector.load_again()

    def action_look_back(self) -> None:
        """Ask for a time, and show the store as it was then. Offers that of this checkpoint."""
        place, context = self.place, self.context
        made = None if place is None else time_of(place.checkpoint_id)
        offered = "" if made is None else made.astimezone(context.zone).isoformat()

        def go(text: str | None) -> None:
            if text is not None:
                self.post_message(self.LookedBack(self, context.time(text), place))

        self.app.push_screen(TimeScreen(offered, context.time), go)

    # Keys: steps

    def action_step(self, way: int) -> None:
        """Go to the parent, or to the child on this branch."""
        self._go(self.stepper.step, way)

    def action_sibling(self, way: int) -> None:
        """Go to the next older or newer checkpoint with the same parent."""
        self._go(self.stepper.sibling, way)

    def _go(self, step: Callable[[TreeKey, Parentage, int], TreeKey | str], way: int) -> None:
        if (place := self.here()) is None:
            return
        if (known := self.tree_pane.parentage(place.checkpoint_ns)) is not None:
            self._land(step((place.checkpoint_ns, place.checkpoint_id), known, way))

    def _land(self, goal: TreeKey | str) -> None:
        """Go where a step leads, or say why it leads nowhere."""
        if isinstance(goal, str):
            say(self, goal)
        else:
            self.tree_pane.step_to(goal)

    def action_change(self, way: int) -> None:
        """Go to the previous or next checkpoint where the shown channel changed."""
        if (path := self.inspector.looked_at()) is not None:
            self.stepper.note_value(path)
        if (place := self.here()) is None:
            return
        wanted = place, self.stepper.channel, way
        if wanted != self._looking:
            self._look_for_change(*wanted)

    @work(exclusive=True, group="changes")
    async def _look_for_change(self, place: CheckpointKey, channel: str | None, way: int) -> None:
        known = self.tree_pane.parentage(place.checkpoint_ns)
        if known is None:
            return
        wanted = self._looking = place, channel, way
        looking = f"Looking for changes of {safe_text(channel or '')}"

        def told(done: int) -> None:
            self.inspector.border_title = f"{looking}: {done:,} steps (Esc stops)"

        asking = self.context.searching.ask
        try:
            with self.inspector.while_loading(looking):
                goal = await self.stepper.change(place, known, way, asking, told)
        except CkptError as error:
            tell_if_lost(self, error)
            show_error(self, error)
            return
        finally:
            if self._looking == wanted:
                self._looking = None
        if isinstance(goal, str) or self.place == place:
            self._land(goal)

    # Keys: the tree

    def action_follow(self) -> None:
        self.tree_pane.follow()
        if self.tree_pane.view.follows and self.inspector.tab == "messages":
            self.inspector.rows.action_edge(1)

    def action_unfold(self) -> None:
        self.tree_pane.unfold()

    def action_nest(self) -> None:
        self.tree_pane.nest()

    def action_mark(self) -> None:
        """Mark this checkpoint as the base of diffs, or no longer."""
        if (place := self.here()) is None:
            return
        self.base = None if self.base == place else place
        self._base_name = self.tree_pane.name_of(place)
        self.tree_pane.marked = self.base
        self.inspector.forget()
        self._show_place()
        self.show_status()

    # Keys: the inspector

    def action_tab(self, tab: Tab) -> None:
        self.inspector.turn(tab)
        self.body.go(self.inspector.rows)

    def action_turn(self, way: int) -> None:
        self.inspector.turn_by(way)

    def action_difference(self, way: int) -> None:
        self.inspector.next_change(way)

    def action_unfold_all(self) -> None:
        self.inspector.unfold_all()

    def action_pin(self) -> None:
        self.inspector.pin()

    def action_copy_value(self) -> None:
        self.inspector.copy_value()

    def action_check(self) -> None:
        self.action_tab("findings")
        if self.here_thread() is not None:
            self.inspector.check_deeply()

    # Keys: other screens

    def action_compare(self) -> None:
        if (place := self.here()) is None:
            return
        base = base_of(self.base, place)
        self.app.push_screen(DiffScreen(self.context.detail, base, place, self.tree_pane.refs))

    def action_questions(self) -> None:
        from ckpt_cli.tui.screens.lists import QUESTIONS

        self._list_places(QUESTIONS)

    def action_errors(self) -> None:
        from ckpt_cli.tui.screens.lists import ERRORS

        self._list_places(ERRORS)

    def _list_places(self, kind: PlaceList) -> None:
        from ckpt_cli.tui.screens.lists import PlacesScreen

        going = partial(self._jump_if_chosen, tab="state")
        self.app.push_screen(PlacesScreen(self.context, kind), going)

    def action_operations(self) -> None:
        if (thread_id := self.here_thread()) is None:
            return
        from ckpt_cli.tui.screens.lists import OperationsScreen

        refusal = "" if self.changes else self._read_only

        def undo(op: str | None) -> None:
            if op is not None:
                self.action_write("undo_operation", op)

        self.app.push_screen(OperationsScreen(self.context, thread_id, refusal), undo)

    def action_grep(self) -> None:
        from ckpt_cli.tui.screens.lists import SearchScreen

        screen = SearchScreen(self.context, self.tree_pane.view.thread_id)
        self.app.push_screen(screen, self._jump_if_chosen)

    def action_memory(self, goal: ItemKey | None = None) -> None:
        from ckpt_cli.tui.screens.memory import MemoryScreen

        self.app.push_screen(
            MemoryScreen(self.context, goal), partial(self._jump_if_chosen, tab="messages")
        )

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.key_groups, keys.SIGNS))

    # Keys: copies

    def action_copy_ref(self) -> None:
        if (place := self.here()) is not None:
            copy(self, command_line.ref(place))

    async def action_copy_config(self) -> None:
        if (place := self.here()) is None:
            return
        question, shown = partial(carried_from, key=place), partial(show_error, self)
        found = await ask(self, self.context.detail, question, shown)
        if found is not None:
            copy(self, command_line.config(place, found))

    def action_command_line(self) -> None:
        self.app.push_screen(CopyScreen("Command lines for what is shown", self.command_lines()))

    def command_lines(self) -> list[str]:
        """Return the commands for what is shown, that of the focused pane first."""
        store, view = self.context.store_words, self.tree_pane.view
        found = [command_line.list_command(store, self.threads_pane.listing.wanted)]
        if view.thread_id is not None:
            found.append(command_line.tree_command(store, view.thread_id, view.ns))
        if self.place is not None and (shown := self.inspector.command()) is not None:
            found.append(shown)
        is_threads, is_tree = self.threads_pane.rows.has_focus, self.tree_pane.rows.has_focus
        first = min(0 if is_threads else 1 if is_tree else 2, len(found) - 1)
        finding = self.inspector.rows.finding
        fix = "" if finding is None else finding.fix(store) or finding.look(store)
        return [found[first], *found[:first], *found[first + 1 :], *([fix] if fix else [])]

    # Keys: changes

    @property
    def _read_only(self) -> str:
        """What to type for a screen that can change the store."""
        return f"read-only: start with `{command_line.write_command(self.context.store_words)}`"

    def action_write(self, action: str, op: str = "") -> None:
        """Show the plan of a change, or say that the screen is read-only."""
        if self.changes is None:
            say(self, self._read_only, is_error=True)
        else:
            self.run_worker(self.changes.run(action, op), group="change", exclusive=True)
