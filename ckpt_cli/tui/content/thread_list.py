"""The threads pane without its screen: order, status and lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.render.status import STATUS_STYLES
from ckpt_cli.render.terminal.cell_width import cell_len, fit, pad
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.units import age
from ckpt_cli.threads.heads import read_heads
from ckpt_cli.threads.trigger_inference import TriggerInference
from ckpt_cli.tui.content.thread_filter import ThreadFilter, text_filter

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
_AGE_CELLS = 4
_COUNT_CELLS = 6
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
    conditions: dict[str, tuple[Thread, Sequence[Status]]] = field(default_factory=dict)
    """By thread id: the thread as it was when its head was read, and its conditions, the worst
    first.
    """
    wanted: ThreadFilter = field(default_factory=ThreadFilter)
    sort: Sort = "last"

    def conditions_of(self, thread: Thread) -> Sequence[Status]:
        """Return all conditions of a thread; empty if its head was not read since it changed."""
        known = self.conditions.get(thread.thread_id)
        return known[1] if known is not None and known[0] == thread else ()

    def status(self, thread: Thread) -> Status | None:
        """Return the worst condition; None if the head was not read since the thread changed."""
        return next(iter(self.conditions_of(thread)), None)

    def rebuild(self) -> None:
        """Filter and sort again."""
        found = choose(self.threads, self.wanted, self.conditions_of)
        self.shown = order(found, self.sort)

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


def thread_line(thread: Thread, status: Status | None, now: datetime, width: int) -> StyledLine:
    """Return one thread as a line of `width` columns: sign, id, age and number of checkpoints."""
    sign = f"{SIGNS[status]} "
    old = age(thread.last_at, now) if thread.last_at is not None else ""
    right = f" {old:>{_AGE_CELLS}}"
    if width >= _WIDE:
        right += f" {thread.checkpoints:>{_COUNT_CELLS}}"
    room = max(width - len(sign) - cell_len(right), 1)
    name = fit(safe_text(thread.thread_id[:_LONGEST]), room)
    style = STATUS_STYLES[status] if status is not None else "dim"
    return line((sign, style), (pad(name, room), style), (right, "time"))


def read_threads(store: Store, before: Sequence[Thread] = ()) -> list[Thread]:
    """Return all threads, newest first; for unchanged ones, the same objects as in `before`."""
    known = {one.thread_id: one for one in before}
    found = []
    for one in store.threads():
        same = known.get(one.thread_id)
        found.append(same if same == one and same is not None else one)
    return found


def read_conditions(store: Store, threads: Sequence[Thread]) -> list[Sequence[Status]]:
    """Return the conditions of each thread, the worst first."""
    heads = read_heads(store, threads, TriggerInference(store))
    found = {one.key.thread_id: one.conditions for one in heads}
    return [
        (Status.EMPTY,) if one.head is None else found.get(one.thread_id, (Status.UNKNOWN,))
        for one in threads
    ]
