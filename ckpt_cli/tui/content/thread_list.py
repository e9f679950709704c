"""The threads pane without its screen: order, status and lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation.title import says_nothing
from ckpt_cli.core.filters.expressions import Filter, fields_in, sources_of
from ckpt_cli.core.filters.fields import ReadFrom
from ckpt_cli.render.status import STATUS_STYLES
from ckpt_cli.render.terminal.cell_width import cell_len, fit, pad
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line
from ckpt_cli.render.terminal.units import age
from ckpt_cli.threads.trigger_inference import TriggerInference
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

_AGES_HOLD = timedelta(minutes=1)
"""How long the answer of a filter by age holds for a thread that did not change."""
_AT_ONCE, _AT_ONCE_IN_INDEX = 500, 20_000
"""Number of threads of which is asked whether they match: by their heads, and by the index."""
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
    """By thread id: the thread as it was when `wanted.where` was asked, the answer, and when."""
    sort: Sort = "last"

    def head_of(self, thread: Thread) -> HeadFacts | None:
        """Return what was read of a head; None if it was not read since the thread changed."""
        known = self.heads.get(thread.thread_id)
        return known[1] if known is not None and known[0] == thread else None

    def conditions_of(self, thread: Thread) -> Sequence[Status]:
        """Return all conditions of a thread; empty if its head was not read since it changed."""
        head = self.head_of(thread)
        return () if head is None else head.conditions

    def status(self, thread: Thread) -> Status | None:
        """Return the worst condition; None if the head was not read since the thread changed."""
        return next(iter(self.conditions_of(thread)), None)

    def rebuild(self) -> None:
        """Filter and sort again."""
        if self.wanted.where is not None:
            found: Sequence[Thread] = list(filter(self._matches, self.threads))
        else:
            found = choose(self.threads, self.wanted, self.conditions_of)
        self.shown = order(found, self.sort)

    def _matches(self, thread: Thread) -> bool:
        """Return the last answer: while a thread is asked again, it stays where it is."""
        known = self.matches.get(thread.thread_id)
        return known is not None and known[1]

    def set_filter(self, wanted: ThreadFilter) -> None:
        """Filter by other conditions."""
        if wanted.where != self.wanted.where:
            self.matches.clear()
        self.wanted = wanted

    def answer(self, threads: Sequence[Thread], found: Sequence[bool], now: datetime) -> bool:
        """Keep whether `where` matches some threads; returns whether other threads match now."""
        changed = False
        for one, matches in zip(threads, found, strict=True):
            changed = changed or self._matches(one) != matches
            self.matches[one.thread_id] = (one, matches, now)
        return changed

    @property
    def checked(self) -> int | None:
        """Number of threads of which a filter reads more than the index; None without one."""
        if self.wanted.where is not None:
            return len(self.matches)
        return len(self.heads) if self.wanted.status else None

    def place_of(self, thread_id: str | None) -> int | None:
        """Return the line of a thread; None if it is not shown."""
        ids = (at for at, one in enumerate(self.shown) if one.thread_id == thread_id)
        return next(ids, None)


def choose(
    threads: Sequence[Thread],
    wanted: ThreadFilter,
    conditions: Callable[[Thread], Sequence[Status]],
) -> Sequence[Thread]:
    """Return the threads that match. A filter by status leaves out threads with unread heads."""
    if wanted == ThreadFilter():
        return threads
    fits = text_filter(wanted.text)
    return [
        one
        for one in threads
        if (wanted.user is None or one.user == wanted.user)
        and fits(one.thread_id)
        and (not wanted.status or not wanted.status.isdisjoint(conditions(one)))
    ]


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
    """Return threads that a filter by status leaves out because their heads were not read."""
    if not listing.wanted.status:
        return []
    wanted = replace(listing.wanted, status=frozenset())
    found = choose(listing.threads, wanted, listing.conditions_of)
    return [one for one in found if listing.status(one) is None]


def unasked(listing: ThreadListing, now: datetime) -> list[Sequence[Thread]]:
    """Return the threads of which it is not known whether `where` matches them now.

    They come in parts that are asked about together, large ones if the index answers.
    """
    if listing.wanted.where is None:
        return []
    names = {field.name for field in fields_in(listing.wanted.where)}
    since = now - _AGES_HOLD if names & {"age", "idle"} else _NEVER
    found = []
    for one in listing.threads:
        known = listing.matches.get(one.thread_id)
        if known is None or known[0] != one or known[2] < since:
            found.append(one)
    in_index = sources_of(listing.wanted.where) <= {ReadFrom.INDEX}
    number = _AT_ONCE_IN_INDEX if in_index else _AT_ONCE
    return [found[at : at + number] for at in range(0, len(found), number)]


def read_matches(
    store: Store, threads: Sequence[Thread], wanted: Filter, now: datetime
) -> list[bool]:
    """Return whether each thread matches a filter, with ages as of `now`.

    Raises `UsageError` if a pattern takes too long.
    """
    from ckpt_cli.queries.filtered_threads import ThreadChooser

    chooser = ThreadChooser(store, wanted, TriggerInference(store), now)
    found = {row.thread.thread_id for row in chooser.choose(threads)}
    return [one.thread_id in found for one in threads]


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
    name, said = safe_text(thread_id[:_LONGEST]), safe_text(title)
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
