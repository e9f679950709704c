"""The memory screen: the items of a long-term memory, and the value of one item."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from ckpt_backends.errors import CkptError, UnknownLayout, Unsupported, UsageError
from ckpt_backends.memory import Item, ItemKey, MemoryInfo, MemoryStore, Namespace
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.memory import ItemFilter, format_key, source_of, text_of
from ckpt_cli.core.values import LONGEST, clip
from ckpt_cli.queries.memory import ItemOrigin, list_items, naming, read_item, stored_item, trace
from ckpt_cli.render.memory import from_thread_lines, item_lines, origin_lines, tree_rows
from ckpt_cli.render.text import Span, StyledLine, Ui, line, safe_text
from ckpt_cli.render.values import counted
from ckpt_cli.tui import command_line
from ckpt_cli.tui.command_line import thread_memory_command
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.keys import MEMORY_GROUPS, bindings
from ckpt_cli.tui.panes.document import DocumentRows, TabContent, cut
from ckpt_cli.tui.panes.rows import FilterPane, RowList, SearchPane
from ckpt_cli.tui.panes.threads import text_filter
from ckpt_cli.tui.reading import SHARE, SOON, Delays, copy, error_lines, error_text, say
from ckpt_cli.tui.screens.dialogs import HelpScreen, KeyLine
from ckpt_cli.tui.styles import as_text, title
from ckpt_cli.tui.tabs.content import InspectorTab, Subject, TabQuestion

_MOST_ITEMS = 20_000
"""Maximum number of items in the list; a filter finds the others."""
_MOST_NAMING = 1_000
"""Maximum number of items shown for one thread."""
_YES_NO = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """A filter of items; all conditions must hold."""

    text: str = ""
    """Part of NAMESPACE/KEY, ignoring case, or a shell pattern for the key or for both."""
    wanted: ItemFilter = field(default_factory=ItemFilter)


@dataclass(frozen=True, slots=True)
class ItemListing:
    """The items that match a filter."""

    info: MemoryInfo
    rows: Sequence[tuple[Item | Namespace, StyledLine]]
    items: int
    more: bool
    """Whether more items match than are listed."""


@dataclass(frozen=True, slots=True)
class ItemContent:
    """One item as lines."""

    lines: Sequence[StyledLine]
    thread_id: str = ""
    origin: Callable[[Store], ItemOrigin] | None = None
    """Finds the checkpoint in that thread that it came from; None if the item names no thread."""


def parse_memory_filter(text: str) -> MemoryFilter:
    """Parse a filter such as `category:goal confidence:0.8 tea`. Raises `UsageError`.

    All other words are the text, with the blanks between them.
    """
    wanted, words = ItemFilter(), []
    for word in text.split(" "):
        name, _, value = word.partition(":")
        if name == "category" and value:
            wanted = replace(wanted, category=value)
        elif name == "confidence" and value:
            wanted = replace(wanted, min_confidence=_number(value))
        elif name == "expired" and value:
            if value not in _YES_NO:
                raise UsageError(f"cannot read '{word}'", hint="use expired:yes or expired:no")
            wanted = replace(wanted, expired=_YES_NO[value])
        else:
            words.append(word)
    return MemoryFilter(" ".join(words).strip(), wanted)


def read_item_listing(
    memory: MemoryStore, wanted: MemoryFilter, now: datetime, *, redacted: bool
) -> ItemListing:
    """Return the matching items below their namespaces."""
    fits = text_filter(wanted.text)
    found = (
        one
        for one in list_items(memory, (), wanted.wanted, now, redacted=redacted)
        if fits(format_key(one.item.key)) or fits(one.item.key.key)
    )
    items = list(islice(found, _MOST_ITEMS + 1))
    shown = items[:_MOST_ITEMS]
    more = len(items) > len(shown)
    rows = list(tree_rows(shown, Ui(now, width=0)))
    return ItemListing(memory.describe(), rows, len(shown), more)


def read_item_content(memory: MemoryStore, key: ItemKey, ui: Ui, *, redacted: bool) -> ItemContent:
    """Return one item with its value. Raises `NotFound`."""
    stored = stored_item(memory, key)
    read = read_item(memory, key, ui.now, redacted=redacted)
    shown = read._replace(value=clip(read.value))
    lines = cut(item_lines(shown, ui))
    named = source_of(stored)
    if named is None or named.thread_id is None:
        return ItemContent(lines)
    text = text_of(stored)[:LONGEST]
    origin = partial(trace, thread_id=named.thread_id, made_at=stored.created_at, text=text)
    return ItemContent(lines, named.thread_id, origin)


def read_thread_memory(
    memory: MemoryStore, thread_id: str, ui: Ui, *, redacted: bool
) -> TabContent:
    """Return the items that came from a thread. Reads the value of every item."""
    lines: list[StyledLine] = []
    items: dict[int, ItemKey] = {}
    for _, item in naming(memory, lambda one: one == thread_id):
        if len(items) == _MOST_NAMING:
            said = "… more; press c for the command that prints all"
            lines.append(line((said, "dim")))
            break
        items[len(lines)] = item.key
        told = from_thread_lines(item, ui, redacted=redacted)
        lines += cut(chain(told, (line(""),)))
    if not items:
        lines.append(line(("no memory item came from this thread", "dim")))
    return TabContent(lines, items=items)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"cannot read '{text}' as a number", hint="use a number such as confidence:0.8"
        ) from None


class MemoryTab(InspectorTab):
    """The memory items that came from the thread. They are read again after a while."""

    loading, titled = "Memory: loading", "Memory from"

    def __init__(self, context: ScreenContext) -> None:
        self._context = context

    async def read(self, asked: TabQuestion) -> TabContent:
        context, thread_id, began = self._context, asked.subject.thread.thread_id, time.monotonic()
        redacted = context.opening.redact
        question = partial(read_thread_memory, thread_id=thread_id, ui=asked.ui, redacted=redacted)
        try:
            content = await context.memory.ask(question)
        except CkptError as error:
            content = TabContent(error_lines(error, asked.ui.width))
        if context.pause:
            self.refresh_after = max(context.pause, (time.monotonic() - began) * SHARE)
        return content

    def source(self, asked: TabQuestion) -> object:
        return asked.subject.thread.thread_id, asked.ui.width

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        memory = self._context.memory_named.name
        return thread_memory_command(store, memory, subject.thread.thread_id)


_TYPED = 0.2
"""Seconds after the last key in a filter before it is applied."""


class MemoryRows(RowList):
    """One line per namespace label and per item; the cursor stops only at items."""

    def __init__(self) -> None:
        super().__init__(id="memory-rows")
        self.listed: Sequence[tuple[Item | Namespace, StyledLine]] = ()

    def count(self) -> int:
        return len(self.listed)

    def line_at(self, index: int, width: int) -> StyledLine:  # noqa: ARG002
        return self.listed[index][1]

    def is_stop(self, index: int) -> bool:
        return index < len(self.listed) and isinstance(self.listed[index][0], Item)

    @property
    def item(self) -> Item | None:
        """The item under the cursor; None if there is none."""
        found = self.listed[self.cursor][0] if self.cursor < len(self.listed) else None
        return found if isinstance(found, Item) else None

    def show_items(
        self, listed: Sequence[tuple[Item | Namespace, StyledLine]], key: ItemKey | None
    ) -> None:
        """Show other items, with the cursor on the item `key`."""
        self.listed = listed
        items = enumerate(one for one, _ in listed)
        found = (at for at, one in items if isinstance(one, Item) and one.key == key)
        self.resize(next(found, self.cursor))


class MemoryPane(FilterPane):
    """All items of a long-term memory, or those that match the filter."""

    rows: MemoryRows

    def __init__(self) -> None:
        hint = "text, glob*, category:goal, confidence:0.8, expired:yes"
        super().__init__(MemoryRows(), hint, self._take_filter, id="memories")
        self.wanted = MemoryFilter()

    def _take_filter(self, text: str) -> None:
        self.wanted = parse_memory_filter(text)


class MemoryScreen(Screen[CheckpointKey | None]):
    """Items by namespace at the top, the value of one below; Enter there goes to its thread."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(MEMORY_GROUPS),
        Binding("escape,h", "back", "Back", show=False),
    ]

    def __init__(
        self, context: ScreenContext, goal: ItemKey | None = None, *, alone: bool = False
    ) -> None:
        super().__init__()
        self.context = context
        self.delays = Delays(self)
        self._goal = goal
        """The item where the cursor goes when it is listed."""
        self._alone = alone
        """Whether there is no threads screen below this one."""
        self._listed: ItemListing | None = None
        self._problem = ""
        self._read: ItemKey | None = None
        """The item that the lower pane shows."""
        self._shown: Item | None = None
        """The same, or None if it must be read again."""
        self._origin: ItemOrigin | None = None

    def compose(self) -> ComposeResult:
        self.pane = MemoryPane()
        self.document = DocumentRows()
        self._item_pane = SearchPane(self.document, id="item")
        self._status = Static(id="status")
        yield self._status
        yield self.pane
        yield self._item_pane
        yield KeyLine()

    def on_mount(self) -> None:
        title(self.pane, "Memory: loading")
        title(self._item_pane, "Item")
        self.pane.rows.focus()
        self._show_status()
        self.load()

    # Reading

    @work(exclusive=True, group="memory")
    async def load(self) -> None:
        """List the matching items now, and again after a pause."""
        began = time.monotonic()
        wanted, now, redacted = self.pane.wanted, self.context.now(), self.context.opening.redact
        question = partial(read_item_listing, wanted=wanted, now=now, redacted=redacted)
        try:
            listed = await self.context.memory.ask(question)
        except CkptError as error:
            self._fail(error)
        else:
            self._problem = ""
            self._take(listed)
        self._show_status()
        if self.context.pause:
            pause = max(self.context.pause, (time.monotonic() - began) * SHARE)
            self.delays.after("memory", pause, self.load, refreshes=True)

    def _fail(self, error: CkptError) -> None:
        if isinstance(error, UnknownLayout | Unsupported):
            self._listed = None
        else:
            self._problem = f"retrying: {error.message}"
        if self._listed is None:
            title(self.pane, "Memory")
            said = error_lines(error, self.pane.rows.width)
            self.pane.rows.show_items([((), one) for one in said], None)

    def _take(self, listed: ItemListing) -> None:
        rows = self.pane.rows
        here = rows.item
        key = self._goal or (here.key if here is not None else None)
        self._goal = None
        before, self._listed = self._listed, listed
        is_all = self.pane.wanted == MemoryFilter()
        number = f"first {listed.items:,} items" if listed.more else counted(listed.items, "item")
        title(self.pane, f"Memory: {number}" + ("" if is_all else ", filtered"))
        if not listed.rows:
            said = line(("no items" if is_all else "no item matches", "dim"))
            rows.show_items([((), said)], None)
        elif before is None or before.rows != listed.rows:
            rows.show_items(listed.rows, key)

    @work(exclusive=True, group="item")
    async def load_item(self) -> None:
        """Read the item under the cursor, then its origin."""
        item = self.pane.rows.item
        if item is None:
            self._read = self._shown = self._origin = None
            title(self._item_pane, "Item")
            self.document.show_document(TabContent(()), keep=False)
            return
        if item == self._shown:
            return
        ui, redacted = self.context.ui(self.document.width), self.context.opening.redact
        question = partial(read_item_content, key=item.key, ui=ui, redacted=redacted)
        try:
            found = await self.context.memory.ask(question)
        except CkptError as error:
            found = ItemContent(error_lines(error, ui.width))
        title(self._item_pane, f"Item {safe_text(format_key(item.key))}")
        keep = self._read == item.key
        self._read, self._origin = item.key, None
        if found.origin is None:
            self.document.show_document(TabContent(found.lines), keep=keep)
        else:
            looking = line((f"searching thread {safe_text(found.thread_id)}", "dim"))
            self.document.show_document(TabContent([*found.lines, line(""), looking]), keep=keep)
            try:
                self._origin = await self.context.detail.ask(found.origin)
            except CkptError as error:
                self._origin = ItemOrigin(found.thread_id, "", remark=error_text(error))
            lines = origin_lines(self._origin, ui)
            self.document.show_document(TabContent([*found.lines, *lines]), keep=True)
        self._shown = item

    # Events

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        event.stop()
        if event.rows is self.pane.rows:
            self.delays.after("item", SOON, self.load_item)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if event.rows is self.document:
            self._to_thread()
        elif self.pane.rows.item is not None:
            self._go(self.document)

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        if event.rows is self.document:
            self._shown = None
            self.delays.after("item", SOON, self.load_item)

    def on_filter_pane_narrowed(self, event: FilterPane.Narrowed) -> None:
        event.stop()
        self.delays.after("filter", _TYPED, self.load)

    def _go(self, rows: RowList) -> None:
        rows.focus()
        self._show_panes(rows, alone=not (self.pane.display and self._item_pane.display))

    def _show_panes(self, rows: RowList, *, alone: bool) -> None:
        self.pane.display = not alone or rows is self.pane.rows
        self._item_pane.display = not alone or rows is self.document

    def _to_thread(self) -> None:
        """Go to the newest checkpoint at the time the item was created."""
        if self._origin is None:
            say(self, "this item names no thread")
        elif self._origin.checkpoint_id is None:
            say(self, self._origin.remark, is_error=True)
        elif self._alone:
            say(self, "the threads were found only now; restart `ckpt tui` to go there")
        else:
            self.dismiss(CheckpointKey(self._origin.thread_id, "", self._origin.checkpoint_id))

    # Keys

    def action_back(self) -> None:
        if not (self.pane.display and self._item_pane.display):
            self.action_zoom()
        elif self.document.has_focus:
            self._go(self.pane.rows)
        elif self.pane.wanted != MemoryFilter():
            self.pane.action_clear()
        else:
            self.action_leave()

    def action_leave(self) -> None:
        if self._alone:
            self.app.exit()
        else:
            self.dismiss(None)

    def action_pane(self) -> None:
        self._go(self.pane.rows if self.document.has_focus else self.document)

    def action_zoom(self) -> None:
        """Show one pane alone, or both again."""
        rows = self.document if self.document.has_focus else self.pane.rows
        self._show_panes(rows, alone=self.pane.display and self._item_pane.display)

    def action_again(self) -> None:
        self._shown = None
        self.load()
        self.load_item()

    def action_copy_command(self) -> None:
        if (item := self.pane.rows.item) is None:
            say(self, "no item selected", is_error=True)
        else:
            words = self.context.memory_named.words
            copy(self, command_line.memory_command(words, item.key))

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(MEMORY_GROUPS))

    # Status line

    def _show_status(self) -> None:
        spans: list[Span | str] = [("ckpt ", "bold"), ("read-only", "dim"), "  "]
        if self._problem:
            spans.append((f"{safe_text(self._problem)}  ", "error"))
        if self._listed is not None:
            info = self._listed.info
            spans.append((f"{safe_text(info.layout)}  ", "dim"))
            spans.append(f"{safe_text(info.url)}  ")
            spans += [(f"{safe_text(one)}  ", "warn") for one in info.notes]
        self._status.update(as_text(line(*spans)))
