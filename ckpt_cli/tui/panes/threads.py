"""The pane that lists threads."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import translate
from functools import partial
from typing import ClassVar, Literal

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.model import Status, StoreInfo, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core import filters
from ckpt_cli.core.conversation import says_nothing, title_of
from ckpt_cli.core.filters import Filter, FilterTerms, equal
from ckpt_cli.core.times import NEVER
from ckpt_cli.queries.heads import Details, Head, ListedThread, with_titles, with_users
from ckpt_cli.queries.threads import Selection, parse_status
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.thread import TriggerInference, read_heads
from ckpt_cli.render.table import age
from ckpt_cli.render.text import (
    Span,
    Style,
    StyledLine,
    cell_len,
    fit,
    line,
    pad,
    safe_text,
    visible_id,
)
from ckpt_cli.render.threads import STATUS_STYLES
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.rows import FilterPane, RowList
from ckpt_cli.tui.reading import SHARE, SOON, Changed, Delays, LoadedObjects
from ckpt_cli.tui.styles import as_text, title

_LANGUAGE = re.compile(
    rf"[\s(]*(?:not[\s(]+)*(?:{'|'.join(filters.FIELDS)})(?:[.\[][^=<>!~]*?)?"
    r"\s*(?:[=<>!~]|\b(?:in|like|not)\b)",
    re.IGNORECASE,
)
"""How a text of the language begins: a field, then an operator."""
_ALIAS = re.compile(
    rf"[\s(]*(?:not[\s(]+)*@({filters.ALIAS_NAME})(?=$|[\s)])(\s+(?:and|or)\b)?", re.I
)
"""How it begins with an alias."""


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """A filter of threads; all conditions must hold."""

    text: str = ""
    """Part of the id or of the title, ignoring case, or a shell pattern for all of one."""
    status: frozenset[Status] = frozenset()
    """The thread must have one of these; any if empty."""
    user: str | None = None
    where: Filter | None = None
    """A filter in the language of `--where`; then nothing else is given."""
    written: str = ""
    """The text of `where`."""

    @property
    def condition(self) -> Filter | None:
        """The status, the user and `where` as one filter."""
        where = self.where if self.user is None else equal("user", self.user)
        return Selection(status=self.status, where=where).filter


def parse_thread_filter(text: str, terms: FilterTerms) -> ThreadFilter:
    """Parse a filter such as `status:interrupted user:anna trip`, or one for `--where`.

    All other words are the text, with the blanks between them. Raises `UsageError` for an unknown
    status, and `ParseError` for a filter that cannot be read.
    """
    if _is_language(text, terms):
        return ThreadFilter(where=filters.parse_filter(text, terms), written=text.strip())
    statuses: set[Status] = set()
    user: str | None = None
    words: list[str] = []
    for word in text.split(" "):
        if word.startswith("status:") and len(word) > len("status:"):
            statuses |= {parse_status(one) for one in word.removeprefix("status:").split(",")}
        elif word.startswith("user:") and len(word) > len("user:"):
            user = word.removeprefix("user:")
        else:
            words.append(word)
    return ThreadFilter(" ".join(words).strip(), frozenset(statuses), user)


def _is_language(text: str, terms: FilterTerms) -> bool:
    """Return whether a text is written in the language of `--where`, perhaps with an error.

    A part of an id may begin with `@`, so that `@NAME` alone must be an alias.
    """
    if _LANGUAGE.match(text):
        return True
    alias = _ALIAS.match(text)
    if alias is None or alias[2]:
        return alias is not None
    try:
        terms.alias(alias[1])
    except UsageError:
        return False
    return True


def text_filter(text: str) -> Callable[[str], bool]:
    """Return a function: whether a name contains a text, ignoring case, or matches it as a
    pattern.
    """
    if not text:
        return lambda _: True
    wanted = text.casefold()
    if not is_pattern(text):
        return lambda thread_id: wanted in thread_id.casefold()
    fits = re.compile(translate(text), re.IGNORECASE).match
    return lambda thread_id: wanted in thread_id.casefold() or fits(thread_id) is not None


def is_pattern(text: str) -> bool:
    """Return whether a text is a shell pattern; brackets are taken literally."""
    return "*" in text or "?" in text


def read_head_facts(store: Store, threads: Sequence[Thread]) -> list[Details]:
    """Return the conditions of each thread, and its title unless values are redacted."""
    heads = {one.key.thread_id: one for one in read_heads(store, threads, TriggerInference(store))}
    rows = []
    for thread in threads:
        head = heads.get(thread.thread_id)
        if head is not None:
            seen = Head(head.number, head.source, None, head.metadata)
            found = Details(head.conditions, seen, None, title=title_of(head.body.values))
        else:
            # An id that is not text can only be listed.
            found = Details((Status.EMPTY if thread.head is None else Status.UNKNOWN,), None, None)
        rows.append(ListedThread(thread, found))
    if is_redacted(store):
        return [row.details._replace(title=None) for row in rows if row.details is not None]
    titled = with_users(store, with_titles(store, rows, every=True))
    # Without metadata, since the details of all threads are kept.
    return [row.details._replace(head=None) for row in titled if row.details is not None]


def _title(head: Details | None) -> str:
    """Return the first line that a person said; `''` if none is known."""
    return head.title if head is not None and isinstance(head.title, str) else ""


Sort = Literal["last", "first", "id", "checkpoints"]
SORTS: tuple[Sort, ...] = ("last", "first", "id", "checkpoints")
SORT_NAMES: Mapping[Sort, str] = {
    "last": "newest first",
    "first": "oldest first",
    "id": "by id",
    "checkpoints": "most checkpoints first",
}
SIGNS: Mapping[Status | None, str] = {
    Status.ERROR: "✗",
    Status.INTERRUPTED: "?",
    Status.PENDING: "▸",
    Status.DONE: "✓",
    Status.UNKNOWN: "·",
    Status.EMPTY: "∅",
    None: " ",
}
"""The sign before a thread, by status; blank until its head is read."""

_SIGN_CELLS = 2
_AGE_CELLS = 4
_COUNT_CELLS = 6
_GAP = 2
_LEAST_TITLE = 8
"""In fewer columns, a title is left out."""
_ID_END = 4
"""Number of characters shown of an id that says nothing, beside the title."""
_WIDE = 34
"""Number of checkpoints is shown from this width on."""
_USER_CELLS, _FOR_USERS = 12, 64
"""The user is shown from this width on, in so many cells."""
_LONGEST = 1000
"""Maximum number of characters of a thread id that are drawn."""

_MEASURED = 200
"""Number of threads that say how wide their pane is."""


@dataclass(slots=True)
class ThreadListing:
    """All threads as last listed, and those that are shown."""

    threads: Sequence[Thread] = ()
    """In the order of the store: newest first."""
    shown: Sequence[Thread] = ()
    heads: dict[str, tuple[Thread, Details]] = field(default_factory=dict)
    """By thread id: the thread as it was when its head was read, and what was read."""
    wanted: ThreadFilter = field(default_factory=ThreadFilter)
    matches: dict[str, tuple[Thread, bool, datetime]] = field(default_factory=dict)
    """By thread id: the thread when `wanted.condition` was asked, the answer, and when."""
    sort: Sort = "last"
    reads_titles: bool = True
    """Whether a filter by text reads the titles of all threads; else it knows those once shown."""

    def head_of(self, thread: Thread) -> Details | None:
        """Return what was read of a head; None if it was not read since the thread changed."""
        known = self.heads.get(thread.thread_id)
        if known is None or not (known[0] is thread or known[0] == thread):
            return None
        return known[1]

    def status(self, thread: Thread) -> Status | None:
        """Return the worst condition; None if the head was not read since the thread changed."""
        head = self.head_of(thread)
        return None if head is None else head.status

    def rebuild(self) -> None:
        """Filter and sort again."""
        self.shown = order(list(self._chosen()), self.sort)

    def _chosen(self) -> Iterable[Thread]:
        """Return the threads that match, as far as is known."""
        if not self.wanted.text:
            return self.candidates()
        fits = text_filter(self.wanted.text)
        return (
            one
            for one in self.candidates()
            if fits(one.thread_id) or fits(_title(self.head_of(one)))
        )

    def candidates(self) -> Iterable[Thread]:
        """Return the threads for which all conditions hold other than the text."""
        found = iter(self.threads)
        return found if self.wanted.condition is None else filter(self._matches, found)

    def _matches(self, thread: Thread) -> bool:
        """Return the last answer: while a thread is asked again, it stays where it is."""
        known = self.matches.get(thread.thread_id)
        return known is not None and known[1]

    def set_filter(self, wanted: ThreadFilter) -> None:
        """Filter by other conditions."""
        if wanted.condition != self.wanted.condition:
            self.matches.clear()
        self.wanted = wanted

    def take_threads(self, threads: Sequence[Thread]) -> None:
        """Take the threads as listed now; what was read of threads that are gone is forgotten."""
        self.threads = threads
        if max(len(self.heads), len(self.matches)) > len(threads):
            ids = {one.thread_id for one in threads}
            self.heads = {name: one for name, one in self.heads.items() if name in ids}
            self.matches = {name: one for name, one in self.matches.items() if name in ids}

    @property
    def names_users(self) -> bool:
        """Whether a user is known of any of the first threads that are shown."""
        return any(_user(one, self.head_of(one)) for one in self.shown[:_MEASURED])

    def take_heads(self, threads: Sequence[Thread], found: Sequence[Details]) -> bool:
        """Keep what was read of some heads; returns whether other threads may match now."""
        for one, facts in zip(threads, found, strict=True):
            self.heads[one.thread_id] = (one, facts)
        if not self.wanted.text:
            return False
        fits = text_filter(self.wanted.text)
        return any(title and fits(title) for title in map(_title, found))

    def answer(self, threads: Sequence[Thread], found: Sequence[bool], now: datetime) -> bool:
        """Keep whether the condition holds for some threads; returns whether others match now."""
        changed = False
        for one, matches in zip(threads, found, strict=True):
            changed = changed or self._matches(one) != matches
            self.matches[one.thread_id] = (one, matches, now)
        return changed

    @property
    def checked(self) -> int | None:
        """Number of threads of which a filter reads more than the index; None without one."""
        if self.wanted.condition is not None:
            return len(self.matches)
        return len(self.heads) if self.wanted.text and self.reads_titles else None

    def place_of(self, thread_id: str | None) -> int | None:
        """Return the line of a thread; None if it is not shown."""
        ids = (at for at, one in enumerate(self.shown) if one.thread_id == thread_id)
        return next(ids, None)


def order(threads: Sequence[Thread], sort: Sort) -> Sequence[Thread]:
    """Return threads sorted: newest, oldest or most checkpoints first, or by id."""
    if sort == "last":
        return threads
    keys: dict[Sort, Callable[[Thread], object]] = {
        "first": lambda one: one.first_at or NEVER,
        "id": lambda one: one.thread_id,
        "checkpoints": lambda one: -one.checkpoints,
    }
    return sorted(threads, key=keys[sort])  # type: ignore[arg-type]


def unread_near(listing: ThreadListing, seen: range, number: int) -> list[Thread]:
    """Return threads with unread heads: those on the visible lines, then those around them."""
    above, below = max(seen.start - number, 0), seen.stop + number
    near = [*seen, *range(seen.stop, below), *range(above, seen.start)]
    shown = (listing.shown[at] for at in near if at < len(listing.shown))
    return [one for one in shown if listing.status(one) is None][:number]


def unread(listing: ThreadListing) -> list[Thread]:
    """Return threads with unread heads that a filter by text shows if their title matches."""
    if not listing.wanted.text or not listing.reads_titles:
        return []
    fits = text_filter(listing.wanted.text)
    return [
        one
        for one in listing.candidates()
        if listing.head_of(one) is None and not fits(one.thread_id)
    ]


def _user(thread: Thread, head: Details | None) -> str:
    """Return the user of a thread; `''` if none is known."""
    return thread.user or (None if head is None else head.user) or ""


def thread_line(
    thread: Thread, head: Details | None, now: datetime, width: int, *, users: bool = False
) -> StyledLine:
    """Return one thread as a line of `width` columns: sign, id, title, user, age, checkpoints.

    The title stands before an id that says nothing, such as a UUID, and after any other.
    """
    status = None if head is None else head.status
    old = age(thread.last_at, now) if thread.last_at is not None else ""
    user = safe_text(_user(thread, head)) if users else None
    right = _right(old, f"{thread.checkpoints}", width, user)
    room = max(width - _SIGN_CELLS - cell_len(right), 1)
    style = STATUS_STYLES[status] if status is not None else "dim"
    name = _name(thread.thread_id, _title(head), style, room)
    return line((f"{SIGNS[status]} ", style), *name, (right, "time"))


def needed_width(listing: ThreadListing) -> int:
    """Return the number of columns in which the first threads are shown without being cut."""
    return max((_needed(listing, one) for one in listing.shown[:_MEASURED]), default=0)


def _needed(listing: ThreadListing, thread: Thread) -> int:
    name, title = safe_text(thread.thread_id[:_LONGEST]), _title(listing.head_of(thread))
    said = cell_len(safe_text(title)) + _GAP if title else 0
    shown = 1 + _ID_END if said and says_nothing(thread.thread_id) else cell_len(name)
    return _SIGN_CELLS + shown + said + cell_len(_right("", "", _WIDE)) + 1


def heading_line(width: int, *, users: bool = False) -> StyledLine:
    """Return the names of the columns of the threads."""
    right = _right("IDLE", "CKPTS", width, "USER" if users else None)
    room = max(width - _SIGN_CELLS - cell_len(right), 1)
    return line((f"{'':{_SIGN_CELLS}}{pad(fit('THREAD', room), room)}{right}", "dim"))


def _right(old: str, number: str, width: int, user: str | None = None) -> str:
    shown = f" {old:>{_AGE_CELLS}}"
    if user is not None and width >= _FOR_USERS:
        shown = f" {pad(fit(user, _USER_CELLS), _USER_CELLS)}{shown}"
    return f"{shown} {number:>{_COUNT_CELLS}}" if width >= _WIDE else shown


def _name(thread_id: str, title: str, style: Style, room: int) -> list[Span]:
    """Return the id and the title of a thread, in `room` columns."""
    name, said = safe_text(visible_id(thread_id[:_LONGEST])), safe_text(title)
    if said and says_nothing(thread_id):
        # Ids made one after the other share their beginning.
        end = f"{'':{_GAP}}…{name[-_ID_END:]}"
        left = room - cell_len(end)
        if left >= _LEAST_TITLE:
            return [(pad(fit(said, left), left), style), (end, "dim")]
        return [(pad(fit(said, room), room), style)]
    name = fit(name, room)
    left = room - cell_len(name) - _GAP
    if said and left >= _LEAST_TITLE:
        return [(f"{name}{'':{_GAP}}", style), (pad(fit(said, left), left), "dim")]
    return [(pad(name, room), style)]


def read_threads(store: Store, before: Sequence[Thread] = ()) -> list[Thread]:
    """Return all threads, newest first; for unchanged ones, the same objects as in `before`."""
    known = {one.thread_id: one for one in before}
    found = []
    for one in store.threads():
        same = known.get(one.thread_id)
        found.append(same if same == one and same is not None else one)
    return found


_AGES_HOLD = timedelta(minutes=1)
"""How long the answer of a filter by age holds for a thread that did not change."""
_AT_ONCE, _AT_ONCE_IN_INDEX = 500, 20_000
"""Number of threads of which is asked whether they match: by their heads, and by the index."""


def unasked(listing: ThreadListing, now: datetime) -> list[Thread]:
    """Return the threads of which it is not known whether the condition holds for them now."""
    if (wanted := listing.wanted.condition) is None:
        return []
    names = {field.name for field in filters.fields_in(wanted)}
    since = now - _AGES_HOLD if names & {"age", "idle"} else NEVER
    found = []
    for one in listing.threads:
        known = listing.matches.get(one.thread_id)
        if known is None or known[0] != one or known[2] < since:
            found.append(one)
    return found


def ask_parts(threads: Sequence[Thread], wanted: Filter) -> list[Sequence[Thread]]:
    """Return threads in parts that are asked about together, large ones if the index answers."""
    number = (
        _AT_ONCE_IN_INDEX if filters.sources_of(wanted) <= {filters.ReadFrom.INDEX} else _AT_ONCE
    )
    return [threads[at : at + number] for at in range(0, len(threads), number)]


def read_possible(store: Store, wanted: Filter, now: datetime) -> frozenset[str] | None:
    """Return the ids of the threads that can match, if writes at their heads show that.

    Only threads with an error, for example, can have status error. Returns None if the writes do
    not show it, so that each thread must be asked.
    """
    bounds = filters.bounds_of(wanted, now)
    if bounds.head_channels is None:
        return None
    return frozenset(one.thread_id for one in store.threads_within(bounds))


def read_matches(
    store: Store, threads: Sequence[Thread], wanted: Filter, now: datetime
) -> list[bool]:
    """Return whether each thread matches a filter, with ages as of `now`.

    Raises `UsageError` if a pattern takes too long.
    """
    from ckpt_cli.queries.filters import ThreadChooser

    chooser = ThreadChooser(store, wanted, TriggerInference(store), now)
    found = {row.thread.thread_id for row in chooser.choose(threads)}
    return [one.thread_id in found for one in threads]


_HEADS_NEAR, _HEADS = 50, 500
"""Number of heads read with one query: near the screen, and elsewhere. Small, since other
queries may be waiting.
"""


class ThreadLines(RowList):
    """One line per thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "sort", "Sort", show=False)]

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(id="thread-rows")
        self.listing = ThreadListing()
        self._now = now

    def count(self) -> int:
        return len(self.listing.shown)

    def line_at(self, index: int, width: int) -> StyledLine:
        thread = self.listing.shown[index]
        head, users = self.listing.head_of(thread), self.listing.names_users
        return thread_line(thread, head, self._now(), width, users=users)

    @property
    def thread(self) -> Thread | None:
        """The thread under the cursor; None if there is none."""
        shown = self.listing.shown
        return shown[self.cursor] if self.cursor < len(shown) else None

    def rebuild(self) -> None:
        """Filter and sort again; the cursor stays on its thread, wherever that is now."""
        kept = self.thread
        self.listing.rebuild()
        at = None if kept is None else self.listing.place_of(kept.thread_id)
        self.resize(self.cursor if at is None else at)

    def action_sort(self) -> None:
        after = (SORTS.index(self.listing.sort) + 1) % len(SORTS)
        self.listing.sort = SORTS[after]
        self.rebuild()
        self.post_message(FilterPane.Narrowed())


class ThreadColumns(Widget):
    """The names of the columns, above the threads."""

    DEFAULT_CSS = "ThreadColumns { height: 1; }"

    def __init__(self, rows: ThreadLines) -> None:
        super().__init__()
        self._rows = rows

    def render(self) -> Text:
        return as_text(heading_line(self._rows.width, users=self._rows.listing.names_users))


class ThreadsPane(FilterPane):
    """All threads of the store, or those that match the filter; it follows the store."""

    rows: ThreadLines

    class Selected(Message):
        """The thread under the cursor is to be shown, or was listed again."""

    class Entered(Message):
        """A thread was chosen."""

    def __init__(self, context: ScreenContext) -> None:
        hint = "id or title, glob*, status:error, idle > 2h"
        super().__init__(ThreadLines(context.now), hint, self._take_filter, id="threads")
        self.context = context
        self.delays = Delays(self)
        self.info: StoreInfo | None = None
        """What the store says of itself; None until it was opened."""
        self.scans = False
        """Whether listing threads needs a scan, which is repeated on request only."""
        self.problem = ""
        """Why the store cannot be read now."""
        self.is_reading_heads = False
        self.tree_took = 0.0
        """Seconds that the last tree took; the list is read less often while trees take long."""
        self._loaded = LoadedObjects()
        self._selected: str | None = None
        """The thread that was last said to be selected."""
        self.longest = 0
        """Columns of the longest row so far; 0 until the rows on the screen are read."""
        self._read_for: ThreadFilter | None = None
        """The filter for which heads are read."""
        self._was_asked = False
        """Whether heads were asked for while they were being read."""

    def compose(self) -> ComposeResult:
        yield ThreadColumns(self.rows)
        yield from super().compose()

    @property
    def listing(self) -> ThreadListing:
        """What is listed, and what is known of it."""
        return self.rows.listing

    @property
    def number(self) -> str:
        """How many threads are shown, and how many there are."""
        total, shown = len(self.listing.threads), len(self.listing.shown)
        return f"{shown:,} of {total:,}" if shown != total else f"{total:,}"

    def show_title(self) -> None:
        """Set the title, the number of threads and their order; note how wide the rows are."""
        sort, listing, seen = self.listing.sort, self.listing, self.rows.seen
        shown = listing.shown[seen.start : seen.stop]
        if self.longest or (shown and all(map(listing.head_of, shown))):
            self.longest = max(self.longest, needed_width(listing))
        title(self, f"Threads: {self.number}{'' if sort == 'last' else f', {SORT_NAMES[sort]}'}")

    def select(self, thread_id: str) -> Thread | None:
        """Go to a thread and return it; clears a filter that hides it. None if it is not listed."""
        at = self.listing.place_of(thread_id)
        if at is None and self.listing.wanted != ThreadFilter():
            self.action_clear()
            at = self.listing.place_of(thread_id)
        if at is None:
            return None
        self._selected = thread_id
        self.rows.cursor = at
        return self.listing.shown[at]

    # The list

    @work(exclusive=True, group="threads")
    async def load(self) -> None:
        """List all threads now, and again after a pause."""
        began = time.monotonic()
        ask = self.context.threads.ask
        try:
            info = self.info
            if info is None:
                info, self.scans = await ask(lambda store: (store.describe(), store.lists_by_scan))
            threads = await ask(partial(read_threads, before=self.listing.threads))
        except CkptError as error:
            self.lose(error)
            self._load_again(self.context.pause)
            return
        self.info, self.problem, self.listing.reads_titles = info, "", not self.scans
        self._take(threads)
        took = time.monotonic() - began
        if not self.scans:
            self._load_again(max(self.context.pause, (took + self.tree_took) * SHARE))

    def _load_again(self, pause: float) -> None:
        if self.context.pause:
            self.delays.after("threads", pause, self.load, refreshes=True)

    def lose(self, error: CkptError) -> None:
        """Say why the store cannot be read, until the threads are listed again."""
        self.problem = f"retrying: {error.message}"
        self.post_message(Changed())

    def _take(self, threads: list[Thread]) -> None:
        if list(self.listing.threads) != threads:
            self._loaded.loaded(len(threads))
            self.listing.take_threads(threads)
            self.rows.rebuild()
        else:
            # The ages have changed.
            self.rows.refresh()
        self.load_heads()
        self.post_message(Changed())
        self._select()

    def _select(self) -> None:
        thread = self.rows.thread
        self._selected = None if thread is None else thread.thread_id
        self.post_message(self.Selected())

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        event.stop()
        thread = self.rows.thread
        if thread is None or thread.thread_id != self._selected:
            self.delays.after("select", SOON, self._select)
        self.load_heads_soon()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.post_message(self.Entered())

    # Heads

    def load_heads_soon(self) -> None:
        """Read the heads that are seen when the cursor rests."""
        self.delays.after("heads", SOON, self.load_heads)

    def load_heads(self) -> None:
        """Read heads: those on the screen, then what a filter asks.

        A running read is restarted only for another filter.
        """
        wanted = self.listing.wanted
        if self.is_reading_heads and self._read_for == wanted:
            self._was_asked = True
            return
        self._read_for = wanted
        self._load_heads()

    @work(exclusive=True, group="heads")
    async def _load_heads(self) -> None:
        self.is_reading_heads = True
        try:
            while True:
                self._was_asked = False
                await self._load_seen_and_asked()
                if not self._was_asked:
                    break
        except CkptError as error:
            self.problem = error.message
        self.is_reading_heads = False
        self.post_message(Changed())

    async def _load_seen_and_asked(self) -> None:
        """Read heads until none is missing. Raises what reading them raises."""
        # Both with the newest last, because they are taken from the end.
        parts: list[Sequence[Thread]] | None = None
        rest: list[Thread] | None = None
        while True:
            if some := unread_near(self.listing, self.rows.seen, _HEADS_NEAR):
                await self._load_facts(some)
            elif parts is None:
                parts = await self._unasked()
            elif parts:
                await self._match(parts.pop())
            elif rest is None:
                rest = unread(self.listing)[::-1]
            elif rest:
                await self._load_facts(rest[-_HEADS:])
                while rest and self.listing.head_of(rest[-1]) is not None:
                    rest.pop()
            else:
                return

    async def _load_facts(self, threads: Sequence[Thread]) -> None:
        """Read what is shown of some heads. Raises what reading them raises."""
        found = await self.context.heads.ask(partial(read_head_facts, threads=threads))
        self._show_again(self.listing.take_heads(threads, found))

    async def _unasked(self) -> list[Sequence[Thread]]:
        """Return the threads of which must be asked whether they match, the newest last.

        The store may say of many that they cannot match. Raises what reading raises.
        """
        listing, now = self.listing, self.context.now()
        found, wanted = unasked(listing, now), listing.wanted.condition
        if wanted is None:
            return []
        if len(found) > _HEADS:
            question = partial(read_possible, wanted=wanted, now=now)
            possible = await self.context.heads.ask(question)
            if possible is not None:
                others = [one for one in found if one.thread_id not in possible]
                found = [one for one in found if one.thread_id in possible]
                self._show_again(listing.answer(others, [False] * len(others), now))
        return ask_parts(found, wanted)[::-1]

    async def _match(self, some: Sequence[Thread]) -> None:
        """Ask whether some threads match the filter. Raises what reading them raises."""
        listing, now = self.listing, self.context.now()
        if (wanted := listing.wanted.condition) is None:
            return
        question = partial(read_matches, threads=some, wanted=wanted, now=now)
        found = await self.context.heads.ask(question)
        if listing.wanted.condition == wanted:
            self._show_again(listing.answer(some, found, now))

    def _show_again(self, changed: bool) -> None:
        """Show the threads with what is known; if others match now, filter and sort again."""
        if changed:
            self.rows.rebuild()
        else:
            self.rows.refresh()
        self.post_message(Changed())

    # The filter

    def action_search(self) -> None:
        super().action_search()
        # Takes 0.1 s, so that the first letter of a filter would have to wait.
        self.run_worker(filters.grammar, group="parser", exclusive=True, thread=True)

    def _take_filter(self, text: str) -> None:
        self.listing.set_filter(parse_thread_filter(text, self.context.filter_terms()))
        self.rows.rebuild()

    def on_filter_pane_narrowed(self, event: FilterPane.Narrowed) -> None:
        event.stop()
        self.load_heads_soon()
        self.post_message(Changed())
