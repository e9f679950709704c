"""What the pane of threads lists: filter, order, heads and lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from typing import Literal

from ckpt_backends.errors import UsageError
from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.conversation import says_nothing, title_of
from ckpt_cli.core.filters import (
    ALIAS_NAME,
    FIELDS,
    Filter,
    FilterTerms,
    ReadFrom,
    fields_in,
    sources_of,
)
from ckpt_cli.queries.heads import Details, ListedThread, with_titles
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

_LANGUAGE = re.compile(
    rf"[\s(]*(?:not[\s(]+)*(?:{'|'.join(FIELDS)})(?:[.\[][^=<>!~]*?)?"
    r"\s*(?:[=<>!~]|\b(?:in|like|not)\b)",
    re.IGNORECASE,
)
"""How a text of the language begins: a field, then an operator."""
_ALIAS = re.compile(rf"[\s(]*(?:not[\s(]+)*@({ALIAS_NAME})(?=$|[\s)])(\s+(?:and|or)\b)?", re.I)
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
        """The status and `where` as one filter."""
        return Selection(status=self.status, where=self.where).filter


def parse_thread_filter(text: str, terms: FilterTerms) -> ThreadFilter:
    """Parse a filter such as `status:interrupted user:anna trip`, or one for `--where`.

    All other words are the text, with the blanks between them. Raises `UsageError` for an unknown
    status, and `ParseError` for a filter that cannot be read.
    """
    if _is_language(text, terms):
        # Imported late, because it takes time when the screen starts.
        from ckpt_cli.core.filters import parse_filter

        return ThreadFilter(where=parse_filter(text, terms), written=text.strip())
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


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """The facts about a thread that its line shows, other than those of the index."""

    conditions: Sequence[Status]
    """All conditions, the worst first; at least one."""
    title: str = ""
    """The first line that a person said; `''` if there is none, and with `--redact`."""


def read_head_facts(store: Store, threads: Sequence[Thread]) -> list[HeadFacts]:
    """Return what is shown of the head of each thread."""
    heads = {one.key.thread_id: one for one in read_heads(store, threads, TriggerInference(store))}
    rows = []
    for thread in threads:
        head = heads.get(thread.thread_id)
        if head is not None:
            found = Details(head.conditions, None, None, title=title_of(head.body.values))
        else:
            # An id that is not text can only be listed.
            found = Details((Status.EMPTY if thread.head is None else Status.UNKNOWN,), None, None)
        rows.append(ListedThread(thread, found))
    if is_redacted(store):
        return [HeadFacts(row.details.conditions) for row in rows if row.details is not None]
    titled = with_titles(store, rows, every=True)
    return [_facts(row.details) for row in titled if row.details is not None]


def _facts(details: Details) -> HeadFacts:
    title = details.title
    return HeadFacts(details.conditions, title if isinstance(title, str) else "")


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


_AGES_HOLD = timedelta(minutes=1)
"""How long the answer of a filter by age holds for a thread that did not change."""
_AT_ONCE, _AT_ONCE_IN_INDEX = 500, 20_000
"""Number of threads of which is asked whether they match: by their heads, and by the index."""


def unasked(listing: ThreadListing, now: datetime) -> list[Thread]:
    """Return the threads of which it is not known whether the condition holds for them now."""
    if (wanted := listing.wanted.condition) is None:
        return []
    names = {field.name for field in fields_in(wanted)}
    since = now - _AGES_HOLD if names & {"age", "idle"} else _NEVER
    found = []
    for one in listing.threads:
        known = listing.matches.get(one.thread_id)
        if known is None or known[0] != one or known[2] < since:
            found.append(one)
    return found


def ask_parts(threads: Sequence[Thread], wanted: Filter) -> list[Sequence[Thread]]:
    """Return threads in parts that are asked about together, large ones if the index answers."""
    number = _AT_ONCE_IN_INDEX if sources_of(wanted) <= {ReadFrom.INDEX} else _AT_ONCE
    return [threads[at : at + number] for at in range(0, len(threads), number)]


def read_possible(store: Store, wanted: Filter, now: datetime) -> frozenset[str] | None:
    """Return the ids of the threads that can match, if writes at their heads show that.

    Only threads with an error, for example, can have status error. Returns None if the writes do
    not show it, so that each thread must be asked.
    """
    from ckpt_cli.core.filters import bounds_of

    bounds = bounds_of(wanted, now)
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
