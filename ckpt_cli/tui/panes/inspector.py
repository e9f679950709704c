"""The pane of one checkpoint, in tabs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.reactive import var
from textual.widgets import Tab, Tabs

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError
from ckpt_backends.memory import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.values import is_larger
from ckpt_cli.tui.command_line import value_command
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.document import DocumentRows, TabContent
from ckpt_cli.tui.panes.rows import RowList, SearchPane
from ckpt_cli.tui.reading import SHARE, Delays, ask, error_lines, say, show_error, tell_if_lost
from ckpt_cli.tui.styles import title
from ckpt_cli.tui.tabs.checkpoint import CheckpointTab, read_origin
from ckpt_cli.tui.tabs.content import (
    TABS,
    WITH_GRAPHS,
    InspectorTab,
    KeptReader,
    Subject,
    TabQuestion,
)
from ckpt_cli.tui.tabs.content import Tab as TabName

if TYPE_CHECKING:
    from ckpt_cli.tui.tabs.thread import CheckedThread, FindingsTab

_SHORT: Mapping[TabName, str] = {
    "messages": "Msgs",
    "timeline": "Time",
    "errors": "Errs",
    "findings": "Finds",
    "metadata": "Meta",
    "memory": "Mem",
}
_KEYS = (*(str(number % 10) for number in range(1, len(TABS) + 1)), "C")
_SLOW = 0.3
"""Seconds after which a read is shown as loading."""
_RESTED = 0.5
"""Seconds that a tree must be shown before its thread is checked."""
_WITH_CHANNELS = ("state", "diff", "messages")
"""The tabs of which each value belongs to a channel."""
_MOST_COPIED = 1 << 20
"""Maximum number of bytes of a value that are copied. Terminals have limits of their own."""


class Inspector(SearchPane):
    """A checkpoint, in tabs; each tab is an object that reads what it shows."""

    rows: DocumentRows
    subject: var[Subject | None] = var(None, init=False, always_update=True)
    """What the tabs are about; None if there is nothing to look at now."""

    class GoTo(Message):
        """A line was chosen that is about a checkpoint."""

        def __init__(self, place: CheckpointKey, tab: TabName | None = None) -> None:
            super().__init__()
            self.place, self.tab = place, tab

    class ItemChosen(Message):
        """A memory item was chosen."""

        def __init__(self, key: ItemKey) -> None:
            super().__init__()
            self.key = key

    class Checked(Message):
        """A thread was checked."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(DocumentRows(), id="inspector")
        self.context = context
        self.delays = Delays(self)
        self.names = TABS if context.opening.graphs is None else WITH_GRAPHS
        """The tabs that there are."""
        self.tabs = Tabs(*(Tab("", id=name) for name in self.names))
        # Tabs are chosen by number; the focus goes to their content.
        self.tabs.can_focus = False
        self.heading = "Checkpoint"
        """The title for what is shown."""
        self.read: tuple[CheckpointKey, TabName] | None = None
        """The content: a tab of a checkpoint, or of a thread, which has no checkpoint id."""
        self._first: TabName = TABS[0]
        """The tab that is shown when the tabs are mounted."""
        self._objects: dict[TabName, InspectorTab] = {}
        self._kept = KeptReader()
        self._is_fresh = False
        """Whether the tab of a checkpoint need not be read again."""
        self._forgotten = 0
        """How often it was to be read again."""
        self._reading: tuple[CheckpointKey, TabName] | None = None
        """The content that is being read, or was read last."""
        self._is_asked = False
        """Whether a tab is read when the running read ends."""
        self._looked_at: str | None = None

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield from super().compose()

    def on_mount(self) -> None:
        title(self, self.heading)
        self.turn(self._first)

    def on_resize(self) -> None:
        self._name_tabs()

    # Tabs

    @property
    def tab(self) -> TabName:
        """The tab that is shown."""
        active = self.tabs.active
        return next((one for one in self.names if one == active), self._first)

    def turn(self, tab: TabName) -> None:
        """Show another tab, as soon as the tabs are mounted."""
        if tab not in self.names:
            say(self, "which graph is to be deployed is not told: `ckpt tui --compat NEW.json`")
            return
        self._first = tab
        if self.tabs.tab_count:
            self.tabs.active = tab

    def turn_by(self, way: int) -> None:
        """Show the next or previous tab."""
        self.turn(self.names[(self.names.index(self.tab) + way) % len(self.names)])

    def _name_tabs(self) -> None:
        found = tab_labels(self.size.width, self.tab, self.names)
        labels = dict(zip(self.names, found, strict=True))
        # A screen that is closed at its start has no tabs.
        for one, label in labels.items():
            for tab in self.tabs.query(f"#{one}").results(Tab):
                tab.label = label

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        event.stop()
        self._name_tabs()
        self.load()

    def _object(self, name: TabName) -> InspectorTab:
        """Return the tab with a name; it is made when it is first needed."""
        if name not in self._objects:
            self._objects[name] = self._made(name)
        return self._objects[name]

    def _made(self, name: TabName) -> InspectorTab:
        context = self.context
        match name:
            case "timeline" | "errors" | "findings":
                # Not needed until the screen is shown.
                from ckpt_cli.tui.tabs import thread

                if name == "timeline":
                    return thread.TimelineTab(context.searching)
                if name == "errors":
                    return thread.ErrorsTab(context.detail)
                refused = partial(show_error, self)
                return thread.FindingsTab(context, self._tell_checked, refused)
            case "compat":
                from ckpt_cli.tui.tabs.compat import CompatTab

                return CompatTab(context)
            case "memory":
                from ckpt_cli.tui.screens.memory import MemoryTab

                return MemoryTab(context)
            case "writes":
                # The first one replays the thread, which may take long: no other tab waits for it.
                return CheckpointTab(name, context.checking, KeptReader())
        return CheckpointTab(name, context.detail, self._kept)

    def command(self) -> str | None:
        """Return the command that prints what is shown; None if no command does."""
        if self.subject is None:
            return None
        return self._object(self.tab).command(self.context.store_words, self.subject)

    # The title

    def set_heading(self, heading: str) -> None:
        """Set the title for what is shown from now on."""
        self.heading = heading
        title(self, heading)

    @contextmanager
    def while_loading(self, text: str) -> Iterator[None]:
        """Show that something is loading, if it takes long, until it ends.

        If a read ends without an answer, the title of the content that is still shown comes back.
        """
        is_over = False

        def tell() -> None:
            # A stopped timer may still call once.
            if not is_over:
                title(self, text)

        slow = self.set_timer(_SLOW, tell)
        try:
            yield
        finally:
            is_over = True
            slow.stop()
            title(self, self.heading)

    # Reading

    @property
    def shown(self) -> tuple[CheckpointKey, TabName] | None:
        """The checkpoint and the tab that are shown; None if they must be read again."""
        return self.read if self._is_fresh else None

    def watch_subject(self) -> None:
        """Read what the tab shows now."""
        self.load()

    def forget(self) -> None:
        """Read the tab of the checkpoint again when it is asked for, also if it is being read."""
        self._is_fresh = False
        self._forgotten += 1

    def load_again(self) -> None:
        """Forget what was read of threads; a changed thread is read again in any case."""
        for one in self._objects.values():
            one.forget()
        if self.tab == "memory":
            self.load()

    def clear(self) -> None:
        """Show nothing."""
        self.set_heading("Checkpoint")
        self.rows.show_document(TabContent(()), keep=False)
        self.subject = self.read = None
        self._is_fresh = False

    def load(self) -> None:
        """Read the tab of the checkpoint under the cursor.

        A running read of the same tab goes on. What is under the cursor when it ends is read next,
        so a step is shown as soon as it is read, also while a key is held down.
        """
        now = None if self.subject is None else (self.subject.place, self.tab)
        is_running = any(one.group == "document" and not one.is_finished for one in self.workers)
        if is_running and now is not None and now != self.shown and _alike(now, self._reading):
            self._is_asked = True
        else:
            self._load()

    @work(exclusive=True, group="document")
    async def _load(self) -> None:
        self._is_asked = True
        while self._is_asked:
            self._is_asked = False
            if self.subject is not None:
                await self._load_tab(self.subject, self.tab)

    async def _load_tab(self, subject: Subject, name: TabName) -> None:
        tab = self._object(name)
        self._reading = subject.place, name
        about = subject.place
        if tab.is_of_thread:
            about = CheckpointKey(about.thread_id, "", "")
        is_again = self.read == (about, name)
        asked = TabQuestion(subject, self.context.ui(self.rows.width), is_again)
        if is_again and (tab.is_current(asked) if tab.is_of_thread else self._is_fresh):
            if tab.is_of_thread:
                self.set_heading(tab.heading(subject))
                self._sign(tab, subject)
            return
        forgotten = self._forgotten
        with self.while_loading(tab.loading):
            try:
                content = await tab.read(asked)
            except CkptError as error:
                self.heading = tab.heading(subject)
                self._refuse(error)
                return
            self.heading = tab.heading(subject)
        tab.drawn = tab.source(asked)
        is_last = subject.follows and name == "messages"
        self.rows.show_step(content, self.read, (about, name), is_last=is_last)
        self.read = about, name
        self._is_fresh = forgotten == self._forgotten and not tab.is_of_thread
        self._sign(tab, subject)
        if tab.refresh_after is not None:
            refresh = partial(self._refresh, name)
            self.delays.after(name, tab.refresh_after, refresh, refreshes=True)

    def _refuse(self, error: CkptError) -> None:
        """Show an error in place of a tab."""
        tell_if_lost(self, error)
        said = error_lines(error, self.rows.width)
        self.rows.show_document(TabContent(said), keep=False)
        self._is_fresh = False
        if self.read is not None and self._object(self.read[1]).is_of_thread:
            self.read = None

    def _sign(self, tab: InspectorTab, subject: Subject) -> None:
        if (signed := tab.signed(subject)) is not None:
            at, goes = signed
            self.rows.sign_line(at, goes=goes)

    def _refresh(self, name: TabName) -> None:
        self._object(name).forget()
        if self.tab == name:
            self.load()

    # Findings

    def checked(self, thread_id: str) -> CheckedThread | None:
        """Return what was found in a thread, perhaps before it changed."""
        return self._checks.known(thread_id) if "findings" in self._objects else None

    @property
    def _checks(self) -> FindingsTab:
        return cast("FindingsTab", self._object("findings"))

    def check_soon(self) -> None:
        """Check the thread quickly after a while, if it was not checked as it is now."""
        checks = self._checks if "findings" in self._objects else None
        if self.subject is not None and (
            checks is None or checks.found(self.subject.thread) is None
        ):
            pause = max(_RESTED, 0 if checks is None else checks.took * SHARE)
            self.delays.after("findings", pause, self._check_quickly, refreshes=True)

    @work(exclusive=True, group="findings")
    async def _check_quickly(self) -> None:
        if self.subject is not None:
            await self._checking(self._checks.check_quickly(self.subject.thread))

    @work(group="deep")
    async def check_deeply(self) -> None:
        """Check every value of the thread."""
        if self.subject is not None and self._checks.may_check(self.subject.thread):
            await self._checking(self._checks.check_deeply(self.subject.thread))

    async def _checking(self, check: Awaitable[object]) -> None:
        try:
            await check
        except CkptError as error:
            tell_if_lost(self, error)
            show_error(self, error)

    def _tell_checked(self) -> None:
        self.post_message(self.Checked())
        if self.tab == "findings":
            self.load()

    # Events

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        event.stop()
        self.looked_at()

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        self.forget()
        self.load()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Go to what the line is about: an item, a checkpoint, or the step that wrote a value."""
        event.stop()
        rows = self.rows
        if (item := rows.item) is not None:
            self.post_message(self.ItemChosen(item))
        elif (finding := rows.finding) is not None:
            self._go_to_finding(finding)
        elif self.read is not None and (key := rows.place) is not None:
            self.post_message(self.GoTo(CheckpointKey(self.read[0].thread_id, *key)))
        else:
            self._find_origin()

    def _go_to_finding(self, finding: Finding) -> None:
        if finding.checkpoint_id is None or finding.thread_id is None:
            say(self, "this finding is not about one checkpoint", is_error=True)
        elif finding.ref is None:
            say(self, "this checkpoint is not stored", is_error=True)
        else:
            ns = finding.checkpoint_ns or ""
            self.post_message(
                self.GoTo(CheckpointKey(finding.thread_id, ns, finding.checkpoint_id))
            )

    @work(exclusive=True, group="origin")
    async def _find_origin(self) -> None:
        """Go to the first checkpoint that had the value under the cursor."""
        path = self.rows.path
        if self.subject is None or path is None:
            return
        question = partial(read_origin, place=self.subject.place, path=path)
        found = await ask(self, self.context.detail, question, partial(show_error, self))
        if found is not None:
            origin, who = found
            say(self, f"{path} was written by {who}")
            self.post_message(self.GoTo(origin, "writes"))

    # Keys

    def looked_at(self) -> str | None:
        """Return the path of the value that was last under the cursor, if any."""
        if self.read is not None and self.read[1] in _WITH_CHANNELS:
            self._looked_at = self.rows.chosen or self._looked_at
        return self._looked_at

    def next_change(self, way: int) -> None:
        """Go to the next or previous change in the tab State or Diff."""
        if self.tab not in ("state", "diff"):
            say(self, "nothing to go to: / searches a pane, and State and Diff have changes")
            return
        title(self, f"{self.heading}: {self.rows.next_change(way)}")

    def copy_value(self) -> None:
        """Copy the value under the cursor: a text as it is, anything else as JSON."""
        found = self.rows.value
        if found is None or self.read is None:
            say(self, "no value under the cursor", is_error=True)
            return
        path, value = found
        text = None if is_larger(value, _MOST_COPIED) else copied_text(value)
        if text is None or len(text.encode()) > _MOST_COPIED:
            shell = value_command(self.context.store_words, self.read[0], path)
            say(self, f"not copied: more than 1 MiB; use `{shell}`", is_error=True)
            return
        self.app.copy_to_clipboard(text)
        number = f"{len(text):,} character{'' if len(text) == 1 else 's'}"
        say(self, f"copied {path}: {number}")

    def pin(self) -> None:
        """Show the channel under the cursor first, in all checkpoints; or no longer."""
        if (name := self.rows.pin()) is None:
            said = "no channel under the cursor; choose one in the tab State"
            say(self, said, is_error=True)
        else:
            is_pinned = name in self.rows.folds.pinned
            say(self, f"{'pinned' if is_pinned else 'unpinned'} {name}")

    def unfold_all(self) -> None:
        """Unfold everything below the value under the cursor, or fold it again."""
        if self.rows.node is None:
            say(self, "no value under the cursor; choose one in the tab State", is_error=True)
        else:
            self.rows.unfold_all()


def copied_text(value: Value) -> str:
    """Return a value as text for a clipboard: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # Half of a character; only JSON can say it.
            pass
        else:
            return value
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)


def _alike(one: tuple[CheckpointKey, TabName], other: tuple[CheckpointKey, TabName] | None) -> bool:
    """Return whether two contents are the same tab of one thread."""
    return other is not None and (one[0].thread_id, one[1]) == (other[0].thread_id, other[1])


def tab_labels(width: int, active: TabName, tabs: Sequence[TabName] = TABS) -> Sequence[str]:
    """Return the labels of tabs in their order, in the longest form that fits into `width` columns.

    In the shortest form, only the active tab has its name, and the others their number.
    """
    names = [one.capitalize() for one in tabs]
    short = [_SHORT.get(one, name) for one, name in zip(tabs, names, strict=True)]
    at = tabs.index(active)
    forms = (_numbered(names), _numbered(short), short, _alone(names, at))
    return next((one for one in forms if _fits(one, width)), _alone(short, at))


def _fits(labels: Sequence[str], width: int) -> bool:
    # A blank follows each label.
    return sum(map(len, labels)) + len(labels) <= width


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"{key} {name}" for key, name in zip(_KEYS, names, strict=False)]


def _alone(names: Sequence[str], active: int) -> list[str]:
    labels = enumerate(zip(_KEYS, _numbered(names), strict=False))
    return [label if at == active else key for at, (key, label) in labels]
