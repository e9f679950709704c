"""The threads pane without its screen: order, status and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import says_nothing
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
from ckpt_cli.tui.content.thread_filter import ThreadFilter, text_filter
from ckpt_cli.tui.content.thread_heads import HeadFacts

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

_NEVER = datetime.min.replace(tzinfo=UTC)
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
    heads: dict[str, tuple[Thread, HeadFacts]] = field(default_factory=dict)
    """By thread id: the thread as it was when its head was read, and what was read."""
    wanted: ThreadFilter = field(default_factory=ThreadFilter)
    matches: dict[str, tuple[Thread, bool, datetime]] = field(default_factory=dict)
    """By thread id: the thread when `wanted.condition` was asked, the answer, and when."""
    sort: Sort = "last"
    reads_titles: bool = True
    """Whether a filter by text reads the titles of all threads; else it knows those once shown."""

    def head_of(self, thread: Thread) -> HeadFacts | None:
        """Return what was read of a head; None if it was not read since the thread changed."""
        known = self.heads.get(thread.thread_id)
        if known is None or not (known[0] is thread or known[0] == thread):
            return None
        return known[1]

    def conditions_of(self, thread: Thread) -> Sequence[Status]:
        """Return all conditions of a thread; empty if its head was not read since it changed."""
        head = self.head_of(thread)
        return () if head is None else head.conditions

    def status(self, thread: Thread) -> Status | None:
        """Return the worst condition; None if the head was not read since the thread changed."""
        return next(iter(self.conditions_of(thread)), None)

    def rebuild(self) -> None:
        """Filter and sort again."""
        self.shown = order(list(self._chosen()), self.sort)

    def _chosen(self) -> Iterable[Thread]:
        """Return the threads that match, as far as is known."""
        if not self.wanted.text:
            return self.candidates()
        fits = text_filter(self.wanted.text)
        return (one for one in self.candidates() if fits(one.thread_id) or fits(self._title(one)))

    def candidates(self) -> Iterable[Thread]:
        """Return the threads for which all conditions hold other than the text."""
        user, found = self.wanted.user, iter(self.threads)
        if user is not None:
            found = (one for one in found if one.user == user)
        return found if self.wanted.condition is None else filter(self._matches, found)

    def _title(self, thread: Thread) -> str:
        head = self.head_of(thread)
        return "" if head is None else head.title

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

    def take_heads(self, threads: Sequence[Thread], found: Sequence[HeadFacts]) -> bool:
        """Keep what was read of some heads; returns whether other threads may match now."""
        for one, facts in zip(threads, found, strict=True):
            self.heads[one.thread_id] = (one, facts)
        if not self.wanted.text:
            return False
        fits = text_filter(self.wanted.text)
        return any(facts.title and fits(facts.title) for facts in found)

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
        "first": lambda one: one.first_at or _NEVER,
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


def thread_line(thread: Thread, head: HeadFacts | None, now: datetime, width: int) -> StyledLine:
    """Return one thread as a line of `width` columns: sign, id, title, age, checkpoints.

    The title stands before an id that says nothing, such as a UUID, and after any other.
    """
    status = head.conditions[0] if head is not None else None
    old = age(thread.last_at, now) if thread.last_at is not None else ""
    right = _right(old, f"{thread.checkpoints}", width)
    room = max(width - _SIGN_CELLS - cell_len(right), 1)
    style = STATUS_STYLES[status] if status is not None else "dim"
    name = _name(thread.thread_id, head.title if head is not None else "", style, room)
    return line((f"{SIGNS[status]} ", style), *name, (right, "time"))


def needed_width(listing: ThreadListing) -> int:
    """Return the number of columns in which the first threads are shown without being cut."""
    return max((_needed(listing, one) for one in listing.shown[:_MEASURED]), default=0)


def _needed(listing: ThreadListing, thread: Thread) -> int:
    head = listing.head_of(thread)
    name, title = safe_text(thread.thread_id[:_LONGEST]), head.title if head is not None else ""
    said = cell_len(safe_text(title)) + _GAP if title else 0
    shown = 1 + _ID_END if said and says_nothing(thread.thread_id) else cell_len(name)
    return _SIGN_CELLS + shown + said + cell_len(_right("", "", _WIDE)) + 1


def heading_line(width: int) -> StyledLine:
    """Return the names of the columns of the threads."""
    right = _right("IDLE", "CKPTS", width)
    room = max(width - _SIGN_CELLS - cell_len(right), 1)
    return line((f"{'':{_SIGN_CELLS}}{pad(fit('THREAD', room), room)}{right}", "dim"))


def _right(old: str, number: str, width: int) -> str:
    shown = f" {old:>{_AGE_CELLS}}"
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
