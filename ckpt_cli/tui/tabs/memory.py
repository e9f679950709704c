"""Long-term memory: a list of items, one item, its origin, and what came from a thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryInfo, MemoryStore, Namespace
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.memory import ItemFilter, format_key, source_of, text_of
from ckpt_cli.core.values import LONGEST, clip
from ckpt_cli.queries.memory import ItemOrigin, list_items, naming, read_item, stored_item, trace
from ckpt_cli.render.memory import from_thread_lines, item_lines, origin_lines, tree_rows
from ckpt_cli.render.text import StyledLine, Ui, line
from ckpt_cli.tui.command_line import thread_memory_command
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.messages import error_text
from ckpt_cli.tui.panes.thread_list import text_filter
from ckpt_cli.tui.reading import SHARE, error_lines
from ckpt_cli.tui.tabs.content import Clock, InspectorTab, Subject, TabContent, TabQuestion, cut

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
class SourceThread:
    """What an item says about the thread it came from."""

    thread_id: str
    made_at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class ItemContent:
    """One item as lines."""

    lines: Sequence[StyledLine]
    source: SourceThread | None
    """None if the item names no thread."""


@dataclass(frozen=True, slots=True)
class OriginContent:
    """The origin of an item as lines."""

    lines: Sequence[StyledLine]
    place: CheckpointKey | None
    """The newest checkpoint when the item was created; None if there is none."""
    remark: str
    """Why nothing more is known."""


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
    memory: MemoryStore, wanted: MemoryFilter, clock: Clock, *, redacted: bool
) -> ItemListing:
    """Return the matching items below their namespaces."""
    fits = text_filter(wanted.text)
    found = (
        one
        for one in list_items(memory, (), wanted.wanted, clock.now, redacted=redacted)
        if fits(format_key(one.item.key)) or fits(one.item.key.key)
    )
    items = list(islice(found, _MOST_ITEMS + 1))
    shown = items[:_MOST_ITEMS]
    more = len(items) > len(shown)
    rows = list(tree_rows(shown, Ui(clock.now, width=0)))
    return ItemListing(memory.describe(), rows, len(shown), more)


def read_item_content(
    memory: MemoryStore, key: ItemKey, clock: Clock, width: int, *, redacted: bool
) -> ItemContent:
    """Return one item with its value. Raises `NotFound`."""
    stored = stored_item(memory, key)
    read = read_item(memory, key, clock.now, redacted=redacted)
    shown = read._replace(value=clip(read.value))
    lines = cut(item_lines(shown, Ui(clock.now, clock.zone, width)))
    named = source_of(stored)
    if named is None or named.thread_id is None:
        return ItemContent(lines, None)
    text = text_of(stored)[:LONGEST]
    return ItemContent(lines, SourceThread(named.thread_id, stored.created_at, text))


def read_item_origin(store: Store, source: SourceThread, clock: Clock, width: int) -> OriginContent:
    """Return the thread and checkpoint that an item came from."""
    found = trace(store, source.thread_id, source.made_at, source.text)
    place = None
    if found.checkpoint_id is not None:
        place = CheckpointKey(found.thread_id, "", found.checkpoint_id)
    return OriginContent(_origin_lines(found, clock, width), place, found.remark)


def failed_origin(
    source: SourceThread, error: CkptError, clock: Clock, width: int
) -> OriginContent:
    """Return an origin with the error, for threads that cannot be read."""
    remark = error_text(error)
    found = ItemOrigin(source.thread_id, "", remark=remark)
    return OriginContent(_origin_lines(found, clock, width), None, remark)


def read_thread_memory(
    memory: MemoryStore, thread_id: str, clock: Clock, width: int, *, redacted: bool
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
        told = from_thread_lines(item, Ui(clock.now, clock.zone, width), redacted=redacted)
        lines += cut(chain(told, (line(""),)))
    if not items:
        lines.append(line(("no memory item came from this thread", "dim")))
    return TabContent(lines, items=items)


def _origin_lines(found: ItemOrigin, clock: Clock, width: int) -> Sequence[StyledLine]:
    return list(origin_lines(found, Ui(clock.now, clock.zone, width)))


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
        self._shown: tuple[str, int] | None = None
        """The thread that was read lately, and the width in which its items were drawn."""

    async def read(self, asked: TabQuestion) -> TabContent:
        context, thread_id, began = self._context, asked.subject.thread.thread_id, time.monotonic()
        question = partial(
            read_thread_memory,
            thread_id=thread_id,
            clock=asked.clock,
            width=asked.width,
            redacted=context.opening.redact,
        )
        try:
            content = await context.memory.ask(question)
        except CkptError as error:
            content = TabContent(error_lines(error, asked.width))
        self._shown = thread_id, asked.width
        if context.pause:
            self.refresh_after = max(context.pause, (time.monotonic() - began) * SHARE)
        return content

    def is_current(self, asked: TabQuestion) -> bool:
        return self._shown == (asked.subject.thread.thread_id, asked.width)

    def forget(self) -> None:
        self._shown = None

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        memory = self._context.memory_named.name
        return thread_memory_command(store, memory, subject.thread.thread_id)
